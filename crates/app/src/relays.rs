//! Replication relays from the configuration: started, shown, ordered about, stopped; and their sources where these are the primary of a
//! cluster.

mod shown;

use std::cell::{Ref, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delphinus_admin::{
    RelayFenceRow, RelayFileRow, RelayReadiness, RelayReplicaRow, RelayRow, RelaySentRow, RelayTurn,
    RelayWish,
};
use delphinus_config::{self as config, RelaySource};
use delphinus_net::{Address, Place, rt};
use delphinus_relay::keep::Keeper;
use delphinus_relay::log::Log;
use delphinus_relay::replica::{Registry, Serving};
use delphinus_relay::{CutBy, Relay, Settings, Target};
use delphinus_topology::ClusterId;
use delphinus_topology::promotion::{self, RelayId};
use delphinus_wire::auth::Password;

use self::shown::{Stand, file_row, replica_row, row};
use crate::backends::Backends;
use crate::error::Error;
use crate::relay_doors::{self, Surroundings};
use crate::relay_keep;
use crate::settings;

/// How often the primary of a cluster is looked at, if nothing is told.
const PACE: Duration = Duration::from_millis(200);

/// So long a relay follows whom a move has named, although the monitor sees another primary: longer than moves take.
const TURNED: Duration = Duration::from_mins(2);

/// The relays of this process.
#[derive(Default)]
pub(crate) struct Relays {
    all: Vec<One>,
    /// Those of each cluster, once relays follow these.
    clusters: RefCell<Vec<Backends>>,
}

struct One {
    relay: Relay,
    /// The cluster whose primary it follows.
    cluster: Option<usize>,
    /// Its replicas.
    replicas: Arc<Registry>,
    /// How long its files stay.
    keeper: Arc<Keeper>,
    /// Where they connect; `None`: nowhere, or not any more.
    serving: RefCell<Option<Serving>>,
    /// Where servers reach it, as the configuration says.
    reported: Option<(String, u16)>,
    /// Servers that it may be turned to beside its source, if it has one of its own.
    may_follow: Vec<Address>,
    followed: RefCell<Followed>,
}

/// Whom a relay was told to follow.
#[derive(Default)]
struct Followed {
    /// The backend, and where it is.
    known: Option<String>,
    /// The backend.
    name: Option<Arc<str>>,
    /// A move of the primary's role has said so, and the monitor need not see it yet.
    turned: Option<Instant>,
}

impl Relays {
    /// Opens the logs, begins to receive, and lets replicas in.
    ///
    /// # Errors
    /// A folder or an address that cannot be used, or a file of an authority, or of a certificate.
    pub(crate) fn start(around: &Surroundings<'_>) -> Result<Rc<Self>, Error> {
        let mut all = Vec::new();
        for relay in &around.config.relays {
            let cluster = match relay.source {
                RelaySource::Cluster(index) => Some(index),
                RelaySource::Server(_) => None,
            };
            let failed =
                |error: &dyn std::fmt::Display| Error::Relay(format!("relay '{}': {error}", relay.name));
            let started = Relay::start(of_config(relay)?, around.memory).map_err(|error| failed(&error))?;
            let replicas = Arc::<Registry>::default();
            // First the keeper: it has to know of each replica before that is sent something.
            let keeper = Arc::new(relay_keep::start(&started, relay, &replicas)?);
            let serving = RefCell::new(relay_doors::open(&started, relay, around, &replicas)?);
            all.push(One {
                relay: started,
                cluster,
                replicas,
                keeper,
                serving,
                reported: relay.reported.clone(),
                may_follow: relay.may_follow.iter().map(settings::address_of).collect(),
                followed: RefCell::default(),
            });
        }
        Ok(Rc::new(Self { all, clusters: RefCell::default() }))
    }

    fn named(&self, name: &str) -> Option<&One> {
        self.all.iter().find(|one| one.relay.settings().name == name)
    }

    /// The name and the log of the first one that follows this cluster.
    pub(crate) fn following(&self, cluster: ClusterId) -> Option<(String, Arc<Log>)> {
        let one = self.all.iter().find(|one| one.cluster == Some(cluster.index()))?;
        Some((one.relay.settings().name.clone(), one.relay.log().clone()))
    }

    /// Has relays follow the primaries of their clusters, again and again.
    pub(crate) async fn follow(self: Rc<Self>, clusters: Vec<Backends>) {
        self.clusters.replace(clusters);
        loop {
            for one in &self.all {
                if let Some(backends) = self.backends(one) {
                    follow_one(one, &backends);
                }
            }
            rt::sleep(PACE).await;
        }
    }

    /// Those of the cluster that it follows.
    fn backends(&self, one: &One) -> Option<Ref<'_, Backends>> {
        let index = one.cluster?;
        Ref::filter_map(self.clusters.borrow(), |clusters| clusters.get(index)).ok()
    }

    /// As operators see them.
    pub(crate) fn rows(&self) -> Vec<RelayRow> {
        self.all.iter().map(row).collect()
    }

    /// Whether they have something for replicas.
    pub(crate) fn readiness(&self) -> Vec<RelayReadiness> {
        let of_relay = |One { relay, .. }: &One| RelayReadiness {
            name: relay.settings().name.clone(),
            state: relay.status().told().state.word(),
            has_log: relay.log().end().is_some(),
        };
        self.all.iter().map(of_relay).collect()
    }

    /// Their files.
    pub(crate) fn files(&self) -> Vec<RelayFileRow> {
        let of_relay = |one: &One| {
            let name = one.relay.settings().name.clone();
            let files = one.relay.log().files();
            let kept = one.keeper.files(&files);
            files.iter().zip(kept).map(|(file, kept)| file_row(&name, file, kept)).collect::<Vec<_>>()
        };
        self.all.iter().flat_map(of_relay).collect()
    }

    /// Their replicas.
    pub(crate) fn replicas(&self) -> Vec<RelayReplicaRow> {
        let of_relay = |one: &One| {
            let name = one.relay.settings().name.clone();
            let rows = one.replicas.rows(one.relay.log());
            rows.into_iter().map(|row| replica_row(&name, row)).collect::<Vec<_>>()
        };
        self.all.iter().flat_map(of_relay).collect()
    }

    /// Whom they acknowledge, and what they have.
    pub(crate) fn fences(&self) -> Vec<RelayFenceRow> {
        self.all.iter().map(|one| Stand::of(one).row(one, self.may_follow(one))).collect()
    }

    /// Where another process may turn it to; `None`: anywhere, as it sends its password only to a server that proves who it is.
    fn may_follow(&self, one: &One) -> Option<Vec<String>> {
        let Some(source) = &one.relay.settings().source else {
            let address = |place: &Arc<Place>| place.spot().address.as_ref().map(ToString::to_string);
            let its = self.backends(one);
            return Some(its.iter().flat_map(|its| &its.places).filter_map(address).collect());
        };
        let all = [&source.address].into_iter().chain(&one.may_follow);
        (!proves_who_it_is(source)).then(|| all.map(ToString::to_string).collect())
    }

    /// What replicas were sent since the start.
    pub(crate) fn sent(&self) -> Vec<RelaySentRow> {
        let of_relay = |one: &One| {
            let (connections, refused, bytes) = one.replicas.totals();
            let relay = one.relay.settings().name.clone();
            RelaySentRow { relay, connections, refused, bytes }
        };
        self.all.iter().map(of_relay).collect()
    }

    /// Has one of them follow a wish.
    pub(crate) async fn order(&self, name: &str, wish: RelayWish) -> Result<Option<String>, String> {
        let one = self.named(name).ok_or_else(|| format!("there is no relay '{name}'"))?;
        let relay = &one.relay;
        match wish {
            RelayWish::Start(identity) => {
                relay.admit(identity.as_deref()).await.map_err(|error| error.to_string())?;
                Ok(None)
            }
            RelayWish::Stop => {
                relay.pause().await;
                Ok(None)
            }
            RelayWish::Cut(Some(epoch)) => self.cut(name, epoch).await.map(Some),
            RelayWish::Turn(wanted) => self.turn_as_told(one, &wanted).await.map(Some),
            RelayWish::Cut(None) => {
                let epoch = relay.cut(CutBy::Operator, None).await.map_err(|error| {
                    if relay.is_epoch_on_disk() {
                        return format!("no acknowledgement leaves from now on, also after a restart, but {error}: its disk hangs");
                    }
                    format!("no acknowledgement leaves from now on, but that is not on disk: {error}; a restart would undo it")
                })?;
                Ok(epoch.map(|epoch| format!("epoch {epoch}")))
            }
            RelayWish::Rotate => relay.rotate().await.map(Some),
            RelayWish::Purge(file) => {
                let first = relay.log().only_named(&file)?;
                let count = one.keeper.purge_before(&first).await?;
                Ok(Some(format!("{count} files")))
            }
        }
    }

    /// How one of them stands, for whoever moves the role of its source.
    pub(crate) fn standing(&self, id: RelayId, name: &str) -> promotion::Relay {
        let one = self.named(name);
        let (host, port) = one.and_then(|one| one.reported.clone()).unwrap_or_default();
        let seen = one
            .map(|one| Stand::of(one).standing())
            .ok_or_else(|| "no such relay runs in this process yet".into());
        let number = one.map_or(0, |one| one.relay.settings().server_id);
        promotion::Relay { id, name: name.into(), host: host.into(), port, number, seen }
    }

    /// Cuts one of them off from its source, for a move; not if it is in another epoch by now.
    pub(crate) async fn cut(&self, name: &str, epoch: u64) -> Result<String, String> {
        let one = self.named(name).ok_or_else(|| format!("there is no relay '{name}'"))?;
        let cut = one.relay.cut(CutBy::Move, Some(epoch)).await;
        match cut.map_err(|error| format!("the cut does not last: {error}"))? {
            Some(epoch) => Ok(format!("acknowledges to no source, epoch {epoch}")),
            None => Err(format!("it was not cut: it is in epoch {} by now", one.relay.epoch().epoch)),
        }
    }

    /// Has one of them follow a backend, which calls itself `identity`, and acknowledge to it; not if it is in another epoch by now.
    pub(crate) async fn turn(
        &self,
        name: &str,
        (place, identity): (&Place, &str),
        epoch: u64,
    ) -> Result<String, String> {
        let one = self.named(name).ok_or_else(|| format!("there is no relay '{name}'"))?;
        let found = target(place).ok_or_else(|| format!("{} has no address", place.spot().name))?;
        turn(one, found, (identity, epoch)).await
    }

    /// The same at the word of another process. A relay that follows a cluster goes to a backend of it. One with a source of its own goes
    /// where that word says, and logs in there: only to a server that its section names, or that proves who it is.
    async fn turn_as_told(&self, one: &One, wanted: &RelayTurn) -> Result<String, String> {
        let RelayTurn { server, address: text, identity, epoch } = wanted;
        let address = text.parse::<Address>().map_err(|error| format!("'{text}' is {error}"))?;
        let found = match &one.relay.settings().source {
            None => self.backends(one).and_then(|its| target(its.at(&address)?)).ok_or_else(|| {
                format!("its cluster has no backend at {address}: write it with that address into [[cluster.backend]] there, too")
            })?,
            Some(source) if may_go(source, &one.may_follow, &address) => {
                (source.at(server.clone(), address), String::new())
            }
            Some(_) => {
                return Err(format!(
                    "its section names no server at {address}, where it would send its password: write that into may_follow of its [[relay]], or \
                     have it check who answers, with source_tls = \"verify_identity\""
                ));
            }
        };
        turn(one, found, (identity, *epoch)).await
    }

    /// Ends all of them.
    pub(crate) async fn stop(&self) {
        for one in &self.all {
            let serving = one.serving.borrow_mut().take();
            if let Some(serving) = serving {
                // It waits for its threads.
                rt::compute(move || serving.stop()).await;
            }
            let keeper = one.keeper.clone();
            // It waits for its threads, too.
            rt::compute(move || keeper.end()).await;
            one.relay.end().await;
        }
    }
}

async fn turn(
    one: &One,
    (target, known): (Target, String),
    (identity, epoch): (&str, u64),
) -> Result<String, String> {
    let name = Arc::<str>::from(target.name.as_str());
    let turned = one.relay.turn(target, identity, epoch).await;
    if !turned.map_err(|error| format!("its disk: {error}"))? {
        return Err("it was cut again meanwhile, or has changed its source".to_owned());
    }
    let followed = Followed { known: Some(known), name: Some(name.clone()), turned: Some(rt::now()) };
    one.followed.replace(followed);
    Ok(format!("follows {name}, and acknowledges to it"))
}

/// True if a relay with this source may be turned to that address.
fn may_go(source: &Target, may_follow: &[Address], address: &Address) -> bool {
    let is_named = source.address == *address || may_follow.contains(address);
    is_named || matches!(address, Address::Tcp(..)) && proves_who_it_is(source)
}

/// True if no password goes to a server that shows no certificate of the right kind.
fn proves_who_it_is(source: &Target) -> bool {
    source.reach.tls.as_ref().is_some_and(|(tls, _)| tls.is_checked())
}

/// Tells a relay who the primary is, if that has changed. A primary that cannot be told at the moment ends nothing: the source is the old
/// one until there is another.
fn follow_one(one: &One, backends: &Backends) {
    let snapshot = backends.reader.load();
    let Some(primary) = snapshot.primary() else { return };
    let mut followed = one.followed.borrow_mut();
    if let Some(since) = followed.turned {
        if followed.name.as_ref() != Some(&primary.name) && since.elapsed() < TURNED {
            return;
        }
        followed.turned = None;
    }
    let Some((target, known)) = backends.place(primary.id).and_then(|place| target(place)) else {
        return;
    };
    if followed.known.as_ref() == Some(&known) {
        return;
    }
    let name = primary.name.clone();
    tracing::info!(relay = one.relay.settings().name, source = &*name, "the relay follows the primary");
    one.relay.follow(Some(target));
    *followed = Followed { known: Some(known), name: Some(name), turned: None };
}

/// A backend as a source, and what changes when it is somewhere else.
fn target(place: &Place) -> Option<(Target, String)> {
    let spot = place.spot();
    let address = spot.address.clone()?;
    let known = format!("{} {address} {}", spot.name, place.moves());
    let (name, host) = (spot.name.to_string(), spot.host().to_owned());
    Some((Target { name, address, reach: (*place.reach()).clone(), host }, known))
}

fn of_config(relay: &config::Relay) -> Result<Settings, Error> {
    let source = match &relay.source {
        RelaySource::Cluster(_) => None,
        RelaySource::Server(server) => {
            let address = settings::address(server);
            let host = address.host().to_owned();
            Some(Target { name: server.name.clone(), address, reach: settings::reach(server)?, host })
        }
    };
    Ok(Settings {
        name: relay.name.clone(),
        folder: relay.folder.clone(),
        source,
        user: relay.user.clone(),
        password: Password::new(relay.password.expose()),
        server_id: relay.server_id,
        uuid: relay.uuid,
        semi_sync: relay.semi_sync,
        from_oldest: relay.from_oldest_file,
        heartbeat: relay.heartbeat,
        retry: relay.retry,
        limit: relay.timeout,
        is_started: relay.start,
    })
}

#[cfg(test)]
mod tests;
