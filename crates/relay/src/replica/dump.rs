//! One replica is served: files are read in large pieces, packets are written, and where there is nothing more, waited for.
//!
//! Owns: reading, sending, the order of files, heartbeats, when it ends. What is sent is decided elsewhere (`course`, `filter`, `start`).
//! A read that would wait for the disk is done on another thread: replicas that are up to date share this one.

mod read;

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delphinus_memory::{Account, Owner, Permit};
use delphinus_net::rt::{Bell, Either, Notify};
use delphinus_net::{Buffer, NetError, Stream, rt};

use self::read::{read, read_head};
use super::asked::Asked;
use super::compression;
use super::course::{Course, Head};
use super::fatal::Fatal;
use super::place::{Doubt, find_place};
use super::registry::{Entry, Replica};
use crate::log::{Limit, Log, LogFile, Position, Reader};

/// Bytes that are read at once.
const PIECE: usize = 256 * 1024;
/// The longest event that is looked into as a whole: a GTID.
const LONGEST_GTID: usize = 1 << 20;
/// Buffers that wait for their next user, on each thread.
const SPARE: usize = 8;
/// A replica that has more than the log gets so long until the log has it, too: a relay may be behind its source. After that it is told
/// to come again, or, where the log is as far as the source was, that it has too much.
const CATCH_UP: Duration = Duration::from_secs(10);
/// Between two looks whether the log has what a replica has: at first, and at last.
const SOONEST_LOOK: Duration = Duration::from_millis(20);
const LATEST_LOOK: Duration = Duration::from_millis(500);
/// So long a replica may take for a piece: one that takes nothing would keep files from being purged.
const WRITE_LIMIT: Duration = Duration::from_mins(1);

/// How serving a replica ends.
#[derive(Debug)]
pub(crate) enum End {
    /// It was sent an end, as it wanted.
    Sent(u8),
    /// It is gone, or has said that it goes.
    Gone,
    /// Another connection has taken its place.
    Replaced,
    /// It cannot be served; the sequence number of the error.
    Refused(Fatal, u8),
}

/// What serving tasks of one thread share.
#[derive(Debug)]
pub(crate) struct Ground {
    /// The log.
    pub(crate) log: Arc<Log>,
    /// Told when the log has grown.
    pub(crate) grown: Rc<Notify>,
    /// `CATCH_UP`, but in tests.
    catch_up: Duration,
    spare: std::cell::RefCell<Vec<Buffers>>,
    memory: Account,
}

/// A piece of a file, and packets made of it.
#[derive(Debug)]
struct Buffers {
    piece: Vec<u8>,
    out: Vec<u8>,
    /// What they take. It is not refused: each is short, and a replica that is not sent anything helps nobody.
    room: Permit,
}

impl Buffers {
    /// Counts what they have become.
    fn count(&mut self) {
        self.room.hold(self.piece.capacity() + self.out.capacity());
    }
}

impl Ground {
    pub(crate) fn new(log: Arc<Log>, memory: Account) -> Self {
        let spare = std::cell::RefCell::default();
        Self { log, grown: Rc::default(), catch_up: CATCH_UP, spare, memory }
    }

    fn take(&self) -> Buffers {
        let new = || Buffers { piece: Vec::new(), out: Vec::new(), room: self.memory.open(Owner::Relay) };
        self.spare.borrow_mut().pop().unwrap_or_else(new)
    }

    fn give(&self, mut buffers: Buffers) {
        let mut spare = self.spare.borrow_mut();
        if spare.len() < SPARE && buffers.out.capacity() <= 4 * PIECE && buffers.piece.len() <= PIECE {
            buffers.out.clear();
            spare.push(buffers);
        }
    }
}

/// A replica while it is served.
pub(crate) struct Dump<'a> {
    ground: &'a Ground,
    stream: &'a mut Stream,
    replica: &'a Replica,
    course: Course,
    reader: Arc<Reader>,
    /// Up to where the file was taken in.
    at: u64,
    /// When the replica was sent something last.
    sent: Instant,
    buffers: Option<Buffers>,
}

/// Serves a replica that has asked, to its end.
pub(crate) async fn serve(
    ground: &Ground,
    stream: &mut Stream,
    entry: &Entry,
    (asked, server_id): (Asked, u32),
) -> Result<End, NetError> {
    let place = match find_place(&ground.log, &asked) {
        Ok(place) => place,
        Err(fatal) => return Ok(End::Refused(fatal, 1)),
    };
    if asked.checksum.is_none() && !place.file.format.checksum.is_empty() {
        return Ok(End::Refused(Fatal::NoChecksums, 1));
    }
    let reader = match place.file.open() {
        Ok(reader) => Arc::new(reader),
        Err(error) => return Ok(End::Refused(not_opened(&place.file, &error), 1)),
    };
    entry.begins(place.file.ordinal).await;
    let replica = &*entry.replica;
    let course = Course::new(asked, place.filter, server_id);
    stream.begin_flow();
    let mut dump = Dump { ground, stream, replica, course, reader, at: 0, sent: rt::now(), buffers: None };
    let end = dump.run(place.from, &place.doubt).await;
    if let Some(buffers) = dump.buffers.take() {
        ground.give(buffers);
    }
    match end {
        Err(Stop::Fatal(fatal)) => Ok(End::Refused(fatal, dump.course.seq())),
        Err(Stop::Replaced) => Ok(End::Replaced),
        Err(Stop::Net(error)) => Err(error),
        Ok(end) => Ok(end),
    }
}

/// Waits until what is written is taken, for so long, or until another connection takes the place of this one.
async fn taken(
    writing: impl Future<Output = io::Result<()>>,
    replaced: &Bell,
    limit: Duration,
) -> Result<(), Stop> {
    let (writing, replaced) = (std::pin::pin!(writing), std::pin::pin!(replaced.rung()));
    match rt::timeout(limit, rt::either(writing, replaced)).await {
        Some(Either::First(written)) => Ok(written?),
        Some(Either::Second(())) => Err(Stop::Replaced),
        None => Err(NetError::TimedOut(limit.as_millis() as u64).into()),
    }
}

/// What ends it early.
#[derive(Debug)]
enum Stop {
    Fatal(Fatal),
    Replaced,
    Net(NetError),
}

impl std::convert::From<Fatal> for Stop {
    fn from(fatal: Fatal) -> Self {
        Self::Fatal(fatal)
    }
}

impl<E: Into<NetError>> std::convert::From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Net(error.into())
    }
}

/// A file that was there a moment ago may have been purged since.
fn not_opened(file: &LogFile, error: &io::Error) -> Fatal {
    match error.kind() {
        io::ErrorKind::NotFound => Fatal::Purged(format!("what {} had", file.name)),
        _ => unreadable(file, error),
    }
}

pub(super) fn unreadable(file: &LogFile, error: &dyn std::fmt::Display) -> Fatal {
    Fatal::Unreadable(format!("{}: {error}", file.name))
}

/// Room for the head of a file and what is sent of it; `None` if there is none. Short ones are not counted.
fn room_for_head(memory: &Account, len: u64) -> Option<Permit> {
    let bytes = if len <= PIECE as u64 { 0 } else { 2 * len as usize };
    memory.take(Owner::Relay, bytes)
}

impl Dump<'_> {
    async fn run(&mut self, from: u64, doubt: &Doubt) -> Result<End, Stop> {
        self.begin_file(from, true).await?;
        // Before the look at all of it: a domain that begins in between is looked at twice, and not never.
        let mut rest = doubt.rest(&self.ground.log);
        self.settle(doubt).await?;
        loop {
            let file = self.reader.file().clone();
            let limit = self.ground.log.limit(&file);
            if self.at < limit.offset() {
                // What is before the limit is in what the log has.
                if rest.has_begun(&self.ground.log) {
                    let left = rest.rest(&self.ground.log);
                    self.settle(&rest).await?;
                    rest = left;
                }
                self.send_piece(limit.offset()).await?;
                // Others of this thread have their turn: a socket that takes everything does not wait.
                rt::yield_now().await;
                continue;
            }
            match limit {
                Limit::Closed(_) => match self.ground.log.next(&file) {
                    Some(next) if self.course.asked().ends_before(&file, &next) => {
                        return Ok(End::Sent(self.course.seq()));
                    }
                    Some(next) => self.go_on(&file, next).await?,
                    // Purged in between, with this replica in it: by command only.
                    None => return Err(Fatal::Purged(format!("what follows {}", file.name)).into()),
                },
                Limit::Open(_) => {
                    if let Some(end) = self.wait().await? {
                        return Ok(end);
                    }
                }
            }
        }
    }

    /// Waits until the log has what the replica has, for a while. The replica hears meanwhile that the relay lives: it would
    /// connect again and again, and never hear what is wrong.
    async fn settle(&mut self, doubt: &Doubt) -> Result<(), Stop> {
        let (began, mut told, mut pause) = (rt::now(), rt::now(), SOONEST_LOOK);
        loop {
            // A look takes the thread as long as the replica's set is large, and others have their turn.
            rt::yield_now().await;
            let Some(fatal) = doubt.of(&self.ground.log) else { return Ok(()) };
            let now = rt::now();
            let until = (now + pause).min(began + self.ground.catch_up);
            if until <= now {
                let is_behind = self.ground.log.is_behind();
                return Err(if is_behind { fatal.while_behind() } else { fatal }.into());
            }
            self.rest_until(until, &mut told).await?;
            pause = (pause * 2).min(LATEST_LOOK);
        }
    }

    /// The replica hears meanwhile that the relay lives, each of its periods since `told`.
    async fn rest_until(&mut self, until: Instant, told: &mut Instant) -> Result<(), Stop> {
        let period = self.course.asked().heartbeat;
        while let Some(next) = period.map(|period| *told + period).filter(|next| *next < until) {
            rt::sleep(next.saturating_duration_since(rt::now())).await;
            self.send_heartbeat().await?;
            *told = rt::now();
        }
        rt::sleep(until.saturating_duration_since(rt::now())).await;
        Ok(())
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        self.sent = rt::now();
        if !self.stream.is_compressed() {
            return taken(self.stream.write_bytes(bytes), &self.replica.replaced, WRITE_LIMIT).await;
        }
        for piece in bytes.chunks(compression::AT_ONCE) {
            taken(self.stream.write_bytes(piece), &self.replica.replaced, WRITE_LIMIT).await?;
            // Compressing takes the thread some milliseconds: others have their turn.
            rt::yield_now().await;
        }
        Ok(())
    }

    async fn send_heartbeat(&mut self) -> Result<(), Stop> {
        let mut buffers = self.take_buffers();
        buffers.out.clear();
        self.course.put_heartbeat(&mut buffers.out, self.at);
        let written = self.send(&buffers.out).await;
        self.buffers = Some(buffers);
        written
    }

    /// The next file.
    async fn go_on(&mut self, file: &LogFile, next: Arc<LogFile>) -> Result<(), Stop> {
        let reader = next.open().map_err(|error| unreadable(&next, &error))?;
        let is_of_another = next.folder.number != file.folder.number;
        if is_of_another {
            self.course.goes_on((&next.list, &next.folder.past()))?;
        }
        self.reader = Arc::new(reader);
        self.begin_file(next.head_len, is_of_another).await
    }

    async fn begin_file(&mut self, from: u64, is_first: bool) -> Result<(), Stop> {
        let file = self.reader.file().clone();
        let Some(_room) = room_for_head(&self.ground.memory, file.head_len) else {
            return Err(Fatal::NoMemory(self.ground.memory.limit()).into());
        };
        let head = read_head(&self.reader).await?.map_err(|error| unreadable(&file, &error))?;
        if from == file.head_len {
            self.course.begins_file(&file.previous);
        }
        let mut buffers = self.take_buffers();
        buffers.out.clear();
        let head = Head {
            name: &file.name,
            bytes: &head,
            from,
            is_first,
            checksum: file.format.checksum,
            previous: &file.previous,
        };
        self.course.begin(&mut buffers.out, head)?;
        let written = self.send(&buffers.out).await;
        // What it has made of a long head has gone with that.
        buffers.out.clear();
        buffers.out.shrink_to(PIECE);
        buffers.count();
        self.buffers = Some(buffers);
        written?;
        self.at = from;
        self.note();
        Ok(())
    }

    /// Reads the next piece of the file, up to `limit` at most, and sends what of it is to be sent.
    async fn send_piece(&mut self, limit: u64) -> Result<(), Stop> {
        let mut buffers = self.take_buffers();
        let mut wanted = (limit - self.at).min(PIECE as u64) as usize;
        loop {
            if buffers.piece.len() < wanted {
                buffers.piece.resize(wanted.max(PIECE), 0);
            }
            let (piece, read) =
                read(&self.reader, std::mem::take(&mut buffers.piece), wanted, self.at).await?;
            buffers.piece = piece;
            let read = read.map_err(|error| unreadable(self.reader.file(), &error))?;
            buffers.out.clear();
            let taken = self.course.take(&mut buffers.out, &buffers.piece[..read], self.at)?;
            buffers.count();
            if taken > 0 {
                self.at += taken as u64;
                break;
            }
            // An event that has to be whole: the next read is longer.
            let left = (limit - self.at).min(LONGEST_GTID as u64) as usize;
            if read == 0 || wanted >= left {
                let why = format!("no whole event at {}", self.at);
                return Err(unreadable(self.reader.file(), &why).into());
            }
            wanted = left;
        }
        if self.at == limit {
            self.course.tell_omitted(&mut buffers.out, self.at);
        }
        if buffers.out.is_empty() && self.is_due() {
            // All of it is left out, and so may be very much more.
            self.course.put_heartbeat_between(&mut buffers.out, self.at);
        }
        let written = if buffers.out.is_empty() { Ok(()) } else { self.send(&buffers.out).await };
        self.buffers = Some(buffers);
        written?;
        self.note();
        Ok(())
    }

    /// True if the replica has been sent nothing for as long as it wants to wait.
    fn is_due(&self) -> bool {
        self.course.asked().heartbeat.is_some_and(|period| self.sent.elapsed() >= period)
    }

    /// Waits until there is more, or says that the relay lives. The end, if it has come.
    async fn wait(&mut self) -> Result<Option<End>, Stop> {
        if self.course.asked().ends {
            return Ok(Some(End::Sent(self.course.seq())));
        }
        if let Some(buffers) = self.buffers.take() {
            self.ground.give(buffers);
        }
        self.replica.waits(true);
        let heard = self.listen().await;
        self.replica.waits(false);
        match heard {
            Heard::Grown => Ok(None),
            Heard::Replaced => Ok(Some(End::Replaced)),
            Heard::Replica => Ok(self.hear().await.then_some(End::Gone)),
            Heard::Nothing => {
                self.send_heartbeat().await?;
                Ok(None)
            }
        }
    }

    async fn listen(&mut self) -> Heard {
        let file = self.reader.file();
        // Between the look at the end and this there is no other task of the thread: nothing is missed.
        let grown = self.ground.grown.notified();
        if self.ground.log.limit(file) != Limit::Open(self.at) {
            return Heard::Grown;
        }
        let others = rt::either(self.replica.replaced.rung(), self.stream.readable());
        let all = rt::either(grown, others);
        let heard = match self.course.asked().heartbeat {
            Some(period) => rt::timeout(period, all).await,
            None => Some(all.await),
        };
        match heard {
            None => Heard::Nothing,
            Some(Either::First(())) => Heard::Grown,
            Some(Either::Second(Either::First(()))) => Heard::Replaced,
            Some(Either::Second(Either::Second(_))) => Heard::Replica,
        }
    }

    /// True if the replica is gone. Replicas say nothing while they are served, except that they go.
    async fn hear(&mut self) -> bool {
        // In TLS there may be a record without content.
        let heard =
            rt::timeout(Duration::from_millis(100), self.stream.read(Buffer::with_capacity(256))).await;
        heard.is_some()
    }

    fn take_buffers(&mut self) -> Buffers {
        self.buffers.take().unwrap_or_else(|| self.ground.take())
    }

    fn note(&mut self) {
        let counted = self.course.take_counted();
        let at = Position { ordinal: self.reader.file().ordinal, offset: self.at };
        self.replica.reached(at, counted);
    }
}

/// What has come while a replica waited.
enum Heard {
    Grown,
    Replaced,
    Replica,
    /// The time is over.
    Nothing,
}

#[cfg(test)]
mod tests;
