//! After a response: what it changed is learnt, what the backend did not say is asked, and the connection goes
//! back to the pool or stays with the session.

use delphinus_pool::{Checkout, LeftBehind, PoolError};
use delphinus_sql::{Assignment, Class, Consistency, Effects, Statement, Target};
use delphinus_state::{Changed, Response};
use delphinus_telemetry::Wait;
use delphinus_view::StoredCode;

use crate::answer::{list_left, rows_left};
use crate::costs::Costs;
use crate::follow::{self, Noted, Shared};
use crate::fresh::{Causality, Done};
use crate::hold::Held;
use crate::spent::Timed;
use crate::state::{COMPLETION_TYPE, Ran, Wanted};

/// What of a session a statement that has run may leave something in.
pub(crate) struct Settling<'a> {
    pub held: &'a mut Held,
    pub state: &'a mut Wanted,
    pub causality: &'a mut Causality,
    pub noted: &'a mut Noted,
    pub costs: &'a mut Costs,
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
        self.costs.answered(&mut checkout, response);
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

/// Whether the server closes the connection behind the answer that a statement has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closing {
    No,
    Yes,
    /// Only another question can tell.
    Perhaps,
}

impl Closing {
    /// `effects`: those of the statement and of the texts that it has run, if all are known; `None` if not. `is_usual`: `completion_type`
    /// says that COMMIT and ROLLBACK close it, too.
    fn of(effects: Option<Effects>, is_usual: bool) -> Self {
        let Some(effects) = effects else { return Self::Perhaps };
        if effects.contains(Effects::CLOSES_CONNECTION) {
            Self::Yes
        } else if is_usual && effects.intersects(MAY_END_TRANSACTION) {
            // NO RELEASE says otherwise.
            Self::Perhaps
        } else {
            Self::No
        }
    }
}

impl Closing {
    /// True if it has closed it. It is asked, where nothing has been asked in vain already.
    pub(crate) async fn has_come(self, changed: &Result<bool, PoolError>, checkout: &mut Checkout) -> bool {
        match (self, changed) {
            (Self::Yes, _) | (Self::Perhaps, Err(PoolError::Lost { .. })) => true,
            (Self::No, _) | (Self::Perhaps, Err(_)) => false,
            (Self::Perhaps, Ok(_)) => {
                matches!(Box::pin(checkout.ping()).await, Err(PoolError::Lost { .. }))
            }
        }
    }
}

/// What may run a COMMIT or a ROLLBACK.
const MAY_END_TRANSACTION: Effects = Effects::ENDS_TRANSACTION.union(Effects::OPAQUE);

impl Settling<'_> {
    /// Whether the server closes the connection behind this answer: whoever got it next would lose a statement on it.
    pub(crate) fn closing(&mut self, ran: Ran<'_>) -> Closing {
        let Ran { statement, text, response } = ran;
        if !response.is_ok() {
            // After an error the session's status is asked.
            return Closing::No;
        }
        let mut effects = Some(statement.effects);
        if statement.effects.contains(Effects::SQL_EXECUTES) {
            for text in self.noted.texts_executed(statement, text, self.state).iter() {
                let known = text.as_ref().map(|run| run.statement.effects);
                effects = effects.zip(known).map(|(all, one)| all.union(one));
            }
        }
        let may_end = effects.is_some_and(|all| all.intersects(MAY_END_TRANSACTION));
        let is_usual = may_end && (self.state.releases_by_default() || sets_completion_type(ran));
        Closing::of(effects, is_usual)
    }
}

/// True if COMMIT and ROLLBACK may end the session in a part of the text: it sets `completion_type` itself, or runs what does.
fn sets_completion_type(Ran { statement, text, response }: Ran<'_>) -> bool {
    let reports = |change: &Changed| matches!(change, Changed::Var(name, _) if &**name == COMPLETION_TYPE);
    let sets = |assignment: &Assignment| match &assignment.target {
        Target::System { name, .. } | Target::Statement(name) => name == COMPLETION_TYPE,
        _ => false,
    };
    response.changes.iter().any(reports)
        || statement.effects.intersects(SETS_VARIABLES) && text.names().assignments.iter().any(sets)
}

/// Statements that may set it.
const SETS_VARIABLES: Effects = Effects::SETS_SYSTEM_VARS.union(Effects::SETS_FOR_STATEMENT);

/// True if LAST_INSERT_ID() may be another one though the answer does not say so.
fn may_set_insert_id(statement: &Statement, response: &Response) -> bool {
    // An INSERT that fails at its second row keeps the id that it made for the first one.
    let inserts = matches!(statement.class, Class::Insert | Class::Replace | Class::LoadData | Class::Multi);
    statement.effects.intersects(MAY_SET_INSERT_ID) || inserts && !response.is_ok()
}

/// Statements after which LAST_INSERT_ID() may be another one though the OK packet does not say so.
const MAY_SET_INSERT_ID: Effects = Effects::SETS_LAST_INSERT_ID.union(Effects::OPAQUE);

#[cfg(test)]
mod tests {
    use delphinus_sql::{Flavor, LexOptions, SqlText, classify};

    use super::*;

    #[test]
    fn a_text_that_says_itself_what_its_commit_does_is_known() {
        let lex = LexOptions { flavor: Flavor::MariaDb, server_version: 101_119, ..LexOptions::default() };
        let reported = vec![Changed::Var(COMPLETION_TYPE.into(), (*b"RELEASE").into())];
        for (sql, changes, sets) in [
            ("SET completion_type = RELEASE; COMMIT", vec![], true),
            ("SET @@session.completion_type = 2; ROLLBACK", vec![], true),
            ("SET STATEMENT completion_type = 2 FOR COMMIT", vec![], true),
            ("CALL p(); COMMIT", reported, true),
            ("SET @completion_type = 2; COMMIT", vec![], false),
            ("SET autocommit = 1; COMMIT", vec![], false),
            ("COMMIT", vec![], false),
        ] {
            let (statement, text) = (classify(sql.as_bytes(), lex), SqlText::new(sql.as_bytes(), lex));
            let response = Response { changes, ..Response::default() };
            let ran = Ran { statement: &statement, text: &text, response: &response };
            assert_eq!(sets_completion_type(ran), sets, "{sql}");
            assert!(statement.effects.intersects(MAY_END_TRANSACTION), "{sql}");
        }
    }

    #[test]
    fn a_connection_that_the_server_closes_is_known() {
        for (sql, usual, by_completion_type) in [
            ("COMMIT RELEASE", Closing::Yes, Closing::Yes),
            ("ROLLBACK WORK AND NO CHAIN RELEASE", Closing::Yes, Closing::Yes),
            ("SELECT 1; COMMIT RELEASE", Closing::Yes, Closing::Yes),
            ("SHUTDOWN", Closing::Yes, Closing::Yes),
            ("COMMIT", Closing::No, Closing::Perhaps),
            ("COMMIT AND CHAIN", Closing::No, Closing::Perhaps),
            ("ROLLBACK AND NO CHAIN NO RELEASE", Closing::No, Closing::Perhaps),
            ("CALL p()", Closing::No, Closing::Perhaps),
            ("ROLLBACK TO s", Closing::No, Closing::No),
            ("RELEASE SAVEPOINT s", Closing::No, Closing::No),
            ("BEGIN", Closing::No, Closing::No),
            ("SET @a = 1", Closing::No, Closing::No),
        ] {
            let effects = Some(classify(sql.as_bytes(), LexOptions::default()).effects);
            assert_eq!(Closing::of(effects, false), usual, "{sql}");
            assert_eq!(Closing::of(effects, true), by_completion_type, "{sql}");
        }
        assert_eq!(Closing::of(None, false), Closing::Perhaps);
    }
}
