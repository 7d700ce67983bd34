//! The prepared statements of SQL that a text makes, runs and drops.

use super::{literal_text, name_text, user_variable_name};
use crate::LexOptions;
use crate::classify::walk;
use crate::cursor::Cursor;
use crate::event::Event;
use crate::keyword::Keyword;
use crate::lexer::{Token, TokenKind};

/// Names of SQL prepared statements: lower-case, since servers compare them without case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SqlPrepared {
    /// Made and dropped, in the order of the text.
    pub changes: Vec<PreparedChange>,
    /// Run by `EXECUTE`.
    pub run: Vec<String>,
}

/// What a text does to a prepared statement of SQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreparedChange {
    /// `PREPARE`.
    Makes(String),
    /// `DEALLOCATE PREPARE` or `DROP PREPARE`.
    Drops(String),
}

/// The prepared statements of SQL that the text makes, runs and drops.
pub fn sql_prepared(sql: &[u8], options: LexOptions) -> SqlPrepared {
    let mut prepared = SqlPrepared::default();
    walk(sql, options, |event| prepared.take(&event, sql, options));
    prepared
}

impl PreparedChange {
    /// The name of the statement.
    pub fn name(&self) -> &str {
        match self {
            Self::Makes(name) | Self::Drops(name) => name,
        }
    }
}

impl SqlPrepared {
    pub(crate) fn take(&mut self, event: &Event, sql: &[u8], options: LexOptions) {
        let name = |name| name_text(name, sql, options).to_lowercase();
        match *event {
            Event::Prepares(token) => self.changes.push(PreparedChange::Makes(name(token))),
            Event::Deallocates(token) => self.changes.push(PreparedChange::Drops(name(token))),
            Event::Executes(token) => self.run.push(name(token)),
            _ => {}
        }
    }
}

/// Where the text of a prepared statement of SQL comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreparedFrom {
    /// A literal, without its quotes.
    Literal(String),
    /// A user variable, in lower case.
    Variable(String),
}

/// What a text prepares that is one `PREPARE name FROM 'literal'` or `PREPARE name FROM @variable`, and nothing else:
/// servers take it for one, too. `None` for every other form.
pub fn prepared_from(sql: &[u8], options: LexOptions) -> Option<PreparedFrom> {
    let mut cursor = Cursor::new(sql, options);
    if !cursor.eat(Keyword::Prepare) || !cursor.here.is_name() {
        return None;
    }
    cursor.bump();
    if !cursor.eat(Keyword::From) {
        return None;
    }
    let source = cursor.bump();
    if cursor.here.kind == TokenKind::Semicolon {
        cursor.bump();
    }
    if cursor.here.kind != TokenKind::End {
        return None;
    }
    from(source, sql, options)
}

/// What a text runs that is one `EXECUTE IMMEDIATE 'literal'` or `EXECUTE IMMEDIATE @variable`, with or without values.
pub fn immediate_from(sql: &[u8], options: LexOptions) -> Option<PreparedFrom> {
    let mut cursor = Cursor::new(sql, options);
    if !cursor.eat(Keyword::Execute) || !cursor.eat(Keyword::Immediate) {
        return None;
    }
    let source = cursor.bump();
    let is_all = cursor.at_end() || cursor.keyword() == Keyword::Using;
    if is_all { from(source, sql, options) } else { None }
}

fn from(source: Token, sql: &[u8], options: LexOptions) -> Option<PreparedFrom> {
    let is_plain = |mark: &u8| matches!(mark, b'\'' | b'"');
    match source.kind {
        TokenKind::Text if sql.get(source.start).is_some_and(is_plain) => {
            Some(PreparedFrom::Literal(literal_text(source, sql, options)))
        }
        TokenKind::UserVariable => Some(PreparedFrom::Variable(user_variable_name(source, sql, options))),
        _ => None,
    }
}

/// How many parameters (`?`) a text has.
pub fn parameters(sql: &[u8], options: LexOptions) -> usize {
    let mut cursor = Cursor::new(sql, options);
    let mut count = 0;
    while !cursor.here.is(TokenKind::End) {
        count += usize::from(cursor.bump().kind == TokenKind::Parameter);
    }
    count
}
