//! The tables of a database, their views, triggers and foreign keys: read again and again on the primary, beside the probes, where
//! answers are kept until their tables are written.
//!
//! Owns: when that is read, and where. What follows from it is in `delphinus_view::TableMap` and `delphinus_sql::Reach`.

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delphinus_memory::{Owner, Permit};
use delphinus_net::rt::{self, watch};
use delphinus_sql::Reach;
use delphinus_topology::{Backend, BackendId, ServerFacts, Snapshot};
use delphinus_view::SnapshotReader;
use tracing::{info, warn};

use crate::probe::table_map::{Told, read};
use crate::settings::Settings;

/// Time to the next reading after one that has failed.
const RETRY: Duration = Duration::from_secs(5);

/// How long one may take, in time-outs of probes: there may be many tables.
const PATIENCE: u32 = 10;

/// Time between two readings at least, however much sessions change.
const GAP: Duration = Duration::from_millis(200);

/// So many times as long as a reading takes, the next one does not begin.
const REST: u32 = 3;

/// So many intervals what was read last counts, when it cannot be read any more.
const STALE: u32 = 3;

/// Where nobody has said how often.
const USUAL: Duration = Duration::from_mins(1);

/// The task that reads it.
pub(crate) struct TableReader {
    settings: Rc<Settings>,
    reader: SnapshotReader,
    /// What was said last of what cannot be read.
    told: Option<String>,
    /// When it was read last.
    read_at: Option<Instant>,
    /// The room of what was read last.
    room: Option<Permit>,
}

/// Where it is read: on the primary, for a replica may lack what has changed.
struct Place {
    backend: BackendId,
    facts: Arc<ServerFacts>,
}

fn place(snapshot: &Snapshot) -> Option<Place> {
    let is_there = |backend: &&Backend| backend.is_up() && backend.facts.is_some();
    let backend = snapshot.primary().filter(is_there)?;
    Some(Place { backend: backend.id, facts: backend.facts.clone()? })
}

impl TableReader {
    pub(crate) fn new(settings: Rc<Settings>, reader: SnapshotReader) -> Self {
        Self { settings, reader, told: None, read_at: None, room: None }
    }

    /// Reads until `stopped`.
    pub(crate) async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        let stop = async {
            // An error means that the monitor is gone, which is the same.
            let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
        };
        rt::either(stop, self.read_on()).await;
    }

    fn interval(&self) -> Duration {
        let interval = self.settings.stored_code_interval;
        if interval.is_zero() { USUAL } else { interval }
    }

    async fn read_on(&mut self) {
        let code = self.reader.stored_code().clone();
        while !code.tables().is_wanted() {
            code.tables().changed().await;
        }
        loop {
            let Some(found) = self.reader.wait_for(|snapshot| place(snapshot).is_some()).await else {
                return;
            };
            let Some(here) = place(&found) else { continue };
            let begun = rt::now();
            let is_read = self.read(&here).await;
            let pause = if is_read { self.interval() } else { RETRY.min(self.interval()) };
            let mut reader = self.reader.clone();
            let is_elsewhere =
                |snapshot: &Snapshot| place(snapshot).is_some_and(|place| place.backend != here.backend);
            let mut moves = pin!(reader.wait_for(is_elsewhere));
            let took = begun.elapsed();
            let news = rt::either(moves.as_mut(), code.tables().changed());
            rt::either(rt::sleep(pause), news).await;
            let gap = GAP.max((took * REST).min(self.interval()));
            rt::sleep(gap.saturating_sub(begun.elapsed())).await;
        }
    }

    /// True if it could be read.
    async fn read(&mut self, place: &Place) -> bool {
        let code = self.reader.stored_code().clone();
        let seen = code.tables().seen();
        let reading = read(self.settings.spec(place.backend), &self.settings, &place.facts);
        let trouble = match rt::timeout(self.settings.timeout() * PATIENCE, reading).await {
            Some(Ok(Told::All(reach))) => {
                self.take_in(*reach, seen);
                None
            }
            Some(Ok(Told::Denied)) => {
                Some("it needs TRIGGER and SHOW VIEW ON *.*, without a REVOKE for a schema".to_owned())
            }
            Some(Ok(Told::TooMuch)) => {
                Some("there are more tables than the proxy can keep track of".to_owned())
            }
            Some(Err(error)) => Some(error.to_string()),
            None => Some("no answer in time".to_owned()),
        };
        let is_read = trouble.is_none();
        let is_stale = self.read_at.is_none_or(|at| at.elapsed() > self.interval() * STALE);
        if !is_read && is_stale {
            code.tables().take_in(None, seen);
            self.room = None;
        }
        self.tell(trouble);
        is_read
    }

    fn take_in(&mut self, reach: Reach, seen: u64) {
        self.room = None;
        self.room = Some(self.settings.memory.reserve(Owner::StoredCode, reach.bytes()));
        self.read_at = Some(rt::now());
        self.reader.stored_code().tables().take_in(Some(reach), seen);
    }

    fn tell(&mut self, trouble: Option<String>) {
        if trouble == self.told {
            return;
        }
        if let Some(why) = &trouble {
            let user = self.settings.tuning().user.clone();
            warn!(
                user,
                why,
                "the tables' triggers and foreign keys cannot be read: each write ends all cached answers"
            );
        } else {
            info!("the tables' triggers and foreign keys are known");
        }
        self.told = trouble;
    }
}
