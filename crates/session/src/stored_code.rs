//! Code in the database does things to its session that no server reports: what a statement runs of it is found by the bodies that
//! the monitor has read.
//!
//! Owns: when that is asked, and which statements change such code. What is known is in `delphinus_view::StoredCode`.

use std::rc::Rc;

use delphinus_sql::{
    Class, CodeChange, Effects, Hidden, LexOptions, Statement, classify, immediate_from, sql_prepared,
};
use delphinus_state::{Response, text_of};
use delphinus_wire::command::ClientStmtId;
use delphinus_wire::error_code;

use crate::io::Input;
use crate::session::Session;
use crate::state::Ran;

/// What a statement has that may change code by its own text.
pub(crate) const MAY_CHANGE_CODE: Effects = Effects::IMPLICIT_COMMIT.union(Effects::UNKNOWN);

/// A text that EXECUTE runs, and what it is; `None` for one that is not known.
pub(crate) type TextExecuted = Option<(String, Statement)>;

impl Session {
    /// Takes in that a text is about to run which may change code.
    pub(crate) fn note_code_of_query(&mut self, statement: &Statement, input: Input, text_at: usize) {
        let lex = self.state.lex();
        let sql = &self.client.buffer.data()[text_at..input.held];
        self.note_code(CodeChange::of(statement, sql, lex, input.is_whole()));
    }

    /// The same for a statement that was prepared.
    pub(crate) fn note_code_of_prepared(&mut self, id: ClientStmtId) {
        let Some(found) = self.statements.find(id) else { return };
        let (statement, is_whole, key) = (found.statement, !found.is_large(), found.key.clone());
        // As it was read when it was prepared.
        let lex = self.state.lex.options(&key.state().vars);
        let change = CodeChange::of(&statement, key.text(), lex, is_whole);
        self.state.lex();
        self.note_code(change);
    }

    fn note_code(&mut self, change: Option<CodeChange>) {
        self.steering.is_asked |= change.is_some();
        self.steering.code = change.map(Box::new);
    }

    /// What EXECUTE has run may have changed code, too.
    fn note_code_executed(&mut self, texts: &[TextExecuted], lex: LexOptions) {
        for (text, ran) in texts.iter().flatten() {
            if let Some(other) = CodeChange::of(ran, text.as_bytes(), lex, true) {
                self.steering.code.get_or_insert_default().add(other);
            }
        }
    }

    /// Takes in that a statement has changed code, before the client knows of that.
    fn settle_code(&mut self, statement: &Statement, response: &Response) {
        let Some(change) = self.steering.code.take() else { return };
        let is_done = match statement.class {
            // Of several statements one has succeeded.
            Class::Multi => response.is_ok() || response.status.is_some(),
            // Nobody knows how far it had come.
            Class::Unknown | Class::Execute => response.error != Some(error_code::PARSE_ERROR),
            _ => response.is_ok(),
        };
        if is_done {
            self.worker.stored_code.change(&change);
        }
    }

    /// Takes in what the text at the front of the buffer does by code in the database; of one that is too long, what its beginning
    /// names.
    pub(crate) async fn uncover_query(&mut self, statement: &mut Statement, input: Input, text_at: usize) {
        let lex = self.state.lex();
        let catalog = self.worker.stored_code.catalog().await;
        catalog.uncover(statement, &self.client.buffer.data()[text_at..input.held], lex);
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
        let catalog = self.worker.stored_code.catalog().await;
        let Some(found) = self.statements.find(id) else { return };
        // As it was read when it was prepared.
        let lex = self.state.lex.options(&found.key.state().vars);
        let text = found.key.text().clone();
        catalog.uncover(&mut found.statement, &text, lex);
        self.state.lex();
    }

    /// What the statement that has run has left behind by such code.
    pub(crate) async fn hidden(&mut self, ran: Ran<'_>) -> Hidden {
        let Ran { statement, text, response } = ran;
        let (sql, lex) = (text.sql, text.lex);
        let runs_others = statement.effects.contains(Effects::SQL_EXECUTES);
        let texts = if runs_others { self.texts_executed(statement, sql, lex) } else { Rc::default() };
        self.note_code_executed(&texts, lex);
        self.settle_code(statement, response);
        // What is in the text was asked before it ran, but for what has changed until then. Of most statements that do nothing to
        // their session, it is not kept.
        let is_late = self.worker.stored_code.has_changed() && !sql.is_empty();
        let hides = statement.effects.contains(Effects::HIDDEN)
            || runs_others
            || is_late
            || statement.class == Class::Call;
        if !hides || !self.worker.stored_code.concerns(statement) {
            return Hidden::default();
        }
        let catalog = self.worker.stored_code.catalog().await;
        let mut hidden = if runs_others { Hidden::default() } else { catalog.hidden(statement, sql, lex) };
        let add = |hidden: &mut Hidden, text: Option<&str>| {
            hidden.add(&match text {
                Some(text) => catalog.hidden_in(text.as_bytes(), lex),
                None => catalog.hidden(statement, &[], lex),
            })
        };
        for text in &*texts {
            add(&mut hidden, text.as_ref().map(|(text, _)| &**text));
        }
        if hidden.executes {
            for name in self.state.sql.names() {
                add(&mut hidden, self.state.sql.text(name));
            }
        }
        hidden
    }

    /// The texts that the command's EXECUTE runs: they are looked for once.
    pub(crate) fn texts_executed(
        &mut self,
        statement: &Statement,
        sql: &[u8],
        lex: LexOptions,
    ) -> Rc<Vec<TextExecuted>> {
        if let Some(found) = &self.steering.executed {
            return found.clone();
        }
        let texts = self.find_executed(statement, sql, lex).into_iter();
        let found: Rc<Vec<_>> = Rc::new(texts.map(|text| text.map(|text| with_kind(text, lex))).collect());
        self.steering.executed = Some(found.clone());
        // So that they are forgotten at its end.
        self.steering.is_asked = true;
        found
    }

    fn find_executed(&self, statement: &Statement, sql: &[u8], lex: LexOptions) -> Vec<Option<String>> {
        if statement.class != Class::Execute {
            return vec![None];
        }
        if let Some(from) = immediate_from(sql, lex) {
            return vec![text_of(&from, &self.state.want)];
        }
        let names = sql_prepared(sql, lex).run;
        if names.is_empty() {
            return vec![None];
        }
        // Any other is not there, or a routine's, which pins.
        let own = names.iter().filter(|name| self.state.sql.find(name).is_some());
        own.map(|name| self.state.sql.text(name).map(str::to_owned)).collect()
    }
}

/// A text, and what it is.
pub(crate) fn with_kind(text: String, lex: LexOptions) -> (String, Statement) {
    let statement = classify(text.as_bytes(), lex);
    (text, statement)
}
