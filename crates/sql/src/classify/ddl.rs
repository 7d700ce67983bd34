//! Changes of the schema and of accounts: `CREATE`, `ALTER`, `DROP`, `RENAME`.
//!
//! Owns: what kind of object a statement is about. Definitions are not read as expressions, only the query of
//! `CREATE TABLE .. SELECT` is.

use super::{Class, Classifier, Effects, Event, Keyword, TokenKind, Watch, Why};
use crate::Risks;
use crate::compound::skip_definer;
use crate::event::Qualified;

impl<F: FnMut(Event), W: Watch> Classifier<'_, F, W> {
    pub(super) fn create(&mut self) -> Class {
        self.cursor.bump();
        if self.boundary.has_body() {
            return self.with_body();
        }
        while !self.cursor.at_end() {
            match self.cursor.keyword() {
                Keyword::Temporary => return self.create_temporary(),
                Keyword::Table => return self.create_table(),
                Keyword::User | Keyword::Role => return self.account(),
                Keyword::Definer => self.skip_definer(),
                Keyword::View
                | Keyword::Index
                | Keyword::Database
                | Keyword::Schema
                | Keyword::Sequence
                | Keyword::Resource => break,
                _ => self.skip_token(),
            }
        }
        self.whole(Class::OtherDdl, Why::Ddl, Effects::IMPLICIT_COMMIT)
    }

    /// A routine, a trigger or an event: its body is stored, not run.
    fn with_body(&mut self) -> Class {
        self.refuse(Why::Ddl);
        self.effects |= Effects::IMPLICIT_COMMIT;
        // A trigger or an event runs by itself, a function by a view.
        self.risks |= Risks::UNSEEN;
        let effects = self.effects;
        let kind = self.skip_body();
        // What runs such code is told of a KILL there; an event runs on the server, with the server's ids.
        let runs_elsewhere = if kind == Keyword::Event {
            Effects::KILLS.union(Effects::BODY_EXECUTES)
        } else {
            Effects::KILLS
        };
        self.effects = effects | self.effects.without(runs_elsewhere);
        Class::OtherDdl
    }

    /// `DEFINER = user [@host]`
    fn skip_definer(&mut self) {
        let mut behind = *self.cursor;
        skip_definer(&mut behind);
        while self.cursor.here.start < behind.here.start {
            self.skip_token();
        }
    }

    fn create_temporary(&mut self) -> Class {
        self.refuse(Why::Ddl);
        self.cursor.bump();
        if !matches!(self.cursor.keyword(), Keyword::Table | Keyword::Sequence) {
            return self.unknown();
        }
        self.cursor.bump();
        self.skip_if_exists();
        self.effects |= Effects::CREATES_TEMP_TABLE;
        if let Some(table) = self.table_name() {
            self.emit(Event::CreatesTemporary(table));
        }
        self.table_definition();
        Class::CreateTemporaryTable
    }

    fn create_table(&mut self) -> Class {
        self.refuse(Why::Ddl);
        self.effects |= Effects::IMPLICIT_COMMIT;
        self.cursor.bump();
        self.skip_if_exists();
        self.table_name();
        self.table_definition();
        Class::CreateTable
    }

    fn skip_if_exists(&mut self) {
        self.cursor.eat_any(&[Keyword::If, Keyword::Not, Keyword::Exists]);
    }

    /// Columns and keys, in which a name before a parenthesis is no call; then perhaps a query, which is run.
    fn table_definition(&mut self) {
        let mut depth = 0_u32;
        while !self.cursor.at_end() {
            match self.cursor.here.kind {
                TokenKind::Open => depth += 1,
                TokenKind::Close => depth = depth.saturating_sub(1),
                _ => {}
            }
            let begins_query = match self.cursor.keyword() {
                Keyword::Select => true,
                Keyword::As | Keyword::Values | Keyword::Table => depth == 0,
                Keyword::With => {
                    depth == 0 && !matches!(self.cursor.ahead.keyword, Keyword::System | Keyword::Parser)
                }
                _ => false,
            };
            if begins_query {
                self.effects |= Effects::CALC_FOUND_ROWS;
                return self.scan();
            }
            self.skip_token();
        }
    }

    pub(super) fn alter(&mut self) -> Class {
        self.cursor.bump();
        if self.boundary.has_body() {
            return self.with_body();
        }
        self.cursor.eat_any(&[Keyword::Online, Keyword::Offline, Keyword::Ignore]);
        if self.cursor.keyword() == Keyword::Definer {
            self.skip_definer();
        }
        match self.cursor.keyword() {
            Keyword::Table => self.alter_table(),
            Keyword::User => self.alter_user(),
            Keyword::Role => self.account(),
            Keyword::Instance => self.whole(Class::Admin, Why::Admin, Effects::IMPLICIT_COMMIT),
            _ => self.whole(Class::OtherDdl, Why::Ddl, Effects::IMPLICIT_COMMIT),
        }
    }

    /// `ALTER TABLE t ..`, which may rename it.
    fn alter_table(&mut self) -> Class {
        while !self.cursor.at_end() {
            // Of a column or a key the table keeps its name.
            let of_part = [&b"column"[..], b"index", b"key"];
            let ahead = self.cursor.text(self.cursor.ahead);
            if self.cursor.keyword() == Keyword::Rename
                && !of_part.iter().any(|part| ahead.eq_ignore_ascii_case(part))
            {
                self.emit(Event::RenamesTable);
            }
            self.skip_token();
        }
        self.whole(Class::AlterTable, Why::Ddl, Effects::IMPLICIT_COMMIT)
    }

    pub(super) fn drop_object(&mut self) -> Class {
        if self.cursor.ahead.keyword == Keyword::Prepare {
            return self.deallocate();
        }
        self.cursor.bump();
        match self.cursor.keyword() {
            Keyword::Temporary => {
                self.cursor.bump();
                self.refuse(Why::Ddl);
                self.drop_tables();
                Class::DropTemporaryTable
            }
            Keyword::Table | Keyword::Tables => {
                self.refuse(Why::Ddl);
                self.effects |= Effects::IMPLICIT_COMMIT;
                self.drop_tables();
                Class::DropTable
            }
            Keyword::User | Keyword::Role => self.account(),
            Keyword::Database | Keyword::Schema => {
                let effects = Effects::IMPLICIT_COMMIT | Effects::CHANGES_SCHEMA;
                self.whole(Class::OtherDdl, Why::Ddl, effects)
            }
            _ => self.whole(Class::OtherDdl, Why::Ddl, Effects::IMPLICIT_COMMIT),
        }
    }

    /// `TABLE[S] [IF EXISTS] a, b.c`, also `SEQUENCE`.
    fn drop_tables(&mut self) {
        self.effects |= Effects::DROPS_TABLES;
        let is_sequence = self.cursor.keyword() == Keyword::Sequence;
        self.skip_token();
        // That leaves a table of the name where it is, without an error.
        let may_leave_it = is_sequence && self.cursor.keyword() == Keyword::If;
        self.skip_if_exists();
        while let Some(table) = self.table_name() {
            if !may_leave_it {
                self.drops(table);
            }
            if !self.cursor.here.is(TokenKind::Comma) {
                break;
            }
            self.cursor.bump();
        }
        self.skip_rest();
    }

    fn drops(&mut self, table: Qualified) {
        self.emit(Event::DropsTable(table));
    }

    pub(super) fn rename(&mut self) -> Class {
        if self.cursor.ahead.keyword == Keyword::User {
            return self.account();
        }
        self.emit(Event::RenamesTable);
        self.whole(Class::OtherDdl, Why::Ddl, Effects::IMPLICIT_COMMIT)
    }
}
