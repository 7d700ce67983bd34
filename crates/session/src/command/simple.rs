//! Commands that are passed on as they are (COM_INIT_DB, COM_FIELD_LIST, COM_STATISTICS, COM_PROCESS_INFO,
//! COM_DEBUG, COM_REFRESH), and those that the proxy answers alone (COM_PING, COM_SET_OPTION).

use delphinus_net::rt;
use delphinus_pool::{Checkout, Means};
use delphinus_sql::{Access, Class, Effects, LexOptions, Risks, Statement, Uses, Why, classify};
use delphinus_state::{Changed, PinReason, Response, Shape};

use crate::answer::{give_eof, give_ok};
use crate::client_error::ProxyError;
use crate::hold::Held;
use crate::io::{Client, Input};
use crate::rescue::{lost, take_bound};
use crate::run::Job;
use crate::served::{Outcome, Served};
use crate::session::Session;
use crate::state::Wanted;

/// A command that is not SQL, as a statement without text.
const ENTERS: Statement = Statement {
    class: Class::Use,
    access: Access::Write,
    why: Why::ChangesSession,
    effects: Effects::empty(),
    uses: Uses::empty(),
    count: 1,
    risks: Risks::empty(),
    is_of_session: false,
};

/// What the bits of COM_REFRESH flush: those first that leave something to the session, or to others.
/// Source: <https://dev.mysql.com/doc/c-api/8.0/en/mysql-refresh.html>
const REFRESHED: [(u8, &str); 6] =
    [(16, "STATUS"), (4, "TABLES"), (1, "PRIVILEGES"), (2, "LOGS"), (8, "HOSTS"), (!31, "OTHERS")];

/// A command that is no SQL, or not as such: it goes to the primary, unless the listener is for replicas.
pub(super) struct Simple {
    statement: Statement,
    /// The SQL that means the same, where there is any.
    sql: String,
    shape: Shape,
    /// It enters this schema.
    schema: Option<String>,
}

impl Simple {
    /// One that means nothing to the session.
    fn new(shape: Shape) -> Self {
        // The columns of a table can be told without a primary.
        let statement = Statement { is_of_session: shape == Shape::Rows, ..ENTERS };
        Self { statement, sql: String::new(), shape, schema: None }
    }

    /// COM_INIT_DB.
    pub(super) fn init_db(name: String) -> Self {
        let statement = Statement { is_of_session: true, ..ENTERS };
        Self { statement, schema: Some(name), ..Self::new(Shape::Single) }
    }

    /// COM_FIELD_LIST.
    pub(super) fn field_list() -> Self {
        Self::new(Shape::Rows)
    }

    /// COM_STATISTICS.
    pub(super) fn statistics() -> Self {
        Self::new(Shape::Text)
    }

    /// COM_PROCESS_INFO.
    pub(super) fn process_info() -> Self {
        Self::new(Shape::Results)
    }

    /// COM_DEBUG.
    pub(super) fn debug() -> Self {
        Self::new(Shape::Single)
    }

    /// COM_REFRESH, the old form of FLUSH.
    pub(super) fn refresh(what: u8, lex: LexOptions) -> Self {
        let flushed = REFRESHED.iter().filter(|(bit, _)| what & bit != 0).map(|(_, name)| *name);
        let sql = format!("FLUSH {}", flushed.collect::<Vec<_>>().join(", "));
        Self { statement: classify(sql.as_bytes(), lex), sql, ..Self::new(Shape::Single) }
    }

    /// The SQL that means the same, if there is any.
    pub(super) fn sql(&self) -> &[u8] {
        self.sql.as_bytes()
    }

    /// Takes in what the answer means that does not say so itself.
    pub(super) fn learn(&self, response: &mut Response, state: &mut Wanted) {
        if !response.is_ok() {
            return;
        }
        if let Some(schema) = &self.schema {
            let is_reported = response.changes.iter().any(|change| matches!(change, Changed::Schema(_)));
            if !is_reported {
                response.changes.push(Changed::Schema(Some(schema.as_str().into())));
            }
        }
        if self.statement.uses.contains(Uses::SESSION_STATUS) {
            state.pins.add(PinReason::Status, rt::now(), self.sql());
        }
    }
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
        if self.schema.is_some() && !session.state.sql.is_empty() {
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
            return Ok(Served::refused(lost("the connection broke", held, state)));
        }
        held.bound = Some(checkout);
    }
    give_eof(client, state.status, &held.memory).await?;
    Ok(Served::Answered)
}
