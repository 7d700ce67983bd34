//! Prepared statements of SQL: `PREPARE`, `EXECUTE`, `DEALLOCATE`.
//!
//! Owns: their names and forms. The texts that they run are not looked at.

use super::{Class, Classifier, Effects, Event, Keyword, Watch, Why};

impl<F: FnMut(Event), W: Watch> Classifier<'_, F, W> {
    pub(super) fn prepare(&mut self) -> Class {
        self.refuse(Why::SqlPrepared);
        self.effects |= Effects::SQL_PREPARES;
        self.cursor.bump();
        if self.cursor.here.is_name() {
            let name = self.cursor.bump();
            self.emit(Event::Prepares(name));
        }
        self.scan();
        Class::Prepare
    }

    /// `EXECUTE name [USING ..]`; MariaDB's `EXECUTE IMMEDIATE` runs a text at once.
    pub(super) fn execute(&mut self) -> Class {
        self.refuse(Why::SqlPrepared);
        self.effects |= Effects::SQL_EXECUTES;
        self.cursor.bump();
        let ahead = self.cursor.ahead;
        if self.cursor.keyword() == Keyword::Immediate
            && !ahead.ends_statement()
            && ahead.keyword != Keyword::Using
        {
            self.effects |= Effects::UNKNOWN;
        } else if self.cursor.here.is_name() {
            self.emit(Event::Executes(self.cursor.here));
        }
        self.skip_token();
        self.scan();
        Class::Execute
    }

    /// `DEALLOCATE PREPARE name`; `DROP PREPARE name` comes here at `PREPARE` too.
    pub(super) fn deallocate(&mut self) -> Class {
        if self.cursor.ahead.keyword != Keyword::Prepare {
            return self.unknown();
        }
        self.refuse(Why::SqlPrepared);
        self.effects |= Effects::SQL_DEALLOCATES;
        self.cursor.bump();
        self.cursor.bump();
        if self.cursor.here.is_name() {
            self.emit(Event::Deallocates(self.cursor.here));
        }
        self.skip_rest();
        Class::Deallocate
    }
}
