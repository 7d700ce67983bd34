//! What sessions know of the code in the database: routines, triggers and views are read again and again on the primary, beside the
//! probes, because no server reports all that code does to the session that runs it.
//!
//! Owns: when that is read, and for whom it matters. What follows from a text is in `delphinus_sql::Catalog`.

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use delphinus_memory::{Owner, Permit};
use delphinus_net::rt::{self, Notify, watch};
use delphinus_sql::{Catalog, Runs, Statement};
use delphinus_topology::{Backend, BackendId, Flavor, ServerFacts, Snapshot};
use tracing::{info, warn};

use crate::probe::stored_code::read;
use crate::publish::SnapshotReader;
use crate::settings::Settings;

/// Time to the next reading after one that has failed.
const RETRY: Duration = Duration::from_secs(5);

/// How long one may take, in time-outs of probes: there may be many routines.
const PATIENCE: u32 = 10;

/// How long a statement waits for the next reading, where the code has changed since the last one.
const LIMIT: Duration = Duration::from_secs(3);

/// Time between two readings at least, however much sessions change.
const GAP: Duration = Duration::from_millis(50);

/// For whom what is known matters.
mod flag {
    /// Nobody has read the code since it has changed, or at all.
    pub(super) const STALE: u8 = 1;
    /// A session has changed it since.
    pub(super) const CHANGED: u8 = 2;
    /// See `Catalog::has_routines`.
    pub(super) const ROUTINES: u8 = 4;
    /// See `Catalog::has_system`.
    pub(super) const SYSTEM: u8 = 8;
    /// See `Catalog::has_views`.
    pub(super) const VIEWS: u8 = 16;
    /// See `Catalog::has_triggers`.
    pub(super) const TRIGGERS: u8 = 32;
}

/// What is known of the code in the database of a cluster; for any thread.
#[derive(Debug)]
pub struct StoredCode {
    catalog: ArcSwap<Catalog>,
    flags: AtomicU8,
    /// How often it has changed, and once more: nobody has read it when the proxy starts.
    changes: AtomicU64,
    /// How often it had changed when it was read last.
    read: watch::Sender<u64>,
    bell: Notify,
    /// False if an operator does not want it to be read.
    is_read: bool,
}

impl StoredCode {
    pub(crate) fn new(is_read: bool) -> Self {
        Self {
            catalog: ArcSwap::default(),
            flags: AtomicU8::new(if is_read { flag::STALE } else { 0 }),
            changes: AtomicU64::new(1),
            read: watch::channel(0).0,
            bell: Notify::new(),
            is_read,
        }
    }

    /// True if `concerns` may be true of a statement that can be anything.
    #[inline]
    pub fn concerns_any(&self) -> bool {
        self.flags.load(Ordering::Acquire) & !flag::SYSTEM != 0
    }

    /// True if the statement may do something by code in the database that no server reports.
    #[inline]
    pub fn concerns(&self, statement: &Statement) -> bool {
        let flags = self.flags.load(Ordering::Acquire);
        flags != 0 && concerns(flags, Runs::of(statement))
    }

    /// A session has changed the code.
    pub fn has_changed(&self) {
        if self.is_read {
            self.changes.fetch_add(1, Ordering::AcqRel);
            self.flags.fetch_or(flag::STALE | flag::CHANGED, Ordering::AcqRel);
            self.bell.notify_one();
        }
    }

    /// What is known. Where the code has changed, a statement that may run a routine or a trigger waits for the next reading; of
    /// routines that nobody has read in time, the worst is taken for true.
    pub async fn catalog_for(&self, statement: &Statement) -> Arc<Catalog> {
        if waits(self.flags.load(Ordering::Acquire), Runs::of(statement)) {
            return self.catalog_now().await;
        }
        self.catalog.load_full()
    }

    /// The same for a statement that may run anything.
    pub async fn catalog_now(&self) -> Arc<Catalog> {
        if self.is_fresh() {
            return self.catalog.load_full();
        }
        let wanted = self.changes.load(Ordering::Acquire);
        let mut read = self.read.subscribe();
        match rt::timeout(LIMIT, read.wait_for(|read| *read >= wanted)).await {
            Some(Ok(_)) => self.catalog.load_full(),
            // An error means that the monitor is gone, and with it the proxy.
            Some(Err(_)) | None => Arc::new(Catalog::clone(&self.catalog.load()).without_routines()),
        }
    }

    /// True if nobody has changed it since it was read.
    fn is_fresh(&self) -> bool {
        self.flags.load(Ordering::Acquire) & flag::STALE == 0
    }

    /// Takes in what was read when the code had changed so often.
    fn publish(&self, catalog: Catalog, changes: u64) {
        let mut flags = 0;
        for (is_set, flag) in [
            (catalog.has_routines(), flag::ROUTINES),
            (catalog.has_system(), flag::SYSTEM),
            (catalog.has_views(), flag::VIEWS),
            (catalog.has_triggers(), flag::TRIGGERS),
        ] {
            flags |= if is_set { flag } else { 0 };
        }
        self.catalog.store(Arc::new(catalog));
        self.flags.store(flags, Ordering::Release);
        if self.changes.load(Ordering::Acquire) != changes {
            self.flags.fetch_or(flag::STALE | flag::CHANGED, Ordering::AcqRel);
        }
        self.read.send_replace(changes);
    }
}

fn concerns(flags: u8, runs: Runs) -> bool {
    let has = |wanted| flags & wanted != 0;
    has(flag::VIEWS) && runs.views
        || has(flag::SYSTEM) && runs.system
        || has(flag::ROUTINES | flag::STALE) && runs.routines
        || has(flag::TRIGGERS | flag::CHANGED) && runs.triggers
}

/// Nobody waits to read, and to write only where something has changed.
fn waits(flags: u8, runs: Runs) -> bool {
    flags & flag::STALE != 0 && (runs.routines || runs.triggers && flags & flag::CHANGED != 0)
}

/// The task that reads it.
pub(crate) struct CodeReader {
    settings: Rc<Settings>,
    reader: SnapshotReader,
    /// What was said last of what cannot be read.
    told: Option<String>,
    /// The room of what was read last.
    room: Option<Permit>,
}

impl CodeReader {
    pub(crate) fn new(settings: Rc<Settings>, reader: SnapshotReader) -> Self {
        Self { settings, reader, told: None, room: None }
    }

    /// Reads until `stopped`.
    pub(crate) async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        if self.settings.stored_code_interval_ms == 0 {
            return;
        }
        let stop = async {
            // An error means that the monitor is gone, which is the same.
            let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
        };
        rt::either(stop, self.read_on()).await;
    }

    async fn read_on(&mut self) {
        loop {
            let found = self.reader.wait_for(|snapshot| place(snapshot).is_some() || snapshot.settled).await;
            let Some(found) = found else { return };
            let here = place(&found);
            let begun = rt::now();
            let is_read = match &here {
                Some((backend, facts)) => self.read(*backend, facts).await,
                None => self.miss(),
            };
            let interval = Duration::from_millis(self.settings.stored_code_interval_ms);
            let pause = if is_read { interval } else { RETRY.min(interval) };
            let mut reader = self.reader.clone();
            let here = here.map(|(backend, _)| backend);
            let mut moves =
                pin!(reader.wait_for(|snapshot| place(snapshot).map(|(backend, _)| backend) != here));
            let code = self.reader.stored_code().clone();
            let news = rt::either(moves.as_mut(), code.bell.notified());
            rt::either(rt::sleep(pause), news).await;
            rt::sleep(GAP.saturating_sub(begun.elapsed())).await;
        }
    }

    /// There is no backend to read it from. Nobody waits for one here.
    fn miss(&self) -> bool {
        let code = self.reader.stored_code();
        if !code.is_fresh() {
            let changes = code.changes.load(Ordering::Acquire);
            code.publish(Catalog::clone(&code.catalog.load()).without_routines(), changes);
        }
        false
    }

    /// True if it could be read. If not, what was read before is as good as it was, unless somebody has changed it since.
    async fn read(&mut self, backend: BackendId, facts: &ServerFacts) -> bool {
        let code = self.reader.stored_code().clone();
        let changes = code.changes.load(Ordering::Acquire);
        let reading = read(self.settings.spec(backend), &self.settings, facts);
        let outcome = rt::timeout(self.settings.timeout() * PATIENCE, reading).await;
        let is_read = matches!(outcome, Some(Ok(_)));
        let trouble = match &outcome {
            Some(Ok(catalog)) if catalog.is_unreadable() => Some(missing_right(facts).to_owned()),
            Some(Ok(_)) => None,
            Some(Err(error)) => Some(error.to_string()),
            None => Some("no answer in time".to_owned()),
        };
        self.tell(trouble);
        let catalog = match outcome {
            Some(Ok(catalog)) => catalog,
            _ if code.is_fresh() => return false,
            // Its triggers and views are what they were, as far as anybody knows.
            _ => Catalog::clone(&code.catalog.load()).without_routines(),
        };
        self.room = None;
        self.room = Some(self.settings.memory.reserve(Owner::StoredCode, catalog.bytes()));
        code.publish(catalog, changes);
        is_read
    }

    fn tell(&mut self, trouble: Option<String>) {
        if trouble == self.told {
            return;
        }
        if let Some(why) = &trouble {
            let user = &self.settings.user;
            warn!(user, why, "stored routines cannot be read: a session that runs one keeps its connection");
        } else {
            info!("stored routines can be read again");
        }
        self.told = trouble;
    }
}

fn missing_right(facts: &ServerFacts) -> &'static str {
    match facts.flavor {
        Flavor::MySql if facts.version_number >= 80_020 => "it needs SHOW_ROUTINE ON *.*",
        Flavor::MySql if facts.version_number >= 80_000 => "it needs SELECT ON *.*",
        Flavor::MySql | Flavor::MariaDb => "it needs SELECT ON mysql.proc",
    }
}

/// Where it is read: on the primary; where there is none, on any other that is up.
fn place(snapshot: &Snapshot) -> Option<(BackendId, Arc<ServerFacts>)> {
    let is_there = |backend: &&Backend| backend.is_up() && backend.facts.is_some();
    let primary = snapshot.primary().filter(is_there);
    let any = || snapshot.backends.iter().find(is_there).filter(|_| snapshot.settled);
    let backend = primary.or_else(any)?;
    Some((backend.id, backend.facts.clone()?))
}

#[cfg(test)]
mod tests {
    use delphinus_net::rt::Either;
    use delphinus_sql::{Body, CatalogBuilder, LexOptions, Stored, classify};

    use super::*;

    fn concerned(code: &StoredCode) -> Vec<bool> {
        let asked = ["SELECT 1", "SELECT f()", "CALL p()", "INSERT INTO t VALUES (1)"];
        asked.map(|sql| code.concerns(&classify(sql.as_bytes(), LexOptions::default()))).to_vec()
    }

    fn catalog(stored: &[Stored]) -> Catalog {
        let mut builder = CatalogBuilder::default();
        for one in stored {
            builder.add(one.clone(), Body::read(b"SELECT GET_LOCK('a', 1)", LexOptions::default()));
        }
        builder.build()
    }

    #[test]
    fn only_those_are_concerned_for_whom_there_is_something() {
        let code = StoredCode::new(true);
        assert_eq!(concerned(&code), [false, true, true, false], "nobody has read it");
        code.publish(catalog(&[]), 1);
        assert_eq!(concerned(&code), [false; 4]);
        code.publish(catalog(&[Stored::Routine("p".to_owned())]), 1);
        assert_eq!(concerned(&code), [false, true, true, false]);
        code.publish(catalog(&[Stored::Trigger("t".to_owned())]), 1);
        assert_eq!(concerned(&code), [false, false, true, true]);
        code.publish(catalog(&[Stored::View("v".to_owned()), Stored::Routine("p".to_owned())]), 1);
        assert_eq!(concerned(&code), [true; 4]);
        code.publish(catalog(&[Stored::Routine("sys".to_owned())]), 1);
        assert_eq!(concerned(&code), [false, false, true, false]);
        code.publish(catalog(&[]), 1);
        code.has_changed();
        assert_eq!(concerned(&code), [false, true, true, true], "it has changed");
        code.publish(catalog(&[]), 1);
        assert_eq!(concerned(&code), [false, true, true, true], "it was read before the change");
        code.publish(catalog(&[]), 2);
        assert_eq!(concerned(&code), [false; 4]);
        code.publish(Catalog::default().without_routines(), 2);
        assert_eq!(concerned(&code), [false, true, true, false]);
    }

    #[test]
    fn nobody_is_concerned_where_nobody_wants_it_read() {
        let code = StoredCode::new(false);
        code.has_changed();
        assert_eq!(concerned(&code), [false; 4]);
        let catalog = rt::block_on(code.catalog_now()).unwrap();
        assert_eq!(*catalog, Catalog::default());
    }

    #[test]
    fn what_is_stale_is_waited_for() {
        rt::block_on(async {
            let code = StoredCode::new(true);
            let mut waiting = pin!(code.catalog_now());
            let Either::Second(()) = rt::either(waiting.as_mut(), rt::sleep(Duration::from_millis(20))).await
            else {
                panic!("nobody has read it");
            };
            code.publish(catalog(&[Stored::Routine("p".to_owned())]), 1);
            assert!(waiting.await.has_routines());
        })
        .unwrap();
    }
}
