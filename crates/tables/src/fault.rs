//! Why a statement has no answer.

use rusqlite::ErrorCode;
use thiserror::Error;

use crate::bounds::{MAX_ANSWER_BYTES, MAX_ANSWER_ROWS, MAX_BYTES, MAX_VALUE_BYTES, TIME_LIMIT};
use crate::content::MAX_FILES;

/// Why a statement has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Fault {
    /// There is no such table.
    #[error("there is no table '{0}'; SHOW TABLES lists them")]
    NoTable(String),
    /// There is no such column.
    #[error("there is no column '{0}'; DESCRIBE shows those of a table")]
    NoColumn(String),
    /// It wants something else than to read.
    #[error("tables are read-only here: use SELECT")]
    Forbidden,
    /// It is no statement of SQLite.
    #[error("{0}; the tables are read in SQLite's dialect")]
    Syntax(String),
    /// It takes too long.
    #[error("the statement was ended: it ran for {} s, which is the limit", TIME_LIMIT.as_secs())]
    Time,
    /// It needs too much memory.
    #[error("the statement needs more than {} MiB of memory, which is the limit", MAX_BYTES >> 20)]
    Memory,
    /// A value is too long.
    #[error("a value of the statement is longer than {} KiB, which is the limit", MAX_VALUE_BYTES >> 10)]
    Value,
    /// Its answer is too large.
    #[error("the answer has more than {MAX_ANSWER_ROWS} rows, or {} MiB; add WHERE or LIMIT", MAX_ANSWER_BYTES >> 20)]
    Answer,
    /// It reads too many files.
    #[error(
        "the statement reads more than {MAX_FILES} files of the history, which is the limit; read fewer of its tables at once"
    )]
    Files,
    /// A file is damaged.
    #[error(
        "a file of the history is damaged: {0}; it is moved aside when it is written, or at the next start"
    )]
    Damaged(String),
    /// It has another number of parameters than were given.
    #[error("the statement has {wanted} parameters, and {given} were given")]
    Parameters {
        /// What it has.
        wanted: usize,
        /// What it got.
        given: usize,
    },
    /// SQLite says no for another reason.
    #[error("{0}")]
    Other(String),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        let (code, text) = match &error {
            rusqlite::Error::SqliteFailure(code, text) => (code.code, text.clone().unwrap_or_default()),
            rusqlite::Error::SqlInputError { error, msg, .. } => (error.code, msg.clone()),
            rusqlite::Error::MultipleStatement => return Self::Syntax("one statement at a time".to_owned()),
            _ => return Self::Other(error.to_string()),
        };
        match code {
            ErrorCode::AuthorizationForStatementDenied | ErrorCode::ReadOnly => Self::Forbidden,
            ErrorCode::OperationInterrupted => Self::Time,
            ErrorCode::OutOfMemory => Self::Memory,
            ErrorCode::TooBig => Self::Value,
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Self::Damaged(text),
            _ => Self::of_text(text),
        }
    }
}

impl Fault {
    /// SQLite has one code for everything that is wrong with a text.
    fn of_text(text: String) -> Self {
        let name = |prefix: &str| text.strip_prefix(prefix).map(str::to_owned);
        // A view's name may stand before that of the table: SQLite writes `main.x` where the statement does.
        if let Some(name) = name("no such table: ") {
            return Self::NoTable(name);
        }
        if let Some(name) = name("no such column: ") {
            return Self::NoColumn(name);
        }
        // The authorizer's word on a column, and on a function.
        if text.contains("prohibited") || text.contains("not authorized") {
            return Self::Forbidden;
        }
        Self::Syntax(text)
    }
}
