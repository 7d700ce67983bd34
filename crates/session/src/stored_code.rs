//! Code in the database does things to its session that no server reports: what a statement runs of it is found by the bodies that
//! the monitor has read.
//!
//! Owns: when that is asked. What is known, and what is not yet, is in `delphinus_monitor::StoredCode`.

use delphinus_sql::{Class, Effects, Hidden, LexOptions, Statement, classify, immediate_from, sql_prepared};
use delphinus_state::text_of;
use delphinus_wire::command::ClientStmtId;

use crate::input::Input;
use crate::last_statement::has_word;
use crate::session::Session;

/// Words of statements that make, change, rename or drop such code, or give it to another table.
const ABOUT_CODE: [&[u8]; 6] = [b"procedure", b"function", b"trigger", b"view", b"package", b"rename"];

impl Session {
    /// Takes in what the text at the front of the buffer does by code in the database.
    pub(crate) async fn uncover_query(&mut self, statement: &mut Statement, input: Input, text_at: usize) {
        let lex = self.lex.options(&self.want.vars);
        let catalog = self.worker.stored_code.catalog().await;
        // Of what is not whole, the rest may name anything.
        let text = if input.is_whole() { &self.buffer.data()[text_at..input.held] } else { &[] };
        catalog.uncover(statement, text, lex);
    }

    /// The same for a prepared statement, which keeps it.
    pub(crate) async fn uncover_prepared(&mut self, id: ClientStmtId) {
        let Some(statement) = self.statements.find(id).map(|found| found.statement) else { return };
        if !self.worker.stored_code.concerns(&statement) {
            return;
        }
        let lex = self.lex.options(&self.want.vars);
        let catalog = self.worker.stored_code.catalog().await;
        if let Some(found) = self.statements.find(id) {
            let text = found.key.text().clone();
            catalog.uncover(&mut found.statement, &text, lex);
        }
    }

    /// What the statement that has run has left behind by such code.
    pub(crate) async fn hidden(&mut self, statement: &Statement, sql: &[u8], lex: LexOptions) -> Hidden {
        let runs_others = statement.effects.contains(Effects::SQL_EXECUTES);
        let texts = if runs_others { self.texts_executed(statement, sql, lex) } else { Vec::new() };
        let has_changed = changes_code(statement, sql)
            || texts
                .iter()
                .flatten()
                .any(|text| changes_code(&classify(text.as_bytes(), lex), text.as_bytes()));
        if has_changed {
            self.worker.stored_code.has_changed();
        }
        // What is in the text was asked before it ran, but for what came before in the same one.
        let hides = statement.effects.contains(Effects::HIDDEN) || runs_others || has_changed;
        if !hides || !self.worker.stored_code.concerns(statement) {
            return Hidden::default();
        }
        let catalog = self.worker.stored_code.catalog().await;
        let mut hidden = if runs_others { Hidden::default() } else { catalog.hidden(statement, sql, lex) };
        let own: Vec<_> = if hidden.executes { self.sql.names().collect() } else { Vec::new() };
        let own = own.into_iter().map(|name| self.sql.text(name).map(str::to_owned));
        for text in texts.into_iter().chain(own) {
            hidden.add(&match text {
                Some(text) => catalog.hidden_in(text.as_bytes(), lex),
                None => catalog.hidden(statement, &[], lex),
            });
        }
        hidden
    }

    /// The texts that EXECUTE runs; `None` for one that is not known.
    fn texts_executed(&self, statement: &Statement, sql: &[u8], lex: LexOptions) -> Vec<Option<String>> {
        if statement.class != Class::Execute {
            return vec![None];
        }
        if let Some(from) = immediate_from(sql, lex) {
            return vec![text_of(&from, &self.want)];
        }
        let names = sql_prepared(sql, lex).run;
        if names.is_empty() {
            return vec![None];
        }
        // Any other is not there, or a routine's, which pins.
        let own = names.iter().filter(|name| self.sql.find(name).is_some());
        own.map(|name| self.sql.text(name).map(str::to_owned)).collect()
    }
}

/// True for what may change the code in the database.
fn changes_code(statement: &Statement, sql: &[u8]) -> bool {
    let is_ddl = match statement.class {
        Class::OtherDdl | Class::AlterTable => true,
        Class::Multi | Class::Unknown => statement.effects.contains(Effects::IMPLICIT_COMMIT),
        _ => false,
    };
    is_ddl && (sql.is_empty() || ABOUT_CODE.iter().any(|word| has_word(sql, word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_code_is_noticed() {
        for (sql, changes) in [
            ("CREATE PROCEDURE p() SELECT 1", true),
            ("CREATE OR REPLACE DEFINER = me FUNCTION f() RETURNS INT RETURN 1", true),
            ("ALTER FUNCTION f COMMENT ''", true),
            ("DROP TRIGGER t", true),
            ("CREATE ALGORITHM = MERGE VIEW v AS SELECT f()", true),
            ("RENAME TABLE a TO b", true),
            ("ALTER TABLE a RENAME TO b", true),
            ("ALTER TABLE a ADD b INT", false),
            ("DO 1; CREATE PROCEDURE p() SELECT 1", true),
            ("CREATE INDEX i ON t (a)", false),
            ("CREATE TABLE t (a INT)", false),
            ("INSERT INTO t VALUES ('procedure')", false),
            ("SELECT 1", false),
        ] {
            let statement = classify(sql.as_bytes(), LexOptions::default());
            assert_eq!(changes_code(&statement, sql.as_bytes()), changes, "{sql}");
        }
    }
}
