//! Where a statement with a body of statements ends: semicolons inside the body do not end it.
//!
//! Owns: counting `BEGIN .. END` and its kin in routines, triggers, events and MariaDB's top-level compound statements.

use crate::cursor::Cursor;
use crate::keyword::Keyword;
use crate::lexer::{Token, TokenKind};

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

/// Whether a statement of a body can begin after this token: also a label's colon is an operator.
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
        )
}

/// `IF EXISTS` and `IF NOT EXISTS` begin no block.
fn is_if_exists(ahead: Token) -> bool {
    matches!(ahead.keyword, Keyword::Exists | Keyword::Not)
}

/// Which statements have a body: decides from the first words.
pub(crate) fn has_body(first: Keyword, ahead: Token) -> bool {
    match first {
        Keyword::Begin => !(ahead.ends_statement() || ahead.keyword == Keyword::Work),
        Keyword::If | Keyword::Case | Keyword::Loop | Keyword::While | Keyword::Repeat | Keyword::For => true,
        _ => false,
    }
}

/// What the head of a `CREATE` or `ALTER` says about a body, word by word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Head {
    /// It makes something with a body.
    Body,
    /// It makes something without one.
    Plain,
    /// The word does not tell.
    Undecided,
}

/// What `keyword` in the head of a `CREATE` or `ALTER` says.
pub(crate) fn head(keyword: Keyword) -> Head {
    match keyword {
        Keyword::Procedure | Keyword::Function | Keyword::Trigger | Keyword::Event | Keyword::Package => {
            Head::Body
        }
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
        | Keyword::Instance => Head::Plain,
        _ => Head::Undecided,
    }
}
