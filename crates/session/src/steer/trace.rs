//! Traces: a line in the log for a statement, with what `EXPLAIN ROUTE` says of it, and what has become of it. For sessions
//! that ask for it (`SET @@delphinus.trace = 1`), and for rules with `log = true`. No literals of statements.

use std::cell::Cell;
use std::time::Instant;

use delphinus_clients::Activity;
use delphinus_net::rt;
use delphinus_route::{Cluster, Explanation, Plan, Way};
use delphinus_topology::BackendId;

/// What the log will be told of a command.
#[derive(Debug)]
pub(crate) struct Trace {
    explanation: Explanation,
    plan: Cell<Option<Plan>>,
    began: Instant,
}

impl Trace {
    /// Of a statement that begins now.
    pub(crate) fn of(explanation: Explanation) -> Box<Self> {
        Box::new(Self { explanation, plan: Cell::default(), began: rt::now() })
    }

    /// The last plan is the one that was followed.
    pub(crate) fn is_planned(&self, plan: Plan) {
        self.plan.set(Some(plan));
    }

    /// Tells the log: whose the command was, to which backend it had a connection, and the number of its error, 0 if it had none.
    #[cold]
    pub(crate) fn tell(
        &self,
        error: u16,
        whose: &Activity,
        backend: Option<BackendId>,
        cluster: Cluster<'_>,
    ) {
        let took_us = self.began.elapsed().as_micros();
        let ran_on = backend.and_then(|id| cluster.snapshot.backend(id));
        let ran_on = ran_on.map_or("-", |backend| &*backend.name);
        let route = self.explanation.line(self.way(backend), cluster);
        let user = whose.user();
        tracing::info!(session.id = whose.id.0, %user, ran_on, took_us, error, %route, "trace");
    }

    fn way(&self, backend: Option<BackendId>) -> Way {
        match (self.plan.get(), backend) {
            (Some(plan), _) => Way::Planned(plan),
            (None, Some(backend)) => Way::Held(backend),
            (None, None) => Way::Proxy,
        }
    }
}
