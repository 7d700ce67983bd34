//! Texts whose end a server reads in another way than their beginning: a statement in them changes `sql_mode` or the character set of
//! the client, and what follows may have other strings and other names.
//!
//! Owns: telling such texts. Must not know what becomes of them.

use super::Effects;

/// What the statements so far change of how the rest is read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rereading {
    /// `sql_mode`: what a backslash and a double quote are.
    mode: Change,
    /// `character_set_client`: which bytes above 0x7f belong together, and to the byte behind them.
    charset: Change,
}

/// Whether something has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Change {
    #[default]
    None,
    /// The rest was not looked at since.
    New,
    /// The rest does not depend on it.
    Harmless,
}

/// Statements that run what is in another text, which may set variables.
const RUNS_OTHERS: Effects = Effects::SQL_EXECUTES.union(Effects::UNKNOWN);

impl Rereading {
    /// A session variable is assigned.
    pub(super) fn note_variable(&mut self, name: &[u8]) {
        if name.eq_ignore_ascii_case(b"sql_mode") {
            self.mode.note();
        } else if name.eq_ignore_ascii_case(b"character_set_client") {
            self.note_charset();
        }
    }

    /// `SET NAMES`, `SET CHARACTER SET`.
    pub(super) fn note_charset(&mut self) {
        self.charset.note();
    }

    /// A statement with these effects has been read.
    pub(super) fn note_statement(&mut self, effects: Effects) {
        if effects.intersects(RUNS_OTHERS) {
            self.mode.note();
            self.charset.note();
        }
    }

    /// True if a server may read `rest` in another way. It is looked at once for each kind of change: later it is only shorter.
    pub(super) fn concerns(&mut self, rest: &[u8]) -> bool {
        let (mode, charset) = (self.mode.take(), self.charset.take());
        let is_concerned = |byte: &u8| (mode && matches!(byte, b'\\' | b'"')) || (charset && *byte >= 0x80);
        (mode || charset) && rest.iter().any(is_concerned)
    }
}

impl Change {
    fn note(&mut self) {
        if *self == Self::None {
            *self = Self::New;
        }
    }

    fn take(&mut self) -> bool {
        let is_new = *self == Self::New;
        if is_new {
            *self = Self::Harmless;
        }
        is_new
    }
}
