//! What anybody writes on a cluster's primary, told to the cache by the log of the relay that follows it: a thread for each cluster.
//!
//! Owns: when an era begins and ends ([`delphinus_cache::Feed`] says what an era is), and what operators see of it. Reading the log is
//! `reading`, asking the primary `question`. Must not know sessions.
//!
//! ## What happens in a turn
//!
//! 1. It reads what is new in the log. Each group is noted for its tables, and runs from then on.
//! 2. It asks the primary what is committed there, and remembers when it has asked.
//! 3. What the primary shows has ended. If the log has told all that the primary had, all of that is noted: `Feed::knows`.
//!
//! A gap (a purged or damaged file), another primary, or a lag of more than `max_lag` ends the era. The next one begins when the log has
//! told all that the primary had after that, and the primary shows all that was in the log before the reading of it began. Where the
//! primary lacks what it had before, its numbers come again with something else in them: none begins until another server has the role, or
//! this process begins anew.

mod fault;
mod question;
mod reading;

use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use delphinus_admin::CacheStreamRow;
use delphinus_cache::{Cache, Feed, SETTLING, Tables, Untold};
use delphinus_memory::Account;
use delphinus_monitor::Tuning;
use delphinus_net::Place;
use delphinus_net::rt::{self, Manner, watch};
use delphinus_relay::log::Log;
use delphinus_topology::{BackendId, ClusterId, Succession};
use delphinus_view::{SnapshotReader, TableMap};
use delphinus_wire::gtid::GtidSet;

use crate::cluster::RunningCluster;
use crate::error::Error;
use crate::relays::Relays;
use fault::Fault;
use question::{Line, Shown};
use reading::Reading;

/// Time between two turns while nothing comes.
const PACE: Duration = Duration::from_millis(50);
/// Time between two turns at least.
const GAP: Duration = Duration::from_millis(5);
/// Why no era begins where a primary lacks what it had.
const BEGUN_ANEW: &str = "the primary's history has begun anew: it lacks transactions that it had, as after RESET BINARY LOGS AND GTIDS \
     or RESET MASTER; stop this process, and have the relay begin with an empty folder";
/// Time between two looks for writes that have not told their GTIDs.
const HEALING: Duration = Duration::from_secs(1);

/// What a stream goes with.
pub(crate) struct Parts {
    pub(crate) name: Arc<str>,
    pub(crate) cluster: ClusterId,
    /// The relay that follows the cluster.
    pub(crate) relay: String,
    pub(crate) log: Arc<Log>,
    pub(crate) memory: Account,
    pub(crate) cache: Arc<Cache>,
    pub(crate) reader: SnapshotReader,
    pub(crate) places: Vec<Arc<Place>>,
    /// Whose user asks the primary.
    pub(crate) tuning: watch::Receiver<Tuning>,
}

/// What operators see of a stream.
#[derive(Debug, Default)]
struct Status {
    /// All that it has noted.
    has: Mutex<String>,
    /// Why no era runs; empty: one does.
    trouble: Mutex<String>,
    /// Transactions that it has noted since the start.
    noted: AtomicU64,
    /// Of those, the ones that the primary has not shown yet.
    unseen: AtomicU64,
}

impl Status {
    fn set(cell: &Mutex<String>, text: String) {
        *cell.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }

    fn get(cell: &Mutex<String>) -> String {
        cell.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All that it has noted, as text.
    fn has(&self) -> String {
        Self::get(&self.has)
    }

    /// Why no era runs.
    fn trouble(&self) -> Option<String> {
        Some(Self::get(&self.trouble)).filter(|text| !text.is_empty())
    }
}

/// A stream that runs.
struct Stream {
    name: Arc<str>,
    cluster: ClusterId,
    relay: String,
    status: Arc<Status>,
    stop: watch::Sender<bool>,
    thread: JoinHandle<std::io::Result<()>>,
}

impl Stream {
    /// Starts its thread.
    ///
    /// # Errors
    /// The system has no thread for it.
    fn start(parts: Parts) -> std::io::Result<Self> {
        let (name, cluster, relay) = (parts.name.clone(), parts.cluster, parts.relay.clone());
        let status = Arc::<Status>::default();
        let (stop, stopped) = watch::channel(false);
        let told = status.clone();
        let run = move || Follower::new(parts, told).run(stopped);
        let thread = rt::spawn_worker(format!("stream-{name}"), Manner::default(), run)?;
        Ok(Self { name, cluster, relay, status, stop, thread })
    }

    /// Ends its thread.
    async fn end(self) {
        self.stop.send_replace(true);
        let _ = rt::compute(move || self.thread.join()).await;
    }
}

/// The streams of this process.
#[derive(Default)]
pub(crate) struct Streams {
    all: RefCell<Vec<Stream>>,
    cache: Option<Arc<Cache>>,
}

impl Streams {
    /// Starts one for each cluster whose answers are ended by one.
    ///
    /// # Errors
    /// The system has no thread for one.
    pub(crate) fn start(
        cache: &Arc<Cache>,
        clusters: &[RunningCluster],
        relays: &Relays,
    ) -> Result<Rc<Self>, Error> {
        let parts = clusters.iter().filter_map(|cluster| cluster.stream(relays));
        let started: std::io::Result<Vec<_>> = parts.map(Stream::start).collect();
        Ok(Rc::new(Self { all: RefCell::new(started?), cache: Some(cache.clone()) }))
    }

    /// As operators see them.
    pub(crate) fn rows(&self) -> Vec<CacheStreamRow> {
        let Some(cache) = &self.cache else { return Vec::new() };
        let row = |stream: &Stream| {
            let feed = cache.tables(stream.cluster)?.feed()?;
            let lag = feed.lag(rt::now());
            let trouble = stream.status.trouble();
            Some(CacheStreamRow {
                cluster: stream.name.to_string(),
                relay: stream.relay.clone(),
                state: match lag {
                    None => "broken",
                    Some(lag) if lag > feed.max_lag() => "behind",
                    Some(_) => "following",
                },
                lag,
                max_lag: feed.max_lag(),
                executed: stream.status.has(),
                noted: stream.status.noted.load(Relaxed),
                unseen: stream.status.unseen.load(Relaxed),
                eras: feed.eras(),
                error: trouble,
            })
        };
        self.all.borrow().iter().filter_map(row).collect()
    }

    /// Ends all of them.
    pub(crate) async fn stop(&self) {
        let all = self.all.take();
        for stream in all {
            stream.end().await;
        }
    }
}

struct Follower {
    parts: Parts,
    status: Arc<Status>,
    reading: Option<Reading>,
    /// The primary, and which time in that role it is.
    primary: Option<BackendId>,
    succession: Succession,
    /// The connection to it.
    line: Option<Line>,
    /// What the primary had when it was asked last.
    last: Option<Shown>,
    /// It has lacked something since that it had before.
    is_anew: bool,
    /// What the primary had, which the log has not told yet, and when that was asked.
    open: Option<(Instant, Shown)>,
    /// Since when the stream has no gap, and what the log had told by then.
    since: (Instant, GtidSet),
    asked_at: Option<Instant>,
    healed_at: Instant,
    /// Writes that have not told their GTIDs, and what the primary had after them.
    healing: Option<(Untold, Shown)>,
    is_on: bool,
}

impl Follower {
    fn new(parts: Parts, status: Arc<Status>) -> Self {
        let now = rt::now();
        Self {
            parts,
            status,
            reading: None,
            primary: None,
            succession: Succession::default(),
            line: None,
            last: None,
            is_anew: false,
            open: None,
            since: (now, GtidSet::default()),
            asked_at: None,
            healed_at: now,
            healing: None,
            is_on: false,
        }
    }

    async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        let bell = self.parts.log.register();
        self.tell("the primary was not asked yet".to_owned());
        let work = async {
            loop {
                rt::either(pin!(bell.rung()), pin!(rt::sleep(PACE))).await;
                self.turn().await;
                rt::sleep(GAP).await;
            }
        };
        // An error means that the proxy is gone, which is the same.
        rt::either(pin!(stopped.wait_for(|is_stopped| *is_stopped)), pin!(work)).await;
    }

    fn tables(&self) -> &Tables {
        self.parts.cache.tables(self.parts.cluster).expect("invariant: streams run where writes end answers")
    }

    fn feed(&self) -> &Feed {
        self.tables().feed().expect("invariant: streams run where there is a feed")
    }

    fn code(&self) -> &TableMap {
        self.parts.reader.stored_code().tables()
    }

    async fn turn(&mut self) {
        self.look_for_primary();
        self.read();
        let is_awaited = self.line.is_some() && self.reading.as_ref().is_some_and(Reading::has_unseen);
        let due = is_awaited || self.asked_at.is_none_or(|at| at.elapsed() >= PACE);
        if due {
            self.ask().await;
            // What the primary has shown may be in the log by now.
            self.read();
        }
        if let Some((asked, shown)) = self.open.take()
            && !self.settle(asked, &shown)
        {
            self.open = Some((asked, shown));
        }
        self.heal();
        if self.is_on && self.feed().lag(rt::now()).is_some_and(|lag| lag > self.feed().max_lag()) {
            let limit = self.feed().max_lag().as_millis();
            self.breaks(&format!("it is more than stream_max_lag_ms = {limit} behind"));
        }
        self.show();
    }

    /// Another primary has another log.
    fn look_for_primary(&mut self) {
        let snapshot = self.parts.reader.load();
        let primary = snapshot.primary().map(|primary| primary.id);
        if (primary, snapshot.succession) == (self.primary, self.succession) {
            return;
        }
        (self.primary, self.succession) = (primary, snapshot.succession);
        (self.line, self.open, self.asked_at) = (None, None, None);
        (self.last, self.is_anew) = (None, false);
        self.breaks(match primary {
            Some(_) => "the primary has changed",
            None => "there is no primary",
        });
    }

    /// The era ends: the next one needs everything that the primary has from now on.
    fn breaks(&mut self, why: &str) {
        self.feed().end();
        let has = self.reading.as_ref().map(|reading| reading.has().clone());
        self.since = (rt::now(), has.unwrap_or_default());
        (self.open, self.healing) = (None, None);
        if self.is_on {
            tracing::warn!(
                cluster = &*self.parts.name,
                why,
                "the stream of writes has a gap: the cache keeps nothing and answers nothing until the stream goes on"
            );
        }
        self.is_on = false;
        self.tell(why.to_owned());
    }

    fn tell(&self, trouble: String) {
        Status::set(&self.status.trouble, trouble);
    }

    /// Notes what the log has that was not noted yet.
    fn read(&mut self) {
        let Some(primary) = self.primary else { return };
        if self.reading.is_none() {
            match Reading::begin(&self.parts.log, &self.parts.memory) {
                Ok(reading) => {
                    self.reading = Some(reading);
                    self.breaks("it has just begun");
                }
                Err(error) => return self.tell(error.to_string()),
            }
        }
        let Some(reading) = &mut self.reading else { return };
        let (reader, cluster) = (&self.parts.reader, self.parts.cluster);
        let tables = self.parts.cache.tables(cluster).expect("invariant: as above");
        match reading.go_on(tables, (cluster, primary), reader) {
            Ok(noted) => {
                self.status.noted.fetch_add(noted, Relaxed);
            }
            Err(error) => {
                // What was noted is seen, or gone with a primary: no answer of this era is given any more.
                self.feed().end();
                if let Some(reading) = self.reading.take() {
                    reading.give_up(self.tables(), self.code());
                }
                self.breaks(&error.to_string());
            }
        }
    }

    /// Asks the primary what is committed there.
    async fn ask(&mut self) {
        let Some(primary) = self.primary else { return };
        if self.line.is_none() {
            let Some(place) = self.parts.places.get(primary.index()) else { return };
            let tuning = self.parts.tuning.borrow().clone();
            match Line::open(place, &tuning).await {
                Ok(line) => self.line = Some(line),
                Err(error) => return self.lose_line(&error),
            }
        }
        let Some(line) = &mut self.line else { return };
        let heals = self.is_on && self.healing.is_none() && self.healed_at.elapsed() >= HEALING;
        let tables = self.parts.cache.tables(self.parts.cluster).expect("invariant: as above");
        let untold = heals.then(|| tables.untold()).filter(|untold| !untold.is_empty());
        // Before it is sent: what is committed after that may be missing.
        let asked = rt::now();
        match line.ask().await {
            Err(error) => self.lose_line(&error),
            Ok(shown) => {
                self.asked_at = Some(asked);
                if let Some(trouble) = shown.trouble {
                    return self.tell(trouble.to_owned());
                }
                if heals {
                    self.healed_at = asked;
                    self.healing = untold.map(|untold| (untold, shown.clone()));
                }
                self.hear(asked, shown);
            }
        }
    }

    /// Takes in what the primary had when it was asked.
    fn hear(&mut self, asked: Instant, shown: Shown) {
        let lacks = self.last.as_ref().is_some_and(|last| !shown.has_all_of(last));
        self.last = Some(shown.clone());
        if lacks {
            // What it has from now on may seem to be a part of what the log has told of its past.
            self.is_anew = true;
            return self.breaks(BEGUN_ANEW);
        }
        let tables = self.parts.cache.tables(self.parts.cluster).expect("invariant: as above");
        if let Some(reading) = &mut self.reading {
            let code = self.parts.reader.stored_code().tables();
            reading.are_seen(tables, code, &self.parts.log, &shown);
        }
        if !self.settle(asked, &shown) && self.open.is_none() {
            self.open = Some((asked, shown));
        }
    }

    /// Writes that have not told their GTIDs are in what the log has told, once that has all that the primary had after them.
    fn heal(&mut self) {
        let (Some(reading), Some(primary)) = (&self.reading, self.primary) else { return };
        if let Some((untold, _)) = self.healing.take_if(|(_, shown)| shown.is_part_of(reading.has())) {
            let Succession { since, is_elected, .. } = self.succession;
            let is_settled = !is_elected || since.is_none_or(|since| since.elapsed() >= SETTLING);
            self.tables().tell(untold, (primary, is_settled), reading.has());
        }
    }

    fn lose_line(&mut self, error: &str) {
        self.line = None;
        self.asked_at = Some(rt::now());
        self.tell(format!("the primary cannot be asked: {error}"));
    }

    /// True if nothing is open: the log has told all that the primary had when it was asked, or what it tells says nothing.
    fn settle(&mut self, asked: Instant, shown: &Shown) -> bool {
        let (Some(reading), Some(primary)) = (&self.reading, self.primary) else { return false };
        if self.is_anew {
            self.tell(BEGUN_ANEW.to_owned());
            return true;
        }
        if !shown.is_part_of(reading.has()) {
            return false;
        }
        if self.is_on {
            self.feed().knows(asked);
        } else {
            let (since, before) = &self.since;
            // What the log has told of may not be seen on a new primary yet.
            if asked < *since || !shown.executed.contains(before) {
                return true;
            }
            // No write is noted that was there when the reading began: one that comes to be seen later would end no answer.
            if !shown.shows_all(reading.began(), (reading.has(), &self.parts.log)) {
                self.tell("the primary does not show yet all that is in its log".to_owned());
                return true;
            }
            // What has changed the tables in a gap was not told.
            self.code().has_changed();
            self.tables().forget_places(&shown.executed);
            self.feed().begin(primary, Fault::planted().ground(&shown.executed), asked);
            self.is_on = true;
            tracing::info!(
                cluster = &*self.parts.name,
                "the stream of writes goes on: the cache works again"
            );
        }
        self.tell(String::new());
        true
    }

    fn show(&self) {
        let Some(reading) = &self.reading else { return };
        Status::set(&self.status.has, reading.has().to_string());
        self.status.unseen.store(reading.unseen() as u64, Relaxed);
    }
}

#[cfg(test)]
mod tests;
