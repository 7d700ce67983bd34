//! `SELECT` over tables: SQLite says what a text reads, these tables are filled, and SQLite answers; and what clients ask for
//! without a table.

use std::cell::RefCell;

use delphinus_net::rt::oneshot;
use delphinus_tables::{Cell, Engine, Fault, Kind, Query, Work};
use delphinus_wire::error_code;

use crate::answer::{Answer, Refused};
use crate::command::doctor::DOCTOR;
use crate::command::{Call, Caller};
use crate::console::Console;
use crate::hello;
use crate::source::{Source, catalog};
use crate::table::Table;
use crate::turns::Turns;

/// Where statements over tables are run.
#[derive(Default)]
pub(crate) struct Desk {
    turns: Turns,
    /// From the first statement on.
    engine: RefCell<Option<Engine>>,
}

impl Desk {
    /// Has SQLite's thread do this, and waits for it.
    async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refused> {
        let (sender, done) = oneshot::channel();
        // Who waits may have gone.
        self.submit(Box::new(move || drop(sender.send(work()))))?;
        done.await.map_err(|_| {
            Refused::because("the statement has ended in a fault of the proxy; please report it")
        })
    }

    fn submit(&self, work: Work) -> Result<(), Refused> {
        let mut engine = self.engine.borrow_mut();
        let work = match &*engine {
            Some(engine) => match engine.submit(work) {
                Ok(()) => return Ok(()),
                Err(work) => work,
            },
            None => work,
        };
        // None has begun yet, or it has ended by a fault.
        let cannot = |error: &dyn ToString| {
            Refused::because(format!(
                "cannot start the thread for tables: \
             {}",
                error.to_string()
            ))
        };
        let fresh = Engine::start().map_err(|error| cannot(&error))?;
        fresh.submit(work).map_err(|_| cannot(&"it does not start"))?;
        *engine = Some(fresh);
        Ok(())
    }
}

/// `SELECT` or `WITH`.
pub(crate) async fn run(call: &Call<'_>) -> Result<Answer, Refused> {
    let refused = match hello_to(call) {
        Ok(Some(table)) => return Ok(Answer::Rows(table)),
        Ok(None) => None,
        Err(refused) => Some(refused),
    };
    match read(call.console, call.caller, call.text, call.parameters).await {
        Ok(table) => Ok(Answer::Rows(table)),
        // SQLite knows no variables: what is said of these is better.
        Err(error) => Err(refused.unwrap_or_else(|| logged(call, error))),
    }
}

/// The answer to what clients ask for when they connect; `None` for everything else. An error is about a variable.
fn hello_to(call: &Call<'_>) -> Result<Option<Table>, Refused> {
    match hello::select(call) {
        Ok(table) => Ok(Some(table)),
        Err(refused) if refused.code == error_code::ER_UNKNOWN_SYSTEM_VARIABLE => Err(refused),
        Err(_) => Ok(None),
    }
}

fn logged(call: &Call<'_>, error: ReadError) -> Refused {
    if let ReadError::Fault(fault @ (Fault::Time | Fault::Memory)) = &error {
        let caller = call.caller;
        tracing::warn!(admin.user = %caller.user, client.host = %caller.host, %fault, "SELECT ended");
    }
    error.into()
}

enum ReadError {
    Fault(Fault),
    Refused(Refused),
}

impl From<Fault> for ReadError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Refused> for ReadError {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl From<ReadError> for Refused {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Fault(fault) => fault.into(),
            ReadError::Refused(refused) => refused,
        }
    }
}

const BUSY: &str = "other statements over tables have not ended in time; try again";

async fn read(
    console: &Console,
    caller: &Caller,
    text: &str,
    parameters: &[Cell],
) -> Result<Table, ReadError> {
    let take = || async { console.desk.turns.take(&caller.user).await.ok_or_else(|| Refused::because(BUSY)) };
    let mut turn = Some(take().await?);
    let query = plan(console, text).await??;
    if query.needs().iter().any(|table| table.name == DOCTOR.table.name) {
        // It waits for the examinations of others, and for servers that may hang: statements over other tables do not.
        turn = None;
    }
    let mut tables = Vec::new();
    for table in query.needs() {
        let source = source_of(table);
        source.allow(caller.role)?;
        tables.push((table, source.content(console, query.reads()).await?));
    }
    if turn.is_none() {
        turn = Some(take().await?);
    }
    let parameters = parameters.to_vec();
    let answer = console.desk.run(move || query.run(tables, &parameters)).await??;
    drop(turn);
    Ok(answer.into())
}

fn source_of(table: &delphinus_tables::Table) -> &'static Source {
    Source::of(table).expect("invariant: every table that is no view has a source")
}

async fn plan(console: &Console, text: &str) -> Result<Result<Query, Fault>, Refused> {
    let text = text.to_owned();
    console.desk.run(move || Query::plan(&catalog(), &text)).await
}

/// A statement's columns, and how many parameters it has, without its answer.
pub(crate) async fn prepare(call: &Call<'_>) -> Result<(Table, usize), Refused> {
    if let Some(table) = hello_to(call)? {
        return Ok((table, 0));
    }
    let user = &call.caller.user;
    let turn = call.console.desk.turns.take(user).await.ok_or_else(|| Refused::because(BUSY))?;
    let query = plan(call.console, call.text).await??;
    drop(turn);
    query.needs().iter().try_for_each(|table| source_of(table).allow(call.caller.role))?;
    let head = |(name, kind): &(String, Kind)| match kind {
        Kind::Integer => format!("#{name}"),
        Kind::Real | Kind::Text => name.clone(),
    };
    let names: Vec<_> = query.columns().iter().map(head).collect();
    Ok((Table::new(names.iter().map(String::as_str)), query.parameters()))
}
