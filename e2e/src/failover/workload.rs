//! The clients: each has a list of its own, appends to it, and reads it and its neighbour's.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::history::{Outcome, Read, Write};
use crate::client::{Client, ServerError};
use crate::poll::eventually;
use crate::stage::Address;

/// Clients, and lists.
const CLIENTS: u32 = 6;
/// Between two operations of a client: the figures are about failovers, not about throughput.
const PAUSE: Duration = Duration::from_millis(20);
/// Between two newcomers: sessions that append one value and go. They are what shows when writes go on, because the others
/// may all be waiting for an answer to something that they had sent before.
const ARRIVAL: Duration = Duration::from_millis(100);
/// A client whose connection has ended tries so long to have another.
pub(super) const PATIENCE: Duration = Duration::from_secs(90);
/// Rows of the large table, and bytes in each: far more than what sockets take in.
pub(crate) const LARGE_ROWS: usize = 2000;
const LARGE_BYTES: usize = 1000;
/// Room for the values of one client.
const VALUES: u64 = 1_000_000;

/// What the proxy answers where nobody knows what has become of a write.
const OUTCOME_UNKNOWN: u16 = 9101;
/// CR_SERVER_LOST, and what the proxy answers where the session ends: a driver cannot know either.
const SESSION_LOST: [u16; 2] = [2013, 4031];

/// How it is counted when a connection ends where no error can be told any more: a part of a row has been sent.
pub(super) const IN_A_ROW: &str = "closed in a row";

/// What all clients share.
pub(crate) struct Ground {
    /// Where they connect.
    pub(crate) address: Address,
    /// When the run began.
    pub(crate) began: Instant,
    /// Set when they have to come to an end.
    pub(crate) is_over: AtomicBool,
    sessions: AtomicU32,
    /// When the last write was acknowledged.
    acknowledged_us: AtomicU64,
}

impl Ground {
    pub(crate) fn new(address: Address) -> Self {
        let (is_over, sessions) = (AtomicBool::new(false), AtomicU32::new(0));
        Self { address, began: Instant::now(), is_over, sessions, acknowledged_us: AtomicU64::new(0) }
    }

    /// True if a write was acknowledged after this time.
    pub(crate) fn is_acknowledged_after(&self, us: u64) -> bool {
        self.acknowledged_us.load(Ordering::Relaxed) > us
    }

    /// Microseconds since the run began.
    pub(crate) fn now_us(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// What clients have done and were told.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) writes: Vec<Write>,
    pub(crate) reads: Vec<Read>,
    /// How often a write failed how.
    pub(crate) write_errors: BTreeMap<String, usize>,
    /// How often a read failed how.
    pub(crate) read_errors: BTreeMap<String, usize>,
    /// Connections that ended.
    pub(crate) disconnects: usize,
    /// Large results that were told to be complete and were not.
    pub(crate) short_results: usize,
    /// Clients that got no connection any more, for as long as they tried.
    pub(crate) stranded: usize,
    /// Each error with its time and words.
    pub(crate) words: Vec<(u64, String)>,
}

impl Record {
    /// Of a client that has not got as far as a connection.
    fn of_stranded() -> Self {
        Self { stranded: 1, ..Self::default() }
    }

    fn add(&mut self, other: Self) {
        self.writes.extend(other.writes);
        self.reads.extend(other.reads);
        for (kind, count) in other.write_errors {
            *self.write_errors.entry(kind).or_default() += count;
        }
        for (kind, count) in other.read_errors {
            *self.read_errors.entry(kind).or_default() += count;
        }
        self.disconnects += other.disconnects;
        self.short_results += other.short_results;
        self.stranded += other.stranded;
        self.words.extend(other.words);
    }
}

/// Makes the tables; the rows say who took them.
pub(crate) fn prepare(address: &Address) -> Result<()> {
    let mut client = address.connect()?;
    client.query(
        "CREATE TABLE app.lists (id BIGINT AUTO_INCREMENT PRIMARY KEY, list INT NOT NULL, value BIGINT NOT NULL, \
         server INT NOT NULL, KEY (list))",
    )?;
    client.query("CREATE TABLE app.polled (id BIGINT AUTO_INCREMENT PRIMARY KEY, server INT NOT NULL)")?;
    client.query("CREATE TABLE app.large (id INT PRIMARY KEY, body TEXT NOT NULL)")?;
    Ok(())
}

/// Fills the table whose reading takes a while.
pub(crate) fn fill_large(address: &Address) -> Result<()> {
    let body = "x".repeat(LARGE_BYTES);
    let rows: Vec<String> = (0..LARGE_ROWS).map(|id| format!("({id}, '{body}')")).collect();
    let mut client = address.connect()?;
    for some in rows.chunks(200) {
        client.query(&format!("INSERT INTO app.large VALUES {}", some.join(",")))?;
    }
    Ok(())
}

/// Runs the clients until it is over, one that reads large results if it is asked for, and `meanwhile` beside them.
pub(crate) fn run<T>(
    ground: &Ground,
    has_large: bool,
    meanwhile: impl FnOnce() -> Result<T>,
) -> Result<(Record, T)> {
    std::thread::scope(|scope| {
        let mut clients: Vec<_> =
            (0..CLIENTS).map(|number| scope.spawn(move || Worker::run(ground, number))).collect();
        if has_large {
            clients.push(scope.spawn(|| Ok(Worker::read_large(ground))));
        }
        let newcomers = scope.spawn(|| {
            let mut all = Vec::new();
            while !ground.is_over.load(Ordering::Relaxed) {
                let number = CLIENTS + u32::try_from(all.len()).unwrap_or(u32::MAX);
                all.push(scope.spawn(move || Worker::visit(ground, number)));
                std::thread::sleep(ARRIVAL);
            }
            all
        });
        let outcome = meanwhile();
        ground.is_over.store(true, Ordering::Relaxed);
        let mut record = Record::default();
        let newcomers = newcomers.join().ok().context("no newcomers")?;
        for client in clients.into_iter().chain(newcomers) {
            record.add(client.join().ok().context("a client panicked")??);
        }
        Ok((record, outcome?))
    })
}

struct Worker<'a> {
    ground: &'a Ground,
    number: u32,
    next_value: u64,
    session: u32,
    client: Client,
    record: Record,
}

impl<'a> Worker<'a> {
    fn new(ground: &'a Ground, number: u32) -> Option<Self> {
        let client = connect(ground)?;
        let session = ground.sessions.fetch_add(1, Ordering::Relaxed);
        let next_value = (u64::from(number) + 1) * VALUES;
        Some(Self { ground, number, next_value, session, client, record: Record::default() })
    }

    /// True until it is over, or there is no connection to go on with.
    fn goes_on(&self) -> bool {
        !self.ground.is_over.load(Ordering::Relaxed) && self.record.stranded == 0
    }

    /// One write, and its own list read back.
    fn visit(ground: &'a Ground, number: u32) -> Result<Record> {
        let Some(mut worker) = Self::new(ground, number) else { return Ok(Record::of_stranded()) };
        worker.append(1);
        if worker.record.stranded == 0 {
            worker.read(number)?;
        }
        Ok(worker.record)
    }

    fn run(ground: &'a Ground, number: u32) -> Result<Record> {
        let Some(mut worker) = Self::new(ground, number) else { return Ok(Record::of_stranded()) };
        let mut turn = number;
        while worker.goes_on() {
            match turn % 4 {
                0 => worker.append(1),
                2 => worker.append(2),
                1 => worker.read(number)?,
                _ => worker.read((number + 1) % CLIENTS)?,
            }
            turn += 1;
            std::thread::sleep(PAUSE);
        }
        Ok(worker.record)
    }

    /// Reads a large table again and again.
    fn read_large(ground: &'a Ground) -> Record {
        let Some(mut worker) = Self::new(ground, u32::MAX) else { return Record::of_stranded() };
        while worker.goes_on() {
            match worker.client.rows("SELECT id, body FROM app.large") {
                Ok(rows) => worker.record.short_results += usize::from(rows.len() != LARGE_ROWS),
                Err(error) => worker.read_failed(&error),
            }
            std::thread::sleep(PAUSE);
        }
        worker.record
    }

    /// Appends one value by itself, or several in a transaction.
    fn append(&mut self, count: u64) {
        let begin_us = self.ground.now_us();
        let transaction = self.next_value;
        let values = transaction..transaction + count;
        self.next_value += count;
        let told = self.send(values.clone());
        let end_us = self.ground.now_us();
        let outcome = told.as_ref().err().map_or(Outcome::Ok, outcome_of);
        let (session, list) = (self.session, self.number);
        let write = |value| Write { session, transaction, list, value, begin_us, end_us, outcome };
        self.record.writes.extend(values.map(write));
        let Err(error) = told else {
            self.ground.acknowledged_us.fetch_max(end_us, Ordering::Relaxed);
            return;
        };
        *self.record.write_errors.entry(kind_of(&error)).or_default() += 1;
        self.record.words.push((end_us, format!("sent {} ms ago: {error:#}", (end_us - begin_us) / 1000)));
        // A transaction may be open still.
        if count > 1 && error.is::<ServerError>() && self.client.query("ROLLBACK").is_ok() {
            return;
        }
        self.connect_if_broken(&error);
    }

    fn send(&mut self, values: std::ops::Range<u64>) -> Result<()> {
        let list = self.number;
        let is_alone = values.end - values.start == 1;
        if !is_alone {
            self.client.query("BEGIN").context("BEGIN")?;
        }
        for (at, value) in values.enumerate() {
            let sql =
                format!("INSERT INTO app.lists (list, value, server) VALUES ({list}, {value}, @@server_id)");
            let which =
                || if is_alone { "alone".to_owned() } else { format!("statement {at} in a transaction") };
            self.client.query(&sql).with_context(which)?;
        }
        if !is_alone {
            self.client.query("COMMIT").context("COMMIT")?;
        }
        Ok(())
    }

    fn read(&mut self, list: u32) -> Result<()> {
        let begin_us = self.ground.now_us();
        match self.client.rows(&format!("SELECT value FROM app.lists WHERE list = {list} ORDER BY id")) {
            Ok(rows) => {
                let values = rows.into_iter().flatten().flatten().map(|text| text.parse());
                let values = values.collect::<Result<_, _>>()?;
                self.record.reads.push(Read { session: self.session, list, begin_us, values });
                Ok(())
            }
            Err(error) => {
                self.read_failed(&error);
                Ok(())
            }
        }
    }

    fn read_failed(&mut self, error: &anyhow::Error) {
        *self.record.read_errors.entry(kind_of(error)).or_default() += 1;
        self.record.words.push((self.ground.now_us(), format!("read: {error:#}")));
        self.connect_if_broken(error);
    }

    /// A session that is gone is followed by another, which knows nothing of it.
    fn connect_if_broken(&mut self, error: &anyhow::Error) {
        // A session that is refused a connection is a session still.
        if error.is::<ServerError>() {
            match self.client.query("DO 1") {
                Err(error) if !error.is::<ServerError>() => {}
                _ => return,
            }
        }
        self.record.disconnects += 1;
        self.session = self.ground.sessions.fetch_add(1, Ordering::Relaxed);
        match connect(self.ground) {
            Some(client) => self.client = client,
            None => self.record.stranded += 1,
        }
    }
}

/// A proxy that is started again takes a moment. One that hangs may take for ever: that is a result, too.
fn connect(ground: &Ground) -> Option<Client> {
    eventually(PATIENCE, "a connection", || ground.address.connect().map(Some)).ok()
}

fn outcome_of(error: &anyhow::Error) -> Outcome {
    match error.downcast_ref::<ServerError>() {
        Some(told) if told.code == OUTCOME_UNKNOWN || SESSION_LOST.contains(&told.code) => Outcome::Unknown,
        Some(_) => Outcome::Failed,
        None => Outcome::Unknown,
    }
}

fn kind_of(error: &anyhow::Error) -> String {
    match error.downcast_ref::<ServerError>() {
        Some(told) => told.code.to_string(),
        None if format!("{error:#}").contains("inside a packet") => IN_A_ROW.to_owned(),
        None => "closed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_decides_what_may_be_there() {
        let told = |code| {
            let error = ServerError { code, sqlstate: "HY000".to_owned(), message: String::new() };
            (outcome_of(&error.clone().into()), kind_of(&error.into()))
        };
        assert_eq!(told(1213), (Outcome::Failed, "1213".to_owned()));
        assert_eq!(told(9102), (Outcome::Failed, "9102".to_owned()));
        assert_eq!(told(9103), (Outcome::Failed, "9103".to_owned()));
        assert_eq!(told(4031), (Outcome::Unknown, "4031".to_owned()));
        assert_eq!(told(9101), (Outcome::Unknown, "9101".to_owned()));
        assert_eq!(told(2013), (Outcome::Unknown, "2013".to_owned()));
        let told = ServerError { code: 1213, sqlstate: String::new(), message: String::new() };
        assert_eq!(kind_of(&anyhow::Error::from(told).context("COMMIT")), "1213");
        let closed = anyhow::anyhow!("end of file");
        assert_eq!((outcome_of(&closed), kind_of(&closed)), (Outcome::Unknown, "closed".to_owned()));
    }
}
