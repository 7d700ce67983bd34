//! The ordinary command: one that needs nothing but a connection that is there, and changes nothing but rows.
//!
//! It is sent at once, and its answer, if that comes in one piece, is passed on at once: there is one wait in it, and no other
//! future is made for it. Whatever else there is to do makes it a command with `Needs`, or one that is on its way already
//! ([`Begun`]), and goes by `run`.

use std::rc::Rc;
use std::time::Instant;

use delphinus_net::{NetError, rt};
use delphinus_pool::{Checkout, StatementKey};
use delphinus_route::Plan;
use delphinus_sql::{SqlText, Statement};
use delphinus_state::{Response, Shape};
use delphinus_wire::ExecuteParams;
use delphinus_wire::command::BackendStmtId;
use delphinus_wire::response::Status;

use crate::io::{Heard, Input};
use crate::run::Begun;
use crate::session::Session;
use crate::state::Ran;
use crate::statements::Sharing;

/// A command that was sent.
pub(crate) struct UnderWay {
    checkout: Checkout,
    heard: Heard,
    /// Where its time counts.
    began: Option<Instant>,
}

/// How far a command has come that was not sent.
pub(crate) enum Unsent {
    /// It was planned at most.
    Planned(Option<Plan>),
    /// It has its connection, which lacks something.
    Chosen(Checkout),
}

impl Session {
    /// The connection for an ordinary command, where it can be had at once; else where the command is to go, if that was decided.
    #[inline]
    fn connection_at_once(&mut self, statement: &Statement) -> Result<Checkout, Unsent> {
        if !self.worker.outlook.is_at_rest() {
            return Err(Unsent::Planned(None));
        }
        if self.held.bound.is_some() || !self.state.pins.is_empty() {
            // What is wrong with it, if anything, is told by those that ask again.
            return match self.held.why_unbound(&self.state) {
                None => match self.held.bound.take() {
                    Some(checkout) => Ok(self.held.runs_on(checkout)),
                    None => Err(Unsent::Planned(None)),
                },
                Some(_) => Err(Unsent::Planned(None)),
            };
        }
        let plan = self.planner().plan(statement, &[]);
        self.held.activity.is_routed(plan.reason.number());
        self.route().checkout_at_once(plan.target).ok_or(Unsent::Planned(Some(plan)))
    }

    /// Sends an ordinary text.
    #[inline]
    pub(crate) fn set_out(&mut self, statement: &Statement, input: Input) -> Result<UnderWay, Unsent> {
        let checkout = self.connection_at_once(statement)?;
        self.send_off(checkout, input)
    }

    /// Sends an ordinary execution, if its connection has the statement, and the types of its parameters.
    #[inline]
    pub(crate) fn set_out_prepared(
        &mut self,
        statement: &Statement,
        input: Input,
        (key, sharing): (&Rc<StatementKey>, Sharing),
        params: Option<&ExecuteParams>,
    ) -> Result<UnderWay, Unsent> {
        let mut checkout = self.connection_at_once(statement)?;
        let Some(backend_id) = bind_at_once(&mut checkout, (key, sharing), params) else {
            return Err(Unsent::Chosen(checkout));
        };
        self.client.write_stmt_id(backend_id);
        self.send_off(checkout, input)
    }

    #[inline]
    fn send_off(&mut self, mut checkout: Checkout, input: Input) -> Result<UnderWay, Unsent> {
        let place = (checkout.backend(), self.steering.replica.is_there);
        self.causality.count_write(&self.worker.outlook.progress, place);
        self.begin_to_tell_ages(&checkout);
        if !self.client.post(&mut checkout, input) {
            return Err(Unsent::Chosen(checkout));
        }
        self.count_route();
        let began = self.worker.outlook.needs_latency().then(rt::now);
        let heard = self.client.begin_to_hear(&mut checkout, Shape::Results);
        Ok(UnderWay { checkout, heard, began })
    }

    /// Waits for the answer, and passes it on if it is one that nothing has to be done about; else gives what is to be done more.
    #[inline]
    pub(crate) async fn come_back(
        &mut self,
        under_way: UnderWay,
        statement: &Statement,
    ) -> Result<Option<Begun>, NetError> {
        let UnderWay { mut checkout, mut heard, began } = under_way;
        let (client, mut watch) = self.watch();
        if let Err(broken) = client.await_backend(&mut checkout, &mut watch).await {
            heard.breaks(broken);
            return Ok(Some(Begun::Sent(checkout, heard)));
        }
        if !client.hear_at_once(&mut checkout, &mut heard) {
            return Ok(Some(Begun::Sent(checkout, heard)));
        }
        if let Some(began) = began {
            self.worker.outlook.took(checkout.backend(), began);
        }
        let mut relayed = heard.into_relayed(&mut checkout);
        if !self.changes_nothing(&relayed.response) || checkout.connection().may_list() {
            return Ok(Some(Begun::Answered(checkout, relayed)));
        }
        let text = SqlText::new(&[], self.state.lex());
        let ran = Ran { statement, text: &text, response: &relayed.response };
        if let Some(checkout) = self.settle_at_once(checkout, ran) {
            // Not to be: it would be settled twice.
            debug_assert!(false, "an ordinary answer has changed something");
            self.held.keep_or_give_back(checkout, &mut self.state);
        }
        if !self.client.post_last(&mut relayed.rest, relayed.len) {
            let rest = Box::pin(self.client.write(relayed.rest, relayed.len)).await?;
            self.client.equipment.buffers.give(rest);
        }
        Ok(None)
    }

    /// True if an answer leaves the session, and what holds it to its connection, as they were.
    #[inline]
    fn changes_nothing(&self, response: &Response) -> bool {
        let status = response.status.map_or(self.state.status, Status::of_session);
        response.is_ok()
            && !response.has_cursor
            && response.changes.is_empty()
            && self.state.stays_as_it_is(status)
    }
}

/// The statement's id on the connection, where that has it; it is noted whose types it has then.
#[inline]
fn bind_at_once(
    checkout: &mut Checkout,
    (key, sharing): (&Rc<StatementKey>, Sharing),
    params: Option<&ExecuteParams>,
) -> Option<BackendStmtId> {
    if !sharing.is_shared {
        return None;
    }
    let statement = checkout.connection().statements.find(key)?;
    if let Some(params) = params {
        if params.types.is_none() && statement.bound_by != sharing.token {
            return None;
        }
        statement.bound_by = sharing.token;
        statement.has_run_with_values = true;
    }
    Some(statement.id)
}
