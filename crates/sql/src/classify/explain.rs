//! `EXPLAIN`, `DESCRIBE` and MariaDB's `ANALYZE` of a statement.
//!
//! Owns: their options, that the statement inside decides where it may run, and what is a question to the proxy.

use super::{Class, Classifier, Effects, Event, Keyword, NESTING_MAX, TokenKind, Uses, Watch, Why};
use crate::lexer::{Lexer, Token};
use crate::{LexOptions, Risks};

/// The text that `EXPLAIN ROUTE` asks about, hints before it included. Look only where `classify` has found `Uses::ROUTE`.
pub fn explained_route(sql: &[u8], options: LexOptions) -> Option<&[u8]> {
    let mut lexer = Lexer::new(sql, options);
    let words = [lexer.next_token(), lexer.next_token()];
    let is_question = words.map(|word| word.keyword) == [Keyword::Explain, Keyword::Route];
    is_question.then(|| &sql[words[1].end..])
}

/// What may follow `EXPLAIN ROUTE`. Any other word is a column of a table with the name `route`, as it is to servers.
fn begins_statement(token: Token) -> bool {
    use Keyword as K;
    token.is(TokenKind::Open)
        || matches!(
            token.keyword,
            K::Select
                | K::Values
                | K::Table
                | K::With
                | K::Insert
                | K::Replace
                | K::Update
                | K::Delete
                | K::Set
                | K::Commit
                | K::Rollback
                | K::Begin
                | K::Start
                | K::Show
                | K::Use
                | K::Explain
                | K::Describe
                | K::Desc
                | K::Load
                | K::Call
                | K::Do
                | K::Handler
                | K::Prepare
                | K::Execute
                | K::Deallocate
                | K::Savepoint
                | K::Release
                | K::Xa
                | K::Lock
                | K::Unlock
                | K::Flush
                | K::Create
                | K::Drop
                | K::Alter
                | K::Rename
                | K::Truncate
                | K::Grant
                | K::Revoke
                | K::Analyze
                | K::Kill
        )
}

impl<F: FnMut(Event), W: Watch> Classifier<'_, F, W> {
    pub(super) fn explain(&mut self) -> Class {
        let is_explain = self.cursor.keyword() == Keyword::Explain;
        self.cursor.bump();
        let is_route = self.cursor.keyword() == Keyword::Route && begins_statement(self.cursor.ahead);
        if is_explain && is_route && self.nesting == 0 {
            return self.explain_route();
        }
        let mut runs = false;
        loop {
            runs |= self.cursor.keyword() == Keyword::Analyze;
            if !self.explain_option() {
                break;
            }
        }
        let class = if self.cursor.keyword() == Keyword::For { self.explain_for() } else { self.explained() };
        if !runs {
            self.risks = self.risks.without(Risks::WRITES_ALL_ROWS);
            if self.refused == Some(Why::Write) {
                self.refused = Some(Why::ExplainsWrite);
            }
        }
        class
    }

    /// All that is left is what is asked about, whatever it is; it does nothing.
    fn explain_route(&mut self) -> Class {
        self.uses |= Uses::ROUTE;
        while !self.cursor.here.is(TokenKind::End) {
            self.cursor.bump();
        }
        Class::Explain
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
