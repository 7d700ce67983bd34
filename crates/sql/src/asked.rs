//! What a statement asks about its own session or its server: warnings, counters, the values of system variables.
//!
//! Owns: reading the few forms of such statements that can be answered without a server. `None` stands for every other form.

mod diagnostics;
mod process_list;
mod status;
mod variables;

pub use diagnostics::{DiagnosticsShown, diagnostics_shown};
pub use process_list::shows_whole_statements;
pub use status::{shows_counters_of_session, status_named};
pub use variables::{SelectedVariable, selected_variables};

use crate::cursor::Cursor;
use crate::lexer::TokenKind;

/// True if nothing follows, but for a semicolon.
fn is_at_end(mut cursor: Cursor<'_>) -> bool {
    if cursor.here.is(TokenKind::Semicolon) {
        cursor.bump();
    }
    cursor.here.is(TokenKind::End)
}

fn is_word(cursor: &Cursor<'_>, word: &str) -> bool {
    cursor.here.is(TokenKind::Word) && cursor.text(cursor.here).eq_ignore_ascii_case(word.as_bytes())
}
