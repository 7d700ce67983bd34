//! One step of a session, how it is run, and its answer as text that can be compared.

use std::fmt;

use anyhow::Result;
use delphinus_sandbox::APP2;
use delphinus_testkit::{Change, Client, ColumnShape, Failure, Login, Param, Prepared, Reply, Success};

/// What a session does.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    Query(Vec<u8>),
    Prepare(usize, String),
    Execute(usize, Vec<Param>),
    /// Without the types of its parameters, which an earlier execution has sent.
    ExecuteAgain(usize, Vec<Param>),
    LongData(usize, Vec<u8>),
    ResetStatement(usize),
    Close(usize),
    InitDb(String),
    MultiStatements(bool),
    Ping,
    ResetConnection,
    ChangeUser(Option<&'static str>),
    /// COM_CHANGE_USER to the other account.
    OtherUser,
    /// The client goes away without a word, and comes back.
    Reconnect,
    /// KILL or KILL QUERY of another session of this user, which is idle.
    KillOther(&'static str),
    /// What SHOW PROCESSLIST says of the session itself.
    ProcessList,
}

/// Statements that a session can have prepared at a time.
pub(crate) const SLOTS: usize = 4;

/// Steps that belong together.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    pub steps: Vec<Step>,
    /// The session may keep its backend connection from the first to the last of them.
    pub pins: bool,
    /// Nobody else runs anything between its steps, because it would have to wait for a lock of this session.
    pub is_alone: bool,
}

impl Block {
    pub(crate) fn of(sql: &str) -> Self {
        Self::free(vec![query(sql)])
    }

    pub(crate) fn free(steps: Vec<Step>) -> Self {
        Self { steps, pins: false, is_alone: false }
    }

    pub(crate) fn pinned(steps: Vec<Step>) -> Self {
        Self { steps, pins: true, is_alone: false }
    }
}

pub(crate) fn query(sql: &str) -> Step {
    Step::Query(sql.as_bytes().to_vec())
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Query(sql) => {
                write!(f, "{}", sql.escape_ascii().to_string().replace("\\'", "'").replace("\\\"", "\""))
            }
            Self::LongData(slot, piece) => write!(f, "LongData({slot}, {} bytes)", piece.len()),
            other => write!(f, "{other:?}"),
        }
    }
}

/// A session on one side: direct, or through the proxy.
#[derive(Debug)]
pub(crate) struct Side {
    client: Client,
    login: Login,
    slots: [Option<Slot>; SLOTS],
}

/// A prepared statement, and what it was run with.
#[derive(Debug)]
struct Slot {
    prepared: Prepared,
    sql: String,
    kinds: Option<Vec<std::mem::Discriminant<Param>>>,
}

impl Side {
    pub(crate) fn connect(login: &Login) -> Result<Self> {
        let mut side = Self { client: login.connect()?, login: login.clone(), slots: Default::default() };
        side.begin()?;
        Ok(side)
    }

    /// A new session of MariaDB has the FOUND_ROWS() of whoever used the thread before.
    fn begin(&mut self) -> Result<()> {
        self.client.query("SELECT 1")?;
        Ok(())
    }

    /// The id that the greeting told.
    pub(crate) fn connection_id(&self) -> u32 {
        self.client.connection_id()
    }

    /// Runs a step; gives its answers, one in each line.
    pub(crate) fn run(&mut self, step: &Step) -> Result<String> {
        Ok(match step {
            // MySQL's answer to a CALL counts rows that a statement before it has changed.
            Step::Query(sql) => {
                let mut replies = self.client.query(self.with_id(sql))?;
                let text = String::from_utf8_lossy(sql).to_ascii_lowercase();
                for reply in &mut replies {
                    forget_what_is_not_its_own(reply, &text);
                }
                show(&if text.starts_with("execute") { without_types(replies) } else { replies })
            }
            Step::Prepare(slot, sql) => self.prepare(*slot, sql)?,
            Step::Execute(slot, params) => self.execute(*slot, params, true)?,
            Step::ExecuteAgain(slot, params) => self.execute(*slot, params, false)?,
            Step::LongData(slot, piece) => {
                if let Some(Slot { prepared, .. }) = &self.slots[*slot] {
                    self.client.send_long_data(prepared.id, 0, piece)?;
                }
                String::new()
            }
            Step::ResetStatement(slot) => match &self.slots[*slot] {
                Some(Slot { prepared, .. }) => show(&[self.client.reset_statement(prepared.id)?]),
                None => "nothing prepared".to_owned(),
            },
            Step::Close(slot) => {
                if let Some(Slot { prepared, .. }) = self.slots[*slot].take() {
                    self.client.close(prepared.id)?;
                }
                String::new()
            }
            Step::InitDb(schema) => without_warnings(&self.client.init_db(schema)?),
            Step::MultiStatements(on) => without_warnings(&self.client.set_multi_statements(*on)?),
            // MySQL counts the warnings of the statement before in the answers to commands that are not statements.
            Step::Ping => without_warnings(&self.client.ping()?),
            Step::ResetConnection => {
                self.slots = Default::default();
                let answer = show(&[self.client.reset_connection()?]);
                self.begin()?;
                answer
            }
            Step::ChangeUser(schema) => {
                self.slots = Default::default();
                let login =
                    schema.map_or_else(|| self.login.clone(), |schema| self.login.clone().schema(schema));
                self.client.change_user(&login)?;
                self.begin()?;
                "changed".to_owned()
            }
            Step::OtherUser => {
                self.slots = Default::default();
                self.client.change_user(&self.login.clone().user(APP2.user, APP2.password))?;
                self.begin()?;
                "changed".to_owned()
            }
            Step::Reconnect => {
                self.slots = Default::default();
                self.client = self.login.connect()?;
                self.begin()?;
                "connected".to_owned()
            }
            Step::KillOther(word) => self.kill_other(word)?,
            Step::ProcessList => self.process_list()?,
        })
    }

    /// The text with the id that the greeting told in it, which is another one on each side.
    fn with_id(&self, sql: &[u8]) -> Vec<u8> {
        match std::str::from_utf8(sql) {
            Ok(text) if text.contains("{id}") => {
                text.replace("{id}", &self.client.connection_id().to_string()).into_bytes()
            }
            _ => sql.to_vec(),
        }
    }

    fn kill_other(&mut self, word: &str) -> Result<String> {
        let mut other = self.login.connect()?;
        let killed = show(&self.client.query(format!("{word} {}", other.connection_id()))?);
        // It may take a moment until it is gone.
        for _ in 0..200 {
            if other.ping().is_err() {
                return Ok(format!("{killed}\nthe other is gone"));
            }
            if word != "KILL" {
                return Ok(format!("{killed}\nthe other has {}", show(&other.query("SELECT 1")?)));
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Ok(format!("{killed}\nthe other lives on"))
    }

    fn process_list(&mut self) -> Result<String> {
        let id = self.client.connection_id().to_string();
        let Some(Reply::Rows(list)) = self.client.query("SHOW PROCESSLIST")?.into_iter().next() else {
            return Ok("no list".to_owned());
        };
        if !self.client.server_version().contains("MariaDB") {
            // MySQL warns that its own list is going out of use. The proxy's is not.
            self.client.query("DO 0")?;
        }
        let names: Vec<_> = list.columns.iter().map(|column| column.name.as_str()).collect();
        let own = list.rows.iter().find(|row| row[0].as_deref() == Some(id.as_bytes()));
        // The address is the proxy's or the client's; times and states come and go.
        let cells = own.map(|row| [1, 3, 4, 7].map(|at| cell_text(row[at].as_deref())).join(" | "));
        Ok(format!("{} of {}", cells.unwrap_or_else(|| "nothing".to_owned()), names.join(", ")))
    }

    fn prepare(&mut self, slot: usize, sql: &str) -> Result<String> {
        if let Some(old) = self.slots[slot].take() {
            self.client.close(old.prepared.id)?;
        }
        Ok(match self.client.prepare(sql)? {
            Ok(prepared) => {
                let shown = format!("prepared: {} parameters{}", prepared.params, columns(&prepared.columns));
                self.slots[slot] = Some(Slot { prepared, sql: sql.to_owned(), kinds: None });
                shown
            }
            Err(failure) => failed(&failure),
        })
    }

    fn execute(&mut self, slot: usize, params: &[Param], with_types: bool) -> Result<String> {
        let Some(Slot { prepared, sql, kinds }) = &self.slots[slot] else {
            return Ok("nothing prepared".to_owned());
        };
        let count = usize::from(prepared.params);
        // A session's own table, which it also truncates.
        let with_numbers = sql.contains("WHERE k ");
        let params: Vec<Param> =
            params.iter().cycle().take(count).map(|param| comparable(param, with_numbers)).collect();
        let now: Vec<_> = params.iter().map(std::mem::discriminant).collect();
        if kinds.as_ref().is_some_and(|kinds| *kinds != now) {
            // MySQL converts to the type that a parameter had first, 'abc' to 0; the proxy does not imitate that.
            let sql = sql.clone();
            self.prepare(slot, &sql)?;
        }
        let Some(Slot { prepared, kinds, sql }) = &mut self.slots[slot] else {
            return Ok("not prepared again".to_owned());
        };
        // Types that are not sent are those of the run before, of which a new statement knows nothing.
        let with_types = with_types || kinds.is_none();
        *kinds = Some(now);
        let mut replies = self.client.execute(prepared.id, &params, with_types)?;
        let text = sql.to_ascii_lowercase();
        for reply in &mut replies {
            forget_what_is_not_its_own(reply, &text);
        }
        Ok(show(&without_types(replies)))
    }
}

/// MySQL compares text with an integer column as integers, but as floating point once it has prepared the statement
/// again by itself, as after TRUNCATE: what it says of text that is no number is the history of one statement on one
/// connection.
fn comparable(param: &Param, with_numbers: bool) -> Param {
    match param {
        Param::Text(_) if with_numbers => Param::Text("7".to_owned()),
        Param::Bytes(_) if with_numbers => Param::Bytes(b"8".to_vec()),
        other => other.clone(),
    }
}

/// After a statement that failed, servers tell with a later answer what it had changed (`MariaDB` also what it had only
/// tried to: `SET time_zone = 'Nowhere'`); and MySQL's answer to a CALL counts
/// rows that a statement before it has changed. Neither belongs to the statement.
fn forget_what_is_not_its_own(reply: &mut Reply, text: &str) {
    let may_set = text.contains("set ");
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    // SET NAMES and SET CHARACTER SET set all of them; the character set of the connection and its collation each other.
    let of_names =
        has(&["names", "charset", "character set", "character_set_client", "character_set_results"]);
    let of_connection = has(&["collation_connection", "character_set_connection"]);
    let is_own = |change: &Change| match change {
        Change::Variable(name, _) if may_set => {
            let is_connection = name == "collation_connection" || name == "character_set_connection";
            let is_any = name.contains("character_set") || name.contains("collation");
            text.contains(name) || of_names && is_any || of_connection && is_connection
        }
        Change::Variable(..) | Change::Schema(_) | Change::Other(_) => false,
    };
    match reply {
        Reply::Done(done) => {
            done.changes.retain(is_own);
            done.affected_rows = if text.starts_with("call") { 0 } else { done.affected_rows };
        }
        Reply::Rows(rows) => rows.end.changes.retain(is_own),
        Reply::Failed(_) => {}
    }
}

/// MySQL gives a user variable in a prepared statement the type of the value that it had when the statement was
/// prepared; that of one that was never set, which nothing but a new connection brings back, differs from NULL's.
/// MariaDB keeps a flag of columns made from parameters from the time when the statement was prepared.
fn without_types(mut replies: Vec<Reply>) -> Vec<Reply> {
    let columns = replies.iter_mut().flat_map(|reply| match reply {
        Reply::Rows(rows) => rows.columns.as_mut_slice(),
        Reply::Done(_) | Reply::Failed(_) => &mut [],
    });
    for column in columns.filter(|column| is_user_variable(column) || column.name.contains('?')) {
        *column = ColumnShape { name: std::mem::take(&mut column.name), ..ColumnShape::default() };
    }
    replies
}

fn is_user_variable(column: &ColumnShape) -> bool {
    column.name.replace("@@", "").contains('@')
}

fn without_warnings(reply: &Reply) -> String {
    show_one(reply).split(" warnings").next().unwrap_or_default().to_owned()
}

fn show(replies: &[Reply]) -> String {
    let lines: Vec<String> = replies.iter().map(show_one).collect();
    lines.join("\n")
}

fn show_one(reply: &Reply) -> String {
    match reply {
        Reply::Done(done) => {
            format!("OK affected={} id={}{}", done.affected_rows, done.last_insert_id, end(done))
        }
        Reply::Failed(failure) => failed(failure),
        Reply::Rows(found) => {
            let mut text = format!("rows{}{}", rows_columns(&found.columns, &found.rows), end(&found.end));
            for row in &found.rows {
                let cells: Vec<String> = row.iter().map(|cell| cell_text(cell.as_deref())).collect();
                text.push_str("\n    ");
                text.push_str(&cells.join(" | "));
            }
            text
        }
    }
}

fn cell_text(cell: Option<&[u8]>) -> String {
    cell.map_or_else(|| "NULL".to_owned(), |bytes| format!("'{}'", bytes.escape_ascii()))
}

fn columns(columns: &[ColumnShape]) -> String {
    rows_columns(columns, &[])
}

/// The columns of a result. A user variable that is NULL keeps the type of the value that it had, which nobody who
/// cannot see that value can restore.
fn rows_columns(columns: &[ColumnShape], rows: &[Vec<Option<Vec<u8>>>]) -> String {
    let shapes = columns.iter().enumerate().map(|(at, column)| {
        if is_user_variable(column) && rows.iter().all(|row| row[at].is_none()) {
            return format!(" [{}]", column.name);
        }
        let ColumnShape { name, kind, collation, flags, decimals } = column;
        // How long its value might have been, by which a text is of one type or another, shows only where it was set.
        let (mut kind, mut flags) = (*kind, *flags);
        if is_user_variable(column) && (249..=253).contains(&kind) {
            // So does the flag that it came from an expression with numbers in it; its collation is asked for by SQL.
            (kind, flags) = (252, flags & !BINARY);
        }
        format!(" [{name} {kind}/{collation}/{flags}/{decimals}]")
    });
    shapes.collect()
}

const BINARY: u16 = 128;

/// Flags that are the session's: in a transaction, autocommit, more results, NO_BACKSLASH_ESCAPES,
/// OUT parameters, READ ONLY transaction.
const STATUS: u16 = 1 | 2 | 8 | 512 | 4096 | 8192;

fn end(end: &Success) -> String {
    let changes: Vec<String> = end.changes.iter().filter_map(change).collect();
    let (status, warnings, info) = (end.status.0 & STATUS, end.warnings, &end.info);
    format!(" status={status} warnings={warnings} info={info:?} {}", changes.join(","))
}

fn change(change: &Change) -> Option<String> {
    match change {
        Change::Variable(name, value) => Some(format!("{name}={value}")),
        // A routine's schema is entered and left, and MySQL tells that with a later answer when the routine fails.
        Change::Schema(_) | Change::Other(_) => None,
    }
}

fn failed(failure: &Failure) -> String {
    // Ids of statements are each side's own.
    let message = if failure.code == 1243 { "" } else { &failure.message };
    // The primary knows the proxy by its address, and the direct client by its socket.
    let message = message.replace("@'127.0.0.1'", "@'localhost'");
    format!("error {} {} {message}", failure.code, failure.state)
}
