//! The normalised text of a statement and its hash.
//!
//! Owns: what statements have in common that differ only in literals, comments, white space, the case of keywords, and
//! the length of lists. Must not know what a statement means. It is for statistics, rules and people: texts with the same
//! digest may name different tables where the server tells names apart by case.

mod groups;
mod sketch;
mod words;

use crate::LexOptions;
use crate::classify::classify_and_digest;
use crate::classify::functions::{self, Call};
use crate::cursor::{Cursor, Watch};
use crate::keyword::Keyword;
use crate::lexer::{TokenKind, is_word_byte};
use groups::Groups;
pub use sketch::Sketch;
pub(crate) use sketch::Sketcher;
use xxhash_rust::xxh3::xxh3_64;

/// The hash of a normalised text (XXH3, 64 bits, seed 0): the same on every machine and in every version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub u64);

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Appends the normalised text to `out` and returns its hash.
///
/// Literals become `?`, two or more in a list `?, ...`; equal rows after the first become `...`. Comments are left out,
/// keywords are in capitals, and names that need no quotes have none. Where a server may read the end of a text in another way, behind
/// `SET sql_mode` or `SET NAMES`, that is one `?`: literals may look like names there.
pub fn digest(sql: &[u8], options: LexOptions, out: &mut Vec<u8>) -> Digest {
    // The classifier knows of several statements which ones change how the others are read.
    if memchr::memchr(b';', sql).is_some_and(|at| at + 1 < sql.len()) {
        return classify_and_digest(sql, options, out).1;
    }
    let mut writer = Writer::new(out);
    let mut cursor = Cursor::new(sql, options);
    while !cursor.here.is(TokenKind::End) {
        writer.step(&cursor);
        cursor.bump();
    }
    writer.finish()
}

/// How many literals in a row have been written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Run {
    None,
    One,
    Many,
}

/// What the last thing written allows next to it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Glue {
    /// No space follows.
    Tight,
    /// A space follows; what was written ends an operand, so that a sign after it is an operator.
    Operand,
    /// The same, and an opening parenthesis follows without a space.
    Callable,
    /// A space follows.
    Loose,
}

/// Whether tokens are written that come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    Written,
    LeftOut,
}

/// Writes the normalised text, token by token.
pub(crate) struct Writer<'o> {
    out: &'o mut Vec<u8>,
    /// Where the text begins in it.
    start: usize,
    groups: Groups,
    run: Run,
    /// A comma after a literal waits: what follows may be one more literal.
    comma: bool,
    /// A semicolon waits: nothing may follow.
    semicolon: bool,
    glue: Glue,
    rest: Rest,
}

impl Watch for &mut Writer<'_> {
    fn leaves(&mut self, cursor: &Cursor<'_>) {
        if self.rest == Rest::Written {
            self.step(cursor);
        }
    }

    fn stops(&mut self) {
        self.before_token();
        self.space();
        self.out.push(b'?');
        self.rest = Rest::LeftOut;
    }
}

impl<'o> Writer<'o> {
    pub(crate) fn new(out: &'o mut Vec<u8>) -> Self {
        let start = out.len();
        Self {
            out,
            start,
            groups: Groups::new(start),
            run: Run::None,
            comma: false,
            semicolon: false,
            glue: Glue::Tight,
            rest: Rest::Written,
        }
    }

    /// Semicolons at the end change nothing, and a comma before them is no part of a list: whether they were seen does not matter.
    pub(crate) fn finish(mut self) -> Digest {
        self.end_run();
        Digest(xxh3_64(&self.out[self.start..]))
    }

    fn step(&mut self, cursor: &Cursor<'_>) {
        let here = cursor.here;
        match here.kind {
            TokenKind::Text | TokenKind::Number | TokenKind::Parameter | TokenKind::Error => {
                self.literal(cursor);
            }
            TokenKind::Word if Self::is_literal_word(cursor) => self.literal(cursor),
            // The string or number behind it is the literal.
            TokenKind::Word if Self::is_introducer(cursor) => {}
            TokenKind::Word => self.word(cursor),
            TokenKind::Comma if self.run != Run::None => self.comma = true,
            TokenKind::Semicolon => {
                self.end_run();
                self.semicolon = true;
            }
            TokenKind::Open => self.open(),
            TokenKind::Close => self.close(),
            TokenKind::Operator if self.is_sign(cursor) => {}
            _ => self.plain(cursor),
        }
    }

    fn literal(&mut self, cursor: &Cursor<'_>) {
        // Strings side by side are one string.
        if cursor.here.is(TokenKind::Text) && cursor.before.is(TokenKind::Text) && !self.comma {
            return;
        }
        if std::mem::take(&mut self.comma) {
            if self.run == Run::One {
                self.out.extend_from_slice(b", ...");
                self.run = Run::Many;
            }
            return;
        }
        self.before_token();
        self.space();
        self.out.push(b'?');
        self.run = Run::One;
        self.glue = Glue::Operand;
    }

    /// `NULL`, `TRUE` and `FALSE` where only a value can stand.
    fn is_literal_word(cursor: &Cursor<'_>) -> bool {
        let is_alone = matches!(cursor.before.kind, TokenKind::Open | TokenKind::Comma)
            && matches!(cursor.ahead.kind, TokenKind::Close | TokenKind::Comma);
        is_alone
            && (cursor.here.keyword == Keyword::Null || {
                let text = cursor.text(cursor.here);
                text.eq_ignore_ascii_case(b"true") || text.eq_ignore_ascii_case(b"false")
            })
    }

    /// `_utf8mb4'x'`, `_binary x'00'`
    fn is_introducer(cursor: &Cursor<'_>) -> bool {
        matches!(cursor.ahead.kind, TokenKind::Text | TokenKind::Number)
            && cursor.text(cursor.here).first() == Some(&b'_')
    }

    /// A sign before a number that is not an operator between two operands.
    fn is_sign(&self, cursor: &Cursor<'_>) -> bool {
        cursor.ahead.is(TokenKind::Number)
            && matches!(cursor.text(cursor.here), b"-" | b"+")
            && (self.comma || !matches!(self.glue, Glue::Operand | Glue::Callable))
    }

    fn word(&mut self, cursor: &Cursor<'_>) {
        let text = cursor.text(cursor.here);
        let is_keyword = words::is_keyword(text);
        let is_call = cursor.ahead.is(TokenKind::Open)
            && cursor.here.keyword != Keyword::Values
            && functions::find(text, cursor.options()).is_some_and(|call| call != Call::Syntax);
        self.before_token();
        self.space();
        if is_keyword || is_call {
            self.out.extend(text.iter().map(u8::to_ascii_uppercase));
        } else {
            self.out.extend_from_slice(text);
        }
        self.glue = if is_call || !is_keyword { Glue::Callable } else { Glue::Loose };
    }

    fn open(&mut self) {
        self.before_token();
        if self.glue != Glue::Callable {
            self.space();
        }
        self.groups.open(self.out.len());
        self.out.push(b'(');
        self.glue = Glue::Tight;
    }

    fn close(&mut self) {
        self.end_run();
        self.out.push(b')');
        self.groups.close(self.out);
        self.glue = Glue::Operand;
    }

    fn plain(&mut self, cursor: &Cursor<'_>) {
        self.before_token();
        match cursor.here.kind {
            TokenKind::Dot => {
                self.out.push(b'.');
                self.glue = Glue::Tight;
            }
            TokenKind::Comma => {
                self.out.push(b',');
                self.glue = Glue::Loose;
            }
            TokenKind::Quoted => self.quoted(cursor),
            TokenKind::SystemVariable => {
                self.space();
                self.out.extend_from_slice(b"@@");
                self.glue = Glue::Tight;
            }
            TokenKind::Operator | TokenKind::Equals => {
                if !Self::continues_operator(cursor) {
                    self.space();
                }
                self.out.extend_from_slice(cursor.text(cursor.here));
                self.glue = Glue::Loose;
            }
            _ => {
                // `user@host` stays together.
                let is_host = cursor.here.is(TokenKind::UserVariable)
                    && cursor.before.end == cursor.here.start
                    && matches!(self.glue, Glue::Operand | Glue::Callable);
                if !is_host {
                    self.space();
                }
                self.out.extend_from_slice(cursor.text(cursor.here));
                self.glue = match cursor.here.kind {
                    TokenKind::Name => Glue::Callable,
                    TokenKind::Assign => Glue::Loose,
                    _ => Glue::Operand,
                };
            }
        }
    }

    /// A quoted name: bare where it means the same, else in backticks.
    fn quoted(&mut self, cursor: &Cursor<'_>) {
        let text = cursor.text(cursor.here);
        let inner = &text[1..text.len() - 1];
        let is_plain = inner.first().is_some_and(|byte| !byte.is_ascii_digit())
            && inner.iter().all(|byte| is_word_byte(*byte))
            && !words::is_keyword(inner)
            && !cursor.ahead.is(TokenKind::Open);
        self.space();
        if is_plain {
            self.out.extend_from_slice(inner);
        } else {
            self.out.push(b'`');
            self.out.extend_from_slice(inner);
            self.out.push(b'`');
        }
        self.glue = Glue::Callable;
    }

    /// The second or third byte of `<=`, `<>`, `!=`, `<=>`, `||`, `&&`, `<<`, `>>`, `->`, `->>`.
    fn continues_operator(cursor: &Cursor<'_>) -> bool {
        let before = cursor.before;
        if before.end != cursor.here.start || !matches!(before.kind, TokenKind::Operator | TokenKind::Equals)
        {
            return false;
        }
        let pair = (cursor.text(before)[0], cursor.text(cursor.here)[0]);
        matches!(
            pair,
            (b'<' | b'>' | b'!', b'=')
                | (b'<', b'>' | b'<')
                | (b'=' | b'-' | b'>', b'>')
                | (b'|', b'|')
                | (b'&', b'&')
        )
    }

    /// Writes what has waited to see what follows.
    fn before_token(&mut self) {
        self.end_run();
        if std::mem::take(&mut self.semicolon) {
            self.out.push(b';');
            self.glue = Glue::Loose;
        }
    }

    fn end_run(&mut self) {
        self.run = Run::None;
        if std::mem::take(&mut self.comma) {
            self.out.push(b',');
            self.glue = Glue::Loose;
        }
    }

    fn space(&mut self) {
        if self.glue != Glue::Tight {
            self.out.push(b' ');
        }
    }
}

#[cfg(test)]
mod tests;
