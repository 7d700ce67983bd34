//! One body: what it does itself, and the words by which it may run other code.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::Hidden;
use crate::LexOptions;
use crate::lexer::{Lexer, Token, TokenKind};
use crate::names::{name_text, user_variable_name};

/// Statements whose effect is not in the text that has them, or that hold what no server reports (`FLUSH TABLES WITH READ LOCK`, `LOCK
/// INSTANCE FOR BACKUP`). `LOCK TABLES`, `HANDLER` and `USE` are not allowed in routines.
const UNKNOWN: [&[u8]; 5] = [b"prepare", b"immediate", b"flush", b"backup", b"xa"];

/// The locks of the locking service, whose names are arguments.
const SERVICE_LOCKS: [&[u8]; 2] = [b"service_get_read_locks", b"service_get_write_locks"];

/// A body as far as it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// What it does by itself.
    pub(super) own: Hidden,
    /// Every word in it that may be a name, as numbers: two words with the same one only make it do more.
    pub(super) words: Vec<u64>,
}

impl Body {
    /// Reads the text of a body, as it is read by the server.
    pub fn read(text: &[u8], options: LexOptions) -> Self {
        let (mut own, mut words) = (Hidden::default(), BTreeSet::new());
        let mut lexer = Lexer::new(text, options);
        let mut before: &[u8] = b"";
        loop {
            let token = lexer.next_token();
            match token.kind {
                TokenKind::End => break,
                TokenKind::Error => own.is_unknown = true,
                // Each one may be assigned: by SET, `:=`, INTO, as an argument, by GET DIAGNOSTICS.
                TokenKind::UserVariable => {
                    own.variables.insert(user_variable_name(token, text, options).into());
                }
                _ if token.is_name() => {
                    note_word(&mut own, &text[token.start..token.end], before);
                    words.insert(number(&word(token, text, options)));
                }
                _ => {}
            }
            before = &text[token.start..token.end];
        }
        own.is_unknown |= lexer.is_doubtful();
        Self { own, words: words.into_iter().collect() }
    }

    /// One that nobody may read.
    pub fn unreadable() -> Self {
        Self { own: Hidden::unknown(), words: Vec::new() }
    }
}

fn note_word(own: &mut Hidden, word: &[u8], before: &[u8]) {
    let is_one_of = |words: &[&[u8]]| words.iter().any(|one| word.eq_ignore_ascii_case(one));
    let is_set = before.eq_ignore_ascii_case(b"set");
    own.locks |= is_one_of(&[b"get_lock"]);
    own.executes |= is_one_of(&[b"execute"]);
    own.next_transaction |= is_set && is_one_of(&[b"transaction"]);
    own.is_unknown |= is_one_of(&UNKNOWN) || is_one_of(&SERVICE_LOCKS) || is_set && is_one_of(&[b"role"]);
}

/// The name that a token may stand for. Servers compare names of routines, and many of tables, without regard to case.
pub(super) fn word(token: Token, text: &[u8], options: LexOptions) -> String {
    name_text(token, text, options).to_lowercase()
}

/// The number of a word in lower case.
pub(super) fn number(word: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    word.hash(&mut hasher);
    hasher.finish()
}
