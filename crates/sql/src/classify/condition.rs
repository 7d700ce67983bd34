//! Whether an `UPDATE` or a `DELETE` says which rows it means.
//!
//! Owns: what counts as a condition: a `WHERE` of the statement itself, and a column in it. `WHERE 1 = 1` is none.

use super::{Keyword, TokenKind};
use crate::cursor::Cursor;
use crate::lexer::Token;
use crate::word_table::WordTable;

/// Follows a statement token by token.
#[derive(Debug, Default)]
pub(super) struct Condition {
    depth: u32,
    at: Part,
    /// Names are those of tables, of types or of character sets.
    names_no_columns: bool,
    has_column: bool,
}

/// Where in the statement.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Part {
    #[default]
    Before,
    Where,
    After,
}

/// Reserved words that stand in expressions; no column is called so without quotes. `end`, `signed` and `unknown` are not reserved: a
/// condition in which one of them is the only column counts for none.
const WORDS: &[&str] = &[
    "all",
    "and",
    "any",
    "asc",
    "between",
    "binary",
    "both",
    "by",
    "case",
    "char",
    "character",
    "collate",
    "cross",
    "current_date",
    "current_role",
    "current_time",
    "current_timestamp",
    "current_user",
    "default",
    "desc",
    "distinct",
    "distinctrow",
    "div",
    "dual",
    "else",
    "end",
    "except",
    "exists",
    "false",
    "group",
    "having",
    "in",
    "intersect",
    "interval",
    "is",
    "leading",
    "like",
    "limit",
    "localtime",
    "localtimestamp",
    "mod",
    "not",
    "null",
    "or",
    "order",
    "regexp",
    "rlike",
    "select",
    "set",
    "signed",
    "some",
    "then",
    "trailing",
    "true",
    "union",
    "unknown",
    "unsigned",
    "utc_date",
    "utc_time",
    "utc_timestamp",
    "values",
    "when",
    "with",
    "xor",
];

static TABLE: WordTable<256> = WordTable::new(WORDS);

/// What `TIMESTAMPADD(` and its kin have before their first comma.
const UNITS: &[&str] = &[
    "microsecond",
    "second",
    "minute",
    "hour",
    "day",
    "week",
    "month",
    "quarter",
    "year",
    "date",
    "time",
    "datetime",
    "timestamp",
];

impl Condition {
    /// Looks at the token where the cursor is.
    #[inline]
    pub(super) fn sees(&mut self, cursor: &Cursor<'_>) {
        if self.has_column {
            return;
        }
        let here = cursor.here;
        match here.kind {
            TokenKind::Open => self.depth += 1,
            TokenKind::Close => {
                self.depth = self.depth.saturating_sub(1);
                self.names_no_columns = false;
            }
            TokenKind::Word if self.depth == 0 && self.turns_at(cursor) => {}
            _ if self.at == Part::Where => self.looks_for_column(cursor),
            _ => {}
        }
    }

    /// Whether all rows are meant.
    pub(super) fn is_missing(&self) -> bool {
        !self.has_column
    }

    /// True for a word that begins or ends the clause.
    fn turns_at(&mut self, cursor: &Cursor<'_>) -> bool {
        let here = cursor.here;
        let turn = match (self.at, here.keyword) {
            (Part::Before, Keyword::Where) => Part::Where,
            (Part::Where, Keyword::Limit) => Part::After,
            (Part::Where, Keyword::None) if is_word(cursor, here, &["order", "returning"]) => Part::After,
            _ => return false,
        };
        self.at = turn;
        true
    }

    fn looks_for_column(&mut self, cursor: &Cursor<'_>) {
        let here = cursor.here;
        match here.keyword {
            // Tables, types, character sets.
            Keyword::From | Keyword::Join | Keyword::Table | Keyword::As | Keyword::Using | Keyword::Into => {
                self.names_no_columns = true;
            }
            Keyword::Where | Keyword::Select => self.names_no_columns = false,
            _ if here.is(TokenKind::Comma) => {}
            _ if here.is(TokenKind::Word) && is_word(cursor, here, &["on", "having", "group"]) => {
                self.names_no_columns = false;
            }
            _ => self.has_column = here.is_name() && !self.names_no_columns && is_column(cursor),
        }
    }
}

fn is_word(cursor: &Cursor<'_>, token: Token, words: &[&str]) -> bool {
    words.iter().any(|word| cursor.text(token).eq_ignore_ascii_case(word.as_bytes()))
}

/// Whether the name here is that of a column: not a word of the grammar, a function, a type or a literal.
fn is_column(cursor: &Cursor<'_>) -> bool {
    let (before, here, ahead) = (cursor.before, cursor.here, cursor.ahead);
    // `f(`, the schema or table of a name, `DATE '2000-01-01'`, `_utf8mb4'a'`, `EXTRACT(DAY FROM ..`.
    if matches!(ahead.kind, TokenKind::Open | TokenKind::Dot | TokenKind::Text | TokenKind::Number)
        || ahead.keyword == Keyword::From
    {
        return false;
    }
    if here.is(TokenKind::Name) {
        return true;
    }
    // No two operands stand side by side: `1 DAY`. `{fn now()}` and `\N` are literals or their marks.
    if super::expression::follows_operand(before)
        || matches!(cursor.text(before), b"{" | b"\\")
        || is_word(cursor, before, &["collate", "set"])
    {
        return false;
    }
    if here.is(TokenKind::Quoted) {
        return true;
    }
    let is_unit = before.is(TokenKind::Open) && ahead.is(TokenKind::Comma) && is_word(cursor, here, UNITS);
    !is_unit && TABLE.find(cursor.text(here), |index| WORDS[index]).is_none()
}
