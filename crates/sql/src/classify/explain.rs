//! `EXPLAIN`, `DESCRIBE` and MariaDB's `ANALYZE` of a statement.
//!
//! Owns: their options, and that the statement inside decides where it may run.

use super::{Class, Classifier, Effects, Event, Keyword, NESTING_MAX, TokenKind, Why};

impl<F: FnMut(Event)> Classifier<'_, F> {
    pub(super) fn explain(&mut self) -> Class {
        self.cursor.bump();
        let mut runs = false;
        loop {
            runs |= self.cursor.keyword() == Keyword::Analyze;
            if !self.explain_option() {
                break;
            }
        }
        let class = if self.cursor.keyword() == Keyword::For { self.explain_for() } else { self.explained() };
        if !runs && self.refused == Some(Why::Write) {
            self.refused = Some(Why::ExplainsWrite);
        }
        class
    }

    /// Moves over one option, if one is here.
    fn explain_option(&mut self) -> bool {
        let ahead = self.cursor.ahead;
        match self.cursor.keyword() {
            Keyword::Analyze => {
                self.cursor.bump();
            }
            Keyword::Extended | Keyword::Partitions
                if !ahead.ends_statement() && !ahead.is(TokenKind::Dot) =>
            {
                self.cursor.bump();
            }
            Keyword::Format if ahead.is(TokenKind::Equals) => {
                self.cursor.bump();
                self.cursor.bump();
                self.skip_token();
            }
            Keyword::Into => self.step(),
            _ => return false,
        }
        true
    }

    /// `FOR CONNECTION 7`; `FOR SCHEMA s SELECT ..`.
    fn explain_for(&mut self) -> Class {
        self.cursor.bump();
        if matches!(self.cursor.keyword(), Keyword::Schema | Keyword::Database) {
            self.cursor.bump();
            self.skip_token();
            return self.explained();
        }
        self.refuse(Why::ServerState);
        self.scan();
        Class::Explain
    }

    /// The statement inside, or a table.
    fn explained(&mut self) -> Class {
        let is_statement = self.cursor.here.is(TokenKind::Open)
            || matches!(
                self.cursor.keyword(),
                Keyword::Select
                    | Keyword::With
                    | Keyword::Values
                    | Keyword::Table
                    | Keyword::Insert
                    | Keyword::Replace
                    | Keyword::Update
                    | Keyword::Delete
            );
        if is_statement {
            return match self.nested() {
                Class::Unknown => Class::Unknown,
                _ => Class::Explain,
            };
        }
        if self.cursor.here.is_name() {
            self.table_name();
            self.skip_rest();
            return Class::Describe;
        }
        self.unknown()
    }

    /// A statement inside another one.
    pub(super) fn nested(&mut self) -> Class {
        if self.nesting == NESTING_MAX {
            return self.unknown();
        }
        self.nesting += 1;
        self.class()
    }

    /// MariaDB's `ANALYZE SELECT ..` runs the statement; `ANALYZE TABLE` is maintenance.
    pub(super) fn analyze(&mut self) -> Class {
        let is_maintenance = matches!(
            self.cursor.ahead.keyword,
            Keyword::Table | Keyword::Tables | Keyword::Local | Keyword::NoWriteToBinlog
        );
        if is_maintenance {
            return self.whole(Class::Admin, Why::Admin, Effects::IMPLICIT_COMMIT);
        }
        self.cursor.bump();
        while self.explain_option() {}
        match self.explained() {
            Class::Explain => Class::Explain,
            _ => self.unknown(),
        }
    }
}
