//! The places where a text asks for a value that belongs to its session.

use crate::LexOptions;
use crate::classify::walk;
use crate::event::Event;

/// A call without arguments of a function about the session, or a variable that tells the same kind of thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Offset of its first byte.
    pub start: usize,
    /// Offset after its last byte.
    pub end: usize,
    /// Which function.
    pub function: SessionFunction,
}

/// A function whose value belongs to the session and which a proxy can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionFunction {
    /// `LAST_INSERT_ID()`
    LastInsertId,
    /// `FOUND_ROWS()`
    FoundRows,
    /// `ROW_COUNT()`
    RowCount,
    /// `CONNECTION_ID()`
    ConnectionId,
    /// `@@warning_count`
    WarningCount,
    /// `@@error_count`
    ErrorCount,
}

/// The places where the text calls one of [`SessionFunction`] without arguments, in the order of the text, so that a
/// literal can take its place. A column without an alias is named after its text: splice the alias in too.
pub fn builtin_calls(sql: &[u8], options: LexOptions) -> Vec<Span> {
    let mut spans = Vec::new();
    walk(sql, options, |event| spans.extend(Span::of(&event)));
    spans
}

impl Span {
    pub(crate) fn of(event: &Event) -> Option<Self> {
        let Event::SessionCall { start, end, function } = *event else { return None };
        Some(Self { start, end, function })
    }
}
