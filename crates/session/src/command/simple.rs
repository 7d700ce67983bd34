//! Commands that are passed on as they are (COM_INIT_DB, COM_FIELD_LIST, COM_STATISTICS, COM_PROCESS_INFO,
//! COM_DEBUG, COM_REFRESH), and those that the proxy answers alone (COM_PING, COM_SET_OPTION).

use std::rc::Rc;

use delphinus_net::rt;
use delphinus_pool::{Checkout, Means};
use delphinus_sql::{Access, Class, Effects, SqlText, Statement, Uses, Why, classify};
use delphinus_state::{Changed, PinReason, Shape};
use delphinus_wire::HEADER_LEN;

use super::Rare;
use crate::answer::{give_eof, give_ok};
use crate::client_error::ProxyError;
use crate::follow::AT_RISK;
use crate::hold::Held;
use crate::io::{Client, Input, Relayed};
use crate::rescue::{lost, take_bound};
use crate::run::{Carried, Job};
use crate::served::{Outcome, Served};
use crate::session::Session;
use crate::state::{Ran, Wanted};

/// A command that is not SQL, as a statement without text.
const ENTERS: (Statement, &[u8]) = (
    Statement {
        class: Class::Use,
        access: Access::Write,
        why: Why::ChangesSession,
        effects: Effects::empty(),
        uses: Uses::empty(),
        count: 1,
        is_of_session: false,
    },
    b"",
);

/// What the bits of COM_REFRESH flush: those first that leave something to the session, or to others.
/// Source: <https://dev.mysql.com/doc/c-api/8.0/en/mysql-refresh.html>
const REFRESHED: [(u8, &str); 6] =
    [(16, "STATUS"), (4, "TABLES"), (1, "PRIVILEGES"), (2, "LOGS"), (8, "HOSTS"), (!31, "OTHERS")];

/// A command that is no SQL, or not as such.
struct Simple {
    statement: Statement,
    shape: Shape,
    /// It enters a schema.
    enters: bool,
}

impl Job for Simple {
    fn statement(&self) -> &Statement {
        &self.statement
    }

    /// What is not SQL changes nothing on the server.
    fn runs(&self) -> bool {
        self.statement.class != Class::Use
    }

    fn shape(&self) -> Shape {
        self.shape
    }

    async fn ready(
        &mut self,
        session: &mut Session,
        checkout: &mut Checkout,
        input: Input,
    ) -> Result<Input, ProxyError> {
        if self.enters && !session.state.sql.is_empty() {
            let all = session.state.to_bring_all();
            let (client, mut watch) = session.watch();
            watch.bring(client, checkout, all).await?;
        }
        Ok(input)
    }
}

/// COM_PING. A session that is pinned to a connection is only as alive as that is.
pub(super) async fn ping(client: &mut Client, held: &mut Held, state: &mut Wanted) -> Outcome {
    match take_bound(held, state) {
        Ok(checkout) => held.bound = checkout,
        Err(error) => return Ok(Served::Fatal(error)),
    }
    client.equipment.counters.routed_local.increment();
    give_ok(client, state.status, &held.memory).await?;
    Ok(Served::Answered)
}

/// COM_SET_OPTION.
pub(super) async fn set_option(
    option: u16,
    client: &mut Client,
    held: &mut Held,
    state: &mut Wanted,
) -> Outcome {
    if option > 1 {
        return Ok(Served::Error(ProxyError::UnknownCommand));
    }
    state.want.multi_statements = option == 0;
    let bound = match take_bound(held, state) {
        Ok(bound) => bound,
        Err(error) => return Ok(Served::Fatal(error)),
    };
    if let Some(mut checkout) = bound {
        let memory = held.memory.clone();
        if checkout.make_ready_by(&state.want, &memory, Means::Settings).await.is_err() {
            return Ok(Served::refused(lost("it broke", held, state)));
        }
        held.bound = Some(checkout);
    }
    give_eof(client, state.status, &held.memory).await?;
    Ok(Served::Answered)
}

impl Session {
    pub(crate) async fn init_db(&mut self, input: Input) -> Outcome {
        let name =
            String::from_utf8_lossy(&self.client.buffer.data()[HEADER_LEN + 1..input.held]).into_owned();
        if let Err(error) = self.clusters.check_schema(self.worker.cluster, &name) {
            return self.refuse(input, error.into()).await;
        }
        self.simple(input, Shape::Single, Some(name), ENTERS).await
    }

    pub(crate) async fn field_list(&mut self, input: Input) -> Outcome {
        self.simple(input, Shape::Rows, None, ENTERS).await
    }

    pub(crate) async fn statistics(&mut self, input: Input) -> Outcome {
        self.simple(input, Shape::Text, None, ENTERS).await
    }

    pub(crate) async fn pass_through(&mut self, input: Input, command: Rare) -> Outcome {
        let shape = if command == Rare::ProcessInfo { Shape::Results } else { Shape::Single };
        self.simple(input, shape, None, ENTERS).await
    }

    /// The old form of FLUSH.
    pub(crate) async fn refresh(&mut self, input: Input, what: u8) -> Outcome {
        let flushed = REFRESHED.iter().filter(|(bit, _)| what & bit != 0).map(|(_, name)| *name);
        let sql = format!("FLUSH {}", flushed.collect::<Vec<_>>().join(", "));
        let statement = classify(sql.as_bytes(), self.state.lex.options(&self.state.want.vars));
        if statement.effects.intersects(AT_RISK) {
            self.noted.note_rights(&statement, sql.as_bytes(), &mut self.state, &self.held.identity.user);
            self.looks_after_noted();
        }
        self.begin_statement(&statement);
        self.simple(input, Shape::Single, None, (statement, sql.as_bytes())).await
    }

    /// Passes a command on to the primary. With `schema`, it enters that schema.
    async fn simple(
        &mut self,
        input: Input,
        shape: Shape,
        schema: Option<String>,
        (statement, sql): (Statement, &[u8]),
    ) -> Outcome {
        // The primary, unless the listener is for replicas.
        let is_of_session = statement.is_of_session || schema.is_some() || shape == Shape::Rows;
        let statement = Statement { is_of_session, ..statement };
        let mut job = Simple { statement, shape, enters: schema.is_some() };
        let (checkout, relayed) = match self.carry(input, &mut job).await? {
            Carried::Through(checkout, relayed, _) => (checkout, relayed),
            Carried::Served(served) => return Ok(served),
        };
        let Relayed { mut response, rest, len, .. } = relayed;
        if let Some(schema) = schema.filter(|_| response.is_ok()) {
            let reported = response.changes.iter().any(|change| matches!(change, Changed::Schema(_)));
            if !reported {
                response.changes.push(Changed::Schema(Some(Rc::<str>::from(schema).as_ref().into())));
            }
        }
        if statement.uses.contains(Uses::SESSION_STATUS) && response.is_ok() {
            self.state.pins.add(PinReason::Status, rt::now(), sql);
        }
        let text = SqlText::new(sql, self.state.lex.options(&self.state.want.vars));
        let ran = Ran { statement: &statement, text: &text, response: &response };
        let settled = self.settle(checkout, ran).await;
        let rest = self.client.write(rest, len).await?;
        self.worker.buffers.give(rest);
        Ok(if settled.is_ok() { Served::Answered } else { Served::End })
    }
}
