//! An execution of a prepared statement on its way: of COM_STMT_EXECUTE, or, with an array of parameters, of MariaDB's
//! COM_STMT_BULK_EXECUTE. Knows how its connection is made to have what the statement asks for, and nothing of how its client asks.

use std::rc::Rc;

use delphinus_pool::{Checkout, StatementKey};
use delphinus_sql::{Statement, Uses};
use delphinus_state::Shape;
use delphinus_wire::ExecuteParams;
use delphinus_wire::command::ClientStmtId;

use super::params::{bind, note_bulk_types, note_types, own_of};
use crate::answer::{can_ask_anywhere, known_from, splice};
use crate::client_error::ProxyError;
use crate::follow::check_last_values;
use crate::hold::Held;
use crate::io::Input;
use crate::needs::{is_about_insert_id, is_about_last_statement};
use crate::rescue::Tries;
use crate::run::{Job, leave_no_old_list, restore_insert_id};
use crate::session::Session;
use crate::state::Wanted;

/// What the client wants to have executed.
pub(super) struct ToExecute {
    pub id: ClientStmtId,
    pub flags: u8,
    pub statement: Statement,
    pub params: Option<ExecuteParams>,
}

/// An execution on its way.
pub(super) struct Execution {
    pub id: ClientStmtId,
    flags: u8,
    statement: Statement,
    params: Option<ExecuteParams>,
    /// What is run, by the connection that was chosen.
    pub key: Rc<StatementKey>,
    /// The connection of the last statement, which tells what is asked of that.
    pub telling: Option<Checkout>,
    /// It runs there.
    tells: bool,
    /// It has an array of parameters.
    is_bulk: bool,
}

impl Job for Execution {
    fn statement(&self) -> &Statement {
        &self.statement
    }

    fn has_rows(&self) -> bool {
        self.is_bulk
    }

    fn shape(&self) -> Shape {
        Shape::of_execution(self.flags)
    }

    #[inline]
    async fn choose(&mut self, session: &mut Session, tries: &mut Tries) -> Result<Checkout, ProxyError> {
        if is_about_last_statement(&self.statement)
            && let Some(checkout) = Box::pin(self.telling(session)).await?
        {
            self.tells = true;
            return Ok(checkout);
        }
        self.tells = false;
        session.route().choose(&self.statement, tries).await
    }

    #[inline]
    async fn ready(
        &mut self,
        session: &mut Session,
        checkout: &mut Checkout,
        input: Input,
    ) -> Result<Input, ProxyError> {
        if self.statement.uses.contains(Uses::LAST_VALUE) {
            let text = &session.state.text_of(&self.key);
            let first = session.held.memory.first_mode().map(|first| &**first);
            let read_in = (self.key.state(), first);
            check_last_values((&self.statement, text), read_in, checkout.connection())?;
        }
        if !self.tells && is_about_insert_id(&self.statement) {
            Box::pin(restore_insert_id(session, checkout)).await?;
        }
        if !self.tells {
            leave_no_old_list(session, checkout, &self.statement).await?;
        }
        let bound = self.bind(session, checkout, input).await?;
        if bound.held != input.held {
            // Should it run again elsewhere, it has the types already.
            let (command, tokens) = ((bound, &session.client), &session.worker.tokens);
            let note = if self.is_bulk { note_bulk_types } else { note_types };
            let noted = session.statements.find(self.id).map(|found| note(command, found, tokens));
            self.params = noted.and_then(Result::ok).flatten();
        }
        Ok(bound)
    }
}

impl Execution {
    /// `statement`: as it is planned.
    pub(super) fn new(
        ToExecute { id, flags, params, .. }: ToExecute,
        statement: Statement,
        key: Rc<StatementKey>,
    ) -> Self {
        Self { id, flags, statement, params, key, telling: None, tells: false, is_bulk: false }
    }

    /// The same with an array of parameters.
    pub(super) fn of_array(asked: ToExecute, key: Rc<StatementKey>) -> Self {
        let statement = asked.statement;
        Self { is_bulk: true, ..Self::new(asked, statement, key) }
    }

    fn unknown(&self) -> ProxyError {
        let whose = if self.is_bulk { "mysqld_stmt_bulk_execute" } else { "mysqld_stmt_execute" };
        ProxyError::UnknownStatement(self.id.0, whose)
    }

    /// Makes the connection have the statement, and the command have its id there.
    async fn bind(
        &self,
        session: &mut Session,
        checkout: &mut Checkout,
        input: Input,
    ) -> Result<Input, ProxyError> {
        let found = session.statements.find(self.id).ok_or_else(|| self.unknown())?;
        let statement = found.statement;
        let own = own_of(checkout, found, &self.key).await;
        let (client, mut watch) = session.watch();
        let backend_id = match own {
            Some(backend_id) => backend_id,
            None => watch.ensure_prepared(client, checkout, &self.key).await?,
        };
        if watch.state.may_touch_sql(checkout, &statement) {
            let text = &watch.state.text_of(&self.key);
            Box::pin(watch.bring_sql(client, checkout, &statement, text)).await?;
        }
        if is_about_insert_id(&statement) && !is_about_last_statement(&statement) {
            // To prepare it in a session without a schema the connection may have started over since it was chosen.
            Box::pin(restore_insert_id(session, checkout)).await?;
        }
        if Wanted::shows_tracking(&self.statement, &session.state.text_of(&self.key)) {
            Box::pin(session.state.hide_own_tracking(checkout)).await?;
        }
        // Last: a command that is longer now must not be left, or passed over, as one of its old length.
        let found = session.statements.find(self.id).ok_or_else(|| self.unknown())?;
        let command = (input, &mut session.client);
        Ok(bind(checkout, command, (backend_id, self.params.as_ref()), &self.key, found))
    }

    /// The connection that tells what is asked about the last statement; `None` where that is written into the text.
    async fn telling(&mut self, session: &mut Session) -> Result<Option<Checkout>, ProxyError> {
        if let Some(checkout) = self.telling.take() {
            return Ok(Some(checkout));
        }
        let found = session.statements.find(self.id).ok_or_else(|| self.unknown())?;
        let (key, has_pieces) = (found.key.clone(), found.has_long_data.is_set());
        let shaped = in_shape(key.clone(), self.flags);
        let found = connection_to_execute(session, self.id, &self.statement, &shaped).await?;
        self.key = match found {
            Some(_) => shaped,
            // The rows of an array may ask about those before them, so that no value holds for all. Pieces of a parameter are
            // with the client's own text, in whose place there can be no other one.
            None if self.is_bulk || has_pieces => return Err(ProxyError::DiagnosticsGone),
            None => in_shape(with_memory(&self.statement, &key, &session.held, &session.state)?, self.flags),
        };
        Ok(found)
    }
}

/// True if a COM_STMT_EXECUTE with these flags asks for a cursor.
#[inline]
pub(super) fn asks_for_cursor(flags: u8) -> bool {
    Shape::of_execution(flags) == Shape::Cursor
}

/// The statement as it has to be prepared for an execution with these flags.
#[inline]
pub(super) fn in_shape(key: Rc<StatementKey>, flags: u8) -> Rc<StatementKey> {
    if asks_for_cursor(flags) { Rc::new(key.with_cursor()) } else { key }
}

/// The connection that tells what the statement asks about the last one, if it is prepared there: to prepare it is a
/// command, too, and the last one then.
pub(super) async fn connection_to_execute(
    session: &mut Session,
    id: ClientStmtId,
    statement: &Statement,
    key: &Rc<StatementKey>,
) -> Result<Option<Checkout>, ProxyError> {
    let Some(mut checkout) = session.route().connection_that_tells(statement, key.text()).await? else {
        return Ok(None);
    };
    let has_own = session.statements.find(id).is_some_and(|found| found.own.is_some());
    let statements = &mut checkout.connection().statements;
    // Its client has prepared it, and not run it yet: it will do.
    if has_own || statements.find(key).is_some() || statements.adopt(key) {
        return Ok(Some(checkout));
    }
    checkout.save().await.map_err(ProxyError::Pool)?;
    session.held.keep_or_give_back(checkout, &mut session.state);
    Ok(None)
}

/// The same statement with what the last one left behind written into it, when only the memory knows that.
fn with_memory(
    statement: &Statement,
    key: &Rc<StatementKey>,
    held: &Held,
    state: &Wanted,
) -> Result<Rc<StatementKey>, ProxyError> {
    let known = known_from(&held.memory, held.activity.id.0, statement)?;
    let text = state.text_of(key);
    if statement.uses.contains(Uses::DIAGNOSTICS) && !can_ask_anywhere(&held.memory, statement, &text) {
        return Err(ProxyError::DiagnosticsGone);
    }
    match splice(&text, known) {
        Some(text) => Ok(Rc::new(key.with_text(text.into()))),
        _ => Err(ProxyError::DiagnosticsGone),
    }
}
