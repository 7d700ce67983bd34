//! Where a statement with a body of statements ends: semicolons inside the body do not end it.
//!
//! Owns: which statements have a body, and counting `BEGIN .. END` and its kin in routines, triggers, events and MariaDB's top-level
//! compound statements.

use crate::cursor::Cursor;
use crate::keyword::Keyword;
use crate::lexer::{Token, TokenKind};
use crate::options::Flavor;

/// Nesting deeper than this is not followed; the statement then ends at its next semicolon.
const DEPTH_MAX: u32 = 63;

/// Follows the tokens of a statement that has a body.
#[derive(Clone, Copy, Default)]
pub(crate) struct Compound {
    depth: u32,
    /// One bit for each open block, the innermost lowest: set where it is a `CASE` inside an expression.
    expressions: u64,
    /// Up to here it has been looked for what makes a block of an `IF`, and there is none.
    no_if_before: usize,
    /// The same for a `CASE`.
    no_case_before: usize,
}

impl Compound {
    /// Whether a semicolon here belongs to the body.
    pub(crate) fn is_inside(self) -> bool {
        self.depth > 0
    }

    /// Takes the token here. True where the token ahead belongs to it (`END IF`).
    pub(crate) fn follow(&mut self, cursor: &Cursor<'_>) -> bool {
        let ahead = cursor.ahead;
        match cursor.here.keyword {
            Keyword::Case => {
                let is_statement = self.starts_statement(cursor);
                self.open(!is_statement);
            }
            Keyword::Begin | Keyword::Loop | Keyword::While => self.open(false),
            Keyword::If if !is_if_exists(ahead) && self.starts_statement(cursor) => self.open(false),
            Keyword::Repeat if !ahead.is(TokenKind::Open) => self.open(false),
            Keyword::For if is_statement_edge(cursor.before) => self.open(false),
            Keyword::End if self.is_inside() => {
                self.depth -= 1;
                self.expressions >>= 1;
                return matches!(
                    ahead.keyword,
                    Keyword::If
                        | Keyword::Case
                        | Keyword::Loop
                        | Keyword::While
                        | Keyword::Repeat
                        | Keyword::For
                );
            }
            _ => {}
        }
        false
    }

    fn open(&mut self, is_expression: bool) {
        if self.depth < DEPTH_MAX {
            self.depth += 1;
            self.expressions = self.expressions << 1 | u64::from(is_expression);
        }
    }

    /// Whether the `IF` or `CASE` here begins a statement. Inside a block its place tells; a body that is no block can
    /// begin after anything, and there only what follows tells.
    fn starts_statement(&mut self, cursor: &Cursor<'_>) -> bool {
        if self.is_inside() {
            return self.expressions & 1 == 0 && is_statement_edge(cursor.before);
        }
        cursor.before.is(TokenKind::Semicolon) || self.holds_statements(*cursor)
    }

    /// Whether the `IF` or `CASE` here holds statements: `IF` then has a `THEN`, `CASE` a semicolon before its `END`. What has
    /// been looked through is not looked through again: the same would be found.
    fn holds_statements(&mut self, mut cursor: Cursor<'_>) -> bool {
        let is_case = cursor.keyword() == Keyword::Case;
        let no_more_before = if is_case { &mut self.no_case_before } else { &mut self.no_if_before };
        if cursor.here.start < *no_more_before {
            return false;
        }
        cursor.bump();
        let holds = finds_statements(&mut cursor, is_case);
        *no_more_before = cursor.here.start;
        holds
    }
}

/// Moves to where it is certain, and answers it.
fn finds_statements(cursor: &mut Cursor<'_>, is_case: bool) -> bool {
    let mut cases = 0_u32;
    loop {
        match cursor.keyword() {
            Keyword::Case if cursor.before.keyword != Keyword::End => cases += 1,
            Keyword::End if cases > 0 => cases -= 1,
            Keyword::End => return false,
            Keyword::Then if !is_case && cases == 0 => return true,
            _ if cursor.at_end() => return is_case && cursor.here.is(TokenKind::Semicolon),
            _ => {}
        }
        cursor.bump();
    }
}

/// Whether a statement of a body can begin after this token: also a label's colon is an operator, and `FOR` ends the settings of
/// `SET STATEMENT`.
fn is_statement_edge(before: Token) -> bool {
    matches!(before.kind, TokenKind::Semicolon | TokenKind::Operator)
        || matches!(
            before.keyword,
            Keyword::Begin
                | Keyword::Atomic
                | Keyword::Then
                | Keyword::Else
                | Keyword::Do
                | Keyword::Loop
                | Keyword::Repeat
                | Keyword::For
        )
}

/// `IF EXISTS` and `IF NOT EXISTS` begin no block.
fn is_if_exists(ahead: Token) -> bool {
    matches!(ahead.keyword, Keyword::Exists | Keyword::Not)
}

/// Where the body of the statement begins whose first token is here; `None`: it has none. Decides from the first words.
///
/// A word that begins a block inside an expression, a name or a list of parameters begins none, so that these are passed over.
#[inline]
pub(crate) fn body(cursor: &Cursor<'_>) -> Option<usize> {
    let (here, ahead) = (cursor.here, cursor.ahead);
    let is_there = match here.keyword {
        Keyword::Create | Keyword::Alter => return body_of_definition(*cursor),
        Keyword::Set if ahead.keyword == Keyword::Statement => return body_behind_settings(*cursor),
        Keyword::Begin => !(ahead.ends_statement() || ahead.keyword == Keyword::Work),
        Keyword::If | Keyword::Case | Keyword::Loop | Keyword::While | Keyword::Repeat | Keyword::For => true,
        // What begins a statement by itself is no label: `KILL:FOR` is a KILL that no server reads.
        Keyword::None => here.is_name() && ahead.is(TokenKind::Operator) && cursor.text(ahead) == b":",
        _ => false,
    };
    is_there.then_some(here.start)
}

/// The same of a `CREATE` or `ALTER`: behind the name of what has a body, and its parameters.
fn body_of_definition(mut cursor: Cursor<'_>) -> Option<usize> {
    let is_new = cursor.bump().keyword == Keyword::Create;
    loop {
        match cursor.keyword() {
            Keyword::Event => break,
            Keyword::Procedure | Keyword::Function | Keyword::Trigger | Keyword::Package if is_new => break,
            // The name of an account may be any of these words: `DEFINER=user@localhost`.
            Keyword::Definer => {
                skip_definer(&mut cursor);
                continue;
            }
            Keyword::Online | Keyword::Offline | Keyword::Ignore => {}
            word if !is_new || has_no_body(word) || cursor.at_end() => return None,
            _ => {}
        }
        cursor.bump();
    }
    let kind = cursor.bump().keyword;
    if cursor.keyword() == Keyword::If && cursor.ahead.keyword == Keyword::Not {
        cursor.eat_any(&[Keyword::If, Keyword::Not, Keyword::Exists]);
    }
    cursor.eat(Keyword::Body);
    skip_name(&mut cursor);
    if cursor.here.is(TokenKind::Open) {
        skip_parentheses(&mut cursor);
    }
    // `BEFORE INSERT ON begin`.
    if kind == Keyword::Trigger {
        while cursor.keyword() != Keyword::For && !cursor.at_end() {
            cursor.bump();
        }
        cursor.eat(Keyword::For);
    }
    Some(cursor.here.start)
}

/// What a definition with this word in its head makes has no body.
fn has_no_body(word: Keyword) -> bool {
    matches!(
        word,
        Keyword::Table
            | Keyword::Temporary
            | Keyword::View
            | Keyword::Index
            | Keyword::Database
            | Keyword::Schema
            | Keyword::User
            | Keyword::Role
            | Keyword::Sequence
            | Keyword::Resource
            | Keyword::Instance
    )
}

/// Moves over `DEFINER = user [@host]`.
pub(crate) fn skip_definer(cursor: &mut Cursor<'_>) {
    cursor.bump();
    if !cursor.here.is(TokenKind::Equals) || cursor.ahead.ends_statement() {
        return;
    }
    cursor.bump();
    cursor.bump();
    // The host is cut as a variable is.
    if cursor.here.is(TokenKind::UserVariable) {
        cursor.bump();
    }
}

/// A name, with its schema or without.
fn skip_name(cursor: &mut Cursor<'_>) {
    if !cursor.here.is_name() {
        return;
    }
    cursor.bump();
    if cursor.here.is(TokenKind::Dot) && cursor.ahead.is_name() {
        cursor.bump();
        cursor.bump();
    }
}

/// To behind the parenthesis that closes the one here, or to the end of the statement.
fn skip_parentheses(cursor: &mut Cursor<'_>) {
    let mut depth = 0_u32;
    while !cursor.at_end() {
        match cursor.here.kind {
            TokenKind::Open => depth += 1,
            TokenKind::Close => depth -= 1,
            _ => {}
        }
        cursor.bump();
        if depth == 0 {
            return;
        }
    }
}

/// The same of MariaDB's `SET STATEMENT a = 1 FOR ..`: that of the statement behind it.
fn body_behind_settings(mut cursor: Cursor<'_>) -> Option<usize> {
    if cursor.options().flavor != Flavor::MariaDb {
        return None;
    }
    // One after the other, and not each in the one before: a text may have very many.
    while cursor.keyword() == Keyword::Set && cursor.ahead.keyword == Keyword::Statement {
        let mut depth = 0_u32;
        // `@@for` is a variable.
        while cursor.keyword() != Keyword::For || depth > 0 || cursor.before.is(TokenKind::SystemVariable) {
            match cursor.here.kind {
                _ if cursor.at_end() => return None,
                TokenKind::Open => depth += 1,
                TokenKind::Close => depth = depth.saturating_sub(1),
                _ => {}
            }
            cursor.bump();
        }
        cursor.bump();
    }
    body(&cursor)
}
