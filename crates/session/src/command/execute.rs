//! COM_STMT_EXECUTE; and what MariaDB's COM_STMT_BULK_EXECUTE shares with it.

use std::rc::Rc;

use delphinus_net::{NetError, rt};
use delphinus_pool::{Checkout, StatementKey};
use delphinus_route::number_of_text;
use delphinus_sql::{Effects, Hints, Sketch, Statement, Uses, digest};
use delphinus_state::PinReason;
use delphinus_wire::command::ClientStmtId;
use delphinus_wire::{ExecuteParams, HEADER_LEN, execute_attributes};

use super::execution::{Execution, ToExecute, asks_for_cursor, connection_to_execute, in_shape};
use super::kill;
use super::params::note_types;
use super::query::Short;
use crate::answer::{Form, shows_counters};
use crate::client_error::ProxyError;
use crate::hold::forget_schema;
use crate::io::{Input, LastBytes, Relayed};
use crate::needs::{Needs, is_about_last_statement, pinning};
use crate::run::{Begun, Carried};
use crate::served::{Outcome, Served};
use crate::session::Session;
use crate::state::{Ran, Wanted};
use crate::statements::{Own, Sharing};
use crate::steer::{CommandCopy, Occasion, hints_of, values};
use crate::steered::Asks;

/// There may be query attributes, in the flags of a COM_STMT_EXECUTE.
const PARAMETER_COUNT_AVAILABLE: u8 = 0x08;

/// An execution that is about to run.
struct Started {
    statement: Statement,
    key: Rc<StatementKey>,
    sharing: Sharing,
    params: Option<ExecuteParams>,
}

impl Session {
    #[inline]
    pub(crate) async fn execute(&mut self, input: Input, id: ClientStmtId, flags: u8) -> Outcome {
        let may_hide = self.statements.may_hide(id, &self.worker.stored_code);
        if may_hide && let Some(refused) = Box::pin(self.uncover_prepared(input, id)).await {
            return refused;
        }
        let Started { statement, key, sharing, params } = match self.start_execute(input, id) {
            Ok(started) => started,
            Err(error) => return Box::pin(self.refuse(input, error)).await,
        };
        let is_steered = flags & PARAMETER_COUNT_AVAILABLE != 0 || self.is_steered(&statement);
        let needs = Needs::of(&statement)
            .and_if(Needs::STEERING, is_steered)
            .and_if(Needs::HIDDEN, may_hide)
            .and_if(Needs::LEARNING, asks_for_cursor(flags) || !input.is_whole());
        let asked = ToExecute { id, flags, statement, params };
        if needs == Needs::STEERING && self.steering.may_be_short() && flags & PARAMETER_COUNT_AVAILABLE == 0
        {
            match self.execute_short(input, (id, &statement), asked.params.as_ref()) {
                Short::No => {}
                Short::Given => return Ok(Served::Answered),
                Short::Large(kept) => return Box::pin(self.give_large(kept)).await,
            }
        }
        if !needs.is_empty() {
            return Box::pin(self.execute_with(needs, input, asked)).await;
        }
        let begun = match self.set_out_prepared(&statement, input, (&key, sharing), asked.params.as_ref()) {
            Ok(under_way) => match self.come_back(under_way, &statement).await? {
                None => return Ok(Served::Answered),
                Some(begun) => begun,
            },
            Err(unsent) => Begun::Not(unsent),
        };
        let job = Execution::new(asked, statement, key);
        Box::pin(self.execute_on(input, job, begun)).await
    }

    /// An execution that needs more than a connection.
    async fn execute_with(&mut self, needs: Needs, input: Input, asked: ToExecute) -> Outcome {
        let ToExecute { id, flags, statement, .. } = asked;
        self.note_effects(needs, (id, &statement));
        if (needs.has(Needs::STEERING) || statement.effects.contains(Effects::KILLS))
            && let Some(served) =
                self.execute_steered(input, (id, &statement), (flags, asked.params.as_ref())).await?
        {
            return Ok(served);
        }
        let Some(found) = self.statements.find(id) else { return Ok(Served::End) };
        let key = in_shape(found.key.clone(), flags);
        // A cursor pins, and what writes meanwhile has to find the primary there.
        let planned = if asks_for_cursor(flags) { pinning(statement) } else { statement };
        let mut job = Execution::new(asked, planned, key);
        if statement.uses.contains(Uses::DIAGNOSTICS) && is_about_last_statement(&statement) {
            match connection_to_execute(self, id, &statement, &job.key).await {
                Ok(None) if self.needs_own_answer_prepared(&statement, &job.key) => {
                    return self.answer_diagnostics(input, id).await;
                }
                Ok(found) => job.telling = found,
                Err(error) => return self.refuse(input, error).await,
            }
        }
        self.execute_on(input, job, Begun::NOTHING).await
    }

    /// Takes in what a statement that is about to run may change of rights, and of the code in the database.
    pub(super) fn note_effects(&mut self, needs: Needs, (id, statement): (ClientStmtId, &Statement)) {
        if needs.has(Needs::RIGHTS)
            && let Some(found) = self.statements.look(id)
        {
            let user = &self.held.identity.user;
            self.noted.note_rights(statement, &self.state.text_of(&found.key), &self.state, user);
            self.looks_after_noted();
        }
        if needs.has(Needs::CODE) {
            self.noted.note_code(self.statements.code_changed_by(id, &self.state));
            self.looks_after_noted();
        }
    }

    async fn execute_on(&mut self, input: Input, mut job: Execution, begun: Begun) -> Outcome {
        match self.carry_on(input, &mut job, begun).await? {
            Carried::Through(checkout, relayed, _) => {
                self.finish_execute(checkout, (job.id, &job.key), relayed).await
            }
            Carried::Served(served) => Ok(served),
        }
    }

    /// Finds the statement, and what the packet says of its parameters; takes in that it is about to run.
    #[inline]
    fn start_execute(&mut self, input: Input, id: ClientStmtId) -> Result<Started, ProxyError> {
        let found =
            self.statements.find(id).ok_or(ProxyError::UnknownStatement(id.0, "mysqld_stmt_execute"))?;
        if let Some(error) = found.late_error.take() {
            return Err(*error);
        }
        let params = note_types((input, &self.client), found, &self.worker.tokens);
        // Its key says of which classes its parameters are, which may be others now.
        let (statement, key, sketch, sharing) =
            (found.statement, found.key.clone(), found.sketch, found.sharing());
        self.admit_execution(&statement, &key, sketch)?;
        self.begin_statement(&statement);
        self.tell_prepared(&statement, &key);
        let params = params?;
        if self.worker.outlook.needs_text() {
            let payload = &self.client.buffer.data()[HEADER_LEN..input.held];
            self.steering.text = number_of_text(&[key.text(), values(payload, params.as_ref()).1]);
        }
        Ok(Started { statement, key, sharing, params })
    }

    /// Finds the digest that an execution counts for; an error if a filter refuses it.
    #[inline]
    pub(super) fn admit_execution(
        &mut self,
        statement: &Statement,
        key: &StatementKey,
        sketch: Option<Sketch>,
    ) -> Result<(), ProxyError> {
        if let Some(sketch) = sketch {
            let read = self.state.text_of(key);
            self.costs.is(&self.held.activity, || {
                self.worker.recorder.digest(sketch, |text| digest(read.sql, read.lex, text))
            });
        }
        if self.steering.guard.looks_at(statement) {
            self.check_filters((statement, &self.state.text_of(key)), Occasion::Runs)?;
        }
        Ok(())
    }

    /// Finds out what is asked about the execution; what was served where it need not run any more.
    async fn execute_steered(
        &mut self,
        input: Input,
        (id, statement): (ClientStmtId, &Statement),
        (flags, params): (u8, Option<&ExecuteParams>),
    ) -> Result<Option<Served>, NetError> {
        if let Err(error) = self.steer_execute(input, id).await {
            return self.refuse(input, error).await.map(Some);
        }
        if statement.effects.contains(Effects::KILLS)
            && let Some(served) = Box::pin(self.execute_kill(input, id, params)).await?
        {
            return Ok(Some(served));
        }
        if let Some(wanted) = self.steering.of_command.mirror.take() {
            let capabilities = self.client.capabilities;
            let payload = &self.client.buffer.data()[HEADER_LEN..input.held];
            let copy = || {
                let can_be = input.is_whole() && !asks_for_cursor(flags);
                let found = self.statements.look(id).filter(|_| can_be)?;
                CommandCopy::execution(found, payload, params, capabilities)
            };
            wanted.send(&self.worker.mirrors, (statement, copy), &self.state, &self.held);
        }
        if self.steering.of_command.cache.is_none() || asks_for_cursor(flags) {
            return Ok(None);
        }
        self.answer_from_cache(Asks::Prepared { input, id, params }, statement).await
    }

    /// Does what a prepared `KILL` says; `None` if that is the server's to do.
    async fn execute_kill(
        &mut self,
        input: Input,
        id: ClientStmtId,
        params: Option<&ExecuteParams>,
    ) -> Result<Option<Served>, NetError> {
        let payload = &self.client.buffer.data()[HEADER_LEN..input.held];
        let Some(found) = self.statements.look(id) else { return Ok(None) };
        match kill::by_execution(found, self.state.text_of(&found.key).lex, (payload, params)) {
            Ok(None) => Ok(None),
            Ok(Some((kill, value))) => {
                self.client.skip(input).await?;
                self.kill(&kill, value).await.map(Some)
            }
            Err(error) => self.refuse(input, error).await.map(Some),
        }
    }

    /// The hints of a prepared statement are in its text, and in the query attributes of each execution.
    async fn steer_execute(&mut self, input: Input, id: ClientStmtId) -> Result<(), ProxyError> {
        let capabilities = self.client.capabilities;
        let found =
            self.statements.find(id).ok_or(ProxyError::UnknownStatement(id.0, "mysqld_stmt_execute"))?;
        let (statement, key) = (found.statement, found.key.clone());
        let attributes = if found.has_long_data.is_set() {
            // Which values are in the packet then is not known here.
            Hints::default()
        } else {
            let payload = &self.client.buffer.data()[HEADER_LEN..input.held];
            hints_of(&execute_attributes(payload, found.params, capabilities))
        };
        self.steer_prepared(&key, &statement, attributes).await
    }

    fn needs_own_answer_prepared(&self, statement: &Statement, key: &StatementKey) -> bool {
        let text = self.state.text_of(key);
        self.needs_own_answer(statement, &text)
    }

    async fn answer_diagnostics(&mut self, input: Input, id: ClientStmtId) -> Outcome {
        let Some(key) = self.statements.look(id).map(|found| found.key.clone()) else {
            return Ok(Served::End);
        };
        let text = self.state.text_of(&key);
        Box::pin(self.show_diagnostics(input, &text, Form::Binary)).await
    }

    pub(super) async fn finish_execute(
        &mut self,
        mut checkout: Checkout,
        (id, ran_as): (ClientStmtId, &Rc<StatementKey>),
        relayed: Relayed,
    ) -> Outcome {
        let Relayed { mut response, rest, len, is_untouched } = relayed;
        let has_no_schema = self.state.want.schema.is_none();
        let Some(mut found) = self.statements.find(id) else { return Ok(Served::End) };
        let (key, mut statement) = (found.key.clone(), found.statement);
        if key.state().schema != self.state.want.schema {
            // Of which schema's sequence a value was taken is not what the session's schema says.
            statement.effects = statement.effects.without(Effects::TAKES_VALUE);
        }
        let text = self.state.text_of(&key);
        if Wanted::shows_tracking(&statement, &text) {
            if let Err(error) = self.track_again(&mut checkout, &rest, text.sql).await {
                return Ok(Served::Fatal(error));
            }
            let Some(again) = self.statements.find(id) else { return Ok(Served::End) };
            found = again;
        }
        if has_no_schema && key.state().schema.is_some() {
            // It has run in the schema that it was prepared in; servers leave that one afterwards, whatever it says.
            forget_schema(checkout.connection(), &statement, &mut response);
        }
        found.has_long_data.set(false);
        found.has_cursor.set(response.has_cursor);
        if response.has_cursor && found.own.is_none() {
            // Whoever runs the same text meanwhile gets another one: to run this one would close its cursor.
            let own = checkout.connection().statements.take(ran_as);
            found.own = own.map(|statement| Own { key: ran_as.clone(), statement });
        }
        self.statements.settle_own(id, &mut checkout, &mut self.state).await;
        if response.is_ok() && shows_counters(&statement, &text) {
            self.state.pins.add(PinReason::Status, rt::now(), text.sql);
        }
        let ran = Ran { statement: &statement, text: &text, response: &response };
        let settled = self.settle(checkout, ran).await;
        self.answer_last(settled, ran, LastBytes { rest, len, is_untouched }).await
    }
}
