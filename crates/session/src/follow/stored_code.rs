//! Code in the database does things to its session that no server reports: what a statement runs of it is found by the bodies that
//! the monitor has read.
//!
//! Owns: when that is asked, and which statements change such code. What is known is in `delphinus_view::StoredCode`.

use std::rc::Rc;

use delphinus_sql::{Class, CodeChange, Effects, Hidden, LexOptions, Statement};
use delphinus_state::Response;
use delphinus_view::StoredCode;
use delphinus_wire::error_code;

use super::noted::Noted;
use super::texts::TextExecuted;
use crate::client_error::ProxyError;
use crate::state::{Ran, Wanted};

/// What a statement has that may change code by its own text.
pub(crate) const MAY_CHANGE_CODE: Effects = Effects::IMPLICIT_COMMIT.union(Effects::UNKNOWN);

/// Takes in what the text `sql` does by code in the database; of one that is too long, what its beginning names. An error if it may have
/// a server end a session by such code, which knows sessions by other ids.
pub(crate) async fn uncover(
    stored_code: &StoredCode,
    statement: &mut Statement,
    sql: &[u8],
    lex: LexOptions,
) -> Result<(), ProxyError> {
    let kills = stored_code.catalog().await.uncover(statement, sql, lex);
    if kills { Err(ProxyError::CodeKills) } else { Ok(()) }
}

impl Noted {
    /// Takes in what of the code in the database the statement may change that is about to run.
    pub(crate) fn note_code(&mut self, change: Option<CodeChange>) {
        self.code = change.map(Box::new);
    }

    /// What EXECUTE has run may have changed code, too.
    fn note_code_executed(&mut self, texts: &[TextExecuted]) {
        for ran in texts.iter().flatten() {
            if let Some(other) = CodeChange::of(&ran.statement, ran.text.as_bytes(), ran.lex, true) {
                self.code.get_or_insert_default().add(other);
            }
        }
    }

    /// Takes in that a statement has changed code, before the client knows of that.
    fn settle_code(&mut self, statement: &Statement, response: &Response, stored_code: &StoredCode) {
        let Some(change) = self.code.take() else { return };
        let is_done = match statement.class {
            // Of several statements one has succeeded.
            Class::Multi => response.is_ok() || response.status.is_some(),
            // Nobody knows how far it had come.
            Class::Unknown | Class::Execute => response.error != Some(error_code::ER_PARSE_ERROR),
            _ => response.is_ok(),
        };
        if is_done {
            stored_code.change(&change);
        }
    }

    /// Takes in what the statement that has run has changed of such code. Returns what it has left behind by it.
    pub(super) async fn settle_hidden(
        &mut self,
        ran: Ran<'_>,
        state: &Wanted,
        stored_code: &StoredCode,
    ) -> Hidden {
        let Ran { statement, text, response } = ran;
        let runs_others = statement.effects.contains(Effects::SQL_EXECUTES);
        let texts = if runs_others { self.texts_executed(statement, text, state) } else { Rc::default() };
        self.note_code_executed(&texts);
        self.settle_code(statement, response, stored_code);
        // What is in the text was asked before it ran, but for what has changed until then. Of most statements that do nothing to
        // their session, it is not kept.
        let is_late = stored_code.has_changed() && !text.sql.is_empty();
        let hides = statement.effects.contains(Effects::HIDDEN)
            || runs_others
            || is_late
            || statement.class == Class::Call;
        if !hides || !stored_code.concerns(statement) {
            return Hidden::default();
        }
        // Boxed: few statements have to ask.
        Box::pin(hidden(ran, &texts, state, stored_code)).await
    }
}

/// What a statement that runs these texts, or none, leaves behind by code in the database.
async fn hidden(ran: Ran<'_>, texts: &[TextExecuted], state: &Wanted, stored_code: &StoredCode) -> Hidden {
    let (statement, lex) = (ran.statement, ran.text.lex);
    let catalog = stored_code.catalog().await;
    let mut hidden = if statement.effects.contains(Effects::SQL_EXECUTES) {
        Hidden::default()
    } else {
        catalog.hidden(statement, ran.text.sql, lex)
    };
    let add = |hidden: &mut Hidden, text: Option<(&str, LexOptions)>| {
        hidden.add(&match text {
            Some((text, lex)) => catalog.hidden_in(text.as_bytes(), lex),
            None => catalog.hidden(statement, &[], lex),
        })
    };
    for text in texts {
        add(&mut hidden, text.as_ref().map(|ran| (&*ran.text, ran.lex)));
    }
    if hidden.executes {
        for name in state.sql.names() {
            add(&mut hidden, state.sql.text(name));
        }
    }
    hidden
}
