//! Code in the database does things to its session that no server reports: what a statement runs of it is found by the bodies that
//! the monitor has read.
//!
//! Owns: when that is asked. What is known, and what is not yet, is in `delphinus_monitor::StoredCode`.

use delphinus_sql::{
    Class, Effects, Hidden, LexOptions, Statement, bare_words, classify, immediate_from, sql_prepared,
};
use delphinus_state::text_of;
use delphinus_wire::command::ClientStmtId;

use crate::input::Input;
use crate::session::Session;
use crate::settle::Ran;

/// Words of statements that make, change, rename or drop such code, or give it to another table.
const ABOUT_CODE: [&[u8]; 5] = [b"procedure", b"function", b"trigger", b"package", b"rename"];

impl Session {
    /// Takes in what the text at the front of the buffer does by code in the database; of one that is too long, what its beginning
    /// names.
    pub(crate) async fn uncover_query(&mut self, statement: &mut Statement, input: Input, text_at: usize) {
        let lex = self.lex.options(&self.want.vars);
        let catalog = self.worker.stored_code.catalog_for(statement).await;
        catalog.uncover(statement, &self.buffer.data()[text_at..input.held], lex);
    }

    /// True if `uncover_prepared` has to be asked about this one.
    pub(crate) fn may_hide(&mut self, id: ClientStmtId) -> bool {
        let code = &self.worker.stored_code;
        code.concerns_any()
            && self
                .statements
                .find(id)
                .is_some_and(|found| !found.is_large() && code.concerns(&found.statement))
    }

    /// The same for a prepared statement, which keeps it.
    pub(crate) async fn uncover_prepared(&mut self, id: ClientStmtId) {
        let Some(statement) = self.statements.find(id).map(|found| found.statement) else { return };
        let catalog = self.worker.stored_code.catalog_for(&statement).await;
        let Some(found) = self.statements.find(id) else { return };
        // As it was read when it was prepared.
        let lex = self.lex.options(&found.key.state().vars);
        let text = found.key.text().clone();
        catalog.uncover(&mut found.statement, &text, lex);
        self.lex.options(&self.want.vars);
    }

    /// What the statement that has run has left behind by such code.
    pub(crate) async fn hidden(&mut self, ran: Ran<'_>, lex: LexOptions) -> Hidden {
        let Ran { statement, sql, response } = ran;
        let runs_others = statement.effects.contains(Effects::SQL_EXECUTES);
        let texts = if runs_others { self.texts_executed(statement, sql, lex) } else { Vec::new() };
        let is_about_code = |text: &String| about_code(&classify(text.as_bytes(), lex), text.as_bytes(), lex);
        let of_others = texts.iter().flatten().filter_map(is_about_code).max();
        let change = about_code(statement, sql, lex).max(of_others);
        if change.is_some() && (response.is_ok() || statement.class == Class::Multi) {
            self.worker.stored_code.has_changed();
            if change == Some(Change::View) {
                // To read it waits for nobody.
                let _ = self.worker.stored_code.catalog_now().await;
            }
        }
        // What is in the text was asked before it ran, but for what came before in the same one.
        let is_late = runs_others || change.is_some() && statement.class == Class::Multi;
        let hides = statement.effects.contains(Effects::HIDDEN) || is_late || statement.class == Class::Call;
        if !hides || !self.worker.stored_code.concerns(statement) {
            return Hidden::default();
        }
        let catalog = self.worker.stored_code.catalog_for(statement).await;
        let mut hidden = if runs_others { Hidden::default() } else { catalog.hidden(statement, sql, lex) };
        let add = |hidden: &mut Hidden, text: Option<&str>| {
            hidden.add(&match text {
                Some(text) => catalog.hidden_in(text.as_bytes(), lex),
                None => catalog.hidden(statement, &[], lex),
            })
        };
        for text in &texts {
            add(&mut hidden, text.as_deref());
        }
        if hidden.executes {
            for name in self.sql.names() {
                add(&mut hidden, self.sql.text(name));
            }
        }
        hidden
    }

    /// The texts that EXECUTE runs; `None` for one that is not known.
    pub(crate) fn texts_executed(
        &self,
        statement: &Statement,
        sql: &[u8],
        lex: LexOptions,
    ) -> Vec<Option<String>> {
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

/// What may change of the code in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    Other,
    View,
}

/// What the statement may change of it.
fn about_code(statement: &Statement, sql: &[u8], lex: LexOptions) -> Option<Change> {
    let is_ddl = match statement.class {
        Class::OtherDdl | Class::AlterTable => true,
        Class::Multi | Class::Unknown => statement.effects.contains(Effects::IMPLICIT_COMMIT),
        _ => false,
    };
    if !is_ddl {
        return None;
    }
    let mut change = None;
    for word in bare_words(sql, lex) {
        if word.eq_ignore_ascii_case(b"view") {
            return Some(Change::View);
        }
        if ABOUT_CODE.iter().any(|one| word.eq_ignore_ascii_case(one)) {
            change = Some(Change::Other);
        }
    }
    change
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_code_is_noticed() {
        let (other, view) = (Some(Change::Other), Some(Change::View));
        for (sql, changes) in [
            ("CREATE PROCEDURE p() SELECT 1", other),
            ("CREATE OR REPLACE DEFINER = me FUNCTION f() RETURNS INT RETURN 1", other),
            ("ALTER FUNCTION f COMMENT ''", other),
            ("DROP TRIGGER t", other),
            ("CREATE ALGORITHM = MERGE VIEW v AS SELECT f()", view),
            ("ALTER VIEW v AS SELECT 1", view),
            ("RENAME TABLE a TO b", other),
            ("ALTER TABLE a RENAME TO b", other),
            ("ALTER TABLE view_log ADD b INT COMMENT 'trigger'", None),
            ("DO 1; CREATE PROCEDURE p() SELECT 1", other),
            ("BEGIN; INSERT INTO t VALUES ('procedure'); COMMIT", None),
            ("CREATE INDEX i ON t (a)", None),
            ("CREATE TABLE t (a INT)", None),
            ("INSERT INTO t VALUES ('procedure')", None),
            ("SELECT 1", None),
        ] {
            let statement = classify(sql.as_bytes(), LexOptions::default());
            assert_eq!(about_code(&statement, sql.as_bytes(), LexOptions::default()), changes, "{sql}");
        }
    }
}
