//! Queries: `SELECT`, `VALUES`, `TABLE`, `WITH`, and those in parentheses.
//!
//! Owns: which statements are queries. What keeps one from being a plain read is found by `expression`.

use super::{Class, Classifier, Event, Keyword, TokenKind, Watch};

impl<F: FnMut(Event), W: Watch> Classifier<'_, F, W> {
    /// A query, to be read as an expression from its first word on.
    pub(super) fn query(&mut self, class: Class) -> Class {
        self.scan();
        class
    }

    /// `(SELECT ..) UNION ..`: the first word inside decides.
    pub(super) fn parenthesised(&mut self) -> Class {
        while self.cursor.here.is(TokenKind::Open) {
            self.cursor.bump();
        }
        match self.cursor.keyword() {
            Keyword::Select => self.query(Class::Select),
            Keyword::Values => self.query(Class::Values),
            Keyword::Table => self.query(Class::Table),
            Keyword::With => self.query(Class::With),
            _ => self.unknown_expression(),
        }
    }
}
