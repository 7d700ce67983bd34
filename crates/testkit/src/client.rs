//! The commands of one session, blocking.

use anyhow::{Context, Result, bail, ensure};
use delphinus_wire::command::Code;
use delphinus_wire::handshake::client::ClientLink;
use delphinus_wire::response::{self, EofPacket, ErrPacket, PrepareOk, Status};
use delphinus_wire::{Capabilities, MAX_PAYLOAD, Put, Reader};

use crate::binary::{Param, binary_row, put_params};
use crate::login::Login;
use crate::packets::Packets;
use crate::reply::{ColumnShape, Failure, Reply, Rows, Success};

/// A logged-in session.
#[derive(Debug)]
pub struct Client {
    packets: Packets,
    link: ClientLink,
    connection_id: u32,
    server_version: String,
    /// What is in a file that the other side asks for.
    content: fn(&[u8]) -> Vec<u8>,
}

/// A prepared statement.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The id that the other side gave.
    pub id: u32,
    /// How many parameters it has.
    pub params: u16,
    /// The columns that it was said to give.
    pub columns: Vec<ColumnShape>,
}

/// Columns or parameters, and the EOF after them.
type Definitions = (Vec<ColumnShape>, Option<EofPacket>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Text,
    Binary,
    /// Binary, and a cursor was asked for.
    Cursor,
}

impl Client {
    pub(crate) fn new(
        packets: Packets,
        link: ClientLink,
        connection_id: u32,
        server_version: String,
    ) -> Self {
        Self { packets, link, connection_id, server_version, content: |_| Vec::new() }
    }

    /// What is in a file of this name, of one packet at most, where LOAD DATA LOCAL asks for it. Without this all files are empty. The
    /// login has to announce `LOCAL_FILES`.
    #[must_use]
    pub fn with_files(self, content: fn(&[u8]) -> Vec<u8>) -> Self {
        Self { content, ..self }
    }

    /// The id that the greeting told.
    pub fn connection_id(&self) -> u32 {
        self.connection_id
    }

    /// The version that the greeting told.
    pub fn server_version(&self) -> &str {
        &self.server_version
    }

    /// What was agreed on.
    pub fn capabilities(&self) -> Capabilities {
        self.link.capabilities
    }

    /// Runs a text; gives all answers. An error is the last of them.
    pub fn query(&mut self, sql: impl AsRef<[u8]>) -> Result<Vec<Reply>> {
        let mut payload = vec![Code::Query as u8];
        if self.has(Capabilities::QUERY_ATTRIBUTES) {
            payload.extend_from_slice(&[0, 1]);
        }
        payload.extend_from_slice(sql.as_ref());
        self.packets.command(&payload)?;
        self.replies(Protocol::Text)
    }

    /// Runs a text that has to succeed, each part of it; gives all answers.
    pub fn run(&mut self, sql: impl AsRef<[u8]>) -> Result<Vec<Reply>> {
        let text = || String::from_utf8_lossy(sql.as_ref()).into_owned();
        let replies = self.query(sql.as_ref()).with_context(text)?;
        let failure = replies.iter().find_map(Reply::failure);
        failure.map_or(Ok(()), |failure| Err(failure.clone())).with_context(text)?;
        Ok(replies)
    }

    /// Prepares a statement, or gives the error.
    pub fn prepare(&mut self, sql: impl AsRef<[u8]>) -> Result<Result<Prepared, Failure>> {
        self.packets.command(&[&[Code::StmtPrepare as u8], sql.as_ref()].concat())?;
        let first = self.packets.read()?;
        if first.first() == Some(&response::ERR) {
            return Ok(Err(ErrPacket::parse(&first)?.into()));
        }
        let ok = PrepareOk::parse(&first)?.context("the server has prepared nothing")?;
        self.definitions(ok.params)?;
        let (columns, _) = self.definitions(ok.columns)?;
        Ok(Ok(Prepared { id: ok.id.0, params: ok.params, columns }))
    }

    /// Runs a prepared statement. The types of the parameters are sent with the first execution only; an error of
    /// the other side's if they were never sent is what `with_types: false` is for.
    pub fn execute(&mut self, id: u32, params: &[Param], with_types: bool) -> Result<Vec<Reply>> {
        self.packets.command(&execute_payload(id, params, with_types, 0))?;
        self.replies(Protocol::Binary)
    }

    /// Runs a prepared statement with a cursor: the answer has the columns, the rows are for [`Client::fetch`].
    pub fn open_cursor(&mut self, id: u32, params: &[Param]) -> Result<Reply> {
        self.packets.command(&execute_payload(id, params, true, CURSOR_READ_ONLY))?;
        self.reply(Protocol::Cursor)
    }

    /// The same of whatever gives several answers, or none that has a cursor.
    pub fn execute_with_cursor(&mut self, id: u32, params: &[Param]) -> Result<Vec<Reply>> {
        self.packets.command(&execute_payload(id, params, true, CURSOR_READ_ONLY))?;
        self.replies(Protocol::Cursor)
    }

    /// More rows of the cursor of a statement with these columns.
    pub fn fetch(&mut self, id: u32, count: u32, columns: &[ColumnShape]) -> Result<Reply> {
        let mut payload = vec![Code::StmtFetch as u8];
        payload.put_u32(id);
        payload.put_u32(count);
        self.packets.command(&payload)?;
        self.rows(columns.to_vec(), Protocol::Binary)
    }

    /// The column definitions that `prepare` gives, or a cursor's rows, are read whole or not at all: an error of this
    /// client's, which is not a [`Failure`], says that the other side has ended the connection if this is true.
    pub fn is_at_end(&mut self) -> bool {
        self.packets.is_at_end().unwrap_or(true)
    }

    /// Sends bytes that need not be packets.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.packets.write_bytes(bytes)
    }

    /// Sends a command as it is, and reads nothing.
    pub fn send(&mut self, payload: &[u8]) -> Result<()> {
        self.packets.command(payload)
    }

    /// Sends a command and, behind it, a COM_PING; gives the bytes of the answer to the command. The other side's answer to the
    /// ping says where they end, whatever they are. `file` is what is sent where the answer asks for a file.
    pub fn capture(&mut self, payload: &[u8], file: Option<&[u8]>) -> Result<Vec<u8>> {
        self.packets.command(payload)?;
        let mut captured = Vec::new();
        if let Some(file) = file {
            captured = self.packets.read_raw()?;
            self.packets.write(file)?;
            self.packets.write(&[])?;
        }
        self.packets.capture_to_ping(&[Code::Ping as u8], &mut captured)?;
        Ok(captured)
    }

    /// Runs a text as `capture` does.
    pub fn capture_query(&mut self, sql: &str, file: Option<&[u8]>) -> Result<Vec<u8>> {
        let attributes: &[u8] = if self.has(Capabilities::QUERY_ATTRIBUTES) { &[0, 1] } else { &[] };
        self.capture(&[&[Code::Query as u8], attributes, sql.as_bytes()].concat(), file)
    }

    /// Reads one packet, with its header.
    pub fn read_packet(&mut self) -> Result<Vec<u8>> {
        self.packets.read_raw()
    }

    /// Reads the answers to a text that [`Client::send`] has sent.
    pub fn read_replies(&mut self) -> Result<Vec<Reply>> {
        self.replies(Protocol::Text)
    }

    /// Sends a piece of a parameter; there is no answer.
    pub fn send_long_data(&mut self, id: u32, param: u16, piece: &[u8]) -> Result<()> {
        let mut payload = vec![Code::StmtSendLongData as u8];
        payload.put_u32(id);
        payload.put_u16(param);
        payload.extend_from_slice(piece);
        self.packets.command(&payload)
    }

    /// Closes a prepared statement; there is no answer.
    pub fn close(&mut self, id: u32) -> Result<()> {
        let mut payload = vec![Code::StmtClose as u8];
        payload.put_u32(id);
        self.packets.command(&payload)
    }

    /// Resets a prepared statement.
    pub fn reset_statement(&mut self, id: u32) -> Result<Reply> {
        let mut payload = vec![Code::StmtReset as u8];
        payload.put_u32(id);
        self.single(&payload)
    }

    /// COM_INIT_DB.
    pub fn init_db(&mut self, schema: &str) -> Result<Reply> {
        self.single(&[&[Code::InitDb as u8], schema.as_bytes()].concat())
    }

    /// COM_SET_OPTION: multi-statements on or off.
    pub fn set_multi_statements(&mut self, on: bool) -> Result<Reply> {
        self.single(&[Code::SetOption as u8, u8::from(!on), 0])
    }

    /// COM_PING.
    pub fn ping(&mut self) -> Result<Reply> {
        self.single(&[Code::Ping as u8])
    }

    /// COM_RESET_CONNECTION.
    pub fn reset_connection(&mut self) -> Result<Reply> {
        self.single(&[Code::ResetConnection as u8])
    }

    /// COM_CHANGE_USER. A refusal is a [`Failure`], after which the other side closes the connection.
    pub fn change_user(&mut self, login: &Login) -> Result<()> {
        self.link = login.change_user(&mut self.packets, self.link)?;
        Ok(())
    }

    /// COM_QUIT; then the other side must close the connection.
    pub fn quit(mut self) -> Result<()> {
        self.packets.command(&[Code::Quit as u8])?;
        ensure!(self.packets.is_at_end()?, "an answer to COM_QUIT");
        Ok(())
    }

    fn has(&self, flag: Capabilities) -> bool {
        self.link.capabilities.contains(flag)
    }

    fn single(&mut self, payload: &[u8]) -> Result<Reply> {
        self.packets.command(payload)?;
        let first = self.packets.read()?;
        match first.first() {
            Some(&response::OK) => Ok(Reply::Done(Success::parse(&first, self.link.capabilities)?)),
            Some(&response::EOF) => Ok(Reply::Done(self.end(&first)?)),
            Some(&response::ERR) => Ok(Reply::Failed(ErrPacket::parse(&first)?.into())),
            _ => bail!("neither OK nor EOF nor ERR: {first:?}"),
        }
    }

    fn replies(&mut self, protocol: Protocol) -> Result<Vec<Reply>> {
        let mut all = Vec::new();
        loop {
            let reply = self.reply(protocol)?;
            let is_last = !reply.status().is_some_and(|status| status.contains(Status::MORE_RESULTS));
            all.push(reply);
            if is_last {
                return Ok(all);
            }
        }
    }

    fn reply(&mut self, protocol: Protocol) -> Result<Reply> {
        let first = self.packets.read()?;
        match first.first() {
            Some(&response::OK) => Ok(Reply::Done(Success::parse(&first, self.link.capabilities)?)),
            Some(&response::ERR) => Ok(Reply::Failed(ErrPacket::parse(&first)?.into())),
            Some(&response::LOCAL_INFILE) => {
                // The file, an empty packet as its end, and then the answer.
                let file = (self.content)(&first[1..]);
                if !file.is_empty() {
                    self.packets.write(&file)?;
                }
                self.packets.write(&[])?;
                self.reply(protocol)
            }
            _ => self.result_set(&first, protocol),
        }
    }

    fn result_set(&mut self, first: &[u8], protocol: Protocol) -> Result<Reply> {
        let count = Reader::new(first).lenenc_int()?;
        let (columns, end) = match self.columns(u16::try_from(count)?)? {
            Ok(found) => found,
            Err(failure) => return Ok(Reply::Failed(failure)),
        };
        // A procedure's results may have the flag of a cursor of its own.
        let is_open =
            |status: Status| status.contains(Status::CURSOR_EXISTS) && !status.contains(Status::MORE_RESULTS);
        if let Some(end) = end.filter(|end| protocol == Protocol::Cursor && is_open(end.status)) {
            // The rows stay on the other side.
            let end = Success { warnings: end.warnings, status: end.status, ..Success::default() };
            return Ok(Reply::Rows(Rows { columns, rows: Vec::new(), end }));
        }
        self.rows(columns, protocol)
    }

    fn rows(&mut self, columns: Vec<ColumnShape>, protocol: Protocol) -> Result<Reply> {
        let mut rows = Vec::new();
        loop {
            let packet = self.packets.read()?;
            match packet.first() {
                Some(&response::ERR) => return Ok(Reply::Failed(ErrPacket::parse(&packet)?.into())),
                Some(&response::EOF) if self.is_end(&packet) => {
                    return Ok(Reply::Rows(Rows { columns, rows, end: self.end(&packet)? }));
                }
                _ if protocol != Protocol::Text => rows.push(binary_row(&packet, &columns)?),
                _ => rows.push(text_row(&packet, columns.len())?),
            }
        }
    }

    /// The columns of a result, and the EOF after them, in whose place an error may stand.
    fn columns(&mut self, count: u16) -> Result<Result<Definitions, Failure>> {
        let found: Result<Vec<_>> = (0..count).map(|_| ColumnShape::parse(&self.packets.read()?)).collect();
        if count == 0 || self.has(Capabilities::DEPRECATE_EOF) {
            return Ok(Ok((found?, None)));
        }
        let end = self.packets.read()?;
        if end.first() == Some(&response::ERR) {
            return Ok(Err(ErrPacket::parse(&end)?.into()));
        }
        Ok(Ok((found?, Some(EofPacket::parse(&end).context("no EOF after the definitions")?))))
    }

    /// Column or parameter definitions, and the EOF after them.
    fn definitions(&mut self, count: u16) -> Result<Definitions> {
        self.columns(count)?.map_err(anyhow::Error::from)
    }

    fn is_end(&self, packet: &[u8]) -> bool {
        if self.has(Capabilities::DEPRECATE_EOF) { packet.len() < MAX_PAYLOAD } else { packet.len() < 9 }
    }

    fn end(&self, packet: &[u8]) -> Result<Success> {
        if self.has(Capabilities::DEPRECATE_EOF) && packet.len() > 5 {
            return Ok(Success::parse(packet, self.link.capabilities)?);
        }
        let eof = EofPacket::parse(packet)?;
        Ok(Success { warnings: eof.warnings, status: eof.status, ..Success::default() })
    }
}

/// CURSOR_TYPE_READ_ONLY.
const CURSOR_READ_ONLY: u8 = 1;

fn execute_payload(id: u32, params: &[Param], with_types: bool, flags: u8) -> Vec<u8> {
    let mut payload = vec![Code::StmtExecute as u8];
    payload.put_u32(id);
    payload.put_u8(flags);
    payload.put_u32(1);
    put_params(&mut payload, params, with_types);
    payload
}

fn text_row(packet: &[u8], columns: usize) -> Result<Vec<Option<Vec<u8>>>> {
    let mut reader = Reader::new(packet);
    let row: Result<Vec<_>> = (0..columns).map(|_| Ok(reader.text_value()?.map(<[u8]>::to_vec))).collect();
    ensure!(reader.is_empty(), "bytes after the last value of a row");
    row
}
