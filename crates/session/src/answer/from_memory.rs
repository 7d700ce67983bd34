//! What the session's memory tells where no connection of it knows what is asked about the statement before. What it does not
//! know either is an error.

use delphinus_pool::Memory;
use delphinus_sql::{Class, Effects, Flavor, SqlText, Statement, Uses};
use delphinus_state::Pins;

use super::Known;
use crate::client_error::ProxyError;

/// What only the last statement's connection or the session's memory can tell.
pub(crate) const ABOUT_LAST: Uses = Uses::FOUND_ROWS.union(Uses::ROW_COUNT).union(Uses::DIAGNOSTICS);

/// What can be written into a text in the place of functions; an error if it asks for what nobody knows any more.
pub(crate) fn known_from(
    memory: &Memory,
    connection_id: u32,
    statement: &Statement,
) -> Result<Known, ProxyError> {
    let found_rows = memory.found_rows();
    if found_rows.is_none() && statement.uses.contains(Uses::FOUND_ROWS) {
        return Err(ProxyError::DiagnosticsGone);
    }
    let list = memory.list_counts();
    if list.is_none() && statement.uses.contains(Uses::DIAGNOSTICS) {
        return Err(ProxyError::DiagnosticsGone);
    }
    let row_count = Some(memory.row_count.get());
    Ok(Known { connection_id, found_rows, row_count, list })
}

/// An error for a question about the statement before into which nothing can be written, where any connection may get it: in the first
/// of several statements, and in a text that EXECUTE runs.
pub(crate) fn check_can_be_told(asking: &Statement, pins: &Pins) -> Result<(), ProxyError> {
    if asking.uses.intersects(ABOUT_LAST) && pins.is_empty() {
        return Err(ProxyError::DiagnosticsGone);
    }
    Ok(())
}

/// True if any connection answers what the statement asks about the list of warnings: the memory knows `@@warning_count` and
/// `@@error_count`, which are written into the text, or the list is empty, and is made so there.
pub(crate) fn can_ask_anywhere(memory: &Memory, statement: &Statement, text: &SqlText<'_>) -> bool {
    if statement.class == Class::Diagnostics {
        let asks_more = statement.uses.contains(Uses::ROW_COUNT);
        return memory.has_no_warnings() && !asks_more;
    }
    // On MariaDB, a statement with tables has emptied the list before it counts.
    let is_of_before = text.lex.flavor == Flavor::MySql || !text.has_tables();
    let is_one = matches!(
        statement.class,
        Class::Select
            | Class::Set
            | Class::Do
            | Class::Insert
            | Class::Replace
            | Class::Update
            | Class::Delete
    );
    is_one && is_of_before && !statement.effects.intersects(Effects::OPAQUE) && memory.list_counts().is_some()
}
