//! One probe: a query on a connection that is kept from probe to probe. Other things to ask (replication, group
//! membership) are more files in `probe/`.

pub(crate) mod connection;
pub(crate) mod error;
mod facts;
mod followers;
pub(crate) mod group;
pub(crate) mod heartbeat;
mod identity;
mod lag;
mod position;
pub(crate) mod query;
mod replication;
pub(crate) mod stored_code;
pub(crate) mod table_map;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delphinus_net::{Announce, rt};
use delphinus_topology::{
    Answer, BackendId, Discovery, Flavor, Followers, Heartbeat, Identity, Kind, ProbeOutcome, Replication,
    ServerFacts,
};
use delphinus_wire::gtid::GtidSet;
use tracing::{debug, error, warn};

use self::connection::Connection;
use self::error::ProbeError;
use self::facts::Told;
use crate::heartbeat::Heart;
use crate::orders::Orders;
use crate::settings::{BackendSpec, Settings};
use delphinus_view::Positions;

/// What a probe is waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Connect,
    Login,
    Facts,
    Query,
    Replication,
    Followers,
    Group,
    Heartbeat,
    Fence,
}

impl Step {
    /// Completes "no ... for 1000 ms".
    pub(crate) fn awaits(self) -> &'static str {
        match self {
            Self::Connect => "connection",
            Self::Login => "end of the login",
            Self::Facts => "table of collations",
            Self::Query => "answer to the probe query",
            Self::Replication => "status of the replication",
            Self::Followers => "list of replicas",
            Self::Group => "members of the group",
            Self::Heartbeat => "row of the heartbeat",
            Self::Fence => "end of SET GLOBAL read_only",
        }
    }
}

/// Probes one backend.
#[derive(Debug)]
pub(crate) struct Prober {
    id: BackendId,
    settings: Rc<Settings>,
    kept: Option<Kept>,
    step: Rc<Cell<Step>>,
    orders: Rc<Orders>,
    positions: Arc<Positions>,
    heart: Option<Rc<Heart>>,
    /// What it said of its replication, and when.
    replication: Option<(Instant, Replication)>,
    /// Who follows it, by its own word, and when that was told.
    followers: Option<(Instant, Followers)>,
    /// The last position, and the words it was told in.
    position: Option<(Vec<u8>, Arc<GtidSet>)>,
    /// How many writes there were at the last probe, and how many probes have found no more than before.
    writes: (u64, u8),
}

/// After so many probes without a write between nothing is expected to change.
const CALM: u8 = 3;

/// A connection that is logged in, and what was learnt on it.
#[derive(Debug)]
struct Kept {
    connection: Connection,
    facts: Option<Arc<ServerFacts>>,
    /// Which server it is, where that is wanted.
    identity: Option<Arc<Identity>>,
    /// The row of the heartbeat was read on it before.
    has_read_beats: bool,
    fate: Fate,
}

/// What becomes of a connection after a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// The next probe has it.
    Kept,
    /// A right was missing: one that is given now is a new connection's.
    Ended,
    /// An answer is still to come that nobody waits for.
    Dropped,
}

impl Prober {
    pub(crate) fn new(
        id: BackendId,
        settings: Rc<Settings>,
        orders: Rc<Orders>,
        positions: Arc<Positions>,
        heart: Option<Rc<Heart>>,
    ) -> Self {
        Self {
            id,
            settings,
            kept: None,
            step: Rc::new(Cell::new(Step::Connect)),
            orders,
            positions,
            heart,
            replication: None,
            followers: None,
            position: None,
            writes: (0, 0),
        }
    }

    /// How often the backend has moved.
    pub(crate) fn moves(&self) -> u64 {
        self.spec().place.moves()
    }

    /// True if there is a backend to probe.
    pub(crate) fn is_needed(&self) -> bool {
        self.orders.is_present.get() && self.spec().place.spot().address.is_some()
    }

    /// Forgets the server that was probed, because the backend is elsewhere now.
    pub(crate) async fn forget(&mut self, limit: Duration) {
        (self.replication, self.followers) = (None, None);
        (self.position, self.writes) = (None, (0, 0));
        if let Some(kept) = self.kept.take() {
            rt::timeout(limit, kept.connection.quit()).await;
        }
    }

    /// What is wanted of it.
    pub(crate) fn orders(&self) -> &Orders {
        &self.orders
    }

    /// Waits until the backend closes the connection that is kept, or says something that nobody has asked for, which is
    /// how servers say goodbye. For ever, if none is kept.
    pub(crate) async fn closed(&mut self) {
        match &mut self.kept {
            Some(kept) => kept.connection.closed().await,
            None => std::future::pending().await,
        }
    }

    /// Which backend it probes.
    pub(crate) fn id(&self) -> BackendId {
        self.id
    }

    /// True if the position is one that sessions may be waiting for: this proxy has written something a moment ago.
    pub(crate) fn is_position_wanted(&mut self) -> bool {
        let (before, calm) = self.writes;
        let now = self.positions.writes();
        self.writes = (now, if now == before { calm.saturating_add(1) } else { 0 });
        self.position.is_some() && self.writes.1 < CALM
    }

    /// Where the probe is, to be looked at while it runs.
    pub(crate) fn step(&self) -> Rc<Cell<Step>> {
        self.step.clone()
    }

    /// Asks the backend. Only connecting has a limit here, the caller watches the rest; a probe that is dropped
    /// half way closes its connection.
    pub(crate) async fn probe(&mut self) -> ProbeOutcome {
        if let Some(kept) = self.kept.take()
            && let Ok(answer) = self.ask_on(kept).await
        {
            return ProbeOutcome::Answered(answer);
        }
        // A kept connection may have been killed or have come to its time-out, which says nothing of the server.
        match self.ask_anew().await {
            Ok(answer) => ProbeOutcome::Answered(answer),
            Err(error) => {
                self.log(&error);
                error.into_outcome()
            }
        }
    }

    /// The words of the error are told where they are news.
    fn log(&self, error: &ProbeError) {
        let (kind, source, retry) = (error.kind().label(), error.source(), error.retry());
        debug!(
            backend = &*self.spec().place.name(),
            kind,
            ?source,
            ?retry,
            "the backend has not answered the probe"
        );
    }

    async fn ask_anew(&mut self) -> Result<Answer, ProbeError> {
        let kept = self.connect().await?;
        self.ask_on(kept).await
    }

    async fn ask_on(&mut self, mut kept: Kept) -> Result<Answer, ProbeError> {
        match self.ask(&mut kept).await {
            Ok(answer) => {
                match kept.fate {
                    Fate::Kept => self.kept = Some(kept),
                    Fate::Ended => {
                        rt::timeout(self.settings.timeout(), kept.connection.quit()).await;
                    }
                    Fate::Dropped => {}
                }
                Ok(answer)
            }
            Err(error) => {
                // The backend lives and said no: it is left as it should be.
                if matches!(error, ProbeError::Answer(_)) {
                    rt::timeout(self.settings.timeout(), kept.connection.quit()).await;
                }
                Err(error)
            }
        }
    }

    async fn connect(&self) -> Result<Kept, ProbeError> {
        self.step.set(Step::Connect);
        let (spot, reach) = (self.spec().place.spot(), self.spec().place.reach());
        let announce = reach.proxy_protocol.map(|version| Announce { version, client: None });
        let stream = delphinus_net::dial_at(&spot, announce, self.settings.timeout()).await?;
        let reached = stream.peer_address().map(|address| address.ip());
        self.step.set(Step::Login);
        let to = (self.spec(), spot.host());
        let connection = Connection::log_in(stream, to, &self.settings).await?;
        self.orders.reached.set(reached);
        Ok(Kept { connection, facts: None, identity: None, has_read_beats: false, fate: Fate::Kept })
    }

    async fn ask(&mut self, kept: &mut Kept) -> Result<Answer, ProbeError> {
        self.step.set(Step::Query);
        // Before the query is sent: what is written after that may be missing from the answer.
        let writes = self.positions.writes_at_rest();
        let begun = rt::now();
        let known = kept.facts.as_deref();
        let status = known.filter(|_| self.is_replication_due()).map(replication::statement);
        let variables = facts::read_variables(&mut kept.connection, known, status).await?;
        let latency = begun.elapsed();
        if status.is_some() {
            self.receive_replication(kept).await?;
        }
        let known = kept.facts.take().filter(|facts| variables.match_facts(facts));
        let facts = if let Some(facts) = known {
            facts
        } else {
            self.step.set(Step::Facts);
            Arc::new(facts::read_facts(&mut kept.connection, &variables).await?)
        };
        let told = match variables.position {
            Told::NotAsked => position::read(&mut kept.connection, &facts).await?,
            Told::Answered(told) => told,
        };
        let position = self.understand(told);
        kept.facts = Some(facts.clone());
        if status.is_none() && self.is_replication_due() {
            query::send(&mut kept.connection, &[replication::statement(&facts)]).await?;
            self.receive_replication(kept).await?;
            self.measure_lag(kept, &facts).await?;
        } else if status.is_some() {
            self.measure_lag(kept, &facts).await?;
        }
        let own = self.replication.as_ref().map_or(Replication::NotAsked, |(_, known)| known.clone());
        let (group, replication) = self.read_group(kept).await?.unwrap_or((None, own));
        if !variables.is_read_only && self.orders.is_fenced.get() && self.settings.tuning().fence {
            self.fence(kept, &facts).await?;
        }
        self.read_followers(kept, &facts).await?;
        let heartbeat = self.read_heartbeat(kept).await?;
        Ok(Answer {
            facts,
            capabilities: kept.connection.offered(),
            read_only: variables.is_read_only,
            limits: variables.limits,
            sql_mode: variables.sql_mode.into(),
            identity: kept.identity.clone(),
            replication,
            followers: self.followers.as_ref().map_or(Followers::NotAsked, |(_, known)| known.clone()),
            heartbeat,
            group,
            latency,
            position,
            writes,
        })
    }

    /// True if it has to be asked how it replicates: each interval. What is asked in between, for positions, goes without.
    fn is_replication_due(&self) -> bool {
        let is_asked = match self.settings.kind {
            // One that was found is read from only if it is seen to follow.
            Kind::Static => {
                !self.orders.is_primary.get() && !self.settings.tuning().lag.down.is_zero()
                    || self.settings.is_spare(self.id)
            }
            Kind::ReadOnly => true,
            Kind::GroupReplication => false,
        };
        let is_fresh = self.replication.as_ref().is_some_and(|(at, _)| {
            at.elapsed() < self.settings.interval() * 4 / 5 && !self.orders.hurry.get()
        });
        is_asked && !is_fresh
    }

    /// Which server it is, once for each connection, and, now and then, who follows it, if it is the primary.
    async fn read_followers(&mut self, kept: &mut Kept, facts: &ServerFacts) -> Result<(), ProbeError> {
        if !matches!(self.settings.discovery, Discovery::Replicas { .. }) {
            return Ok(());
        }
        self.step.set(Step::Followers);
        if kept.identity.is_none() {
            kept.identity = Some(identity::read(&mut kept.connection, facts).await?.into());
        }
        if !self.orders.is_writer.get() {
            self.followers = None;
            return Ok(());
        }
        let pace = self.settings.tuning().discovery_interval;
        if self.followers.as_ref().is_none_or(|(at, _)| at.elapsed() >= pace) {
            // Before it is asked: the caller's limit may end the probe here. The next one must not wait for the same list again.
            let meanwhile = followers::meanwhile(self.followers.as_ref().map(|(_, known)| known));
            let before = self.followers.replace((rt::now(), meanwhile));
            let reading = followers::read(&mut kept.connection, facts);
            let reading = rt::timeout(self.settings.timeout() / 2, reading).await;
            let judged = followers::judged(reading);
            if judged.is_err() {
                self.followers = before;
            }
            let (followers, is_usable) = judged?;
            if !is_usable {
                kept.fate = Fate::Dropped;
            } else if matches!(followers, Followers::Unseen(_)) {
                kept.fate = Fate::Ended;
            }
            self.followers = Some((rt::now(), followers));
        }
        Ok(())
    }

    async fn receive_replication(&mut self, kept: &mut Kept) -> Result<(), ProbeError> {
        self.step.set(Step::Replication);
        self.replication = Some((rt::now(), replication::receive(&mut kept.connection).await?));
        Ok(())
    }

    /// In the place of the seconds that the status of a replica has, where that is wanted and can be told.
    async fn measure_lag(&mut self, kept: &mut Kept, facts: &ServerFacts) -> Result<(), ProbeError> {
        let is_wanted = self.settings.is_lag_from_performance_schema;
        if let Some((_, Replication::On(following))) = &mut self.replication
            && is_wanted
            && following.lag.is_some()
            && let Some(lag) = lag::read(&mut kept.connection, facts).await?
        {
            following.lag = Some(lag);
        }
        Ok(())
    }

    /// How late it is by the heartbeat. A table that is locked must not make a backend look dead, so that the rest of the answer
    /// does not wait for it.
    async fn read_heartbeat(&self, kept: &mut Kept) -> Result<Heartbeat, ProbeError> {
        let Some(heart) = &self.heart else { return Ok(Heartbeat::NotAsked) };
        let asked = rt::now();
        if self.orders.is_writer.get() {
            return Ok(heart.on_primary(asked));
        }
        // On a connection of no more use nothing can be asked.
        if !heart.has_beats() || kept.fate == Fate::Dropped {
            return Ok(Heartbeat::NotAsked);
        }
        self.step.set(Step::Heartbeat);
        let Kept { connection, has_read_beats, .. } = kept;
        let reading = heartbeat::read(connection, heart.statements(), has_read_beats);
        match rt::timeout(self.settings.timeout() / 2, reading).await {
            Some(Ok(number)) => Ok(heart.judge(number, asked)),
            Some(Err(error @ ProbeError::Answer(_))) => {
                Ok(Heartbeat::Faulty(format!("the heartbeat cannot be read: {error}").into()))
            }
            Some(Err(error)) => Err(error),
            None => {
                kept.fate = Fate::Dropped;
                Ok(Heartbeat::Faulty("the heartbeat cannot be read: no answer in time".into()))
            }
        }
    }

    async fn read_group(&self, kept: &mut Kept) -> Result<Option<group::Seen>, ProbeError> {
        if self.settings.kind != Kind::GroupReplication {
            return Ok(None);
        }
        self.step.set(Step::Group);
        group::read(&mut kept.connection).await.map(Some)
    }

    /// Takes the writes from a backend that has lost its place. Who holds locks there is not waited for.
    async fn fence(&self, kept: &mut Kept, facts: &ServerFacts) -> Result<(), ProbeError> {
        self.step.set(Step::Fence);
        let variable = match facts.flavor {
            Flavor::MySql if facts.version_number >= 50_708 => "super_read_only",
            Flavor::MySql | Flavor::MariaDb => "read_only",
        };
        let sql = format!("SET SESSION lock_wait_timeout = 1, GLOBAL {variable} = 1");
        let name = self.spec().place.name();
        let backend = &*name;
        match query::execute(&mut kept.connection, &sql).await {
            Ok(()) => warn!(backend, variable, "a fenced backend was set read-only"),
            Err(error @ ProbeError::Answer(_)) => {
                let error = error.to_string();
                error!(backend, variable, error, "a fenced backend cannot be set read-only");
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The position in these words. It seldom changes where nothing is written, and can be long.
    fn understand(&mut self, told: Option<Vec<u8>>) -> Option<Arc<GtidSet>> {
        let told = told?;
        if let Some((words, position)) = &self.position
            && *words == told
        {
            return Some(position.clone());
        }
        let position = Arc::new(GtidSet::parse(std::str::from_utf8(&told).ok()?).ok()?);
        self.position = Some((told, position.clone()));
        Some(position)
    }

    /// Says goodbye, so that the server does not count an aborted connection.
    pub(crate) async fn quit(self, limit: Duration) {
        if let Some(kept) = self.kept {
            rt::timeout(limit, kept.connection.quit()).await;
        }
    }

    fn spec(&self) -> &BackendSpec {
        self.settings.spec(self.id)
    }
}
