//! The names in a text that a session has to remember: what the statements open, make, take, and let go of.
//!
//! Owns: collecting them, and turning a token into the name that it means. Each function reads the whole text and may
//! allocate: call it only when `classify` answered the effect that belongs to it.

mod advisory_locks;
mod bare_words;
mod builtin_calls;
mod columns;
mod dynamic;
mod handlers;
mod kill;
mod mentioned;
mod rights_changed;
mod sequences;
mod server_locks;
mod shown_variables;
mod sql_prepared;
mod tables;
mod temporary_tables;
mod unquote;
mod used_schemas;
mod user_variables;

pub use advisory_locks::{LockCall, advisory_locks, calls_locks_once};
pub use builtin_calls::{SessionFunction, Span, builtin_calls};
pub use columns::unnamed_columns;
pub use dynamic::{dynamic_expression, spells};
pub use handlers::{HandlersChange, handlers};
pub use kill::{Kill, KillScope, KillTarget, kill_target};
pub use rights_changed::{RightsChanged, rights_changed};
pub use sequences::{LastValue, Sequences, sequences};
pub use server_locks::{ServerLock, ServerLockChange, server_locks};
pub use shown_variables::may_list_variable;
pub use sql_prepared::{
    PreparedChange, PreparedFrom, SqlPrepared, immediate_from, parameters, prepared_from, sql_prepared,
};
pub use tables::tables;
pub use temporary_tables::{TableChange, TableName, temporary_tables};
pub use used_schemas::used_schemas;
pub use user_variables::user_variables_assigned;

pub(crate) use bare_words::bare_words;
pub(crate) use mentioned::{Mentioned, Word, may_be_call};
pub(crate) use tables::Objects;
pub(crate) use unquote::{literal_text, name_text, user_variable_name};

#[cfg(test)]
mod tests;
