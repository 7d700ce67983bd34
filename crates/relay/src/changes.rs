//! The stream inside the product: what committed transactions have changed, in their order.
//!
//! Owns: reading the log from a place on, and telling for each group its GTID and the names of tables, or the statement. No row is looked
//! at. Must not know who listens.
//!
//! How it is used, by a thread or task that may read files (it blocks on them):
//!
//! ```text
//! let bell = log.register();                     // before the first look
//! let mut changes = Changes::from_end(&log)?;    // or ::from(&log, position): an earlier `Committed::end`
//! loop {
//!     while let Some(committed) = changes.next(|change| ..)? {
//!         // All changes of the transaction were shown: it is `committed.gtid`, durable here.
//!     }
//!     bell.rung().await;
//! }
//! ```
//!
//! What a listener may rely on:
//! - Each group comes once, in the order of the source's log, after it is durable here; after a change of primary nothing comes twice.
//! - `Change::Rows` comes for each table that the group has rows of; it may come more than once.
//! - `Change::Statement` is a statement as the source has logged it, with the current schema: DDL always, other statements where the source
//!   logs statements (MariaDB's default, MIXED). BEGIN, COMMIT, savepoints and the like do not come.
//! - `Change::Anything`: what was changed cannot be told: XA COMMIT of a branch that was prepared before (its rows came with XA PREPARE,
//!   and were not visible then), an event that is unknown, a transaction that is larger than [`LARGEST_PAYLOAD`] when it is unpacked.
//! - `ChangesError::Purged`: the listener was too slow. It has to take everything for changed, and to begin again with `from_end`.
//! - Memory is bounded: a window of the file, and the window of zstd for a compressed transaction (2 MiB at MySQL's default level, 128 MiB
//!   at the highest).

use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;

use delphinus_memory::{Account, Owner, Permit};
use delphinus_wire::binlog::{
    AnyGtid, Border, Event, Groups, HEADER_LEN, Header, Kind, MAGIC, PAYLOAD_FRONT_LEN, PREFIX_LEN,
    PayloadFront, Query, TableMap, each_event, unpack_query,
};
use thiserror::Error;

use crate::log::{Executed, Limit, Log, LogFile, Position, Reader, scan};

/// The largest transaction, in bytes when it is unpacked, that is looked into.
pub const LARGEST_PAYLOAD: u64 = 1 << 30;
/// The longest statement, in bytes when it is unpacked.
const LONGEST_STATEMENT: usize = 16 << 20;
/// Bytes of the file that are read at a time.
const WINDOW: usize = 256 << 10;

/// What a transaction has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    /// Rows of this table.
    Rows {
        /// The table's schema.
        schema: &'a [u8],
        /// Its name.
        table: &'a [u8],
    },
    /// Whatever this statement changes.
    Statement {
        /// The current schema; may be empty.
        schema: &'a [u8],
        /// The whole text.
        text: &'a [u8],
    },
    /// It cannot be told.
    Anything,
}

/// A group, all of whose changes were shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// Its number.
    pub gtid: AnyGtid,
    /// Where it ends: another subscription may begin there, as long as the process lives.
    pub end: Position,
    /// When it began on the source, in seconds since 1970.
    pub timestamp: u32,
}

/// Why there are no changes to be had.
#[derive(Debug, Error)]
pub enum ChangesError {
    /// There is no log yet.
    #[error("the relay has no log yet")]
    Empty,
    /// The file that comes next was purged.
    #[error("the file of the relay that comes next was purged")]
    Purged,
    /// A file cannot be read.
    #[error("{}: {error}", .path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// The system's word.
        error: io::Error,
    },
    /// A file is not what was written.
    #[error("{}: {what}", .path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
}

/// A subscription.
#[derive(Debug)]
pub struct Changes {
    log: Arc<Log>,
    file: Arc<LogFile>,
    reader: Reader,
    offset: u64,
    window: Vec<u8>,
    /// What the window takes.
    room: Permit,
    /// Where in the file the window begins.
    window_at: u64,
    groups: Groups,
    /// What earlier folders have: another primary's first file may have it again.
    passed: Option<Executed>,
}

/// An event that was taken.
#[derive(Debug)]
struct Taken {
    /// Where it begins in its file.
    begin: u64,
    timestamp: u32,
    border: Border,
    /// True if a group begins with it.
    is_first: bool,
    /// True if an earlier folder has its group.
    came_before: bool,
}

impl Changes {
    /// From where the log ends now.
    pub fn from_end(log: &Arc<Log>) -> Result<Self, ChangesError> {
        let end = log.end().ok_or(ChangesError::Empty)?;
        Self::from(log, end)
    }

    /// From this place, which is a border of groups: the end of the log at some time, or `Committed::end`.
    pub fn from(log: &Arc<Log>, position: Position) -> Result<Self, ChangesError> {
        let file = log.file(position.ordinal).ok_or(ChangesError::Purged)?;
        let reader = open(&file)?;
        Ok(Self {
            log: log.clone(),
            file,
            reader,
            offset: position.offset,
            window: Vec::new(),
            room: Account::unlimited().open(Owner::Relay),
            window_at: 0,
            groups: Groups::default(),
            passed: None,
        })
    }

    /// Its buffer counts in this account, and is not refused: it has a limit of its own.
    #[must_use]
    pub fn within(mut self, memory: &Account) -> Self {
        self.room = memory.reserve(Owner::Relay, self.window.capacity());
        self
    }

    /// Shows the changes of the next group; `None`: there is none at the moment.
    pub fn next(&mut self, mut see: impl FnMut(Change<'_>)) -> Result<Option<Committed>, ChangesError> {
        while let Some(taken) = self.take_event(&mut see)? {
            if let Border::Group(gtid) = taken.border
                && !taken.came_before
            {
                let end = Position { ordinal: self.file.ordinal, offset: self.offset };
                return Ok(Some(Committed { gtid, end, timestamp: taken.timestamp }));
            }
        }
        Ok(None)
    }

    /// Where the next group begins that is not shown yet; `None`: there is none at the moment. It may be long, and is not read for that. After
    /// this the subscription is inside of it.
    pub fn next_begin(&mut self) -> Result<Option<Position>, ChangesError> {
        while let Some(taken) = self.take_event(&mut |_| {})? {
            if taken.is_first && !taken.came_before {
                return Ok(Some(Position { ordinal: self.file.ordinal, offset: taken.begin }));
            }
        }
        Ok(None)
    }

    /// Takes the next event, and shows what it changes; `None`: there is none at the moment.
    fn take_event(&mut self, see: &mut dyn FnMut(Change<'_>)) -> Result<Option<Taken>, ChangesError> {
        if !self.has_more()? {
            return Ok(None);
        }
        let begin = self.offset;
        self.fill(HEADER_LEN)?;
        let header = Header::parse(self.window()).map_err(|bad| self.damaged(bad.0))?;
        let tail = if header.kind == Kind::FORMAT_DESCRIPTION { 4 } else { self.file.format.checksum.len() };
        let body = (header.size as usize)
            .checked_sub(HEADER_LEN + tail)
            .ok_or_else(|| self.damaged("short event"))?;
        let kept = body.min(needed(header.kind));
        self.fill(HEADER_LEN + kept)?;
        let bytes = &self.window()[..HEADER_LEN + kept];
        let event = Event { header, body: &bytes[HEADER_LEN..], bytes };
        let mut groups = self.groups;
        let border = groups.take(&event).map_err(|bad| self.damaged(bad.0))?;
        let group = groups.open().or(if let Border::Group(gtid) = border { Some(gtid) } else { None });
        let came_before =
            group.is_some_and(|gtid| self.passed.as_ref().is_some_and(|passed| passed.set().has(&gtid)));
        let was_inside = self.groups.open().is_some();
        if was_inside && !came_before {
            self.show(&event, (body, kept), see);
        }
        let is_first = !was_inside && group.is_some();
        self.groups = groups;
        self.offset = begin + u64::from(header.size);
        Ok(Some(Taken { begin, timestamp: header.timestamp, border, is_first, came_before }))
    }

    /// True if there is an event at `offset`: behind the last one of a closed file, the next file has it.
    fn has_more(&mut self) -> Result<bool, ChangesError> {
        loop {
            match self.log.limit(&self.file) {
                limit if self.offset < limit.offset() => return Ok(true),
                Limit::Open(_) => return Ok(false),
                Limit::Closed(_) => self.turn()?,
            }
        }
    }

    fn show(&self, event: &Event<'_>, (len, kept): (usize, usize), see: &mut dyn FnMut(Change<'_>)) {
        if event.header.kind != Kind::TRANSACTION_PAYLOAD {
            return show(&event.header, event.body, kept == len, see);
        }
        let opened = PayloadFront::parse(event.body).map_err(io::Error::other).and_then(|front| {
            let at = self.offset + (HEADER_LEN + front.len) as u64;
            let input = io::BufReader::with_capacity(64 << 10, Part { reader: &self.reader, at });
            each_event(front, input, LARGEST_PAYLOAD, |header, body| {
                let is_whole = body.len() + HEADER_LEN == header.size as usize;
                show(header, body, is_whole, see);
            })
        });
        if opened.is_err() {
            see(Change::Anything);
        }
    }

    /// Goes on with the next file.
    fn turn(&mut self) -> Result<(), ChangesError> {
        let next = self.log.next(&self.file).ok_or(ChangesError::Purged)?;
        if next.folder.number != self.file.folder.number {
            let mut passed = self.passed.take().unwrap_or_default();
            passed.begins_folder();
            passed.merge(&self.file.previous, &self.file.list);
            let path = self.file.path();
            scan(&path, &self.file.format, &mut passed).map_err(|error| ChangesError::Io { path, error })?;
            self.passed = Some(passed);
        }
        self.reader = open(&next)?;
        self.file = next;
        self.offset = MAGIC.len() as u64;
        self.window.clear();
        self.groups = Groups::default();
        Ok(())
    }

    /// What of the window follows the offset.
    fn window(&self) -> &[u8] {
        let skipped = (self.offset - self.window_at).min(self.window.len() as u64);
        &self.window[skipped as usize..]
    }

    /// Sees to it that the window has at least `len` bytes from the offset on.
    fn fill(&mut self, len: usize) -> Result<(), ChangesError> {
        let is_there = self.offset >= self.window_at && self.window().len() >= len;
        if is_there {
            return Ok(());
        }
        let path = self.file.path();
        let room = self.log.limit(&self.file).offset().saturating_sub(self.offset);
        let wanted = usize::try_from(room).unwrap_or(usize::MAX).min(len.max(WINDOW));
        self.window.resize(wanted, 0);
        self.window_at = self.offset;
        let mut read = 0;
        while read < wanted {
            match self.reader.read_at(&mut self.window[read..], self.offset + read as u64) {
                Ok(0) => break,
                Ok(n) => read += n,
                Err(error) => return Err(ChangesError::Io { path, error }),
            }
        }
        self.window.truncate(read);
        self.window.shrink_to(WINDOW.max(len));
        self.room.hold(self.window.capacity());
        if read < len { Err(self.damaged("the file ends too early")) } else { Ok(()) }
    }

    fn damaged(&self, what: &'static str) -> ChangesError {
        ChangesError::Damaged { path: self.file.path(), what }
    }
}

fn open(file: &Arc<LogFile>) -> Result<Reader, ChangesError> {
    file.open().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => ChangesError::Purged,
        _ => ChangesError::Io { path: file.path(), error },
    })
}

/// Bytes of an event's body that are looked at.
fn needed(kind: Kind) -> usize {
    match kind {
        Kind::QUERY | Kind::QUERY_COMPRESSED | Kind::EXECUTE_LOAD_QUERY => LONGEST_STATEMENT + PREFIX_LEN,
        Kind::TRANSACTION_PAYLOAD => PAYLOAD_FRONT_LEN,
        _ => 1024,
    }
}

/// Statements that only hold transactions together.
const FRAMES: [&str; 8] =
    ["BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE SAVEPOINT", "XA START", "XA END", "XA ROLLBACK"];

/// Shows what one event inside of a group changes.
fn show(header: &Header, body: &[u8], is_whole: bool, see: &mut dyn FnMut(Change<'_>)) {
    let change = match header.kind {
        Kind::TABLE_MAP => match TableMap::parse(body) {
            Ok(TableMap { schema, table }) => Change::Rows { schema, table },
            Err(_) => Change::Anything,
        },
        Kind::QUERY | Kind::EXECUTE_LOAD_QUERY | Kind::QUERY_COMPRESSED => {
            return show_query(header.kind, body, is_whole, see);
        }
        Kind::INCIDENT => Change::Anything,
        kind if kind.name().is_none() && !header.is_ignorable() => Change::Anything,
        _ => return,
    };
    see(change);
}

fn show_query(kind: Kind, body: &[u8], is_whole: bool, see: &mut dyn FnMut(Change<'_>)) {
    let Ok(query) = Query::parse(kind, body) else { return see(Change::Anything) };
    if kind == Kind::QUERY_COMPRESSED {
        match unpack_query(query.text, LONGEST_STATEMENT) {
            Ok(text) if is_whole => see(Change::Statement { schema: query.schema, text: &text }),
            _ => see(Change::Anything),
        }
        return;
    }
    if FRAMES.iter().any(|frame| query.begins_with(frame) && ends_word(query.text, frame.len())) {
        return;
    }
    // The rows were in the group of XA PREPARE.
    let is_told = is_whole && !query.begins_with("XA COMMIT");
    see(if is_told {
        Change::Statement { schema: query.schema, text: query.text }
    } else {
        Change::Anything
    });
}

fn ends_word(text: &[u8], at: usize) -> bool {
    text.get(at).is_none_or(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')
}

/// What of a file follows a place.
struct Part<'a> {
    reader: &'a Reader,
    at: u64,
}

impl Read for Part<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.reader.read_at(into, self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

#[cfg(test)]
mod tests;
