//! SQL text to facts by a zero-copy lexer: classification and digests.
//!
//! Owns: reading the text of statements. Must not know sessions, backends or rules; it does no I/O and keeps no state.
//! Everything here is a function of the text and of [`LexOptions`].

mod asked;
mod assignments;
mod bit_set;
mod classify;
mod compound;
mod cursor;
mod digest;
mod effects;
mod event;
mod hints;
mod keyword;
mod left;
mod lexer;
mod mentions;
mod names;
mod options;
mod reach;
mod risks;
mod split;
mod statement;
mod stored;
mod text;
mod transactions;
mod uses;
mod word_table;
mod work;

pub use asked::{
    DiagnosticsShown, SelectedVariable, diagnostics_shown, selected_variables, shows_counters_of_session,
    shows_whole_statements, status_named,
};
pub use assignments::{Assignment, Scope, Target, TransactionScope, assignments};
pub use classify::explain::explained_route;
pub use classify::{classify, classify_and_digest, classify_and_sketch};
pub use digest::{Digest, Sketch, digest};
pub use effects::Effects;
pub use hints::{CacheWish, Consistency, Hints, Wanted, hints};
pub use left::{keeps_warnings, shows_tables};
pub use mentions::{may_ask_for_schema, may_run_explained, may_show, may_store_result, rows_are_of_queries};
pub use names::{
    HandlersChange, Kill, KillScope, KillTarget, LastValue, LockCall, PreparedChange, PreparedFrom,
    RightsChanged, Sequences, ServerLock, ServerLockChange, SessionFunction, Span, SqlPrepared, TableChange,
    TableName, advisory_locks, builtin_calls, calls_locks_once, dynamic_expression, handlers, immediate_from,
    kill_target, may_list_variable, parameters, prepared_from, rights_changed, sequences, server_locks,
    spells, sql_prepared, tables, temporary_tables, unnamed_columns, used_schemas, user_variables_assigned,
};
pub use options::{Backslash, Flavor, LexOptions, Quotes, TextCharset};
pub use reach::{Kind as TableKind, Reach, ReachBuilder, TableKey, Touched, Written, is_of_server};
pub use risks::Risks;
pub use split::split;
pub use statement::{Access, Class, Statement, Why};
pub use stored::{Body, Catalog, CatalogBuilder, Changes, CodeChange, Hidden, Runs, Stored};
pub use text::{Names, SqlText, mentions, most_parameters};
pub use transactions::{lets_transactions_write, looks_at_data, may_lock_rows, may_lock_to_share};
pub use uses::Uses;
pub use work::bytes_read;
