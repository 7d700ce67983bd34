//! Whether the server closes the connection behind an answer: `COMMIT RELEASE`, and what `completion_type` makes one.

use delphinus_pool::{Checkout, PoolError};
use delphinus_sql::{Assignment, Effects, Target};
use delphinus_state::Changed;

use super::Settling;
use crate::state::{COMPLETION_TYPE, Ran};

/// What may run a COMMIT or a ROLLBACK.
const MAY_END_TRANSACTION: Effects = Effects::ENDS_TRANSACTION.union(Effects::OPAQUE);

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

#[cfg(test)]
mod tests {
    use delphinus_sql::{Flavor, LexOptions, SqlText, classify};
    use delphinus_state::Response;

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
