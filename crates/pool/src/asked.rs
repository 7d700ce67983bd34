//! What the proxy asks backends on its own account, for the log of all statements.
//!
//! Must not know why it is asked. Where the log is off, or wants nothing of backends, all that is left is a look at that.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use delphinus_journal::{Command, Entry, Origin, Pens, Route, Side};
use delphinus_net::rt;
use delphinus_sql::{Flavor, LexOptions};
use delphinus_state::{lex_in_mode, lex_with};
use delphinus_wire::command::Code;
use delphinus_wire::response::{ErrPacket, TextResult};
use delphinus_wire::{Capabilities, query_text_at};

use crate::ask::{Answer, AskError};
use crate::connection::Connection;
use crate::statements::StatementKey;

/// Where it is written what is asked on a connection.
#[derive(Debug, Clone)]
pub struct AskedLog {
    pens: Rc<Pens>,
    /// The backend's name.
    backend: Arc<str>,
}

/// What was asked, and how it came out.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// Who wanted it.
    pub origin: Origin,
    /// The command without its header; of COM_STMT_EXECUTE the text is `text`.
    pub payload: &'a [u8],
    /// What is executed, where the command is no text.
    pub text: Option<&'a StatementKey>,
    /// When it was sent.
    pub began: Instant,
    /// The number of the server's error; 0: none.
    pub error: u16,
    /// Rows of the answer.
    pub rows: u64,
}

impl AskedLog {
    pub(crate) fn new(pens: Rc<Pens>, backend: Arc<str>) -> Self {
        Self { pens, backend }
    }

    /// When a question begins that the log may want.
    pub fn begin(&self) -> Option<Instant> {
        self.pens.sql.may_want_of_backends().then(rt::now)
    }

    /// Writes what was asked on this connection.
    fn write(&self, connection: &Connection, question: Question<'_>) {
        let (command, sql) = read(question.payload, connection.capabilities);
        let schema = connection.have.schema.clone();
        let entry = Entry {
            command,
            user: &connection.identity.user,
            session: connection.memory.session(),
            schema: schema.as_deref(),
            connection: connection.thread_id,
            ..self.entry(&question)
        };
        let is_mariadb = !connection.capabilities.contains(Capabilities::LONG_PASSWORD);
        let flavor = if is_mariadb { Flavor::MariaDb } else { Flavor::MySql };
        let first = connection.memory.first_mode().map(|first| first.mode()).unwrap_or_default();
        let options = lex_in_mode(LexOptions { flavor, ..LexOptions::default() }, first);
        match question.text {
            // It is read as it was prepared, whatever its session has set since.
            Some(key) => self.put(&entry, key.text(), lex_with(options, &key.state().vars)),
            None => self.put(&entry, sql, lex_with(options, &connection.have.vars)),
        }
    }

    /// The same on a connection that is there for this question alone.
    pub(crate) fn write_beside(&self, question: Question<'_>, (user, thread_id): (&str, u32)) {
        let (command, sql) = read(question.payload, Capabilities::default());
        let entry = Entry { command, user, connection: thread_id, ..self.entry(&question) };
        self.put(&entry, sql, LexOptions::default());
    }

    fn entry(&self, question: &Question<'_>) -> Entry<'_> {
        let took_us = u64::try_from(question.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        Entry {
            took_us,
            at_us: [0, 0, 0, u32::try_from(took_us).unwrap_or(u32::MAX), 0],
            side: Side::Backend,
            origin: question.origin,
            rows_sent: question.rows,
            error: question.error,
            backend: Some(&self.backend),
            route: Route::Proxy,
            bytes_received: question.payload.len() as u64 + 4,
            ..Entry::now()
        }
    }

    fn put(&self, entry: &Entry<'_>, sql: &[u8], lex: LexOptions) {
        let pen = &self.pens.sql;
        if !pen.may_want(entry.took_us) {
            return;
        }
        let Some(settings) = pen.wants_text(entry.user, (sql, lex)) else { return };
        match entry.command {
            Command::Query | Command::Prepare | Command::Execute | Command::Fetch => {
                pen.write_text(entry, (sql, lex), &settings);
            }
            Command::InitDb | Command::Other => pen.write(&Entry { text: sql, ..*entry }),
            Command::Reset => pen.write(entry),
        }
    }
}

impl Connection {
    /// Has the log know what was asked, if it wants that. `began` is what [`AskedLog::begin`] has given.
    pub fn log_question(&self, question: Question<'_>) {
        if let Some(log) = &self.log {
            log.write(self, question);
        }
    }

    /// When a question begins that the log may want.
    pub fn begin_question(&self) -> Option<Instant> {
        self.log.as_ref()?.begin()
    }

    /// The same of one of the proxy's own, with its answer.
    pub(crate) fn log_asked(&self, payload: &[u8], began: Instant, answer: &Result<Answer, AskError>) {
        let (error, rows) = match answer {
            Ok(Answer { result: TextResult { rows, .. }, .. }) => (0, rows.len() as u64),
            Err(error) => (number_of(error), 0),
        };
        self.log_question(Question { origin: Origin::Proxy, payload, text: None, began, error, rows });
    }
}

/// The server's number of an error; that of a lost connection where it has said nothing.
pub(crate) fn number_of(error: &AskError) -> u16 {
    match error {
        AskError::Refused(ErrPacket { code, .. }) => *code,
        AskError::Broken(_) => delphinus_wire::error_code::CR_SERVER_LOST,
    }
}

/// The command, and the text in it.
fn read(payload: &[u8], capabilities: Capabilities) -> (Command, &[u8]) {
    let rest = payload.get(1..).unwrap_or_default();
    match payload.first() {
        Some(code) if *code == Code::Query as u8 => {
            let at = query_text_at(payload, capabilities).unwrap_or(1);
            (Command::Query, payload.get(at..).unwrap_or_default())
        }
        Some(code) if *code == Code::StmtPrepare as u8 => (Command::Prepare, rest),
        Some(code) if *code == Code::StmtExecute as u8 => (Command::Execute, &[]),
        Some(code) if *code == Code::InitDb as u8 => (Command::InitDb, rest),
        Some(code) if *code == Code::ChangeUser as u8 || *code == Code::ResetConnection as u8 => {
            (Command::Reset, &[])
        }
        Some(code) => {
            let name = Code::from_byte(*code).map_or("", Code::name);
            (Command::Other, name.as_bytes())
        }
        None => (Command::Other, &[]),
    }
}
