//! A small blocking MySQL client: logs in, sends commands, reads answers.
//!
//! It shares no code with the proxy, so that a mistake in one does not hide in the other. TLS is left to the drivers.

pub(crate) mod auth;
pub(crate) mod login;
pub(crate) mod packet;

use std::fmt;

use anyhow::{Context, Result, bail, ensure};

pub use login::Login;
use packet::{Packets, Reader};

/// An error that the other side answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError {
    /// The error number.
    pub code: u16,
    /// Five characters.
    pub sqlstate: String,
    /// The text.
    pub message: String,
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.code, self.sqlstate, self.message)
    }
}

impl std::error::Error for ServerError {}

/// One answer to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// OK: affected rows, last insert id, status flags.
    Done {
        /// Rows that were changed.
        affected: u64,
        /// The first automatic id.
        last_insert_id: u64,
        /// Status flags.
        status: u16,
    },
    /// Rows of the text protocol; for the binary protocol each row is empty, only their number counts.
    Rows(Vec<Vec<Option<String>>>),
}

/// SERVER_MORE_RESULTS_EXISTS.
const MORE_RESULTS: u16 = 8;

/// One session.
#[derive(Debug)]
pub struct Client {
    packets: Packets,
    /// The id that the greeting told.
    pub connection_id: u32,
    /// The version that the greeting told.
    pub server_version: String,
}

impl Client {
    /// Connects and logs in. A refusal is a [`ServerError`].
    pub fn connect(login: &Login) -> Result<Self> {
        let mut packets = Packets::open(&login.target, login.limit)?;
        let greeting = login.run(&mut packets)?;
        Ok(Self { packets, connection_id: greeting.connection_id, server_version: greeting.version })
    }

    /// Becomes another user. A refusal is a [`ServerError`].
    pub fn change_user(&mut self, login: &Login) -> Result<()> {
        login.change(&mut self.packets)
    }

    /// Runs one statement and gives its first answer; the others, if any, are read and dropped.
    pub fn query(&mut self, sql: &str) -> Result<Answer> {
        self.query_all(sql)?.into_iter().next().context("no answer")
    }

    /// Runs a text and gives all answers; an error after the first answer is an error of the whole.
    pub fn query_all(&mut self, sql: &str) -> Result<Vec<Answer>> {
        self.send(3, sql.as_bytes())?;
        self.answers(false)
    }

    /// The rows of one statement that comes with query attributes; the login must have asked for them.
    pub fn rows_with(&mut self, attributes: &[(&str, &str)], sql: &str) -> Result<Vec<Vec<Option<String>>>> {
        let mut payload = vec![u8::try_from(attributes.len())?, 1];
        payload.extend(encoded(attributes));
        payload.extend(sql.as_bytes());
        self.send(3, &payload)?;
        match self.answers(false)?.into_iter().next() {
            Some(Answer::Rows(rows)) => Ok(rows),
            other => bail!("`{sql}` has no rows: {other:?}"),
        }
    }

    /// The rows of one statement.
    pub fn rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>> {
        match self.query(sql)? {
            Answer::Rows(rows) => Ok(rows),
            Answer::Done { .. } => bail!("`{sql}` has no rows"),
        }
    }

    /// The first column of the first row.
    pub fn value(&mut self, sql: &str) -> Result<String> {
        let rows = self.rows(sql)?;
        rows.into_iter().flatten().next().flatten().with_context(|| format!("`{sql}` has no value"))
    }

    /// The error of a statement that has to fail.
    pub fn error(&mut self, sql: &str) -> Result<ServerError> {
        match self.query(sql) {
            Ok(answer) => bail!("`{sql}` did not fail: {answer:?}"),
            Err(error) => error.downcast::<ServerError>(),
        }
    }

    /// Prepares a statement without parameters; gives its id.
    pub fn prepare(&mut self, sql: &str) -> Result<u32> {
        self.send(0x16, sql.as_bytes())?;
        let first = self.packets.read_checked()?;
        let mut reader = Reader::new(&first[1..]);
        let id = reader.u32()?;
        let (columns, parameters) = (reader.u16()?, reader.u16()?);
        ensure!(parameters == 0, "this client has no parameters");
        if columns > 0 {
            for _ in 0..=columns {
                self.packets.read()?; // the columns, and an EOF
            }
        }
        Ok(id)
    }

    /// Runs a prepared statement without parameters with query attributes, which the login has to allow.
    pub fn execute_with(&mut self, statement: u32, attributes: &[(&str, &str)]) -> Result<Answer> {
        let mut payload = statement.to_le_bytes().to_vec();
        // PARAMETER_COUNT_AVAILABLE, and one iteration.
        payload.extend([8, 1, 0, 0, 0, u8::try_from(attributes.len())?]);
        payload.extend(encoded(attributes));
        self.send(0x17, &payload)?;
        self.answers(true)?.into_iter().next().context("no answer")
    }

    /// Runs a prepared statement.
    pub fn execute(&mut self, statement: u32) -> Result<Answer> {
        let mut payload = statement.to_le_bytes().to_vec();
        payload.extend([0, 1, 0, 0, 0]);
        self.send(0x17, &payload)?;
        self.answers(true)?.into_iter().next().context("no answer")
    }

    /// Closes a prepared statement; there is no answer.
    pub fn close_statement(&mut self, statement: u32) -> Result<()> {
        self.send(0x19, &statement.to_le_bytes())
    }

    /// Sends a command by its number and gives its answer packet.
    pub fn command(&mut self, number: u8, payload: &[u8]) -> Result<Vec<u8>> {
        self.send(number, payload)?;
        self.packets.read_checked()
    }

    /// COM_QUIT; then the other side must close the connection.
    pub fn quit(mut self) -> Result<()> {
        self.send(1, &[])?;
        ensure!(self.packets.is_at_end()?, "an answer to COM_QUIT");
        Ok(())
    }

    /// Sends a command without waiting for its answer.
    pub fn send(&mut self, number: u8, payload: &[u8]) -> Result<()> {
        self.packets.restart();
        self.packets.write(&[&[number], payload].concat())
    }

    /// The bytes below, for tests that break off in the middle.
    pub fn into_wire(self) -> packet::Wire {
        self.packets.wire
    }

    /// Reads the answers to a text command that [`Client::send`] has sent.
    pub fn read_answers(&mut self) -> Result<Vec<Answer>> {
        self.answers(false)
    }

    /// The same for a command that was sent before the answers to the one in front of it were read.
    pub fn read_next_answers(&mut self) -> Result<Vec<Answer>> {
        self.packets.expect_answer();
        self.answers(false)
    }

    fn answers(&mut self, binary: bool) -> Result<Vec<Answer>> {
        let mut all = Vec::new();
        loop {
            let (answer, status) = self.answer(binary)?;
            all.push(answer);
            if status & MORE_RESULTS == 0 {
                return Ok(all);
            }
        }
    }

    fn answer(&mut self, binary: bool) -> Result<(Answer, u16)> {
        let first = self.packets.read_checked()?;
        let mut reader = Reader::new(&first);
        if first[0] == 0 {
            reader.u8()?;
            let (affected, last_insert_id) = (reader.lenenc()?, reader.lenenc()?);
            let status = reader.u16()?;
            return Ok((Answer::Done { affected, last_insert_id, status }, status));
        }
        ensure!(first[0] != 0xfb, "LOAD DATA LOCAL is left to the drivers");
        for _ in 0..=reader.lenenc()? {
            self.packets.read()?; // the columns, and an EOF
        }
        let mut rows = Vec::new();
        loop {
            let packet = self.packets.read_checked()?;
            if packet[0] == 0xfe && packet.len() < 9 {
                let mut end = Reader::new(&packet[1..]);
                end.u16()?;
                return Ok((Answer::Rows(rows), end.u16()?));
            }
            rows.push(if binary { Vec::new() } else { Reader::new(&packet).text_row()? });
        }
    }
}

/// Query attributes behind their number; everything here is a text, and short.
fn encoded(attributes: &[(&str, &str)]) -> Vec<u8> {
    if attributes.is_empty() {
        return Vec::new();
    }
    let mut bytes = vec![0; attributes.len().div_ceil(8)];
    bytes.push(1);
    let text = |bytes: &mut Vec<u8>, text: &str| {
        bytes.push(text.len() as u8);
        bytes.extend(text.as_bytes());
    };
    for (name, _) in attributes {
        bytes.extend([253, 0]);
        text(&mut bytes, name);
    }
    for (_, value) in attributes {
        text(&mut bytes, value);
    }
    bytes
}
