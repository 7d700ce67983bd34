//! Traces: a line in the log for a statement, with what `EXPLAIN ROUTE` says of it, and what has become of it. For sessions
//! that ask for it (`SET @@delphinus.trace = 1`), and for rules with `log = true`. No literals of statements.

use std::cell::Cell;
use std::time::Instant;

use delphinus_net::rt;
use delphinus_route::{Cluster, Explanation, Plan, Way};
use delphinus_sql::{Hints, Statement};
use delphinus_topology::BackendId;

use crate::client_error::ClientError;
use crate::serve::{Outcome, Served};
use crate::session::Session;

/// What the log will be told of a command.
#[derive(Debug)]
pub(crate) struct Trace {
    explanation: Explanation,
    plan: Cell<Option<Plan>>,
    backend: Cell<Option<BackendId>>,
    began: Instant,
}

impl Trace {
    /// The last plan is the one that was followed.
    pub(crate) fn is_planned(&self, plan: Plan) {
        self.plan.set(Some(plan));
    }

    /// The command has a connection to this backend.
    pub(crate) fn runs_on(&self, backend: BackendId) {
        self.backend.set(Some(backend));
    }

    fn way(&self) -> Way {
        match (self.plan.get(), self.backend.get()) {
            (Some(plan), _) => Way::Planned(plan),
            (None, Some(backend)) => Way::Held(backend),
            (None, None) => Way::Proxy,
        }
    }
}

impl Session {
    /// Notes what is known of a statement before it runs.
    pub(crate) fn begin_trace(&mut self, sql: &[u8], statement: &Statement, attributes: &Hints) {
        let explanation = self.explained(sql, statement, attributes, Explanation::new);
        let (plan, backend) = (Cell::default(), Cell::default());
        self.steering.trace = Some(Box::new(Trace { explanation, plan, backend, began: rt::now() }));
    }

    /// Tells the log.
    #[cold]
    pub(crate) fn tell_trace(&mut self, served: &Outcome) {
        let Some(trace) = self.steering.trace.take() else { return };
        let routing = &self.worker.settings.routing;
        let took_us = trace.began.elapsed().as_micros();
        let error = match served {
            Ok(Served::Error(error) | Served::Fatal(error)) => ClientError::from(error).code(),
            Ok(Served::Answered | Served::End) | Err(_) => 0,
        };
        let (route, ran_on) = self.worker.outlook.with_snapshot(|snapshot, balance| {
            let cluster = Cluster { snapshot, rules: &routing.rules, policy: *balance.policy() };
            let ran_on = trace.backend.get().and_then(|id| snapshot.backend(id));
            let ran_on = ran_on.map(|backend| backend.name.clone());
            (trace.explanation.line(trace.way(), cluster), ran_on)
        });
        let ran_on = ran_on.as_deref().unwrap_or("-");
        let user = self.activity.user();
        tracing::info!(session.id = self.activity.id.0, %user, ran_on, took_us, error, %route, "trace");
    }
}
