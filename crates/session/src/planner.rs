//! A session as it stands: where a statement of it would go now, and why. Changes nothing of the session.

mod cached;

use delphinus_clients::ListenerMode;
use delphinus_net::rt;
use delphinus_route::{Behind, Intent, Plan, Question, Scope, plan};
use delphinus_sql::{Access, Consistency, Flavor, Statement};
use delphinus_topology::{BackendId, Snapshot};
use delphinus_wire::response::Layer;

use crate::client_error::Steered;
use crate::fresh::{Causality, Reading};
use crate::steer::{Around, Fate, Steering};

/// What of a session has a say in where a statement goes.
#[derive(Clone, Copy)]
pub(crate) struct Planner<'a> {
    /// Its state, and what it holds.
    pub around: Around<'a>,
    pub steering: &'a Steering,
    pub causality: &'a Causality,
}

impl<'a> Planner<'a> {
    /// Decides where a statement goes. Made once; nothing looks at the text again.
    #[inline]
    pub(crate) fn plan(self, statement: &Statement, avoid: &[BackendId]) -> Plan {
        let Self { around, steering, .. } = self;
        let source = &around.held.source;
        source.outlook.with_snapshot(|snapshot, balance| {
            let behind = self.behind(statement, snapshot, avoid).replicas;
            let scope = steering.scope_to_plan(statement, around);
            let intent = Intent { behind: &behind, scope, ..steering.intent(statement, avoid, around) };
            if balance.needs_look() {
                balance.look(snapshot, rt::now(), |backend| source.pool.in_use(backend));
            }
            let plan = plan(&intent, snapshot, balance);
            if let Some(trace) = &steering.trace {
                trace.is_planned(plan);
            }
            plan
        })
    }

    /// Replicas that a statement must not go to, because they have not caught up with what the session has written or read.
    #[inline]
    fn behind(self, statement: &Statement, snapshot: &Snapshot, avoid: &[BackendId]) -> Behind {
        let reading = self.reading(snapshot);
        // What goes to the primary anyway needs no thought.
        let is_free = self.causality.is_free_to_read(&reading)
            || statement.access == Access::Write
                && self.steering.scope(statement, self.around) == Scope::Usual;
        let found = if is_free { Behind::default() } else { self.causality.behind(&reading, avoid) };
        self.causality.is_planned(found.must_wait);
        found
    }

    /// A read of the session in this cluster.
    #[inline]
    pub(crate) fn reading(self, snapshot: &'a Snapshot) -> Reading<'a> {
        let usual = if snapshot.tells_gtids { Consistency::Session } else { Consistency::Eventual };
        let login = self.around.login;
        Reading {
            level: self.steering.consistency().unwrap_or(usual),
            snapshot,
            progress: &self.around.held.source.outlook.progress,
            patience: self.around.routing.consistency_timeout,
            // By a listener for reading only it is one of the other proxy's replicas, of which that knows how far it is.
            is_for_layer: login.peer != Layer::None && login.listener.mode != ListenerMode::ReadOnly,
        }
    }

    /// True if something holds the session to a replica, although its listener is for writing, too.
    pub(crate) fn is_held_on_replica(self) -> bool {
        self.steering.is_held_on_replica(self.around)
    }

    /// What becomes of a statement of a session that is held to a replica.
    pub(crate) fn fate(self, question: &Question<'_>) -> Fate {
        self.steering.fate(question, self.around, |here| self.lacks_named(here))
    }

    /// True if a client has named transactions that the replica is not known to have.
    fn lacks_named(self, here: BackendId) -> bool {
        self.around.held.source.outlook.with_snapshot(|snapshot, _| {
            let reading = Reading { level: Consistency::Session, ..self.reading(snapshot) };
            self.causality.lacks_foreign(here, &reading)
        })
    }

    /// For those who ask: whether the statement runs where the session is held; an error if nowhere.
    pub(crate) fn stays_on_replica(self, question: &Question<'_>) -> Result<bool, Steered> {
        match self.fate(question) {
            Fate::Stays => Ok(true),
            Fate::Leaves | Fate::Moves => Ok(false),
            Fate::Refused => Err(self.refused_like_everywhere()),
            Fate::Restarts => Err(Steered::NeedsPrimary),
            Fate::Held(what) => Err(Steered::HeldOnReplica(what)),
        }
    }

    /// The error that every server has for what writes in a transaction that cannot.
    pub(crate) fn refused_like_everywhere(self) -> Steered {
        Steered::ReadOnlyTransaction { is_mariadb: self.around.state.flavor() == Flavor::MariaDb }
    }
}
