//! Replication relays from the configuration: started, shown, ordered about, stopped; and their sources where these are the primary of a
//! cluster.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use delphinus_admin::{
    RelayArchiveRow, RelayFenceRow, RelayFileRow, RelayReadiness, RelayReplicaRow, RelayRow, RelaySentRow,
    RelayTimes, RelayTurn, RelayWish,
};
use delphinus_config::{self as config, RelaySource};
use delphinus_net::{Address, Place, rt};
use delphinus_relay::keep::{Keeper, KeptFile};
use delphinus_relay::log::{Log, LogFile};
use delphinus_relay::replica::{Registry, ReplicaRow, Serving};
use delphinus_relay::{CutBy, Relay, Settings, State, Target, Times};
use delphinus_topology::ClusterId;
use delphinus_topology::promotion::{self, RelayId, RelayStanding};
use delphinus_view::SnapshotReader;
use delphinus_wire::auth::Password;

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
    /// The backends of each cluster, once relays follow these.
    places: RefCell<Vec<Vec<Arc<Place>>>>,
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
            let (reported, followed) = (relay.reported.clone(), RefCell::default());
            all.push(One { relay: started, cluster, replicas, keeper, serving, reported, followed });
        }
        Ok(Rc::new(Self { all, places: RefCell::default() }))
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
    pub(crate) async fn follow(self: Rc<Self>, clusters: Vec<(SnapshotReader, Vec<Arc<Place>>)>) {
        self.places.replace(clusters.iter().map(|(_, places)| places.clone()).collect());
        loop {
            for one in &self.all {
                let Some((reader, places)) = one.cluster.and_then(|index| clusters.get(index)) else {
                    continue;
                };
                follow_one(one, reader, places);
            }
            rt::sleep(PACE).await;
        }
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
        self.all.iter().map(fence).collect()
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
                Ok(Some(format!("epoch {epoch}")))
            }
            RelayWish::Rotate => relay.rotate().await.map(Some),
            RelayWish::Purge(file) => {
                let first = relay.log().only_named(&file)?;
                let keeper = one.keeper.clone();
                let done = rt::compute(move || keeper.purge_before(&first)).await;
                let count = done.unwrap_or_else(|| Err("the process stops".to_owned()))?;
                Ok(Some(format!("{count} files")))
            }
        }
    }

    /// How one of them stands, for whoever moves the role of its source.
    pub(crate) fn standing(&self, id: RelayId, name: &str) -> promotion::Relay {
        let one = self.named(name);
        let (host, port) = one.and_then(|one| one.reported.clone()).unwrap_or_default();
        let seen = one.map(standing).ok_or_else(|| "no such relay runs in this process yet".into());
        let number = one.map_or(0, |one| one.relay.settings().server_id);
        promotion::Relay { id, name: name.into(), host: host.into(), port, number, seen }
    }

    /// Cuts one of them off from its source, for a move; not if it is in another epoch by now.
    pub(crate) async fn cut(&self, name: &str, epoch: u64) -> Result<String, String> {
        let one = self.named(name).ok_or_else(|| format!("there is no relay '{name}'"))?;
        let cut = one.relay.cut(CutBy::Move, Some(epoch)).await;
        let epoch = cut.map_err(|error| format!("the cut does not last: {error}"))?;
        Ok(format!("acknowledges to nobody, epoch {epoch}"))
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

    /// The same at the word of another process. A relay with a source of its own goes where that word says; one that follows a cluster
    /// goes to a backend of it.
    async fn turn_as_told(&self, one: &One, wanted: &RelayTurn) -> Result<String, String> {
        let RelayTurn { server, address, identity, epoch } = wanted;
        let found = match (one.cluster, &one.relay.settings().source) {
            (Some(index), _) => {
                let places = self.places.borrow();
                places.get(index).and_then(|places| target(find(places, address, server)?))
            }
            (None, source) => source.as_ref().and_then(|source| {
                let address = settings::address_of(&address.parse().ok()?);
                Some((source.at(server.clone(), address), String::new()))
            }),
        };
        let none = || {
            format!(
                "there is no backend '{server}' at {address} for the relay to follow: write it into [[cluster.backend]] there, too"
            )
        };
        turn(one, found.ok_or_else(none)?, (identity, *epoch)).await
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

/// The backend at this address, or else of this name.
pub(crate) fn find<'a>(places: &'a [Arc<Place>], address: &str, name: &str) -> Option<&'a Arc<Place>> {
    let is_at =
        |place: &&Arc<Place>| place.spot().address.as_ref().is_some_and(|known| known.to_string() == address);
    let is_named = |place: &&Arc<Place>| !name.is_empty() && *place.spot().name == *name;
    places.iter().find(is_at).or_else(|| places.iter().find(is_named))
}

/// Tells a relay who the primary is, if that has changed. A primary that cannot be told at the moment ends nothing: the source is the old
/// one until there is another.
fn follow_one(one: &One, reader: &SnapshotReader, places: &[Arc<Place>]) {
    let snapshot = reader.load();
    let Some(primary) = snapshot.primary() else { return };
    let mut followed = one.followed.borrow_mut();
    if let Some(since) = followed.turned {
        if followed.name.as_ref() != Some(&primary.name) && since.elapsed() < TURNED {
            return;
        }
        followed.turned = None;
    }
    let Some((target, known)) = places.get(primary.id.index()).and_then(|place| target(place)) else {
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

fn standing(one: &One) -> RelayStanding {
    let (relay, epoch) = (&one.relay, one.relay.epoch());
    let state = relay.status().told().state;
    let is_receiving = state == State::Receiving;
    RelayStanding {
        epoch: epoch.epoch,
        is_cut: epoch.is_cut,
        is_by_move: epoch.is_by_move,
        forgets: !relay.is_epoch_on_disk(),
        source: epoch.source.map(Into::into),
        refused: epoch.refused.into_iter().map(Into::into).collect(),
        follows: one.followed.borrow().name.clone(),
        is_receiving,
        misses_it: matches!(state, State::Connecting | State::Retrying),
        is_acknowledging: is_receiving && relay.status().semi_sync.load(Relaxed),
        has: Arc::new(relay.log().executed()),
    }
}

fn fence(one: &One) -> RelayFenceRow {
    // Before what it has: that was acknowledged in this epoch, too.
    let (relay, epoch) = (&one.relay, one.relay.epoch());
    let (state, settings) = (relay.status().told().state, relay.settings());
    let cut_by = if epoch.is_by_move { "move" } else { "operator" };
    RelayFenceRow {
        name: settings.name.clone(),
        server_id: settings.server_id,
        reported: one.reported.clone().map(|(host, port)| Address::Tcp(host, port).to_string()),
        epoch: epoch.epoch,
        cut_by: epoch.is_cut.then_some(cut_by),
        is_on_disk: relay.is_epoch_on_disk(),
        acknowledges_to: epoch.source,
        refused: epoch.refused,
        follows: relay.target().map(|target| (target.name, target.address.to_string())),
        state: state.word(),
        is_acknowledging: state == State::Receiving && relay.status().semi_sync.load(Relaxed),
        executed: relay.log().executed().to_string(),
    }
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

fn row(one: &One) -> RelayRow {
    let relay = &one.relay;
    let (status, log, kept) = (relay.status(), relay.log(), one.keeper.totals());
    let (told, files) = (status.told(), log.files());
    let newest = log.end().and_then(|end| Some((log.file(end.ordinal)?.name.to_string(), end.offset)));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let heard = Duration::from_millis(status.heard.load(Relaxed));
    let is_receiving = told.state == State::Receiving;
    RelayRow {
        name: relay.settings().name.clone(),
        state: told.state.word(),
        source: told.source,
        source_uuid: (!told.identity.is_empty()).then_some(told.identity),
        compression: (!told.compression.is_empty()).then_some(told.compression),
        epoch: relay.epoch().epoch,
        is_acknowledging: is_receiving && status.semi_sync.load(Relaxed),
        file: newest,
        executed: log.executed().to_string(),
        purged: log.purged().to_string(),
        files: files.len() as u64,
        bytes: files.iter().map(|file| file.len()).sum(),
        received_bytes: status.bytes.load(Relaxed),
        acks: status.acks.load(Relaxed),
        delay: (status.newest.load(Relaxed) > 0).then(|| Duration::from_millis(status.delay.load(Relaxed))),
        silence: (!heard.is_zero()).then(|| now.saturating_sub(heard)),
        connections: status.connections.load(Relaxed),
        failures: status.failures.load(Relaxed),
        error: (!told.error.is_empty()).then_some(told.error),
        removed_files: kept.removed,
        archive: kept.archived.map(|archived| RelayArchiveRow {
            archived,
            failures: kept.archive_failures,
            waiting: kept.unarchived,
            error: (!kept.archive_error.is_empty()).then_some(kept.archive_error),
        }),
        syncs: times(&status.sync_times),
        ack_times: times(&status.ack_times),
    }
}

fn times(times: &Times) -> RelayTimes {
    let (counts, sum) = times.read();
    let mut count = 0;
    let mut up_to = Vec::with_capacity(Times::BUCKETS);
    for (bucket, more) in counts.into_iter().enumerate() {
        count += more;
        if bucket + 1 < Times::BUCKETS {
            up_to.push((Times::upper(bucket), count));
        }
    }
    RelayTimes { up_to, sum, count }
}

fn replica_row(relay: &str, row: ReplicaRow) -> RelayReplicaRow {
    RelayReplicaRow {
        relay: relay.to_owned(),
        id: row.id,
        user: row.user,
        host: row.host,
        server_id: row.server_id,
        uuid: (!row.uuid.is_empty()).then_some(row.uuid),
        reports: (!row.reports.is_empty()).then_some(row.reports),
        is_tls: row.is_tls,
        compression: row.compression,
        state: row.state,
        file: row.file,
        position: row.position,
        behind_bytes: row.behind_bytes,
        delay: Duration::from_secs(row.delay_s),
        sent_bytes: row.sent_bytes,
        sent_events: row.sent_events,
        connected: row.connected,
    }
}

fn file_row(relay: &str, file: &LogFile, kept: KeptFile) -> RelayFileRow {
    RelayFileRow {
        relay: relay.to_owned(),
        path: file.path().display().to_string(),
        name: file.name.to_string(),
        source_uuid: file.folder.source.identity.clone(),
        bytes: file.len(),
        previous: file.previous.to_string(),
        is_in_use: file.is_in_use(),
        is_archived: kept.is_archived,
        held: (!kept.held.is_empty()).then_some(kept.held),
    }
}
