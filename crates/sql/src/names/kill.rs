//! What a `KILL` is aimed at.

use super::{literal_text, name_text, user_variable_name};
use crate::cursor::Cursor;
use crate::keyword::Keyword;
use crate::lexer::{Token, TokenKind};
use crate::{Flavor, LexOptions};

/// A `KILL`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kill {
    /// Whom it is aimed at.
    pub target: KillTarget,
    /// How much of it ends.
    pub scope: KillScope,
}

/// Whom a `KILL` is aimed at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KillTarget {
    /// This connection, by its number as the client wrote it.
    Connection(u64),
    /// The one that says so: `CONNECTION_ID()`, `@@pseudo_thread_id`.
    Own,
    /// The value of the only parameter.
    Parameter,
    /// The value of this user variable.
    Variable(String),
    /// MariaDB's `KILL USER`: all connections of a user, and of this host, if one is named.
    User(String, Option<String>),
    /// MariaDB's `KILL USER CURRENT_USER`.
    OwnUser,
    /// MariaDB's `KILL QUERY ID`: the number is the server's own.
    QueryId,
}

/// How much a `KILL` ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillScope {
    /// The running statement.
    Query,
    /// The connection.
    Connection,
}

/// The target of a text that is one `KILL`; `None` for every other form (an expression, several statements).
pub fn kill_target(sql: &[u8], options: LexOptions) -> Option<Kill> {
    let mut cursor = Cursor::new(sql, options);
    let in_block = options.flavor == Flavor::MariaDb && cursor.keyword() == Keyword::Begin;
    if in_block {
        cursor.bump();
        let is_compound = cursor.eat(Keyword::Not) && is(&cursor, b"atomic");
        is_compound.then(|| cursor.bump())?;
    }
    if !cursor.eat(Keyword::Kill) {
        return None;
    }
    cursor.eat_any(&[Keyword::Hard, Keyword::Soft]);
    let only_query = cursor.eat(Keyword::Query);
    if !only_query {
        cursor.eat(Keyword::Connection);
    }
    let scope = if only_query { KillScope::Query } else { KillScope::Connection };
    let is_mariadb = options.flavor == Flavor::MariaDb;
    let target = if is_mariadb && cursor.eat(Keyword::User) {
        user(&mut cursor, sql)?
    } else if is_mariadb && only_query && cursor.here.is_name() && is(&cursor, b"id") {
        cursor.bump();
        cursor.bump();
        KillTarget::QueryId
    } else {
        connection(&mut cursor, sql)?
    };
    if in_block {
        let is_whole = cursor.bump().is(TokenKind::Semicolon) && cursor.eat(Keyword::End);
        is_whole.then_some(())?;
    }
    if cursor.here.is(TokenKind::Semicolon) {
        cursor.bump();
    }
    cursor.here.is(TokenKind::End).then_some(Kill { target, scope })
}

fn is(cursor: &Cursor<'_>, word: &[u8]) -> bool {
    cursor.text(cursor.here).eq_ignore_ascii_case(word)
}

/// A number, what has one as its value, or an expression that is nothing but the own one.
fn connection(cursor: &mut Cursor<'_>, sql: &[u8]) -> Option<KillTarget> {
    let here = cursor.bump();
    match here.kind {
        TokenKind::Number => {
            let digits = std::str::from_utf8(cursor.text(here)).ok()?;
            Some(KillTarget::Connection(digits.parse().ok()?))
        }
        TokenKind::Parameter => Some(KillTarget::Parameter),
        TokenKind::UserVariable => {
            Some(KillTarget::Variable(user_variable_name(here, sql, cursor.options())))
        }
        TokenKind::SystemVariable => {
            if is(cursor, b"session") || is(cursor, b"local") {
                cursor.bump();
                cursor.bump().is(TokenKind::Dot).then_some(())?;
            }
            let is_own = is(cursor, b"pseudo_thread_id");
            cursor.bump();
            is_own.then_some(KillTarget::Own)
        }
        _ if cursor.text(here).eq_ignore_ascii_case(b"connection_id") => {
            let is_call = cursor.bump().is(TokenKind::Open) && cursor.bump().is(TokenKind::Close);
            is_call.then_some(KillTarget::Own)
        }
        _ => None,
    }
}

/// `name`, `name@host`, `CURRENT_USER`.
fn user(cursor: &mut Cursor<'_>, sql: &[u8]) -> Option<KillTarget> {
    let options = cursor.options();
    let text = |token: Token| match token.kind {
        TokenKind::Text => Some(literal_text(token, sql, options)),
        _ if token.is_name() => Some(name_text(token, sql, options)),
        _ => None,
    };
    if is(cursor, b"current_user") {
        cursor.bump();
        if cursor.here.is(TokenKind::Open) {
            cursor.bump();
            cursor.bump();
        }
        return Some(KillTarget::OwnUser);
    }
    let name = text(cursor.bump())?;
    let host = match cursor.here.kind {
        TokenKind::UserVariable => Some(user_variable_name(cursor.bump(), sql, options)),
        _ => None,
    };
    Some(KillTarget::User(name, host.filter(|host| host != "%")))
}
