//! One probe: a query on a connection that is kept from probe to probe. Other things to ask (replication, group
//! membership) are more files in `probe/`.

mod connection;
mod error;
mod facts;
mod position;
mod query;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use delphinus_net::{Announce, rt};
use delphinus_topology::{Answer, BackendId, ProbeOutcome, ServerFacts};
use delphinus_wire::gtid::GtidSet;

use self::connection::Connection;
use self::error::ProbeError;
use self::facts::Told;
use crate::positions::Positions;
use crate::settings::{BackendSpec, Settings};

/// What a probe is waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Connect,
    Login,
    Facts,
    Query,
}

impl Step {
    /// Completes "no ... for 1000 ms".
    pub(crate) fn awaits(self) -> &'static str {
        match self {
            Self::Connect => "connection",
            Self::Login => "end of the login",
            Self::Facts => "table of collations",
            Self::Query => "answer to the probe query",
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
    positions: Arc<Positions>,
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
}

impl Prober {
    pub(crate) fn new(id: BackendId, settings: Rc<Settings>, positions: Arc<Positions>) -> Self {
        let step = Rc::new(Cell::new(Step::Connect));
        Self { id, settings, kept: None, step, positions, position: None, writes: (0, 0) }
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
            Err(error) => error.into_outcome(),
        }
    }

    async fn ask_anew(&mut self) -> Result<Answer, ProbeError> {
        let kept = self.connect().await?;
        self.ask_on(kept).await
    }

    async fn ask_on(&mut self, mut kept: Kept) -> Result<Answer, ProbeError> {
        match self.ask(&mut kept).await {
            Ok(answer) => {
                self.kept = Some(kept);
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
        let announce = self.spec().proxy_protocol.map(|version| Announce { version, client: None });
        let stream = delphinus_net::dial(&self.spec().address, announce, self.settings.timeout()).await?;
        self.step.set(Step::Login);
        let connection = Connection::log_in(stream, self.spec(), &self.settings).await?;
        Ok(Kept { connection, facts: None })
    }

    async fn ask(&mut self, kept: &mut Kept) -> Result<Answer, ProbeError> {
        self.step.set(Step::Query);
        // Before the query is sent: what is written after that may be missing from the answer.
        let writes = self.positions.writes_at_rest();
        let begun = rt::now();
        let variables = facts::read_variables(&mut kept.connection, kept.facts.as_deref()).await?;
        let latency = begun.elapsed();
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
        let capabilities = kept.connection.offered();
        let facts::Variables { is_read_only: read_only, limits, .. } = variables;
        Ok(Answer { facts, capabilities, read_only, limits, latency, position, writes })
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
        &self.settings.backends[self.id.index()]
    }
}
