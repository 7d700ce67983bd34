//! Statements that change accounts, what these may do, or what sessions begin with: when they have run, new logins get only connections
//! that are authenticated after that (`delphinus_pool::Rights`). If it was about accounts, passwords are checked again, too.
//!
//! Owns: which statements these are, whose rights they change, and whether one that has failed may have done so. The new epoch begins
//! before the client knows of the change.

use std::rc::Rc;

use delphinus_clients::Users;
use delphinus_pool::{Epoch, Keys};
use delphinus_sql::{Body, Class, Effects, SqlText, Statement, classify, rights_changed, split};
use delphinus_state::{Executed, Response};
use delphinus_wire::error_code;

use super::noted::Noted;
use super::texts::TextExecuted;
use crate::state::Wanted;

/// What a statement has that may change rights, or what sessions begin with: by its own text, or by one that is elsewhere or unknown.
pub(crate) const AT_RISK: Effects = Effects::CHANGES_RIGHTS
    .union(Effects::SETS_GLOBAL_VARS)
    .union(Effects::SQL_EXECUTES)
    .union(Effects::UNKNOWN);

/// What runs more than its own text, so that an error of it says nothing of what was done before.
const RUNS_MORE: Effects = Effects::CALLS_ROUTINE.union(Effects::SQL_EXECUTES).union(Effects::HIDDEN);

/// True after an error by which nothing was done to accounts and rights: the user has no right to do it, or to an account or a role; the
/// text cannot be read; the command (COM_REFRESH on MySQL 9) is not known. Whether there is a right is checked before anything is done.
/// Others say less: `DROP USER a, missing` of MariaDB fails with 1396 and has dropped `a`.
fn did_nothing(code: u16) -> bool {
    error_code::is_denied(code)
        || matches!(
            code,
            error_code::ER_ACCESS_DENIED_ERROR
                | error_code::ER_ACCESS_DENIED_NO_PASSWORD_ERROR
                | error_code::ER_PARSE_ERROR
                | error_code::ER_UNKNOWN_COM_ERROR
        )
}

/// True after an error of one SET by which nothing was set. Of a single variable these prove that, too: there is none of the name, or it
/// has no default.
fn set_nothing(code: u16) -> bool {
    error_code::is_not_settable(code)
        || matches!(code, error_code::ER_UNKNOWN_SYSTEM_VARIABLE | error_code::ER_NO_DEFAULT)
}

/// Whose rights may change: a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RightsOf(u8);

impl RightsOf {
    const NOBODY: Self = Self(0);
    /// Nobody's: sessions that begin later have other variables, by SET GLOBAL.
    const DEFAULTS: Self = Self(1);
    /// Those of the session's own user.
    const OWN: Self = Self(2);
    /// Anybody's.
    const ANYBODY: Self = Self(4);
    /// Anybody's, by something that is not known, or of which it is not known that it was done. Everybody can run such: it costs the
    /// others no password, and no more connections however often it is run.
    const UNSEEN: Self = Self(8);

    fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The same where it is not known whether it was done.
    fn doubtful(self) -> Self {
        let own = Self(self.0 & Self::OWN.0);
        if own == self { own } else { own.and(Self::UNSEEN) }
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
    /// It is a CALL that its user had no right to.
    UnlessMayNotCall,
    /// It was several statements: the first one cannot change anything.
    IfSeveral,
}

/// When it is known that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sure {
    /// Whenever it counts: who gets another error may do such things.
    Always,
    /// When all of it has ended well.
    IfDone,
}

/// The command that runs may change rights.
#[derive(Debug, Clone, Copy)]
pub(super) struct MayChange {
    whose: RightsOf,
    counts: Counts,
    sure: Sure,
    /// The client is told of parts before the whole has run: what may have changed with the first one.
    first_part: Option<RightsOf>,
    pub(super) is_sent: bool,
}

/// It is not known what runs.
const UNKNOWN: MayChange = MayChange {
    whose: RightsOf::UNSEEN,
    counts: Counts::Always,
    sure: Sure::IfDone,
    first_part: None,
    is_sent: false,
};

impl Noted {
    /// Takes in that a statement is about to run which may change rights. Its text is empty where it is not known to its end; `user`
    /// runs it.
    pub(crate) fn note_rights(
        &mut self,
        statement: &Statement,
        text: &SqlText<'_>,
        state: &Wanted,
        user: &str,
    ) {
        self.executed = None;
        self.rights = self.may_change(statement, text, state, user);
    }

    /// Takes in what the text is that an EXECUTE runs, which was not known before.
    pub(crate) fn note_executed(
        &mut self,
        texts: Rc<Vec<TextExecuted>>,
        (statement, text): (&Statement, &SqlText<'_>),
        state: &Wanted,
        user: &str,
    ) {
        self.executed = Some(texts);
        self.rights = self.may_change(statement, text, state, user);
    }

    fn may_change(
        &mut self,
        statement: &Statement,
        text: &SqlText<'_>,
        state: &Wanted,
        user: &str,
    ) -> Option<MayChange> {
        if text.sql.is_empty() {
            let is_safe = !statement.effects.intersects(AT_RISK.without(Effects::UNKNOWN))
                && !matches!(statement.class, Class::Unknown | Class::Multi);
            let counts = if is_safe { Counts::IfSeveral } else { Counts::Always };
            let first_part = (statement.class == Class::Multi).then_some(RightsOf::UNSEEN);
            return Some(MayChange { counts, first_part, ..UNKNOWN });
        }
        if statement.class != Class::Execute {
            return by_text(statement, text, user);
        }
        let texts = self.texts_executed(statement, text, state);
        if texts.is_empty() && !state.pins.is_empty() {
            // It is one that a routine has prepared, or none.
            return Some(UNKNOWN);
        }
        let mut found: Option<MayChange> = None;
        for executed in &*texts {
            let Some(ran) = executed else { return Some(UNKNOWN) };
            let Some(one) = by_text(&ran.statement, &ran.sql(), user) else { continue };
            found = Some(match found {
                None => MayChange { first_part: None, ..one },
                Some(before) => MayChange { whose: before.whose.and(one.whose), ..UNKNOWN },
            });
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
        let found = noted.map_or(RightsOf::NOBODY, |noted| noted.have_changed(executed));
        let epoch = have_changed(found.and(changed_by_code(executed)), keys, users)?;
        noted?.first_part.is_none().then_some(epoch)
    }

    /// The command has ended; how, is not known of one that was sent and not settled.
    pub(super) fn end_rights(&mut self, keys: &Keys, users: &Users) {
        if let Some(MayChange { is_sent: true, whose, .. }) = self.rights.take() {
            have_changed(whose.doubtful(), keys, users);
        }
    }
}

/// What a text of `user` may change, if anything.
fn by_text(statement: &Statement, text: &SqlText<'_>, user: &str) -> Option<MayChange> {
    let SqlText { sql, lex, .. } = *text;
    let whose = whose(statement, text, user)?;
    let (counts, is_multi) = (counts(statement), statement.class == Class::Multi);
    let is_whole = is_multi || statement.effects.intersects(RUNS_MORE) || statement.class == Class::Unknown;
    let sure = if is_whole { Sure::IfDone } else { Sure::Always };
    let first_part = is_multi.then(|| {
        let first = split(sql, lex).next().map(|first| classify(&sql[first], lex));
        let changes = Effects::CHANGES_RIGHTS.union(Effects::SETS_GLOBAL_VARS);
        let does = first.is_some_and(|one| one.class != Class::Unknown && one.effects.intersects(changes));
        if does { whose } else { whose.doubtful() }
    });
    Some(MayChange { whose, counts, sure, first_part, is_sent: false })
}

/// Whose rights a text of `user` changes, if it may change any.
fn whose(statement: &Statement, text: &SqlText<'_>, user: &str) -> Option<RightsOf> {
    let SqlText { sql, lex, .. } = *text;
    let effects = statement.effects;
    let changes = effects.contains(Effects::CHANGES_RIGHTS);
    if changes && statement.class == Class::Call {
        // What the code does is looked at when it has run.
        return Some(RightsOf::UNSEEN);
    }
    // What is not recognised, or has a body: its words tell.
    let is_obscure = statement.class == Class::Unknown
        || statement.class == Class::Multi && effects.intersects(RUNS_MORE.union(Effects::UNKNOWN));
    if is_obscure {
        let body = Body::read(sql, lex);
        if changes || body.may_change_rights() {
            return Some(if body.has_changed_rights() { RightsOf::ANYBODY } else { RightsOf::UNSEEN });
        }
    }
    let defaults = effects.contains(Effects::SETS_GLOBAL_VARS).then_some(RightsOf::DEFAULTS);
    if !changes {
        return defaults;
    }
    let changed = rights_changed(sql, lex);
    let is_own = (changed.own || !changed.named.is_empty())
        && !changed.anybody
        && !effects.intersects(RUNS_MORE)
        && changed.named.iter().all(|name| name == user);
    let whose = if is_own { RightsOf::OWN } else { RightsOf::ANYBODY };
    Some(defaults.map_or(whose, |defaults| defaults.and(whose)))
}

/// What the code has changed that CALL has run, by itself or in EXECUTE.
fn changed_by_code(executed: &Executed<'_>) -> RightsOf {
    let Executed { statement, response, hidden, .. } = executed;
    if !matches!(statement.class, Class::Call | Class::Execute) || may_not_call(response) {
        return RightsOf::NOBODY;
    }
    if hidden.has_changed_rights() && response.is_ok() {
        // Its user may run code that does that.
        return RightsOf::ANYBODY;
    }
    if hidden.may_change_rights() { RightsOf::UNSEEN } else { RightsOf::NOBODY }
}

/// The user has no right to run what it has called.
fn may_not_call(response: &Response) -> bool {
    response.error == Some(error_code::ER_PROCACCESS_DENIED_ERROR) && response.status.is_none()
}

/// Takes in that rights have changed. Of what changes only what logins begin with, the epoch that it has begun.
fn have_changed(whose: RightsOf, keys: &Keys, users: &Users) -> Option<Epoch> {
    if whose == RightsOf::DEFAULTS {
        return Some(users.rights().defaults_have_changed());
    }
    if whose.has(RightsOf::ANYBODY) {
        users.accounts_changed();
        return None;
    }
    if whose.has(RightsOf::OWN) {
        keys.have_changed();
    }
    if whose.has(RightsOf::DEFAULTS) {
        users.rights().defaults_have_changed();
    }
    if whose.has(RightsOf::UNSEEN) {
        users.rights().may_have_changed();
    }
    None
}

impl MayChange {
    /// A part of the answer is about to reach the client: of a text of several statements, some have run.
    pub(super) fn answer_begins(self, keys: &Keys, users: &Users) {
        if let Some(whose) = self.first_part {
            have_changed(whose, keys, users);
        }
    }

    /// What has changed, by the answer.
    fn have_changed(self, executed: &Executed<'_>) -> RightsOf {
        match self.sure {
            _ if !self.may_have(executed) => RightsOf::NOBODY,
            Sure::IfDone if !executed.response.is_ok() => self.whose.doubtful(),
            _ => self.whose,
        }
    }

    /// False if the answer proves that nothing was changed.
    fn may_have(self, executed: &Executed<'_>) -> bool {
        let response = executed.response;
        match self.counts {
            Counts::Always => true,
            Counts::IfSeveral => response.are_several,
            Counts::UnlessMayNotCall => !may_not_call(response),
            Counts::UnlessRefused | Counts::UnlessNotSet => {
                let is_set = self.counts == Counts::UnlessNotSet;
                let is_refusal = |code: u16| did_nothing(code) || is_set && set_nothing(code);
                // Of several statements none has succeeded.
                !(response.error.is_some_and(is_refusal) && response.status.is_none())
            }
        }
    }
}

fn counts(statement: &Statement) -> Counts {
    match statement.class {
        Class::Call => Counts::UnlessMayNotCall,
        _ if statement.effects.intersects(RUNS_MORE) => Counts::Always,
        Class::Set => Counts::UnlessNotSet,
        _ => Counts::UnlessRefused,
    }
}

#[cfg(test)]
mod tests {
    use delphinus_sql::{Flavor, Hidden, LexOptions};
    use delphinus_wire::response::Status;

    use super::*;

    /// What `sql` has changed, after this error; by these words of code where it calls.
    fn changed_by(sql: &str, error: Option<u16>, status: Option<Status>, code: &str) -> RightsOf {
        let lex = LexOptions { flavor: Flavor::MariaDb, ..LexOptions::default() };
        let mut statement = classify(sql.as_bytes(), lex);
        let has = |word: &str| code.contains(word);
        let hidden = Hidden {
            rights: has("GRANT"),
            branches: has("IF"),
            is_unknown: has("PREPARE"),
            ..Hidden::default()
        };
        if statement.class == Class::Call && hidden.may_change_rights() {
            statement.effects |= Effects::CHANGES_RIGHTS;
        }
        let (text, now) = (SqlText::new(sql.as_bytes(), lex), delphinus_net::rt::now());
        let response = Response { error, status, ..Response::default() };
        let executed =
            Executed { statement: &statement, text: &text, response: &response, hidden: &hidden, now };
        let noted = by_text(&statement, &text, "me");
        noted.map_or(RightsOf::NOBODY, |noted| noted.have_changed(&executed)).and(changed_by_code(&executed))
    }

    fn after(sql: &str, error: Option<u16>, status: Option<Status>) -> RightsOf {
        changed_by(sql, error, status, "")
    }

    const OK: Option<Status> = Some(Status::AUTOCOMMIT);

    #[test]
    fn an_error_that_proves_that_nothing_was_done_does_not_count() {
        let (drop, two) = ("DROP USER a, b", "DROP USER a; DROP USER b");
        assert_eq!(after(drop, None, OK), RightsOf::ANYBODY);
        for code in [1044, 1045, 1064, 1142, 1227] {
            assert_eq!(after(drop, Some(code), None), RightsOf::NOBODY, "{code}");
            assert_eq!(after(two, Some(code), None), RightsOf::NOBODY, "the first one has failed: {code}");
            let second = after(two, Some(code), Some(Status::MORE_RESULTS));
            assert_eq!(second, RightsOf::UNSEEN, "the second one: {code}");
            let call = changed_by("CALL p()", Some(code), None, "GRANT");
            assert_eq!(call, RightsOf::UNSEEN, "what it did before is not known: {code}");
        }
        for code in [1396, 1317, 1205, 1290, 1133] {
            assert_eq!(after(drop, Some(code), None), RightsOf::ANYBODY, "{code}");
        }
        let (set, two) = ("SET GLOBAL sql_mode = 'x'", "SET GLOBAL a = 1; SET GLOBAL b = 1");
        for code in [1193, 1227, 1228, 1229, 1230, 1231, 1232, 1238] {
            assert_eq!(after(set, Some(code), None), RightsOf::NOBODY, "{code}");
            assert_eq!(after("SET GLOBAL a = f()", Some(code), None), RightsOf::UNSEEN, "{code}");
            assert_eq!(after(two, Some(code), Some(Status::MORE_RESULTS)), RightsOf::UNSEEN, "{code}");
        }
        assert_eq!(after(set, None, OK), RightsOf::DEFAULTS);
        assert_eq!(after(set, Some(1205), None), RightsOf::DEFAULTS);
    }

    /// What everybody can run, without any right, and end well.
    #[test]
    fn what_may_not_have_been_done_costs_nobody_a_password() {
        for sql in [
            "BEGIN NOT ATOMIC IF 0 THEN DROP USER a; END IF; END",
            "BEGIN NOT ATOMIC WHILE 0 DO DROP USER a; END WHILE; END",
            "BEGIN NOT ATOMIC FOR i IN 1..0 DO DROP USER a; END FOR; END",
            "BEGIN NOT ATOMIC DECLARE CONTINUE HANDLER FOR SQLEXCEPTION DO 0; DROP USER a; END",
            "IF 0 THEN GRANT ALL ON *.* TO a; END IF",
            "BEGIN NOT ATOMIC EXECUTE IMMEDIATE 'DO 1'; END",
            "DO 1; EXECUTE IMMEDIATE 'DO 1'",
        ] {
            assert_eq!(after(sql, None, OK), RightsOf::UNSEEN, "{sql}");
        }
        assert_eq!(after("BEGIN NOT ATOMIC DROP USER IF EXISTS a; END", None, OK), RightsOf::ANYBODY);
        assert_eq!(after("BEGIN NOT ATOMIC DROP USER a; END", Some(1227), None), RightsOf::UNSEEN);
        assert_eq!(after("DO 1; DROP USER a", Some(1227), Some(Status::MORE_RESULTS)), RightsOf::UNSEEN);
        for (code, whose) in [
            ("GRANT", RightsOf::ANYBODY),
            ("IF GRANT", RightsOf::UNSEEN),
            ("PREPARE", RightsOf::UNSEEN),
            ("IF", RightsOf::NOBODY),
        ] {
            let call = |error, status| changed_by("CALL p()", error, status, code);
            assert!(
                call(None, OK).has(whose) || whose == RightsOf::NOBODY && call(None, OK) == whose,
                "{code}"
            );
            assert_eq!(call(None, OK).has(RightsOf::ANYBODY), whose == RightsOf::ANYBODY, "{code}");
            assert_eq!(call(Some(1370), None), RightsOf::NOBODY, "it may not be called: {code}");
        }
    }

    #[test]
    fn the_first_part_of_an_answer_tells_of_the_first_statement() {
        let first = |sql: &str| {
            let lex = LexOptions::default();
            let found = by_text(&classify(sql.as_bytes(), lex), &SqlText::new(sql.as_bytes(), lex), "me");
            found.unwrap().first_part
        };
        assert_eq!(first("DROP USER a; DO 1"), Some(RightsOf::ANYBODY));
        assert_eq!(first("DO 1; DROP USER a"), Some(RightsOf::UNSEEN));
        assert_eq!(first("DO 1; SET GLOBAL a = 1"), Some(RightsOf::UNSEEN));
        assert_eq!(first("DROP USER a"), None);
    }
}
