//! Events into files: each is checked, stored or not, and what is whole is known.
//!
//! The buffer holds the bytes of the current file that are not written yet. One commit writes them, syncs, publishes. Only an event, or
//! a group, that does not fit into the buffer is written before its group is whole; it is not published then.

mod begin;
mod commit;
mod event;

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use delphinus_memory::{Account, Owner, Permit};
use delphinus_wire::Malformed;
use delphinus_wire::binlog::{
    AnyGtid, CHECKSUM_LEN, Checksum, Crc, FormatDescription, Groups, HEADER_LEN, Header, PREFIX_LEN,
};
use delphinus_wire::error_code::ER_SOURCE_FATAL_ERROR_READING_BINLOG;
use delphinus_wire::gtid::GtidSet;

use super::{Disk, IntakeError, Piece};
use crate::log::{Folder, Log, LogFile, Origin, sync_folder};

/// So many bytes wait for the end of their group before they are written without it.
const SPILL: usize = 1 << 20;
/// The size of the buffer: a piece comes on top.
const BUFFER: usize = SPILL + (64 << 10);
/// The file with which a disk is tried that has failed.
const PROBE: &str = "probe";
/// In a source's words: another replica has logged in with this one's identity, which ends the older stream wherever it is.
const OUSTED: &str = "with the same server_uuid/server_id";
/// The longest head of a file: PREVIOUS_GTIDS of a server with very many gaps.
const LONGEST_HEAD: usize = 64 << 20;

/// What is durable and waited for.
#[derive(Debug, Clone)]
pub(crate) struct Ack {
    /// The file.
    pub(crate) file: Arc<LogFile>,
    /// Where the newest event that the source waits for ends.
    pub(crate) position: u64,
}

/// Where a connection's stream goes.
#[derive(Debug, Clone)]
pub(crate) enum Start {
    /// Into the file that the log ends with; the source begins at this position, which may be before the end.
    Resume(u64),
    /// Into a new folder, of this source.
    New(Origin),
}

/// Takes in one source's stream.
pub(crate) struct Writer<D> {
    log: Arc<Log>,
    disk: D,
    place: Place,
    /// Bytes of the file, or of its head, that are not written.
    buffer: Vec<u8>,
    room: Permit,
    /// Where in it the event begins that is coming in.
    event: usize,
    /// So many of its bytes end at a border of groups.
    whole: usize,
    /// An event whose front is not in the buffer any more.
    spilled: Option<Spilled>,
    checksum: Checksum,
    groups: Groups,
    /// Groups in the first `whole` bytes.
    gtids: Vec<AnyGtid>,
    /// Where the newest event ends that the source waits for, among the first `whole` bytes.
    awaited: Option<u64>,
    due: Option<Ack>,
    newest: u32,
    /// So many bytes behind the end did not go to the disk when it failed last.
    refused: u64,
}

/// Where events go.
enum Place {
    /// Nothing is expected before a connection starts.
    Nowhere,
    /// The first ROTATE is awaited, then a head in a new folder.
    Expecting(Origin),
    /// A head is coming in.
    Opening(Opening),
    In(Current),
}

/// A file whose head is not whole.
struct Opening {
    name: Box<str>,
    /// `None`: a new one, of this source.
    folder: Result<Arc<Folder>, Origin>,
    format: Option<FormatDescription>,
    began: u32,
}

/// The file that is written.
struct Current {
    file: Arc<LogFile>,
    handle: File,
    path: PathBuf,
    /// Where the buffer's first byte belongs.
    written: u64,
    /// Where the source's next event begins. Before `written` while there is something that came again.
    at: u64,
    /// What is before it, until the file is in the log.
    previous: Option<GtidSet>,
}

/// An event that does not fit into the buffer.
struct Spilled {
    header: Header,
    front: Vec<u8>,
    crc: Crc,
    /// So many bytes of it have gone.
    len: usize,
    is_stored: bool,
}

impl<D: Disk> Writer<D> {
    /// For a log that was recovered.
    pub(crate) fn new(log: Arc<Log>, disk: D) -> Self {
        Self {
            log,
            disk,
            place: Place::Nowhere,
            buffer: Vec::with_capacity(BUFFER),
            room: Account::unlimited().open(Owner::Relay),
            event: 0,
            whole: 0,
            spilled: None,
            checksum: Checksum::Off,
            groups: Groups::default(),
            gtids: Vec::new(),
            awaited: None,
            due: None,
            newest: 0,
            refused: 0,
        }
    }

    /// Its buffer counts in this account.
    #[must_use]
    pub(crate) fn within(mut self, memory: &Account) -> Self {
        self.room = memory.reserve(Owner::Relay, self.buffer.capacity());
        self
    }

    /// Begins with a new connection. Whatever of the last one is not published is cut off. `checksum` is what the source uses before
    /// the first FORMAT_DESCRIPTION.
    pub(crate) fn start(&mut self, start: Start, checksum: Checksum) -> Result<(), IntakeError> {
        self.forget()?;
        self.checksum = checksum;
        self.place = match start {
            Start::New(origin) => {
                // The disk may have refused that when the last connection ended. No later one looks at this file again.
                self.cut_end()?;
                Place::Expecting(origin)
            }
            Start::Resume(at) => Place::In(self.last_file(at)?),
        };
        Ok(())
    }

    /// Ends a connection: what is not published is forgotten, in memory and in files.
    pub(crate) fn stop(&mut self) -> Result<(), IntakeError> {
        self.forget()?;
        self.cut_end()
    }

    /// Cuts off what the log's last file has beyond its end.
    fn cut_end(&mut self) -> Result<(), IntakeError> {
        if let Some(end) = self.log.end() {
            self.last_file(end.offset)?;
        }
        Ok(())
    }

    /// Writes, syncs and removes something: fails where the disk does not take that, or has less room than what it refused last needs.
    pub(crate) fn try_disk(&mut self) -> Result<(), IntakeError> {
        let root = self.log.root().to_owned();
        let room = self.disk.room(&root).map_err(IntakeError::disk(&root))?;
        if room < self.refused {
            return Err(IntakeError::disk(&root)(rustix::io::Errno::NOSPC.into()));
        }
        let path = root.join(PROBE);
        let file = self.disk.create(&path).map_err(IntakeError::disk(&path))?;
        let written = self.disk.write(&file, &path, 0, &vec![0; SPILL]);
        let tried = written.and_then(|()| self.disk.sync(&file, &path));
        // It must not take the room that it has found.
        let removed = std::fs::remove_file(&path);
        tried.and(removed).map_err(IntakeError::disk(&path))?;
        self.refused = 0;
        Ok(())
    }

    fn forget(&mut self) -> Result<(), IntakeError> {
        if let Place::In(current) = &self.place
            && current.previous.is_some()
        {
            // Never published. Where it stays, a restarted relay shows groups that nobody has asked it to keep: tried again until it goes.
            let gone = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
            for tried in [std::fs::remove_file(&current.path), sync_folder(&current.file.folder.path)] {
                tried
                    .or_else(|error| if gone(&error) { Ok(()) } else { Err(error) })
                    .map_err(IntakeError::disk(&current.path))?;
            }
        }
        self.place = Place::Nowhere;
        self.groups = Groups::default();
        self.buffer.clear();
        // A long head may have made it grow.
        self.buffer.shrink_to(BUFFER);
        self.room.hold(self.buffer.capacity());
        (self.event, self.whole) = (0, 0);
        self.gtids.clear();
        (self.spilled, self.awaited, self.due) = (None, None, None);
        Ok(())
    }

    /// The file that the log ends with, cut at the end.
    fn last_file(&mut self, at: u64) -> Result<Current, IntakeError> {
        let end = self.log.end().expect("invariant: only a log with files is resumed");
        let file = self.log.file(end.ordinal).expect("invariant: the end is in a file");
        let path = file.path();
        let handle = self.disk.open(&path, end.offset).map_err(IntakeError::disk(&path))?;
        Ok(Current { file, handle, path, written: end.offset, at, previous: None })
    }

    /// Takes in a piece of an event.
    pub(crate) fn take(&mut self, piece: Piece<'_>) -> Result<(), IntakeError> {
        self.buffer.extend_from_slice(piece.bytes);
        if piece.is_last {
            self.end_event(piece.wants_ack)?;
        }
        if self.buffer.len() >= SPILL { self.spill() } else { Ok(()) }
    }

    /// What an error means here. A source that cannot send a group to its end was killed while it wrote that, as a rule: what came before
    /// counts, so that the source is asked for what follows.
    pub(crate) fn read_error(&mut self, error: IntakeError) -> IntakeError {
        match (error, &self.place) {
            (IntakeError::Refused(packet), Place::In(current))
                if packet.code == ER_SOURCE_FATAL_ERROR_READING_BINLOG
                    && self.groups.open().is_some()
                    && !packet.text().contains(OUSTED) =>
            {
                let torn =
                    IntakeError::Torn { name: current.file.name.clone(), said: packet.text().into_owned() };
                self.commit().err().unwrap_or(torn)
            }
            (error, _) => error,
        }
    }

    /// Bytes that wait to be written.
    #[cfg(test)]
    pub(crate) fn buffered(&self) -> usize {
        self.buffer.capacity()
    }

    /// True if there is something to commit.
    pub(crate) fn has_whole(&self) -> bool {
        self.whole > 0
    }

    /// The acknowledgement that is due since the last commit.
    pub(crate) fn take_due(&mut self) -> Option<Ack> {
        self.due.take()
    }

    /// Where the source's next event begins in its file; 0 where that is not known.
    pub(crate) fn at(&self) -> u64 {
        if let Place::In(current) = &self.place { current.at } else { 0 }
    }

    /// When the source began the newest event that was stored, in seconds since 1970.
    pub(crate) fn newest(&self) -> u32 {
        self.newest
    }

    /// Writes what waits, although its group is not whole. An event's last bytes stay: its checksum has to be in one piece.
    fn spill(&mut self) -> Result<(), IntakeError> {
        self.room.hold(self.buffer.capacity());
        if !matches!(self.place, Place::In(_)) {
            let is_long = self.buffer.len() > LONGEST_HEAD;
            return if is_long { Err(Malformed("very long head of a file").into()) } else { Ok(()) };
        }
        self.commit()?;
        let Place::In(current) = &mut self.place else { return Ok(()) };
        let open = &self.buffer[self.event..];
        let (mut write, mut used) = (self.event, self.event);
        if self.spilled.is_some() || open.len() >= HEADER_LEN {
            let is_again = current.at < current.synced();
            let mut spilled = match self.spilled.take() {
                Some(spilled) => spilled,
                None => Spilled::new(Header::parse(open)?, is_again),
            };
            if spilled.len + open.len() > spilled.header.size as usize {
                // A source that sends on and on: nothing of it would leave the buffer any more.
                return Err(Malformed("an event of another length than its packets").into());
            }
            if spilled.len + open.len() + CHECKSUM_LEN <= spilled.header.size as usize {
                spilled.pass(open);
                used = self.buffer.len();
                write = if spilled.is_stored { used } else { write };
            }
            self.spilled = (spilled.len > 0).then_some(spilled);
        }
        if write > 0 {
            self.refused = current.written - current.synced() + write as u64;
            let failed = IntakeError::disk(&current.path);
            self.disk
                .write(&current.handle, &current.path, current.written, &self.buffer[..write])
                .map_err(failed)?;
            current.written += write as u64;
        }
        self.buffer.copy_within(used.., 0);
        self.buffer.truncate(self.buffer.len() - used);
        self.event = 0;
        Ok(())
    }
}

impl Spilled {
    fn new(header: Header, is_again: bool) -> Self {
        let is_stored = !is_again && !header.is_artificial();
        Self { header, front: Vec::new(), crc: Crc::new(), len: 0, is_stored }
    }

    fn pass(&mut self, bytes: &[u8]) {
        let room = PREFIX_LEN.saturating_sub(self.front.len());
        self.front.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.crc.update(bytes);
        self.len += bytes.len();
    }
}
