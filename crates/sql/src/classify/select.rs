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

    /// `WITH a AS (..) SELECT ..`: an `UPDATE` or a `DELETE` may follow, too.
    pub(super) fn with(&mut self) -> Class {
        let mut depth = 0_u32;
        while !self.cursor.at_end() {
            let here = self.cursor.here;
            match here.kind {
                TokenKind::Open => depth += 1,
                TokenKind::Close => depth = depth.saturating_sub(1),
                // FOR UPDATE is no statement.
                TokenKind::Word if depth == 0 && self.cursor.before.keyword != Keyword::For => {
                    match here.keyword {
                        Keyword::Update => _ = self.change(Class::Update),
                        Keyword::Delete => _ = self.change(Class::Delete),
                        _ => {}
                    }
                }
                _ => {}
            }
            if !self.cursor.at_end() {
                self.step();
            }
        }
        Class::With
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
            Keyword::With => self.with(),
            _ => self.unknown(),
        }
    }
}
