//! Commands that the proxy runs on a backend connection on its own account, between those of clients. Answers
//! are small and held whole. One for which the account has no room is read to its end all the same, and nothing of it is kept:
//! the connection stays in order, and the question counts as refused.

use std::sync::Arc;

use delphinus_journal::Origin;
use delphinus_memory::{Account, Owner, Permit};
use delphinus_net::{NetError, PacketIo, Passed, rt};
use delphinus_state::Changed;
use delphinus_wire::command::{BackendStmtId, Code};
use delphinus_wire::response::{self, Column, EofPacket, ErrPacket, OkPacket, PrepareOk, Status, TextResult};
use delphinus_wire::{Capabilities, Malformed, Reader, error_code};

use crate::asked::{Question, number_of};
use crate::connection::Connection;
use crate::error::PoolError;

/// Why a question was not answered.
#[derive(Debug)]
pub(crate) enum AskError {
    /// The connection is unusable now.
    Broken(NetError),
    /// The backend said no, or there was no room for what it said (`error_code::ER_CAPACITY_EXCEEDED`); the connection is as it was.
    Refused(ErrPacket),
}

impl<E: Into<NetError>> From<E> for AskError {
    fn from(error: E) -> Self {
        Self::Broken(error.into())
    }
}

impl AskError {
    /// The pool's words for it.
    pub(crate) fn into_pool_error(self, backend: Arc<str>) -> PoolError {
        match self {
            Self::Broken(error) => PoolError::Lost { backend, error },
            Self::Refused(error) => PoolError::Refused { backend, error },
        }
    }
}

/// The answer to a command.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The rows; none for an OK.
    pub result: TextResult,
    /// Status flags.
    pub status: Status,
    /// How many warnings there are.
    pub warnings: u16,
    /// Changes of the session that an OK reported.
    pub changes: Vec<Changed>,
    /// For a long one.
    _room: Option<Permit>,
}

/// The longest answer, in bytes, and so the longest packet of one.
const MAX_ANSWER: usize = 64 << 20;
/// The most rows of an answer: SHOW WARNINGS has at most 65,535.
const MAX_ROWS: usize = 70_000;
/// The most columns of an answer, which is the most that a SELECT may have.
const MAX_COLUMNS: u64 = 4096;
/// So much more is read of an answer for which there is no room: an honest one is shorter.
const MOST_PASSED: usize = 4 << 20;
/// What a value or a definition takes beside its bytes.
const OVERHEAD: usize = 32;
/// So much of an answer takes no room of the account, in bytes: what usual sessions need must not end them where others have taken
/// all the room.
const FREE: usize = 192 << 10;
/// Of a longer one so much is taken at once.
const STEP: usize = 64 << 10;
/// After so many bytes of an answer others of the worker have their turn.
const TURN: usize = 64 << 10;
/// What is said where an answer found no room.
const NO_ROOM: &str = "Memory capacity for 'memory_limit' exceeded. Delphinus: there is no memory now for the server's \
    answer; try again later, or raise [proxy] memory_limit";
/// The beginning of the question for the list of warnings.
pub(crate) const SHOW_WARNINGS: &str = "SHOW WARNINGS";
/// The number of MariaDB's reports of progress, in the place of an error's.
const PROGRESS: u16 = 0xffff;

/// Reads an answer that a server may not make longer than was asked for.
struct Bounded<'a> {
    io: PacketIo<'a>,
    /// So much more may come.
    left: usize,
    /// So much of what came is kept.
    kept: usize,
    room: Permit,
    place: Place,
}

/// Where in an answer the next packet is.
#[derive(Clone, Copy)]
enum Place {
    /// It is all of it.
    Only,
    /// So many of these are before the rows.
    Definitions(u64),
    Rows,
}

impl<'a> Bounded<'a> {
    fn new(io: PacketIo<'a>, account: &Account) -> Self {
        Self { io, left: MAX_ANSWER, kept: 0, room: account.open(Owner::Buffers), place: Place::Only }
    }

    async fn read(&mut self) -> Result<Vec<u8>, AskError> {
        let (before, kept, room) = (self.left, self.kept, &mut self.room);
        // A packet is in the buffer, which may have grown to twice as much, and in its payload or its values.
        let take_room = |len: usize| {
            let needed = kept + 3 * len;
            needed <= FREE || room.grow_to(needed.next_multiple_of(STEP))
        };
        let payload = match self.io.read_or_pass_over((self.left, MOST_PASSED), take_room).await? {
            Ok(packet) => packet.payload,
            Err(passed) => return Err(self.pass_over_rest(passed).await?),
        };
        self.keep(payload.len() + OVERHEAD)?;
        if let Place::Definitions(count) = self.place {
            self.place = if count > 1 { Place::Definitions(count - 1) } else { Place::Rows };
        }
        self.give_way(before).await;
        Ok(payload)
    }

    /// There was no room for this packet: nor is anything kept of those that follow it.
    async fn pass_over_rest(&mut self, mut passed: Passed) -> Result<AskError, AskError> {
        self.left = self.left.min(MOST_PASSED);
        self.spend(passed.len + OVERHEAD)?;
        loop {
            self.place = match (self.place, passed.first) {
                (Place::Only, _) | (_, Some(response::ERR)) => break,
                (Place::Rows, Some(response::EOF)) if passed.len < delphinus_wire::MAX_PAYLOAD => break,
                (Place::Definitions(count @ 2..), _) => Place::Definitions(count - 1),
                _ => Place::Rows,
            };
            passed = self.pass_over().await?;
        }
        Ok(AskError::Refused(ErrPacket::in_place_of_answer(error_code::ER_CAPACITY_EXCEEDED, NO_ROOM)))
    }

    async fn pass_over(&mut self) -> Result<Passed, AskError> {
        let before = self.left;
        let passed = self.io.pass_over(self.left).await?;
        self.spend(passed.len + OVERHEAD)?;
        self.give_way(before).await;
        Ok(passed)
    }

    /// What has arrived already is read without waiting.
    async fn give_way(&self, left_before: usize) {
        if left_before / TURN != self.left / TURN {
            rt::yield_now().await;
        }
    }

    fn keep(&mut self, bytes: usize) -> Result<(), AskError> {
        self.kept += bytes;
        self.spend(bytes)
    }

    fn spend(&mut self, bytes: usize) -> Result<(), AskError> {
        self.left = self.left.checked_sub(bytes).ok_or(Malformed("a longer answer than asked for"))?;
        Ok(())
    }
}

/// Runs `sql`, which gives OK or one small result set.
pub(crate) async fn query(connection: &mut Connection, sql: &str) -> Result<Answer, AskError> {
    let seen = connection.seen;
    let answer = run(connection, sql).await;
    if let Ok(answer) = &answer {
        match list_after(answer, sql, is_mariadb(connection)) {
            List::Kept => connection.seen.keep_list(seen),
            List::Emptied => connection.lists_warnings = false,
            List::Own => {}
        }
    }
    answer
}

/// What a question of the proxy's own has done to the list of warnings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    Kept,
    Emptied,
    /// It has those of the question.
    Own,
}

/// What `sql` has done to it. Source: what 10.11 and 9.7 were seen to do. MariaDB keeps the list through statements without tables, if
/// they have no warnings of their own.
fn list_after(answer: &Answer, sql: &str, is_mariadb: bool) -> List {
    let has_tables =
        || sql.replace(" FROM DUAL ", " ").contains(" FROM ") || sql.starts_with("SHOW SESSION STATUS ");
    if sql.starts_with(SHOW_WARNINGS) {
        List::Kept
    } else if answer.warnings > 0 {
        List::Own
    } else if !is_mariadb || has_tables() {
        List::Emptied
    } else if sql.starts_with("SELECT ") || sql.starts_with("SET ") {
        List::Kept
    } else {
        List::Own
    }
}

/// Runs a command that is no statement, such as COM_PING: both servers keep all that the statement before has left, but ROW_COUNT().
pub(crate) async fn aside(connection: &mut Connection, payload: &[u8]) -> Result<Answer, AskError> {
    let seen = connection.seen;
    let answer = command(connection, payload).await;
    if answer.is_ok() {
        connection.seen = seen;
        connection.seen.lose_count();
    }
    answer
}

/// MariaDB took the place of a flag that all clients of MySQL set.
fn is_mariadb(connection: &Connection) -> bool {
    !connection.capabilities.contains(Capabilities::LONG_PASSWORD)
}

async fn run(connection: &mut Connection, sql: &str) -> Result<Answer, AskError> {
    let mut payload = Vec::with_capacity(sql.len() + 3);
    payload.push(Code::Query as u8);
    if connection.capabilities.contains(Capabilities::QUERY_ATTRIBUTES) {
        // No attributes, in one set.
        payload.extend_from_slice(&[0, 1]);
    }
    payload.extend_from_slice(sql.as_bytes());
    command(connection, &payload).await
}

/// Runs a command whose answer is OK, EOF, ERR or one small result set.
pub(crate) async fn command(connection: &mut Connection, payload: &[u8]) -> Result<Answer, AskError> {
    connection.seen.lose_list();
    let answer = exchange(connection, payload).await;
    // The server lists them until a statement makes it forget that.
    connection.lists_warnings |= match &answer {
        Ok(answer) => answer.warnings > 0,
        Err(error) => matches!(error, AskError::Refused(_)),
    };
    answer
}

async fn exchange(connection: &mut Connection, payload: &[u8]) -> Result<Answer, AskError> {
    let began = connection.begin_question();
    let answer = exchange_unlogged(connection, payload).await;
    if let Some(began) = began {
        connection.log_asked(payload, began, &answer);
    }
    answer
}

async fn exchange_unlogged(connection: &mut Connection, payload: &[u8]) -> Result<Answer, AskError> {
    let capabilities = connection.capabilities;
    let mut io = PacketIo::new(&mut connection.stream, &mut connection.buffer, 0);
    io.write(payload).await?;
    let mut io = Bounded::new(io, &connection.account);
    loop {
        let first = io.read().await?;
        return match first.first() {
            Some(&response::OK | &response::EOF) => {
                Ok(finished(TextResult { columns: vec![], rows: vec![] }, &first, capabilities)?)
            }
            Some(&response::ERR) => match ErrPacket::parse(&first)? {
                report if report.code == PROGRESS => {
                    io.kept = 0;
                    continue;
                }
                error => Err(AskError::Refused(error)),
            },
            _ => {
                let answer = result_set(&mut io, &first, capabilities).await?;
                Ok(Answer { _room: Some(io.room), ..answer })
            }
        };
    }
}

/// Prepares a statement and passes over its definitions.
pub(crate) async fn prepare(connection: &mut Connection, text: &[u8]) -> Result<BackendStmtId, AskError> {
    let mut payload = Vec::with_capacity(text.len() + 1);
    payload.push(Code::StmtPrepare as u8);
    payload.extend_from_slice(text);
    let began = connection.begin_question();
    let prepared = prepare_unlogged(connection, &payload).await;
    if let Some(began) = began {
        let error = prepared.as_ref().map_or_else(number_of, |_| 0);
        let payload = &payload;
        let origin = Origin::Proxy;
        connection.log_question(Question { origin, payload, text: None, began, error, rows: 0 });
    }
    prepared
}

async fn prepare_unlogged(connection: &mut Connection, payload: &[u8]) -> Result<BackendStmtId, AskError> {
    let has_eof = !connection.capabilities.contains(Capabilities::DEPRECATE_EOF);
    let mut io = PacketIo::new(&mut connection.stream, &mut connection.buffer, 0);
    connection.seen.lose_list();
    io.write(payload).await?;
    let mut io = Bounded::new(io, &connection.account);
    let first = io.read().await?;
    if first.first() == Some(&response::ERR) {
        let refusal = ErrPacket::parse(&first)?;
        connection.lists_warnings = true;
        return Err(AskError::Refused(refusal));
    }
    let Some(prepared) = PrepareOk::parse(&first)? else {
        return Err(AskError::Refused(no_right()));
    };
    for count in [prepared.params, prepared.columns] {
        let packets = if count > 0 { u32::from(count) + u32::from(has_eof) } else { 0 };
        for _ in 0..packets {
            io.pass_over().await?;
        }
    }
    Ok(prepared.id)
}

/// What a server means that answers a preparation with an ordinary OK.
fn no_right() -> ErrPacket {
    let message = "Access denied; the server has not prepared the statement: the user lacks a right for it";
    let mut refusal = ErrPacket::in_place_of_answer(error_code::ER_SPECIFIC_ACCESS_DENIED_ERROR, message);
    refusal.state = *b"42000";
    refusal
}

async fn result_set(
    io: &mut Bounded<'_>,
    first: &[u8],
    capabilities: Capabilities,
) -> Result<Answer, AskError> {
    let count = Reader::new(first).lenenc_int()?;
    if count > MAX_COLUMNS {
        return Err(Malformed("more columns than asked for").into());
    }
    let has_eof = !capabilities.contains(Capabilities::DEPRECATE_EOF);
    io.place = Place::Definitions(count + u64::from(has_eof));
    let mut result = TextResult { columns: Vec::new(), rows: Vec::new() };
    for _ in 0..count {
        result.columns.push(Column::parse(&io.read().await?)?);
    }
    if has_eof {
        io.read().await?;
    }
    loop {
        let packet = io.read().await?;
        match packet.first() {
            Some(&response::ERR) => return Err(AskError::Refused(ErrPacket::parse(&packet)?)),
            Some(&response::EOF) if packet.len() < delphinus_wire::MAX_PAYLOAD => {
                return Ok(finished(result, &packet, capabilities)?);
            }
            _ if result.rows.len() >= MAX_ROWS => return Err(Malformed("more rows than asked for").into()),
            _ => {
                io.keep(result.columns.len() * OVERHEAD)?;
                result.rows.push(row(&packet, result.columns.len())?);
            }
        }
    }
}

fn row(packet: &[u8], columns: usize) -> Result<Vec<Option<Vec<u8>>>, Malformed> {
    let mut reader = Reader::new(packet);
    (0..columns).map(|_| Ok(reader.text_value()?.map(<[u8]>::to_vec))).collect()
}

fn finished(result: TextResult, last: &[u8], capabilities: Capabilities) -> Result<Answer, Malformed> {
    if last.len() < 7 {
        let eof = EofPacket::parse(last)?;
        return Ok(Answer {
            result,
            status: eof.status,
            warnings: eof.warnings,
            changes: Vec::new(),
            _room: None,
        });
    }
    let ok = OkPacket::parse(last, capabilities)?;
    let changes = ok.changes.iter().flatten().filter_map(Changed::from_wire).collect();
    Ok(Answer { result, status: ok.status, warnings: ok.warnings, changes, _room: None })
}
