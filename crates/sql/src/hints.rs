//! What a client asks of the proxy beside the statement: in a comment, a query attribute, or a setting of its session.
//!
//! Owns: the words, and where in a text they may stand. Must not know what the proxy can do, or does, about them. The
//! forms are `/*#mode=READONLY*/`, `/*master*/`, `/*qc=on*/`, `/* cache_ttl=500 */` and `/*+ delphinus(replica, timeout_ms=500) */`.

mod item;

use crate::LexOptions;
use crate::lexer::{Lexer, TokenKind};

/// The name by which the proxy is spoken to.
pub(crate) const PROXY: &[u8] = b"delphinus";

/// What a client asks of the proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// Where the statement shall run.
    pub wanted: Option<Wanted>,
    /// How old what it reads may be.
    pub consistency: Option<Consistency>,
    /// Whether its result may come from a cache.
    pub cache: Option<CacheWish>,
    /// How long it may run, in milliseconds; 0 is for ever.
    pub timeout_ms: Option<u64>,
    /// Transactions that the session has to find from now on, as another session was told them.
    pub causality_token: Option<Box<str>>,
    /// What was asked for and is not known, each as it was written.
    pub unknown: Vec<String>,
}

/// Where a statement shall run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// On the primary.
    Primary,
    /// On a replica.
    Replica,
    /// Where the proxy thinks best: takes back what the session has set.
    Auto,
    /// On the backend with this name.
    Backend(Box<str>),
}

/// How old what a statement reads may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Consistency {
    /// As old as the replica is.
    Eventual,
    /// Not older than what the session itself has written and read.
    Session,
    /// Not older than anything committed before.
    Global,
}

/// Whether a result may come from a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheWish {
    /// Kept for so long, in milliseconds: 49 days at most.
    TtlMs(u32),
    /// No.
    Never,
}

impl CacheWish {
    /// Kept for so many milliseconds, or as many as can be said.
    pub fn of_ms(ms: u64) -> Self {
        Self::TtlMs(u32::try_from(ms).unwrap_or(u32::MAX))
    }
}

impl Hints {
    /// True if nothing is asked for.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What `self` asks for, and where it does not, what `weaker` does.
    #[must_use]
    pub fn or(mut self, weaker: &Self) -> Self {
        self.wanted = self.wanted.or_else(|| weaker.wanted.clone());
        self.consistency = self.consistency.or(weaker.consistency);
        self.cache = self.cache.or(weaker.cache);
        self.timeout_ms = self.timeout_ms.or(weaker.timeout_ms);
        self.causality_token = self.causality_token.or_else(|| weaker.causality_token.clone());
        self.unknown.extend_from_slice(&weaker.unknown);
        self
    }
}

/// Whether a comment with this inside is worth a look.
pub(crate) fn is_like_hint(comment: &[u8]) -> bool {
    match comment.trim_ascii_start().first() {
        Some(b'#') => comment.first() == Some(&b'#'),
        // In front of these: is it one?
        Some(b'm' | b'M' | b's' | b'S') if item::of_word(comment).is_some() => true,
        Some(b'q') if item::of_mysqlnd(comment, None).is_some() => true,
        Some(_) => item::of_annotation(comment).is_some(),
        None => false,
    }
}

/// Whether hints in `/*+ .. */` are for the proxy.
pub(crate) fn names_proxy(hints: &[u8]) -> bool {
    item::after_name(hints).is_some()
}

/// What the comments before the first keyword of a text, and right behind it, ask for. Look only where `classify` has
/// found `Uses::HINTS`: it reads comments again.
pub fn hints(sql: &[u8], options: LexOptions) -> Hints {
    let mut found = Hints::default();
    let mut lexer = Lexer::new(sql, options);
    let mut end = 0;
    loop {
        let token = lexer.next_token();
        read_gap(&sql[end..token.start], &mut found);
        end = token.end;
        match token.kind {
            TokenKind::Open | TokenKind::Semicolon => {}
            TokenKind::Word => break,
            // There is no statement that it could be for.
            TokenKind::End => return Hints::default(),
            _ => return found,
        }
    }
    read_gap(&sql[end..lexer.next_token().start], &mut found);
    found
}

/// Reads what lies between two tokens: white space and comments.
fn read_gap(mut gap: &[u8], found: &mut Hints) {
    while let Some(&byte) = gap.first() {
        let len = match byte {
            b'#' | b'-' => memchr::memchr(b'\n', gap).unwrap_or(gap.len()),
            b'/' => {
                let Some(close) = gap.get(2..).and_then(|rest| memchr::memmem::find(rest, b"*/")) else {
                    return;
                };
                item::read_comment(&gap[2..2 + close], found);
                close + 4
            }
            _ => 1,
        };
        gap = &gap[len.max(1)..];
    }
}

#[cfg(test)]
mod tests;
