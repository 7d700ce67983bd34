//! Columns of a query that are called by their own text.
//!
//! Owns: which those are. A text that is changed in one of them has to give it its name.

use std::ops::Range;

use crate::keyword::Keyword;
use crate::lexer::{Lexer, Token, TokenKind};
use crate::options::LexOptions;

/// Words between SELECT and the first column.
const BEFORE: [&str; 10] = [
    "all",
    "distinct",
    "distinctrow",
    "high_priority",
    "sql_big_result",
    "sql_buffer_result",
    "sql_cache",
    "sql_calc_found_rows",
    "sql_no_cache",
    "sql_small_result",
];

/// Words that end the list of columns.
const BEHIND: [&str; 18] = [
    "except",
    "fetch",
    "for",
    "from",
    "group",
    "having",
    "intersect",
    "into",
    "limit",
    "lock",
    "minus",
    "offset",
    "order",
    "procedure",
    "returning",
    "union",
    "where",
    "window",
];

/// The columns of the outermost SELECT list that are certain to have no alias: those that end with a parenthesis or a number.
pub fn unnamed_columns(sql: &[u8], options: LexOptions) -> Vec<Range<usize>> {
    let mut lexer = Lexer::new(sql, options);
    let mut columns = Vec::new();
    let mut depth = 0_usize;
    let mut ahead = lexer;
    let (first, second) = (ahead.next_token().keyword, ahead.next_token().keyword);
    if matches!(first, Keyword::Do | Keyword::Call) || first == Keyword::Set && second != Keyword::Statement {
        // They name no columns.
        return columns;
    }
    // To the outermost SELECT.
    loop {
        let token = lexer.next_token();
        match token.kind {
            TokenKind::End | TokenKind::Semicolon => return columns,
            TokenKind::Open => depth += 1,
            TokenKind::Close => depth = depth.saturating_sub(1),
            _ if depth == 0 && token.keyword == Keyword::Select => break,
            _ => {}
        }
    }
    let is_one_of = |token: Token, words: &[&str]| {
        let text = &sql[token.start..token.end];
        words.iter().any(|word| text.eq_ignore_ascii_case(word.as_bytes()))
    };
    let mut column = Column::default();
    loop {
        let token = lexer.next_token();
        let ends_list = matches!(token.kind, TokenKind::End | TokenKind::Semicolon)
            || depth == 0 && (is_one_of(token, &BEHIND) || token.kind == TokenKind::Close);
        if ends_list || depth == 0 && token.kind == TokenKind::Comma {
            columns.extend(column.unnamed());
            column = Column::default();
            if ends_list {
                return columns;
            }
            continue;
        }
        if column.start.is_none() && is_one_of(token, &BEFORE) {
            continue;
        }
        match token.kind {
            TokenKind::Open => depth += 1,
            TokenKind::Close => depth -= 1,
            _ => {}
        }
        column.add(token, depth);
    }
}

/// One column, as far as it was read.
#[derive(Default)]
struct Column {
    start: Option<usize>,
    last: Option<Token>,
    has_alias: bool,
}

impl Column {
    fn add(&mut self, token: Token, depth: usize) {
        self.start.get_or_insert(token.start);
        self.has_alias |= depth == 0 && token.keyword == Keyword::As;
        self.last = Some(token);
    }

    fn unnamed(&self) -> Option<Range<usize>> {
        let (start, last) = (self.start?, self.last?);
        let is_certain = matches!(last.kind, TokenKind::Close | TokenKind::Number) && !self.has_alias;
        is_certain.then_some(start..last.end)
    }
}
