//! What a statement may do, and how much. An operator's mistake, or a hostile one, must cost the proxy no more than this.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;

use crate::content::is_attached;
use crate::query::Reads;
use crate::table::Catalog;
use crate::timed;

/// How long a statement may run.
pub const TIME_LIMIT: Duration = Duration::from_secs(3);
/// What SQLite may take, in all: it counts for the whole process.
pub const MAX_BYTES: usize = 64 << 20;
/// The longest value. SQLite interrupts no function: this keeps those short that are not in `timed`.
pub const MAX_VALUE_BYTES: usize = 256 << 10;
/// The longest pattern of LIKE and GLOB.
pub(crate) const MAX_PATTERN_BYTES: usize = 256;
/// The rows of an answer.
pub const MAX_ANSWER_ROWS: usize = 100_000;
/// The bytes of an answer.
pub const MAX_ANSWER_BYTES: usize = 32 << 20;

/// After so many operations SQLite asks whether time is up.
const OPERATIONS: i32 = 1000;

/// Functions of SQLite that do more than compute, and those that nobody needs here and that compute for too long on long values.
const FORBIDDEN: [&str; 7] =
    ["load_extension", "fts3_tokenizer", "sqlite_log", "sqlite_dbpage", "unhex", "json_patch", "jsonb_patch"];

/// An empty database with SQLite's own limits.
pub(crate) fn database() -> rusqlite::Result<Connection> {
    let database = Connection::open_in_memory()?;
    database.pragma_update_and_check(None, "hard_heap_limit", MAX_BYTES.to_string(), |_| Ok(()))?;
    // What is sorted stays in memory, too, and so within that limit.
    database.pragma_update(None, "temp_store", "MEMORY")?;
    let longest = i32::try_from(MAX_VALUE_BYTES).unwrap_or(i32::MAX);
    for (limit, value) in [
        (Limit::SQLITE_LIMIT_LENGTH, longest),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, longest),
        (Limit::SQLITE_LIMIT_COLUMN, 500),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 100),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 50),
        (Limit::SQLITE_LIMIT_VDBE_OP, 250_000),
        (Limit::SQLITE_LIMIT_VARIABLE_NUMBER, 1000),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        database.set_limit(limit, value)?;
    }
    Ok(database)
}

/// From now on only these tables are read, and nothing else is done. What is read is noted.
pub(crate) fn only_reads(database: &mut Connection, catalog: &Catalog) -> rusqlite::Result<Noted> {
    let known: BTreeSet<&'static str> = catalog.iter().map(|table| table.name).collect();
    let noted = Noted::default();
    let notes = noted.clone();
    database.authorizer(Some(move |context: AuthContext<'_>| match context.action {
        AuthAction::Select | AuthAction::Recursive => Authorization::Allow,
        // What such a table is over; a statement cannot name it, because it was not there when it was planned.
        AuthAction::Read { .. } if is_attached(context.database_name) => Authorization::Allow,
        AuthAction::Read { table_name, column_name } if known.contains(table_name) => {
            notes.note(table_name, column_name);
            Authorization::Allow
        }
        // Without a column it may be the name of a WITH, whose own reads are asked for one by one. SQLite's own tables have names
        // that begin so; those that are pragmas are refused once more where they run.
        AuthAction::Read { table_name, column_name: "" } if !is_own(table_name) => Authorization::Allow,
        AuthAction::Function { function_name }
            if !FORBIDDEN.iter().any(|name| function_name.eq_ignore_ascii_case(name)) =>
        {
            Authorization::Allow
        }
        _ => Authorization::Deny,
    }))?;
    Ok(noted)
}

fn is_own(table: &str) -> bool {
    ["sqlite_", "pragma_", "json", "dbstat", "fts", "rtree"]
        .iter()
        .any(|prefix| table.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix)))
}

/// Everything may be done: for what is not an operator's text.
pub(crate) fn everything(database: &mut Connection) -> rusqlite::Result<()> {
    database.authorizer(None::<fn(AuthContext<'_>) -> Authorization>)
}

/// Ends what runs when its time is up.
pub(crate) fn within(database: &mut Connection, limit: Duration) -> rusqlite::Result<()> {
    let end = Instant::now() + limit;
    timed::register(database, end)?;
    database.progress_handler(OPERATIONS, Some(move || Instant::now() > end))
}

/// What the authorizer has seen.
#[derive(Clone, Default)]
pub(crate) struct Noted(Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>);

impl Noted {
    fn note(&self, table: &str, column: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(table.to_owned()).or_default().insert(column.to_owned());
    }

    /// What is read, view or table.
    pub(crate) fn reads(&self) -> Reads {
        Reads(self.0.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}
