//! After a response: what it changed is learnt, what the backend did not say is asked, and the connection goes
//! back to the pool or stays with the session.

use delphinus_pool::{Checkout, LeftBehind, PoolError};
use delphinus_sql::{Class, Effects, Statement};
use delphinus_state::Response;

use crate::answer::{list_left, rows_left};
use crate::client_error::ProxyError;
use crate::follow::{self, Around};
use crate::fresh::Done;
use crate::session::Session;
use crate::state::Ran;

/// A server refuses a write because it is read-only: ER_OPTION_PREVENTS_STATEMENT, ER_READ_ONLY_MODE.
const READ_ONLY: &[u16] = &[1290, 1836];

impl Session {
    /// Settles a statement. An error means that the session's state is not known any more: it has to end.
    #[inline]
    pub(crate) async fn settle(&mut self, checkout: Checkout, ran: Ran<'_>) -> Result<(), PoolError> {
        match self.settle_at_once(checkout, ran) {
            None => Ok(()),
            Some(checkout) => self.settle_changed(checkout, ran).await,
        }
    }

    /// Takes in what a statement has left. Where that is no change of the session, as nearly always, the connection goes back;
    /// else it is given to be settled.
    #[inline]
    pub(crate) fn settle_at_once(&mut self, mut checkout: Checkout, ran: Ran<'_>) -> Option<Checkout> {
        let Ran { statement, response, .. } = ran;
        self.held.last_backend = Some(checkout.backend());
        let done = Done { backend: checkout.backend(), statement, response };
        self.causality.follow(done, self.steering.consistency(), &self.worker.outlook);
        if let Some(status) = response.status {
            self.state.status = status.of_session();
        }
        let left = LeftBehind {
            rows: rows_left(ran, &mut self.state),
            list: list_left(&mut checkout, ran),
            sets_insert_id: may_set_insert_id(statement, response),
        };
        checkout.connection().remember(response, left);
        let is_plain = statement.effects.is_empty() && response.changes.is_empty() && response.is_ok();
        if !is_plain || !self.state.stays_as_it_is(self.state.status) {
            return Some(checkout);
        }
        self.activity.runs_nowhere();
        if !self.state.pins.is_empty() {
            self.held.bound = Some(checkout);
            return None;
        }
        self.held.seats.put(checkout.backend(), checkout.give_back());
        None
    }

    /// Settles what `settle_at_once` has not.
    pub(crate) async fn settle_changed(
        &mut self,
        mut checkout: Checkout,
        ran: Ran<'_>,
    ) -> Result<(), PoolError> {
        self.settle_changes(&mut checkout, ran).await?;
        self.held.keep_or_give_back(checkout, &mut self.state);
        Ok(())
    }

    async fn settle_changes(&mut self, checkout: &mut Checkout, ran: Ran<'_>) -> Result<(), PoolError> {
        if ran.response.error.is_some_and(|code| READ_ONLY.contains(&code)) {
            self.worker.outlook.report_read_only(checkout.backend());
        }
        let before = self.state.want.schema.clone();
        let around = Around {
            stored_code: &self.worker.stored_code,
            users: &self.worker.users,
            keys: &self.held.keys,
            outlook: &self.worker.outlook,
            most_prepared: self.worker.settings.max_prepared_statements.saturating_sub(self.statements.len()),
        };
        let late = follow::settle(&mut self.state, &mut self.noted, checkout, ran, around).await?;
        self.causality.take_gtids(&late, &self.worker.outlook);
        if before != self.state.want.schema {
            self.activity.enters(self.state.want.schema.as_deref());
            self.check_entered();
        }
        Ok(())
    }

    /// What hides a `USE` from the proxy, such as EXECUTE IMMEDIATE, does not bring a session into a schema of another
    /// cluster either: its next statement would be run by the wrong servers.
    fn check_entered(&self) {
        let Some(schema) = self.state.want.schema.as_deref() else { return };
        if let Err(error) = self.clusters.check_schema(self.worker.cluster, schema) {
            tracing::warn!(
                session.id = self.activity.id.0,
                why = ProxyError::from(error).reason(),
                "session ended"
            );
            self.activity.kill();
        }
    }
}

/// True if LAST_INSERT_ID() may be another one though the answer does not say so.
fn may_set_insert_id(statement: &Statement, response: &Response) -> bool {
    // An INSERT that fails at its second row keeps the id that it made for the first one.
    let inserts = matches!(statement.class, Class::Insert | Class::Replace | Class::LoadData | Class::Multi);
    statement.effects.intersects(MAY_SET_INSERT_ID) || inserts && !response.is_ok()
}

/// Statements after which LAST_INSERT_ID() may be another one though the OK packet does not say so.
const MAY_SET_INSERT_ID: Effects = Effects::SETS_LAST_INSERT_ID.union(Effects::OPAQUE);
