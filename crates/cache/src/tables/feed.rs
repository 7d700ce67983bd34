//! What a stream of the primary's log tells of writes, whoever made them: up to when all of them are noted, and which server is known to
//! have what was written before.
//!
//! Owns: the *era*, which is a time in which the stream has no gap, and whether an answer of an era may be given now. Must not know the
//! stream, nor how a log is read: its follower says what it has found.
//!
//! ## Why no answer is older than the lag
//!
//! The follower asks the primary what is committed there, and remembers when it has asked. Once it has noted all of that, it says so
//! ([`Feed::knows`]): all writes that were acknowledged before that moment are noted. An answer is given only while that moment is at
//! most `max_lag` ago, and only if no table that it reads was noted since it was asked for.
//!
//! A write is in the log before it is seen on its server (with semi-synchronous replication, a round trip before). So it counts as
//! running from when it is noted until the primary says that it is seen: an answer that is asked for in between is not kept.
//!
//! A replica may lack what was written before the era began, of which no table is known. So the era has a *ground*: what the primary had
//! when it began. The answer of a replica counts only if the replica is known to have that, and the last write of each table.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use delphinus_topology::BackendId;
use delphinus_wire::binlog::AnyGtid;
use delphinus_wire::gtid::GtidSet;

use super::{BEGUN, Earlier, MOST_PARTS, Place, Spot, Tables};
use crate::origin::Origin;

/// How far the stream of one cluster is.
#[derive(Debug)]
pub struct Feed {
    /// Moments are counted from here.
    start: Instant,
    max_lag_us: AtomicU64,
    /// The era that runs; 0: none does.
    era: AtomicU64,
    /// How many have begun.
    eras: AtomicU64,
    /// All writes are noted up to this moment, in microseconds.
    known_us: AtomicU64,
    ground: ArcSwapOption<Ground>,
}

/// What an era stands on.
#[derive(Debug)]
struct Ground {
    era: u64,
    primary: BackendId,
    /// What the primary had executed when the era began, or more.
    executed: GtidSet,
}

/// Writes that the stream has told, and that may not be seen on the primary yet.
#[derive(Debug)]
#[must_use = "they run until they are seen"]
pub struct Noted(Box<[Spot]>);

/// Cells whose last write has not told its GTID.
#[derive(Debug)]
pub struct Untold(Vec<(usize, Arc<Place>)>);

impl Feed {
    /// No era has begun. `start`: any moment before all others.
    pub fn new(start: Instant, max_lag: Duration) -> Self {
        Self {
            start,
            max_lag_us: AtomicU64::new(whole_micros(max_lag)),
            era: AtomicU64::new(0),
            eras: AtomicU64::new(0),
            known_us: AtomicU64::new(0),
            ground: ArcSwapOption::default(),
        }
    }

    /// The longest lag with which answers are given.
    pub fn max_lag(&self) -> Duration {
        Duration::from_micros(self.max_lag_us.load(Ordering::Relaxed))
    }

    /// From now on it is this.
    pub fn set_max_lag(&self, max_lag: Duration) {
        self.max_lag_us.store(whole_micros(max_lag), Ordering::Relaxed);
    }

    /// An era begins: from `known` on all writes of this primary are noted, and it had `executed` then, or less.
    pub fn begin(&self, primary: BackendId, executed: GtidSet, known: Instant) {
        let era = self.eras.fetch_add(1, Ordering::SeqCst) + 1;
        self.ground.store(Some(Arc::new(Ground { era, primary, executed })));
        self.known_us.store(self.micros(known), Ordering::SeqCst);
        // Last: who finds it finds what it stands on.
        self.era.store(era, Ordering::SeqCst);
    }

    /// All writes are noted that were acknowledged before this moment.
    pub fn knows(&self, known: Instant) {
        self.known_us.fetch_max(self.micros(known), Ordering::SeqCst);
    }

    /// The era is over, if one runs: something may be missed from now on. What was kept in it is valid no more.
    pub fn end(&self) {
        self.era.store(0, Ordering::SeqCst);
    }

    /// How many eras have begun.
    pub fn eras(&self) -> u64 {
        self.eras.load(Ordering::SeqCst)
    }

    /// How long ago the moment is up to which all writes are noted; `None`: no era runs.
    pub fn lag(&self, now: Instant) -> Option<Duration> {
        (self.era.load(Ordering::SeqCst) != 0).then(|| self.since_known(now))
    }

    /// The era that runs, if it is not too far behind.
    pub(super) fn era(&self, now: Instant) -> Option<u64> {
        let era = self.era.load(Ordering::SeqCst);
        (era != 0 && self.since_known(now) <= self.max_lag()).then_some(era)
    }

    /// True if an answer from there has what the era stands on.
    pub(super) fn carries(&self, era: u64, origin: &Origin, primary: Option<BackendId>) -> bool {
        let ground = self.ground.load();
        let Some(ground) = ground.as_ref().filter(|ground| ground.era == era) else { return false };
        primary == Some(ground.primary)
            && (origin.backend == ground.primary
                || origin.position.as_ref().is_some_and(|position| position.contains(&ground.executed)))
    }

    fn micros(&self, at: Instant) -> u64 {
        whole_micros(at.saturating_duration_since(self.start))
    }

    fn since_known(&self, now: Instant) -> Duration {
        Duration::from_micros(self.micros(now).saturating_sub(self.known_us.load(Ordering::SeqCst)))
    }
}

fn whole_micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Tables {
    /// The log has told of a write, whoever made it. `before`: all that it has told before. What the session that wrote has noted already is
    /// passed over: its answers have it.
    pub fn note(
        &self,
        spots: impl IntoIterator<Item = Spot>,
        (backend, gtid): (BackendId, &AnyGtid),
        before: &GtidSet,
    ) -> Noted {
        let mut own = GtidSet::default();
        own.insert(gtid);
        let place = Arc::new(Place::new(backend, Some(own)));
        let is_noted = |there: &Place| there.gtids.as_ref().is_some_and(|gtids| is_told(gtids, gtid));
        let mut running = Vec::new();
        for spot in spots {
            let cell = self.cell(spot);
            if cell.place.load().as_deref().is_some_and(is_noted) {
                continue;
            }
            cell.count.fetch_add(BEGUN + 1, Ordering::SeqCst);
            cell.place.rcu(|now| Some(followed(now.as_ref(), &place, before)));
            running.push(spot);
        }
        Noted(running.into())
    }

    /// They are seen on the primary.
    pub fn is_seen(&self, noted: Noted) {
        for spot in noted.0 {
            self.cell(spot).count.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Forgets where those writes have ended that are in `executed`, which is the ground to stand on from now on.
    pub fn forget_places(&self, executed: &GtidSet) {
        let is_in_ground = |place: &Arc<Place>| {
            let is_own = place.gtids.as_ref().is_some_and(|gtids| executed.contains(gtids));
            is_own && place.earlier.is_in(Some(executed), false)
        };
        for cell in &self.cells {
            let place = cell.place.load();
            if place.as_ref().is_some_and(is_in_ground) {
                cell.place.compare_and_swap(&place, None);
            }
        }
    }

    /// Cells whose last write has not told its GTID.
    pub fn untold(&self) -> Untold {
        let untold = |(at, cell): (usize, &super::Cell)| {
            let place = cell.place.load_full().filter(|place| place.gtids.is_none())?;
            Some((at, place))
        };
        Untold(self.cells.iter().enumerate().filter_map(untold).collect())
    }

    /// The log has told all of `noted` by now, and that has all that the primary had when it was asked after that: their writes are in it,
    /// and so are those of other servers if the primary `is_settled`. It may have no group that was not noted, or that would be passed over
    /// when it is.
    pub fn tell(&self, untold: Untold, (primary, is_settled): (BackendId, bool), noted: &GtidSet) {
        if untold.0.is_empty() {
            return;
        }
        let told = Arc::new(Place::new(primary, Some(noted.clone())));
        for (at, place) in untold.0 {
            let is_in_it = is_settled || place.backend == primary && place.earlier.is_in(Some(noted), false);
            if is_in_it {
                self.cells[at].place.compare_and_swap(&place, Some(told.clone()));
            }
        }
    }
}

impl Untold {
    /// True for none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// True if this transaction is among those of a place. On MariaDB numbers of another server in the domain say nothing of it.
fn is_told(gtids: &GtidSet, gtid: &AnyGtid) -> bool {
    let (GtidSet::MariaDb(position), AnyGtid::MariaDb(gtid)) = (gtids, gtid) else { return gtids.has(gtid) };
    position.last_of(gtid.domain).is_some_and(|last| last.server_id == gtid.server_id && position.has(*gtid))
}

/// The place of all writes that are noted, with one more that the log has told; `before`: all that it has told before that.
fn followed(now: Option<&Arc<Place>>, place: &Arc<Place>, before: &GtidSet) -> Arc<Place> {
    let Some(there) = now else { return place.clone() };
    // One that has not told its GTID may come later in the log, or not.
    let Some(noted) = &there.gtids else { return there.clone() };
    let are_told = there.earlier.is_in(Some(before), false);
    if are_told && before.contains(noted) {
        return place.clone();
    }
    if there.backend != place.backend {
        return Arc::new(Place { earlier: there.as_earlier(), ..Place::clone(place) });
    }
    let mut all = noted.clone();
    if let Some(own) = &place.gtids {
        all.merge(own);
    }
    let gtids = (all.parts() <= MOST_PARTS).then_some(all);
    let earlier = if are_told { Earlier::Nothing } else { there.earlier.clone() };
    Arc::new(Place { backend: place.backend, gtids, earlier })
}

#[cfg(test)]
mod tests;
