//! The advisory locks that a text takes and releases, and whether it surely does so.

use super::literal_text;
use crate::LexOptions;
use crate::classify::functions::{Call, find};
use crate::classify::walk;
use crate::cursor::Cursor;
use crate::event::Event;
use crate::keyword::Keyword;
use crate::lexer::{Token, TokenKind};
use crate::split::Boundary;

/// A call about advisory locks.
///
/// Names are as the text has them; servers compare them without case, and MySQL limits them to 64 characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockCall {
    /// `GET_LOCK` of this name; `None` where it is not a literal.
    Takes(Option<String>),
    /// `RELEASE_LOCK` of this name; `None` where it is not a literal.
    Releases(Option<String>),
    /// `RELEASE_ALL_LOCKS`.
    ReleasesAll,
}

/// The calls about advisory locks, in the order of the text.
pub fn advisory_locks(sql: &[u8], options: LexOptions) -> Vec<LockCall> {
    let mut calls = Vec::new();
    walk(sql, options, |event| calls.extend(LockCall::of(&event, sql, options)));
    calls
}

impl LockCall {
    pub(crate) fn of(event: &Event, sql: &[u8], options: LexOptions) -> Option<Self> {
        let text = |name| literal_text(name, sql, options);
        match *event {
            Event::TakesLock(name) => Some(Self::Takes(name.map(text))),
            Event::ReleasesLock(name) => Some(Self::Releases(name.map(text))),
            Event::ReleasesAllLocks => Some(Self::ReleasesAll),
            _ => None,
        }
    }
}

/// True if each call about advisory locks is run exactly once where the text is run: as an item of `SELECT` without rows to choose from, of
/// `DO` or of `SET`. Others may be run for each row or not at all, and servers ask for the arguments of some functions twice (`NULLIF`).
/// So it is with what stands in a body of statements (`IF 0 THEN ..`).
pub fn calls_locks_once(sql: &[u8], options: LexOptions) -> bool {
    let mut cursor = Cursor::new(sql, options);
    while !cursor.here.is(TokenKind::End) {
        if Boundary::new(&cursor).has_body() || !statement_calls_once(&mut cursor) {
            return false;
        }
        cursor.bump();
    }
    true
}

/// The same of the statement here, up to its end.
fn statement_calls_once(cursor: &mut Cursor<'_>) -> bool {
    let is_set = cursor.keyword() == Keyword::Set;
    let mut is_plain = is_set || matches!(cursor.keyword(), Keyword::Select | Keyword::Do);
    let (mut has_calls, mut is_in_call, mut depth) = (false, false, 0_usize);
    let mut item = Item::default();
    if is_plain {
        cursor.bump();
    }
    while !cursor.at_end() {
        if is_lock_call(cursor) {
            (has_calls, is_in_call) = (true, true);
            is_plain &= depth == 0 && item.is_all_behind(cursor.before, is_set);
        }
        if depth == 0 {
            item.follow(cursor.here, is_set);
        }
        match cursor.here.kind {
            TokenKind::Open => depth += 1,
            TokenKind::Close => {
                depth = depth.saturating_sub(1);
                if is_in_call && depth == 0 {
                    is_in_call = false;
                    is_plain &= ends_item(cursor);
                }
            }
            TokenKind::Word if depth == 0 => is_plain &= !is_about_rows(cursor),
            _ => {}
        }
        cursor.bump();
    }
    is_plain || !has_calls
}

fn is_lock_call(cursor: &Cursor<'_>) -> bool {
    if !cursor.here.is_name() || !cursor.ahead.is(TokenKind::Open) {
        return false;
    }
    let name = match (cursor.here.kind, cursor.text(cursor.here)) {
        (TokenKind::Quoted, [_, inner @ .., _]) => inner,
        (_, text) => text,
    };
    matches!(
        find(name, cursor.options()),
        Some(
            Call::GetLock
                | Call::ReleaseLock
                | Call::ReleaseAllLocks
                | Call::ServiceGetLocks
                | Call::ServiceReleaseLocks
        )
    )
}

/// What of an item of the list has been seen, outside of parentheses.
#[derive(Default)]
struct Item {
    tokens: usize,
    assigns: usize,
}

impl Item {
    fn follow(&mut self, token: Token, is_set: bool) {
        if token.is(TokenKind::Comma) {
            *self = Self::default();
            return;
        }
        self.tokens += 1;
        self.assigns += usize::from(assigns(token, is_set));
    }

    /// True if what follows is the whole item, or the whole value that it assigns: `0 AND @a := f()` and `@a = 0 AND 1 = f()` call nothing.
    fn is_all_behind(&self, before: Token, is_set: bool) -> bool {
        match self.assigns {
            0 => self.tokens == 0 && !is_set,
            1 => assigns(before, is_set) && (is_set || self.tokens == 2),
            _ => false,
        }
    }
}

fn assigns(token: Token, is_set: bool) -> bool {
    token.is(TokenKind::Assign) || is_set && token.is(TokenKind::Equals)
}

/// True if nothing but an alias stands between the parenthesis here and what follows the item.
fn ends_item(cursor: &Cursor<'_>) -> bool {
    let is_end = |token: Token| {
        token.ends_statement()
            || token.is(TokenKind::Comma)
            || matches!(token.keyword, Keyword::Into | Keyword::From)
    };
    let is_alias = |token: Token| token.is_name() || token.is(TokenKind::Text);
    let (first, (second, third)) = (cursor.ahead, cursor.beyond());
    is_end(first)
        || is_alias(first) && is_end(second)
        || first.keyword == Keyword::As && is_alias(second) && is_end(third)
}

/// Words that choose among rows or look at them again. `FROM DUAL` brings one row.
const ABOUT_ROWS: [&[u8]; 13] = [
    b"where",
    b"having",
    b"limit",
    b"group",
    b"order",
    b"union",
    b"except",
    b"intersect",
    b"minus",
    b"fetch",
    b"offset",
    b"window",
    b"qualify",
];

fn is_about_rows(cursor: &Cursor<'_>) -> bool {
    if cursor.keyword() == Keyword::From {
        let is_dual =
            cursor.ahead.is(TokenKind::Word) && cursor.text(cursor.ahead).eq_ignore_ascii_case(b"dual");
        return !is_dual || !cursor.beyond().0.ends_statement();
    }
    let word = cursor.text(cursor.here);
    ABOUT_ROWS.iter().any(|one| word.eq_ignore_ascii_case(one))
}
