//! Statements that change accounts, what these may do, or what sessions begin with: when they have run, new logins get only connections
//! that are authenticated after that (`delphinus_pool::Rights`). If it was about accounts, passwords are checked again, too.
//!
//! Owns: which statements these are, whose rights they change, and whether one that has failed may have done so. The new epoch begins
//! before the client knows of the change.

use delphinus_clients::Users;
use delphinus_pool::{Epoch, Keys};
use delphinus_sql::{Body, Class, Effects, SqlText, Statement, rights_changed};
use delphinus_state::Executed;
use delphinus_wire::error_code;

use super::noted::Noted;
use crate::state::Wanted;

/// What a statement has that may change rights, or what sessions begin with: by its own text, or by one that is elsewhere or unknown.
pub(crate) const AT_RISK: Effects = Effects::CHANGES_RIGHTS
    .union(Effects::SETS_GLOBAL_VARS)
    .union(Effects::SQL_EXECUTES)
    .union(Effects::UNKNOWN);

/// What runs more than its own text, so that an error of it says nothing of what was done before.
const RUNS_MORE: Effects = Effects::CALLS_ROUTINE.union(Effects::SQL_EXECUTES).union(Effects::HIDDEN);

/// After these errors nothing was done: a command (COM_REFRESH on MySQL 9) that is not known; a text that cannot be read; no right to a schema, an account, a table, a routine, a role, the
/// statement. Whether there is one is checked before anything is done. Others say less: `DROP USER a, missing` of MariaDB fails with
/// 1396 and has dropped `a`.
const DID_NOTHING: [u16; 8] = [
    error_code::ER_DBACCESS_DENIED_ERROR,
    error_code::ER_ACCESS_DENIED_ERROR,
    error_code::ER_UNKNOWN_COM_ERROR,
    error_code::ER_PARSE_ERROR,
    error_code::ER_TABLEACCESS_DENIED_ERROR,
    error_code::ER_SPECIFIC_ACCESS_DENIED_ERROR,
    error_code::ER_PROCACCESS_DENIED_ERROR,
    error_code::ER_ACCESS_DENIED_NO_PASSWORD_ERROR,
];

/// These of SET are said before anything is set: no such variable; no global one, one that is read-only, not for this scope, without a
/// default; a value that is of the wrong type, or not taken.
const SET_NOTHING: [u16; 7] = [
    error_code::ER_UNKNOWN_SYSTEM_VARIABLE,
    error_code::ER_LOCAL_VARIABLE,
    error_code::ER_GLOBAL_VARIABLE,
    error_code::ER_NO_DEFAULT,
    error_code::ER_WRONG_VALUE_FOR_VAR,
    error_code::ER_WRONG_TYPE_FOR_VAR,
    error_code::ER_INCORRECT_GLOBAL_LOCAL_VAR,
];

/// Whose rights may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// Nobody's: sessions that begin later have other variables, by SET GLOBAL.
    Defaults,
    /// Those of the session's own user.
    Own,
    /// Anybody's.
    Anybody,
}

impl Whose {
    /// Of what changes both.
    fn and(self, other: Self) -> Self {
        if self == other { self } else { Self::Anybody }
    }
}

/// When a statement that has run counts as one that has changed something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counts {
    Always,
    /// One of the errors above proves that nothing was done.
    UnlessRefused,
    /// The same of one SET, which has more such errors.
    UnlessNotSet,
    /// It was several statements: the first one cannot change anything.
    IfSeveral,
}

/// The command that runs may change rights.
#[derive(Debug, Clone, Copy)]
pub(super) struct MayChange {
    whose: Whose,
    counts: Counts,
    /// The client is told of parts before the whole has run.
    tells_parts: bool,
    pub(super) is_sent: bool,
}

impl Noted {
    /// Takes in that a statement is about to run which may change rights. `sql` is empty where it is not known to its end; `user` runs
    /// it.
    pub(crate) fn note_rights(&mut self, statement: &Statement, sql: &[u8], state: &mut Wanted, user: &str) {
        self.executed = None;
        self.rights = self.may_change(statement, &SqlText::new(sql, state.lex()), state, user);
    }

    fn may_change(
        &mut self,
        statement: &Statement,
        text: &SqlText<'_>,
        state: &Wanted,
        user: &str,
    ) -> Option<MayChange> {
        let tells_parts = statement.class == Class::Multi;
        let unknown =
            MayChange { whose: Whose::Anybody, counts: Counts::Always, tells_parts, is_sent: false };
        if text.sql.is_empty() {
            let is_safe = !statement.effects.intersects(AT_RISK.without(Effects::UNKNOWN))
                && !matches!(statement.class, Class::Unknown | Class::Multi);
            return Some(MayChange {
                counts: if is_safe { Counts::IfSeveral } else { Counts::Always },
                ..unknown
            });
        }
        if statement.class != Class::Execute {
            let whose = whose(statement, text, user)?;
            return Some(MayChange { whose, counts: counts(statement), ..unknown });
        }
        let texts = self.texts_executed(statement, text, state);
        if texts.is_empty() && !state.pins.is_empty() {
            // It is one that a routine has prepared, or none.
            return Some(unknown);
        }
        let mut found: Option<MayChange> = None;
        for executed in &*texts {
            let Some((sql, ran)) = executed else { return Some(unknown) };
            let Some(whose) = whose(ran, &SqlText::new(sql.as_bytes(), text.lex), user) else { continue };
            let counts = if found.is_none() { counts(ran) } else { Counts::Always };
            let whose = found.map_or(whose, |before| before.whose.and(whose));
            found = Some(MayChange { whose, counts, ..unknown });
        }
        found
    }

    /// Takes in what a statement has done, as far as its answer tells. Of one that does nothing but SET GLOBAL, the epoch that it has
    /// begun.
    pub(super) fn settle_rights(
        &mut self,
        executed: &Executed<'_>,
        keys: &Keys,
        users: &Users,
    ) -> Option<Epoch> {
        let noted = self.rights.take();
        let by_code = executed.statement.class == Class::Execute && executed.hidden.may_change_rights();
        let whose = match noted {
            _ if by_code => Whose::Anybody,
            Some(noted) if noted.may_have(executed) => noted.whose,
            _ => return None,
        };
        let epoch = have_changed(whose, keys, users)?;
        (!noted?.tells_parts).then_some(epoch)
    }

    /// The command has ended; how, is not known of one that was sent and not settled.
    pub(super) fn end_rights(&mut self, keys: &Keys, users: &Users) {
        if let Some(MayChange { is_sent: true, whose, .. }) = self.rights.take() {
            have_changed(whose, keys, users);
        }
    }
}

/// Whose rights a text of `user` changes, if it may change any.
fn whose(statement: &Statement, text: &SqlText<'_>, user: &str) -> Option<Whose> {
    let SqlText { sql, lex, .. } = *text;
    let effects = statement.effects;
    // What is not recognised, or has a body: its words tell.
    let is_obscure = statement.class == Class::Unknown
        || statement.class == Class::Multi && effects.intersects(RUNS_MORE.union(Effects::UNKNOWN));
    let changes = effects.contains(Effects::CHANGES_RIGHTS);
    if is_obscure && (changes || Body::read(sql, lex).may_change_rights()) {
        return Some(Whose::Anybody);
    }
    let defaults = effects.contains(Effects::SETS_GLOBAL_VARS).then_some(Whose::Defaults);
    if !changes {
        return defaults;
    }
    let changed = rights_changed(sql, lex);
    let is_own = (changed.own || !changed.named.is_empty())
        && !changed.anybody
        && !effects.intersects(RUNS_MORE)
        && changed.named.iter().all(|name| name == user);
    let whose = if is_own { Whose::Own } else { Whose::Anybody };
    Some(defaults.map_or(whose, |defaults| defaults.and(whose)))
}

/// Takes in that rights have changed. Of one that changes only what logins begin with, the epoch that it has begun.
fn have_changed(whose: Whose, keys: &Keys, users: &Users) -> Option<Epoch> {
    match whose {
        Whose::Defaults => return Some(users.rights().defaults_have_changed()),
        Whose::Own => keys.have_changed(),
        Whose::Anybody => users.accounts_changed(),
    }
    None
}

impl MayChange {
    /// A part of the answer is about to reach the client: of a text of several statements, some have run.
    pub(super) fn answer_begins(self, keys: &Keys, users: &Users) {
        if self.tells_parts {
            have_changed(self.whose, keys, users);
        }
    }

    /// False if the answer proves that nothing was changed.
    fn may_have(self, executed: &Executed<'_>) -> bool {
        let response = executed.response;
        match self.counts {
            Counts::Always => true,
            Counts::IfSeveral => response.are_several,
            Counts::UnlessRefused | Counts::UnlessNotSet => {
                let is_set = self.counts == Counts::UnlessNotSet;
                let is_refusal =
                    |code: u16| DID_NOTHING.contains(&code) || is_set && SET_NOTHING.contains(&code);
                // Of several statements none has succeeded.
                !(response.error.is_some_and(is_refusal) && response.status.is_none())
            }
        }
    }
}

fn counts(statement: &Statement) -> Counts {
    match statement.class {
        _ if statement.effects.intersects(RUNS_MORE) => Counts::Always,
        Class::Set => Counts::UnlessNotSet,
        _ => Counts::UnlessRefused,
    }
}

#[cfg(test)]
mod tests {
    use delphinus_sql::{Hidden, LexOptions, SqlText, classify};
    use delphinus_state::Response;
    use delphinus_wire::response::Status;

    use super::*;

    /// True if `sql` counts as a change, after this error.
    fn counts_after(sql: &str, error: Option<u16>, status: Option<Status>) -> bool {
        let statement = classify(sql.as_bytes(), LexOptions::default());
        let noted = MayChange {
            whose: Whose::Anybody,
            counts: counts(&statement),
            tells_parts: false,
            is_sent: true,
        };
        let (response, hidden) = (Response { error, status, ..Response::default() }, Hidden::default());
        let (lex, now) = (LexOptions::default(), delphinus_net::rt::now());
        let statement = &statement;
        let text = &SqlText::new(sql.as_bytes(), lex);
        let executed = Executed { statement, text, response: &response, hidden: &hidden, now };
        noted.may_have(&executed)
    }

    #[test]
    fn an_error_that_proves_that_nothing_was_done_does_not_count() {
        let (drop, two, call) = ("DROP USER a, b", "DROP USER a; DROP USER b", "CALL p()");
        assert!(counts_after(drop, None, Some(Status::AUTOCOMMIT)));
        for code in [1044, 1045, 1064, 1142, 1227] {
            assert!(!counts_after(drop, Some(code), None), "{code}");
            assert!(!counts_after(two, Some(code), None), "the first one has failed: {code}");
            assert!(counts_after(two, Some(code), Some(Status::MORE_RESULTS)), "the second one: {code}");
            assert!(counts_after(call, Some(code), None), "what it did before is not known: {code}");
        }
        for code in [1396, 1317, 1205, 1290, 1133] {
            assert!(counts_after(drop, Some(code), None), "{code}");
        }
        let (set, two) = ("SET GLOBAL sql_mode = 'x'", "SET GLOBAL a = 1; SET GLOBAL b = 1");
        for code in [1193, 1227, 1228, 1229, 1230, 1231, 1232, 1238] {
            assert!(!counts_after(set, Some(code), None), "{code}");
            assert!(counts_after("SET GLOBAL a = f()", Some(code), None), "{code}");
            assert!(counts_after(two, Some(code), Some(Status::MORE_RESULTS)), "{code}");
        }
        assert!(counts_after(set, None, Some(Status::AUTOCOMMIT)) && counts_after(set, Some(1205), None));
    }
}
