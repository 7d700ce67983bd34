//! From a statement and its response to the session's new state, its pins, and what the backend must be asked
//! because it did not say.

mod done;
mod hidden;
mod pins;
mod savepoints;
mod variables;

use std::rc::Rc;
use std::time::Instant;

use delphinus_sql::{Assignment, Class, Effects, Flavor, Hidden, SqlText, Statement, Target, Why};
use delphinus_wire::error_code;
use delphinus_wire::response::Status;

use self::done::Done;
pub use self::pins::fixes;
use crate::pin::{PinReason, Pins};
use crate::session::SessionState;
use crate::sql_statements;
use crate::tracker::{Changed, Response};

/// A statement that was run on a backend, and what came of it.
#[derive(Debug, Clone, Copy)]
pub struct Executed<'a> {
    /// What the classifier found.
    pub statement: &'a Statement,
    /// The text; the start of it where it was too long to keep.
    pub text: &'a SqlText<'a>,
    /// What the server said.
    pub response: &'a Response,
    /// What it did by code in the database, without a word of the server.
    pub hidden: &'a Hidden,
    /// When it ended.
    pub now: Instant,
}

/// What is still unknown, to be asked on the same connection before anybody else uses it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent questions; an enum for each would say no more"
)]
pub struct Learnt {
    /// Session variables to read back.
    pub vars: Vec<Box<str>>,
    /// What hides the collation that the connection has now, by SET NAMES: entries of `Vars`.
    pub names_collation: Vec<&'static str>,
    /// What hides the collation with this number now, which the client gave instead of a name.
    pub numbered_collations: Vec<(&'static str, u16)>,
    /// User variables to read back, in lower case.
    pub user_vars: Vec<Box<str>>,
    /// The statement failed: of the session variables those count that differ from the global ones, or were set before.
    pub has_failed: bool,
    /// The schema must be read back.
    pub schema: bool,
    /// A COM_PING must tell the transaction's status and changes not yet reported.
    pub ping: bool,
    /// Whether a temporary table was made must be asked.
    pub temporary_tables: bool,
    /// User variables may have been set that the text does not name, by code in the database: all there are must be read
    /// back, where the server can list them.
    pub hidden_user_vars: bool,
    /// Whether the role is that of the login again must be asked.
    pub role: bool,
    /// The server may have forgotten that `InnoDB` takes part in the transactions of this connection: see docs/protocol-notes.md.
    pub may_lose_transactions: bool,
}

impl Learnt {
    /// True if nothing has to be asked.
    pub fn is_empty(&self) -> bool {
        !self.asks_by_statements() && !self.ping && !self.may_lose_transactions
    }

    /// True if a collation is hidden that has to be looked up among those of the server.
    pub fn has_hidden_collations(&self) -> bool {
        !self.names_collation.is_empty() || !self.numbered_collations.is_empty()
    }

    /// True if something has to be asked, or looked up, but by COM_PING.
    pub fn asks_by_statements(&self) -> bool {
        let asks = self.schema || self.role || self.temporary_tables || self.hidden_user_vars;
        asks || self.has_hidden_collations() || !self.vars.is_empty() || !self.user_vars.is_empty()
    }
}

/// Errors after which the server may have rolled the transaction back without being asked: a row that was written since it was read
/// (MariaDB's `innodb_snapshot_isolation`), deadlock, lock wait time-out, no room for locks, failed commit, refused by Group
/// Replication, XA rollback only.
const ROLLED_BACK: &[u16] = &[
    error_code::ER_CHECKREAD,
    error_code::ER_LOCK_DEADLOCK,
    error_code::ER_LOCK_WAIT_TIMEOUT,
    error_code::ER_LOCK_TABLE_FULL,
    error_code::ER_ERROR_DURING_COMMIT,
    error_code::ER_RUN_HOOK_ERROR,
    error_code::ER_TRANSACTION_ROLLBACK_DURING_COMMIT,
    error_code::ER_XA_RBROLLBACK,
    error_code::ER_XA_RBTIMEOUT,
    error_code::ER_XA_RBDEADLOCK,
];

/// Applies what a statement did. `None` where everything is known, which is the ordinary case.
pub fn learn(state: &mut SessionState, pins: &mut Pins, executed: &Executed<'_>) -> Option<Learnt> {
    let response = executed.response;
    if response.is_ok() && executed.statement.effects.contains(Effects::XA_STARTS) {
        // The status flag would call it a transaction like any other.
        pins.add(PinReason::Xa, executed.now, executed.text.sql);
    }
    if let Some(status) = response.status {
        learn_transaction(pins, executed, status);
    }
    let is_plain = executed.statement.effects.is_empty() && executed.hidden.is_empty();
    if is_plain && response.changes.is_empty() && response.is_ok() {
        end_next_transaction(pins, executed);
        return None;
    }
    if is_refused_at_sight(executed) {
        // Nothing is asked: the next statement may be about its error.
        end_next_transaction(pins, executed);
        return None;
    }
    let mut learnt = Learnt::default();
    let seen = apply_changes(state, pins, executed);
    // A statement that fails may have assigned before it did: `SELECT @a := 1, (SELECT 1 UNION SELECT 2)`.
    variables::learn(&mut learnt, state, pins, executed);
    if executed.statement.class == Class::Diagnostics && !learnt.user_vars.is_empty() {
        // To read them back would wipe out what the next one may be about.
        for name in std::mem::take(&mut learnt.user_vars) {
            Rc::make_mut(&mut state.user_vars).remove(&name);
        }
        pins.add(PinReason::UnknownState, executed.now, executed.text.sql);
    }
    // Of several statements the first ones may have succeeded.
    if let Some(name) = sql_statements::variable_prepared(executed) {
        // It may have been set where the proxy did not see it.
        learnt.user_vars.push(name.into_boxed_str());
    }
    pins::learn(pins, state.schema.as_deref(), executed);
    if response.is_ok() || executed.statement.class == Class::Multi {
        learn_unreported(&mut learnt, pins, executed, seen);
    }
    hidden::learn(&mut learnt, pins, executed);
    if is_half_read(executed) {
        pins.add(PinReason::UnknownState, executed.now, executed.text.sql);
    }
    if !response.is_ok() {
        learnt.has_failed = true;
        // An ERR packet says nothing of changes, and the next OK, which has them, may be that of another statement.
        let assigns = Effects::SETS_USER_VARS.union(Effects::SETS_SYSTEM_VARS);
        learnt.ping |=
            executed.statement.effects.intersects(assigns) || status_is_unknown(state, pins, executed);
        if is_cut_short(executed) {
            pins.add(PinReason::UnknownState, executed.now, executed.text.sql);
        }
    }
    if may_lose_transactions(state, executed) {
        learnt.may_lose_transactions = true;
        pins.add(PinReason::UnknownState, executed.now, executed.text.sql);
    }
    savepoints::learn(&mut learnt, pins, executed);
    end_next_transaction(pins, executed);
    (!learnt.is_empty()).then_some(learnt)
}

/// True for a statement that has failed and done nothing: a GET DIAGNOSTICS, or a text that neither the proxy nor the server reads.
fn is_refused_at_sight(executed: &Executed<'_>) -> bool {
    let Executed { statement, response, .. } = executed;
    let runs_others = statement.effects.intersects(Effects::CALLS_ROUTINE.union(Effects::SQL_EXECUTES));
    match statement.class {
        Class::Diagnostics => !response.is_ok() && !runs_others,
        Class::Unknown => response.error == Some(error_code::ER_PARSE_ERROR) && !runs_others,
        _ => false,
    }
}

/// True for several statements, of which one has succeeded, where the server may have read the last ones in another way: nobody knows
/// what those have done.
fn is_half_read(executed: &Executed<'_>) -> bool {
    let Executed { statement, response, .. } = executed;
    statement.class == Class::Multi
        && statement.why == Why::AmbiguousText
        && (response.is_ok() || response.status.is_some())
}

fn learn_transaction(pins: &mut Pins, executed: &Executed<'_>, status: Status) {
    if executed.statement.effects.intersects(savepoints::ENDS) {
        pins.end_early_savepoint();
    }
    pins.follow(status, executed.now, executed.text.sql);
}

/// True for a statement that may have read a table while it turned autocommit off. Servers take the transactions that follow
/// on this connection for ones without `InnoDB` then: neither COMMIT nor ROLLBACK reaches it, and what one session has
/// left open there would be the next one's. One that the server knows of is none of these.
fn may_lose_transactions(state: &SessionState, executed: &Executed<'_>) -> bool {
    let Executed { statement, response, .. } = executed;
    let is_reported = || {
        response.changes.iter().any(|change| matches!(change, Changed::Var(name, _) if **name == *AUTOCOMMIT))
    };
    // In a text of several statements, or in a routine, it may know of another one.
    let is_known = response.is_ok()
        && may_be_open(response)
        && statement.class != Class::Multi
        && !statement.effects.intersects(Effects::OPAQUE);
    !is_known
        && (is_autocommit_off(state) || !response.is_ok())
        && (statement.effects.intersects(Effects::OPAQUE) && response.is_ok() && is_reported()
            || statement.effects.contains(Effects::SETS_SYSTEM_VARS) && reads_and_sets_autocommit(executed))
}

fn reads_and_sets_autocommit(executed: &Executed<'_>) -> bool {
    let found = &executed.text.names().assignments;
    let reads = |one: &Assignment| has_word(&one.value, b"select") || has_word(&one.value, b"table");
    let has_begun = executed.response.error.is_none_or(|error| !NOT_RESOLVED_IN_LIST.contains(&error));
    has_begun && found.iter().any(reads) && found.iter().any(sets_autocommit)
}

fn may_be_open(response: &Response) -> bool {
    response.status.is_none_or(|status| status.contains(Status::IN_TRANS))
}

const AUTOCOMMIT: &str = "autocommit";

fn sets_autocommit(assignment: &Assignment) -> bool {
    matches!(&assignment.target, Target::System { name, .. } if name == AUTOCOMMIT)
}

fn is_autocommit_off(state: &SessionState) -> bool {
    state.vars.get(AUTOCOMMIT).is_some_and(|value| matches!(&**value, b"OFF" | b"0"))
}

fn has_word(sql: &[u8], word: &[u8]) -> bool {
    sql.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_').any(|one| one.eq_ignore_ascii_case(word))
}

/// What kinds of changes the server reported.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    state: bool,
    schema: bool,
}

fn apply_changes(state: &mut SessionState, pins: &mut Pins, executed: &Executed<'_>) -> Seen {
    let mut seen = Seen::default();
    let passing = variables::for_statement(executed);
    for change in &executed.response.changes {
        match change {
            Changed::Var(name, _) if passing.contains(&**name) => {}
            Changed::Var(name, value) => variables::apply(state, pins, executed, (name, value)),
            Changed::Schema(schema) => {
                state.schema = schema.as_deref().map(Rc::from);
                seen.schema = true;
            }
            Changed::State => seen.state = true,
            Changed::Gtids(_) => {}
        }
    }
    seen
}

fn learn_unreported(learnt: &mut Learnt, pins: &mut Pins, executed: &Executed<'_>, seen: Seen) {
    let effects = executed.statement.effects;
    if effects.intersects(Effects::OPAQUE) || seen.state && changes_rows(executed.statement) {
        // A prepared statement whose schema is not the session's makes servers report both, whatever it does.
        let is_certain = effects.intersects(Effects::OPAQUE) || !seen.schema;
        if seen.state && is_certain && !is_state_listed(executed) {
            pins.add(PinReason::UnknownState, executed.now, executed.text.sql);
        } else {
            // Servers report CREATE TEMPORARY TABLE, but not the form with SELECT, and SET @a, but not SELECT INTO @a.
            learnt.temporary_tables = true;
            learnt.hidden_user_vars = true;
        }
        // An EOF packet ends a result set without a word about changes: the next OK has them.
        learnt.ping |= executed.response.affected_rows.is_none();
    }
    learnt.role = effects.contains(Effects::SETS_ROLE);
    if effects.contains(Effects::CHANGES_SCHEMA) && !seen.schema && executed.statement.class != Class::Use {
        learnt.schema = true;
    }
}

/// Statements that change nothing of the session by themselves: where a server reports that one did, a trigger or a
/// function in a view has.
fn changes_rows(statement: &Statement) -> bool {
    let class = matches!(
        statement.class,
        Class::Insert | Class::Replace | Class::Update | Class::Delete | Class::LoadData | Class::LoadXml
    );
    class && !statement.effects.contains(Effects::SETS_FOR_STATEMENT)
}

/// True if everything that a change may have been can be asked for: of functions and triggers, which cannot prepare
/// statements as procedures can, on servers that list the user variables of a session to everybody.
fn is_state_listed(executed: &Executed<'_>) -> bool {
    let dynamic = Effects::SQL_EXECUTES.union(Effects::UNKNOWN);
    executed.text.lex.flavor == Flavor::MariaDb
        && executed.statement.class != Class::Call
        && !executed.statement.effects.intersects(dynamic)
}

/// True for an error that is found before a function in the statement can have run. Of a SET these are, too: no such variable, no rights to
/// it, a wrong type, the other scope. Its value is looked at later.
fn is_before_functions(error: u16) -> bool {
    error_code::is_not_begun(error)
        || error_code::is_not_resolved(error)
        || matches!(
            error,
            error_code::ER_UNKNOWN_SYSTEM_VARIABLE
                | error_code::ER_SPECIFIC_ACCESS_DENIED_ERROR
                | error_code::ER_WRONG_TYPE_FOR_VAR
                | error_code::ER_INCORRECT_GLOBAL_LOCAL_VAR
        )
}

/// Errors of a SET of several variables, found before it looks at the first: they are resolved one by one, and the
/// functions of one run before the next is looked at. Syntax, no such character set, table or variable. Fewer than of other
/// statements, so that no list of `error_code` is it.
const NOT_RESOLVED_IN_LIST: &[u16] = &[
    error_code::ER_PARSE_ERROR,
    error_code::ER_UNKNOWN_CHARACTER_SET,
    error_code::ER_NO_SUCH_TABLE,
    error_code::ER_UNKNOWN_SYSTEM_VARIABLE,
];

/// True for a routine, a body, or a statement in a statement, that failed: what it had changed by then is not reported.
fn is_cut_short(executed: &Executed<'_>) -> bool {
    let effects = executed.statement.effects;
    let Some(error) = executed.response.error else { return false };
    if !effects.intersects(Effects::CALLS_ROUTINE.union(Effects::SQL_EXECUTES)) {
        return false;
    }
    match executed.statement.class {
        // It may be the error of one of the statements in it, whatever its number is.
        Class::Call => return true,
        Class::Unknown => return error != error_code::ER_PARSE_ERROR,
        Class::Multi => return error != error_code::ER_PARSE_ERROR || executed.response.status.is_some(),
        _ => {}
    }
    if effects.contains(Effects::SQL_EXECUTES) {
        return !error_code::is_not_begun(error);
    }
    if effects.intersects(Effects::SETS_SYSTEM_VARS.union(Effects::SETS_USER_VARS))
        && executed.text.names().assignments.len() > 1
    {
        return !NOT_RESOLVED_IN_LIST.contains(&error);
    }
    !is_before_functions(error)
}

/// True if an error leaves open whether a transaction is open and what has changed: an ERR packet says neither.
fn status_is_unknown(state: &SessionState, pins: &Pins, executed: &Executed<'_>) -> bool {
    // Without autocommit a statement that fails has begun a transaction all the same. A routine that fails has changed
    // the session up to there.
    if is_autocommit_off(state) || executed.statement.effects.intersects(Effects::OPAQUE) {
        return true;
    }
    let ends = Effects::IMPLICIT_COMMIT.union(Effects::ENDS_TRANSACTION).union(Effects::BEGINS_TRANSACTION);
    let may_have_ended = executed.statement.effects.intersects(ends.union(Effects::OPAQUE))
        || executed.response.error.is_some_and(|code| ROLLED_BACK.contains(&code));
    pins.has(PinReason::Transaction) && may_have_ended || executed.statement.class == Class::Multi
}

/// What SET TRANSACTION has set is used up by the end of a transaction. Only COMMIT and ROLLBACK are that for certain: a statement that
/// finds no row in a table without transactions uses nothing up, nor do `UNLOCK TABLES` and `SET autocommit = 1`.
fn end_next_transaction(pins: &mut Pins, executed: &Executed<'_>) {
    let statement = executed.statement;
    if pins.is_empty()
        || statement.effects.contains(Effects::SETS_NEXT_TRANSACTION)
        || executed.hidden.next_transaction
        || pins.has(PinReason::Transaction)
        || !executed.response.is_ok()
    {
        return;
    }
    if matches!(statement.class, Class::Commit | Class::Rollback) {
        pins.remove(PinReason::NextTransaction);
    }
}

#[cfg(test)]
mod tests;
