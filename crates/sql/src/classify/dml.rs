//! Statements that change rows or run code: `INSERT`, `UPDATE`, `DELETE`, `LOAD`, `CALL`, `DO`, `HANDLER`.
//!
//! Owns: the heads of these statements; the rest of each is read by `expression`.

use super::condition::Condition;
use super::{Class, Classifier, Effects, Event, Keyword, TokenKind, Uses, Watch, Why};
use crate::Risks;
use crate::event::Qualified;

impl<F: FnMut(Event), W: Watch> Classifier<'_, F, W> {
    /// `INSERT` and `REPLACE`: a list of columns may follow the table's name.
    pub(super) fn insert(&mut self, class: Class) -> Class {
        self.refuse(Why::Write);
        self.cursor.bump();
        self.cursor.eat_any(&[
            Keyword::LowPriority,
            Keyword::Delayed,
            Keyword::HighPriority,
            Keyword::Ignore,
            Keyword::Into,
        ]);
        self.table_name();
        let mut depth = 0_u32;
        while !self.cursor.at_end() {
            let here = self.cursor.here;
            match here.kind {
                TokenKind::Open => depth += 1,
                TokenKind::Close => depth = depth.saturating_sub(1),
                TokenKind::Word if here.keyword == Keyword::Select && depth == 0 => {
                    self.effects |= Effects::CALC_FOUND_ROWS;
                }
                TokenKind::Word if matches!(here.keyword, Keyword::Select | Keyword::Table) => {
                    self.effects |= Effects::MAY_COUNT_ROWS;
                }
                _ => {}
            }
            self.step();
        }
        class
    }

    /// `UPDATE` and `DELETE`.
    pub(super) fn change(&mut self, class: Class) -> Class {
        self.refuse(Why::Write);
        self.cursor.bump();
        self.cursor.eat_any(&[Keyword::LowPriority, Keyword::Quick, Keyword::Ignore]);
        let mut condition = Condition::default();
        let mut is_in_tables = class == Class::Update;
        let mut has_several = class == Class::Delete && self.cursor.keyword() != Keyword::From;
        while !self.cursor.at_end() {
            let here = self.cursor.here;
            has_several |= match here.kind {
                TokenKind::Comma => is_in_tables,
                TokenKind::Word => matches!(
                    here.keyword,
                    Keyword::Join | Keyword::StraightJoin | Keyword::Using | Keyword::Select
                ),
                _ => false,
            };
            is_in_tables &= !(here.is(TokenKind::Word) && here.keyword == Keyword::Set);
            condition.sees(&self.cursor);
            self.step();
        }
        if condition.is_missing() {
            self.risks |= Risks::WRITES_ALL_ROWS;
        }
        if has_several {
            self.effects |= Effects::MAY_COUNT_ROWS;
        }
        class
    }

    /// Moves over a name with or without its schema.
    pub(super) fn table_name(&mut self) -> Option<Qualified> {
        if !self.cursor.here.is_name() {
            return None;
        }
        let first = self.cursor.bump();
        if self.cursor.here.is(TokenKind::Dot) && self.cursor.ahead.is_name() {
            self.cursor.bump();
            let name = self.cursor.bump();
            return Some(Qualified { schema: Some(first), name });
        }
        Some(Qualified { schema: None, name: first })
    }

    /// `LOAD DATA`, `LOAD XML`, `LOAD INDEX INTO CACHE`.
    pub(super) fn load(&mut self) -> Class {
        let class = match self.cursor.ahead.keyword {
            Keyword::Data => Class::LoadData,
            Keyword::Xml => Class::LoadXml,
            Keyword::Index => return self.whole(Class::Admin, Why::Admin, Effects::IMPLICIT_COMMIT),
            _ => return self.unknown(),
        };
        self.refuse(Why::Write);
        self.cursor.bump();
        self.cursor.bump();
        self.cursor.eat_any(&[Keyword::LowPriority, Keyword::Concurrent]);
        if self.cursor.eat(Keyword::Local) {
            self.effects |= Effects::LOCAL_INFILE;
        }
        self.load_target();
        class
    }

    /// From the file's name on: fields go to columns or to user variables.
    fn load_target(&mut self) {
        while !self.cursor.at_end() {
            let here = self.cursor.here;
            match here.keyword {
                Keyword::Set => return self.scan(),
                // A list of columns may follow either name.
                Keyword::Table => {
                    self.cursor.bump();
                    self.table_name();
                }
                Keyword::Character | Keyword::Char if self.cursor.ahead.keyword == Keyword::Set => {
                    self.cursor.bump();
                    self.cursor.bump();
                    self.skip_token();
                }
                Keyword::Charset => {
                    self.cursor.bump();
                    self.skip_token();
                }
                _ => {
                    if here.is(TokenKind::UserVariable) {
                        self.assigns(here);
                        self.uses |= Uses::USER_VARS;
                    }
                    self.skip_token();
                }
            }
        }
    }

    /// `CALL p(..)`: a user variable among the arguments may be an output.
    pub(super) fn call_procedure(&mut self) -> Class {
        self.refuse(Why::CallsRoutine);
        self.effects |= Effects::CALLS_ROUTINE;
        self.cursor.bump();
        self.table_name();
        while !self.cursor.at_end() {
            if self.cursor.here.is(TokenKind::UserVariable) {
                self.assigns(self.cursor.here);
            }
            self.step();
        }
        Class::Call
    }

    /// `DO`: run for what it does, so that a plain function says nothing about it.
    pub(super) fn do_expressions(&mut self) -> Class {
        self.cursor.bump();
        self.scan();
        self.refuse(Why::SideEffect);
        Class::Do
    }

    /// `HANDLER t OPEN [AS a]`, `.. READ ..`, `.. CLOSE`.
    pub(super) fn handler(&mut self) -> Class {
        self.refuse(Why::OpenHandler);
        self.cursor.bump();
        let Some(table) = self.table_name() else { return self.unknown() };
        match self.cursor.keyword() {
            Keyword::Open => {
                self.cursor.bump();
                self.cursor.eat(Keyword::As);
                let name = if self.cursor.here.is_name() { self.cursor.bump() } else { table.name };
                self.effects |= Effects::OPENS_HANDLER;
                self.emit(Event::OpensHandler(name));
            }
            Keyword::Close => {
                self.effects |= Effects::CLOSES_HANDLER;
                self.emit(Event::ClosesHandler(table.name));
            }
            _ => {}
        }
        self.scan();
        Class::Handler
    }
}
