//! Which pins a statement makes and which it ends.

use std::collections::HashSet;
use std::time::Instant;

use delphinus_sql::{
    Assignment, Class, Effects, HandlersChange, LockCall, Scope, ServerLockChange, TableChange, TableName,
    Target, calls_locks_once,
};

use super::variables::{TRACE_OFF, reads_as_0, reported};
use super::{Done, Executed, has_word};
use crate::pin::{PinReason, Pins};
use crate::tracker::{Changed, Response};
use crate::vars::{OF_SCHEMA, is_movable, is_wide, keeps_records};

/// True for a statement that has set the variables of the schema anew, as its last act. Servers do not report entering the schema
/// that the session is in.
fn enters_schema(executed: &Executed<'_>) -> bool {
    let statement = executed.statement;
    executed.response.is_ok()
        && (statement.class == Class::Use
            || statement.class != Class::Multi && reports_schema(executed.response))
}

fn reports_schema(response: &Response) -> bool {
    response.changes.iter().any(|one| matches!(one, Changed::Schema(_)))
}

/// What was done only perhaps can pin, but ends no pin.
pub(super) fn learn(pins: &mut Pins, schema: Option<&str>, executed: &Executed<'_>) {
    let effects = executed.statement.effects;
    if enters_schema(executed) {
        for name in OF_SCHEMA {
            pins.set_fixed_variable(name, false, executed.now, executed.text.sql);
        }
    }
    if effects.intersects(Effects::SETS_SYSTEM_VARS.union(Effects::SETS_FOR_STATEMENT)) {
        pin_fixed_variables(pins, executed);
    }
    let done = Done::of(executed);
    if done == Done::Nothing {
        return;
    }
    let has = |effect| effects.contains(effect);
    let may_rename = Effects::IMPLICIT_COMMIT.union(Effects::SQL_EXECUTES).union(Effects::UNKNOWN);
    if has(Effects::CREATES_TEMP_TABLE)
        || has(Effects::DROPS_TABLES)
        || effects.intersects(may_rename) && !pins.temporary_tables.is_empty()
    {
        learn_temporary_tables(pins, schema, executed, done);
    }
    if has(Effects::GETS_LOCK) || has(Effects::RELEASES_LOCK) || has(Effects::RELEASES_ALL_LOCKS) {
        learn_advisory_locks(pins, executed, done);
    }
    if has(Effects::OPENS_HANDLER) || has(Effects::CLOSES_HANDLER) {
        learn_handlers(pins, executed, done);
    }
    learn_locks(pins, executed, done);
    if has(Effects::SETS_NEXT_TRANSACTION) {
        add(pins, PinReason::NextTransaction, executed);
    }
    if has(Effects::SETS_ROLE) {
        add(pins, PinReason::Role, executed);
    }
    if has(Effects::SETS_TRACKING) {
        add(pins, PinReason::Tracking, executed);
    }
}

fn add(pins: &mut Pins, reason: PinReason, executed: &Executed<'_>) {
    pins.add(reason, executed.now, executed.text.sql);
}

fn set(pins: &mut Pins, reason: PinReason, holds: fn(&Pins) -> bool, executed: &Executed<'_>) {
    let holds = holds(pins);
    pins.set(reason, holds, executed.now, executed.text.sql);
}

fn learn_locks(pins: &mut Pins, executed: &Executed<'_>, done: Done) {
    let effects = executed.statement.effects;
    let has = |effect| effects.contains(effect);
    let mut ends = |reason, is_end| {
        if is_end && done == Done::All {
            pins.remove(reason);
        }
    };
    let unlocks = has(Effects::UNLOCKS_TABLES);
    ends(PinReason::TableLock, unlocks || has(Effects::BEGINS_TRANSACTION));
    ends(PinReason::Xa, has(Effects::XA_ENDS));
    if has(Effects::LOCKS_TABLES) {
        add(pins, PinReason::TableLock, executed);
    }
    if has(Effects::READ_LOCK) || has(Effects::RELEASES_READ_LOCK) {
        learn_server_locks(pins, executed, done);
    }
    if has(Effects::XA_STARTS) {
        add(pins, PinReason::Xa, executed);
    }
}

fn learn_server_locks(pins: &mut Pins, executed: &Executed<'_>, done: Done) {
    for change in &executed.text.names().server_locks {
        match change {
            ServerLockChange::Takes(lock) => _ = pins.server_locks.insert(*lock),
            ServerLockChange::Ends(lock) if done == Done::All => _ = pins.server_locks.remove(lock),
            ServerLockChange::Ends(_) => {}
        }
    }
    set(pins, PinReason::ReadLock, |pins| !pins.server_locks.is_empty(), executed);
}

/// True if each table without a schema was one of the schema that the session is in after the statement: it was in no other one
/// meanwhile. Servers report entering one, also where a statement runs that was prepared in another one, and leaving that.
fn has_stayed_in_schema(executed: &Executed<'_>) -> bool {
    !executed.statement.effects.contains(Effects::CHANGES_SCHEMA) && !reports_schema(executed.response)
}

/// A table of which it is not certain what it is called now is held without a name: none is seen to be dropped.
fn learn_temporary_tables(pins: &mut Pins, schema: Option<&str>, executed: &Executed<'_>, done: Done) {
    let Executed { statement, text, .. } = executed;
    let schema = schema.filter(|_| has_stayed_in_schema(executed));
    // No name has the byte between the two.
    let key = |table: &TableName| {
        table.schema.as_deref().or(schema).map(|schema| format!("{schema}\0{}", table.name))
    };
    let held = &mut pins.temporary_tables;
    for change in &text.names().temporary_tables {
        match change {
            TableChange::Creates(table) => match key(table) {
                Some(key) => held.add_once(&key),
                None => held.add_unnamed(),
            },
            TableChange::Drops(table) if done == Done::All => {
                if let Some(key) = key(table) {
                    held.end_one(&key);
                }
            }
            TableChange::Drops(_) => {}
            // Its new name may be in another schema: that of the session, where the text names none.
            TableChange::Renames if held.is_empty() => {}
            TableChange::Renames => held.add_unnamed(),
        }
    }
    let runs_text = statement.effects.intersects(Effects::SQL_EXECUTES.union(Effects::UNKNOWN));
    if runs_text && !held.is_empty() && has_word(text.sql, b"rename") {
        held.add_unnamed();
    }
    set(pins, PinReason::TemporaryTable, |pins| !pins.temporary_tables.is_empty(), executed);
}

fn learn_handlers(pins: &mut Pins, executed: &Executed<'_>, done: Done) {
    for change in &executed.text.names().handlers {
        match change {
            HandlersChange::Opens(name) => pins.handlers.add_once(name),
            HandlersChange::Closes(name) if done == Done::All => pins.handlers.end_one(name),
            HandlersChange::Closes(_) => {}
        }
    }
    set(pins, PinReason::Handler, |pins| !pins.handlers.is_empty(), executed);
}

fn learn_advisory_locks(pins: &mut Pins, executed: &Executed<'_>, done: Done) {
    let text = executed.text;
    let is_once = calls_locks_once(text.sql, text.lex);
    let is_sure = is_once && done == Done::All;
    if is_sure && has_no_row(executed) {
        return;
    }
    let held = &mut pins.advisory_locks;
    for call in &text.names().advisory_locks {
        match call {
            LockCall::Takes(Some(name)) if is_too_long(name) => {}
            LockCall::Takes(Some(name)) if is_sure => held.add(name),
            // What was perhaps taken again has to be released once only.
            LockCall::Takes(Some(name)) if is_once => held.add_once(name),
            // Servers count how often a lock was taken.
            LockCall::Takes(_) => held.add_unnamed(),
            LockCall::Releases(Some(name)) if is_sure => held.end_one(name),
            LockCall::ReleasesAll if is_sure => held.clear(),
            // One whose name is an expression may be any of them.
            LockCall::Releases(_) | LockCall::ReleasesAll => {}
        }
    }
    set(pins, PinReason::AdvisoryLock, |pins| !pins.advisory_locks.is_empty(), executed);
}

/// True for a query whose items were not asked for, as under `sql_select_limit = 0`: without rows to choose from, servers run no call then,
/// neither one that takes a lock nor one that releases it.
fn has_no_row(executed: &Executed<'_>) -> bool {
    let response = executed.response;
    executed.statement.class == Class::Select
        && response.result_sets > 0
        && response.rows == 0
        && !response.has_cursor
}

/// True for a name that no server takes: MySQL has 64 characters at most, MariaDB 192 bytes. In its character set each may have
/// four bytes, which are read as four characters here where it is not UTF-8.
fn is_too_long(name: &str) -> bool {
    const MOST_CHARACTERS: usize = 4 * 64;
    name.chars().nth(MOST_CHARACTERS).is_some()
}

/// Variables that SET TRANSACTION sets.
const NEXT_TRANSACTION: [&str; 4] =
    ["transaction_isolation", "transaction_read_only", "tx_isolation", "tx_read_only"];

/// True if the text has `@@name` without a scope.
fn has_bare(sql: &[u8], name: &str) -> bool {
    String::from_utf8_lossy(sql).to_ascii_lowercase().contains(&format!("@@{name}"))
}

/// True for values that end the effect of a variable that cannot move.
fn sets_back(name: &str, value: &[u8]) -> bool {
    let value = value.trim_ascii();
    let inner = value.strip_prefix(b"(").and_then(|value| value.strip_suffix(b")"));
    let value = inner.unwrap_or(value).trim_ascii();
    let global = format!("@@global.{name}");
    if value.get(1..).is_some_and(|text| text.starts_with(TRACE_OFF)) {
        return true;
    }
    [&b"'AUTOMATIC'"[..], b"AUTOMATIC", b"DEFAULT", b"0", b"OFF", b"FALSE", global.as_bytes()]
        .iter()
        .any(|word| value.eq_ignore_ascii_case(word))
}

/// Variables that cannot move pin even where the server does not report them.
fn pin_fixed_variables(pins: &mut Pins, executed: &Executed<'_>) {
    let found = &executed.text.names().assignments;
    if Done::of_assignments(executed, found) == Done::Nothing {
        return;
    }
    let (reported, mut looked_for) = (reported(executed.response), HashSet::new());
    for assignment in found {
        let name = match &assignment.target {
            Target::System { scope: Scope::Session, name } => name,
            Target::Statement(name) if keeps_records(name) => {
                pins.set_fixed_variable(name, true, executed.now, executed.text.sql);
                continue;
            }
            _ => continue,
        };
        // Without a word for the scope, `@@` is about the next transaction only, as in SET TRANSACTION.
        if NEXT_TRANSACTION.contains(&name.as_str())
            && looked_for.insert(name)
            && has_bare(executed.text.sql, name)
        {
            add(pins, PinReason::NextTransaction, executed);
        }
        let fixes = fixes(assignment);
        // What has failed ends no pin.
        let is_known = fixes || executed.response.is_ok();
        if is_known && !is_movable(name) && (!reported.contains(name.as_str()) || reads_as_0(name)) {
            pins.set_fixed_variable(name, fixes, executed.now, executed.text.sql);
        }
    }
}

/// True for an assignment that holds a session to its connection: to a variable that cannot move, and not back to what it is
/// to a new session; results in a character set that the proxy cannot read.
pub fn fixes(assignment: &Assignment) -> bool {
    let Target::System { scope: Scope::Session, name } = &assignment.target else { return false };
    if name == "character_set_results" {
        let quotes = |byte: &u8| matches!(byte, b'\'' | b'"' | b'`');
        let bare: Vec<u8> = assignment.value.iter().copied().filter(|byte| !quotes(byte)).collect();
        return is_wide(&bare);
    }
    // 0 is a value too for `insert_id`: the next INSERT would take it.
    !is_movable(name) && (name == "insert_id" || !sets_back(name, &assignment.value))
}

impl Pins {
    /// Remembers that a variable that cannot move was set, or set back.
    pub(super) fn set_fixed_variable(&mut self, name: &str, is_set: bool, since: Instant, statement: &[u8]) {
        if is_set {
            self.fixed_variables.insert(name.to_owned());
        } else if !keeps_records(name) {
            self.fixed_variables.remove(name);
        }
        let holds = !self.fixed_variables.is_empty();
        self.set(PinReason::FixedVariable, holds, since, statement);
    }
}
