//! Where a statement with a body of statements ends: semicolons inside the body do not end it.
//!
//! Owns: counting `BEGIN .. END` and its kin in routines, triggers, events and MariaDB's top-level compound statements.

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
}

impl Compound {
    /// Whether a semicolon here belongs to the body.
    pub(crate) fn is_inside(self) -> bool {
        self.depth > 0
    }

    /// Takes the next token, with its neighbours. True where the token ahead belongs to it (`END IF`).
    pub(crate) fn follow(&mut self, before: Token, here: Token, ahead: Token) -> bool {
        match here.keyword {
            Keyword::Begin => self.open(false),
            Keyword::Case => self.open(!self.starts_statement(before)),
            Keyword::Loop | Keyword::While => self.open(false),
            Keyword::If if !is_if_exists(ahead) && self.starts_statement(before) => self.open(false),
            Keyword::Repeat if !ahead.is(TokenKind::Open) => self.open(false),
            Keyword::For if self.is_inside() && is_statement_edge(before) => self.open(false),
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

    /// Whether a statement can begin after `before`. Before the body's first block, it begins after anything that can
    /// end a head: a closing parenthesis or a word.
    fn starts_statement(self, before: Token) -> bool {
        if !self.is_inside() {
            let is_object = matches!(
                before.keyword,
                Keyword::Procedure | Keyword::Function | Keyword::Trigger | Keyword::Event | Keyword::Package
            );
            return !is_object
                && (before.is_name() || matches!(before.kind, TokenKind::Close | TokenKind::Semicolon));
        }
        self.expressions & 1 == 0 && is_statement_edge(before)
    }
}

/// Whether a statement of a body can begin after this token.
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
