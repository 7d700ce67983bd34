//! One text to the ranges of its statements.
//!
//! Owns: [`split`] and finding the semicolon that ends a statement. Must not know what a statement does. Whether a statement has a body
//! is told once, where it begins: who reads it otherwise asks its [`Boundary`], so that there is one answer.

use crate::LexOptions;
use crate::compound::{self, Compound};
use crate::cursor::{Cursor, Forward};
use crate::lexer::TokenKind;
use std::ops::Range;

/// The byte ranges of the statements in the text, in order.
///
/// A range begins with its first token and ends with its last one: semicolons, and comments and white space around the
/// statement, are not in it. Empty statements at the end are left out; others have an empty range.
pub fn split(sql: &[u8], options: LexOptions) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut cursor = Cursor::new(sql, options);
    let mut more = More::default();
    std::iter::from_fn(move || {
        if !more.is_there(&cursor) {
            return None;
        }
        let start = cursor.here.start;
        let mut end = start;
        let mut boundary = Boundary::new(&cursor);
        while !boundary.is_end(&cursor) {
            boundary.follow(&mut &mut cursor);
            end = cursor.before.end;
        }
        if cursor.here.is(TokenKind::Semicolon) {
            cursor.bump();
        }
        Some(start..end)
    })
}

/// Knows whether anything but semicolons is left, and looks at each of them once.
#[derive(Default)]
pub(crate) struct More {
    /// Semicolons before this offset are known to have something behind them.
    until: usize,
}

impl More {
    pub(crate) fn is_there(&mut self, cursor: &Cursor<'_>) -> bool {
        if !cursor.here.is(TokenKind::Semicolon) {
            return !cursor.here.is(TokenKind::End);
        }
        if cursor.here.start < self.until {
            return true;
        }
        let mut rest = *cursor;
        while rest.here.is(TokenKind::Semicolon) {
            rest.bump();
        }
        self.until = rest.here.start;
        !rest.here.is(TokenKind::End)
    }
}

/// Follows one statement to its end.
#[derive(Clone, Copy, Default)]
pub(crate) struct Boundary {
    compound: Compound,
    /// From this offset on its tokens are those of a body. `None`: it has none.
    body: Option<usize>,
}

impl Boundary {
    /// For the statement whose first token is here.
    #[inline]
    pub(crate) fn new(cursor: &Cursor<'_>) -> Self {
        Self { compound: Compound::default(), body: compound::body(cursor) }
    }

    pub(crate) fn has_body(&self) -> bool {
        self.body.is_some()
    }

    pub(crate) fn is_end(&self, cursor: &Cursor<'_>) -> bool {
        match cursor.here.kind {
            TokenKind::End => true,
            TokenKind::Semicolon => !self.compound.is_inside(),
            _ => false,
        }
    }

    /// Moves over the token here.
    pub(crate) fn follow<'a>(&mut self, cursor: &mut impl Forward<'a>) {
        let is_of_body = self.body.is_some_and(|from| cursor.here.start >= from);
        if is_of_body && self.compound.follow(cursor) {
            cursor.forward();
        }
        cursor.forward();
    }
}

#[cfg(test)]
mod tests;
