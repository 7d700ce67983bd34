//! The code in the database: routines, triggers and views are read again and again on the primary, beside the probes, because no
//! server reports all that code does to the session that runs it.
//!
//! Owns: when that is read, and where. What sessions know of it is in `delphinus_view::StoredCode`.

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use delphinus_memory::{Owner, Permit};
use delphinus_net::rt::{self, watch};
use delphinus_topology::{Backend, BackendId, Flavor, ServerFacts, Snapshot};
use delphinus_view::SnapshotReader;
use tracing::{info, warn};

use crate::probe::stored_code::read;
use crate::settings::Settings;

/// Time to the next reading after one that has failed.
const RETRY: Duration = Duration::from_secs(5);

/// How long one may take, in time-outs of probes: there may be many routines.
const PATIENCE: u32 = 10;

/// How long statements that run code wait for the first reading, from the start on.
const FIRST: Duration = Duration::from_secs(3);

/// Time between two readings at least, however much sessions change.
const GAP: Duration = Duration::from_millis(200);

/// So many times as long as a reading takes, the next one does not begin: whatever sessions change, a server is not read all the time.
const REST: u32 = 3;

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
        if self.settings.stored_code_interval.is_zero() {
            return;
        }
        let stop = async {
            // An error means that the monitor is gone, which is the same.
            let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
        };
        let code = self.reader.stored_code().clone();
        let read_on = async {
            let mut reading = pin!(self.read_on());
            rt::either(reading.as_mut(), rt::sleep(FIRST)).await;
            code.end_first();
            reading.await;
        };
        rt::either(stop, read_on).await;
    }

    async fn read_on(&mut self) {
        loop {
            let found = self.reader.wait_for(|snapshot| place(snapshot).is_some() || snapshot.settled).await;
            let Some(found) = found else { return };
            let here = place(&found);
            let begun = rt::now();
            let is_read = match &here {
                Some(place) => self.read(place).await,
                // No statement waits for one here.
                None => false,
            };
            let took = begun.elapsed();
            let code = self.reader.stored_code().clone();
            code.end_first();
            let interval = self.settings.stored_code_interval;
            let pause = if is_read { interval } else { RETRY.min(interval) };
            let mut reader = self.reader.clone();
            let here = here.map(|place| place.backend);
            let mut moves =
                pin!(reader.wait_for(|snapshot| place(snapshot).map(|place| place.backend) != here));
            let news = rt::either(moves.as_mut(), code.changed());
            rt::either(rt::sleep(pause), news).await;
            let gap = GAP.max((took * REST).min(interval));
            rt::sleep(gap.saturating_sub(begun.elapsed())).await;
        }
    }

    /// True if it could be read. If not, what was known before is as good as it was, with what has changed since.
    async fn read(&mut self, place: &Place) -> bool {
        let code = self.reader.stored_code().clone();
        let first = code.begin();
        let reading = read(self.settings.spec(place.backend), &self.settings, &place.facts);
        let outcome = rt::timeout(self.settings.timeout() * PATIENCE, reading).await;
        let trouble = match &outcome {
            Some(Ok(catalog)) if catalog.is_unreadable() => Some(missing_right(&place.facts).to_owned()),
            Some(Ok(_)) => None,
            Some(Err(error)) => Some(error.to_string()),
            None => Some("no answer in time".to_owned()),
        };
        self.tell(trouble);
        let Some(Ok(catalog)) = outcome else { return false };
        self.room = None;
        self.room = Some(self.settings.memory.reserve(Owner::StoredCode, catalog.bytes()));
        // A replica may not have what has changed on a primary that is gone.
        code.take_in(&catalog, if place.is_primary { first } else { 0 });
        true
    }

    fn tell(&mut self, trouble: Option<String>) {
        if trouble == self.told {
            return;
        }
        if let Some(why) = &trouble {
            let user = self.settings.tuning().user.clone();
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

/// Where it is read.
struct Place {
    backend: BackendId,
    facts: Arc<ServerFacts>,
    is_primary: bool,
}

/// On the primary; where there is none, on any other that is up.
fn place(snapshot: &Snapshot) -> Option<Place> {
    let is_there = |backend: &&Backend| backend.is_up() && backend.facts.is_some();
    let primary = snapshot.primary().filter(is_there);
    let any = || snapshot.backends.iter().find(is_there).filter(|_| snapshot.settled);
    let backend = primary.or_else(any)?;
    Some(Place { backend: backend.id, facts: backend.facts.clone()?, is_primary: primary.is_some() })
}
