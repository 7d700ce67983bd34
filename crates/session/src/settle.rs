//! After a response: what it changed is learnt, what the backend did not say is asked, and the connection goes
//! back to the pool or stays with the session.

mod closing;

use delphinus_pool::{Checkout, LeftBehind, PoolError};
use delphinus_sql::{Class, Consistency, Effects, Statement};
use delphinus_state::Response;
use delphinus_telemetry::Wait;
use delphinus_view::StoredCode;

use crate::answer::{list_left, rows_left};
use crate::follow::{self, Noted, Shared};
use crate::fresh::{Causality, Done};
use crate::hold::Held;
use crate::spent::Timed;
use crate::state::{Ran, Wanted};

/// What of a session a statement that has run may leave something in.
pub(crate) struct Settling<'a> {
    pub held: &'a mut Held,
    pub state: &'a mut Wanted,
    pub causality: &'a mut Causality,
    pub noted: &'a mut Noted,
    /// How old what it has read might be, if anybody said that.
    pub consistency: Option<Consistency>,
}

impl Settling<'_> {
    /// Takes in what a statement has left. Where that is no change of the session, as nearly always, the connection goes back;
    /// else it is given to be settled.
    #[inline]
    pub(crate) fn at_once(&mut self, mut checkout: Checkout, ran: Ran<'_>) -> Option<Checkout> {
        let Ran { statement, response, .. } = ran;
        self.held.last_backend = Some(checkout.backend());
        let is_late = checkout.connection().tells_late;
        let done = Done { backend: checkout.backend(), statement, response, is_late };
        let tells_late = self.causality.follow(done, self.consistency, &self.held.source.outlook);
        checkout.connection().tells_late = tells_late;
        if let Some(status) = response.status {
            self.state.status = status.of_session();
        }
        let left = LeftBehind {
            rows: rows_left(ran, self.state),
            list: list_left(&mut checkout, ran),
            sets_insert_id: may_set_insert_id(statement, response),
        };
        checkout.connection().remember(response, left);
        let is_plain = statement.effects.is_empty() && response.changes.is_empty() && response.is_ok();
        if !is_plain || !self.state.stays_as_it_is(self.state.status) {
            return Some(checkout);
        }
        self.held.activity.runs_nowhere();
        if !self.state.pins.is_empty() {
            self.held.bound = Some(checkout);
            return None;
        }
        self.held.seats.put(checkout.backend(), checkout.give_back());
        None
    }

    /// Takes in what it has changed, and what the server has not said of that. True if the session is in another schema now.
    pub(crate) async fn changes(
        &mut self,
        checkout: &mut Checkout,
        ran: Ran<'_>,
        (stored_code, most_prepared): (&StoredCode, usize),
    ) -> Result<bool, PoolError> {
        if ran.response.takes_no_writes() {
            self.held.source.outlook.report_read_only(checkout.backend());
        }
        let _timed = Timed::by(Wait::Question, &self.held.spent);
        let before = self.state.want.schema.clone();
        let shared = Shared {
            stored_code,
            users: &self.held.source.users,
            keys: &self.held.keys,
            outlook: &self.held.source.outlook,
            most_prepared,
        };
        let settled = match follow::settle(self.state, self.noted, checkout, ran, shared).await {
            Ok(late) => {
                self.causality.take_gtids(&late, &self.held.source.outlook);
                Ok(())
            }
            Err(error) => Err(error),
        };
        if settled.is_err() || ran.response.error.is_some() || checkout.connection().had_expired() {
            Box::pin(self.held.follow_expiry(checkout, self.state, (ran.response, settled))).await?;
        }
        let has_entered = before != self.state.want.schema;
        if has_entered {
            self.held.activity.enters(self.state.want.schema.as_deref());
        }
        Ok(has_entered)
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
