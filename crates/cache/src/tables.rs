//! The last known write of each table, and what follows from that for answers that are kept: one is valid only while no table that it
//! reads is written, and only if its origin had the writes of all of them when it was asked for.
//!
//! Owns: a place for each table, in a fixed number of cells that tables share by their numbers, so that there is nothing to grow: two
//! tables in one cell only end more answers than they have to. Must not know statements, nor how a table is found in one: a caller
//! says which [`Spot`]s it reads or writes. There is no lock: a cell is a counter, and a pointer that is replaced.
//!
//! ## Why no old answer is valid
//!
//! A writer counts its tables as *running* before it sends the statement that others will see (which of a transaction is its end), and
//! takes that back after the answer, once the write's place is noted. A reader looks at its cells before it sends:
//!
//! - it sees a running write, or the place of one that its backend is not known to have: the answer is not kept as valid;
//! - a write begins later: the cell's count is another one than the reader has seen, so the answer is valid no more.
//!
//! So what a client is given was asked for after all writes of its tables had ended, from a server that had them. A write whose
//! outcome is not known goes on running until its caller knows that it has ended.
//!
//! The primary has all writes that it has acknowledged. Those that another server had acknowledged before it, it may still have to do: a
//! member that a group elects under `group_replication_consistency = EVENTUAL` takes statements before it has done what it has received.
//! So for a while ([`SETTLING`]) it has to show the GTIDs of these, as a replica has.
//!
//! What others write past this process is told by a stream of the primary's log, where there is one: see `feed`.

mod doubts;
mod feed;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use delphinus_topology::{BackendId, ClusterId};
use delphinus_wire::gtid::GtidSet;

use crate::origin::Origin;
use doubts::Doubts;
pub use feed::{Feed, Noted, Untold};

/// So many cells for all tables of a cluster: 256 KiB.
const CELLS: usize = 16_384;

/// A write's GTIDs of more parts than this are not kept: only its backend is known to have it.
const MOST_PARTS: usize = 16;

/// So long another primary has to show the GTIDs of what was written before on other servers. After that, what it does not show was
/// lost with these.
pub const SETTLING: Duration = Duration::from_mins(1);

/// The lowest bits of a cell count the writes that run, those above them the writes that have begun.
const BEGUN: u64 = 1 << RUNNING_BITS;
const RUNNING_BITS: u32 = 20;
const RUNNING: u64 = BEGUN - 1;

/// What an answer depends on, and what a write changes: the number of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Spot(u32);

/// What a spot stands for, in one cluster. Tables and schemas by numbers that the caller gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum About {
    /// Writes of this table.
    Table(u64),
    /// Writes of any table of this schema.
    AnyOfSchema(u64),
    /// Writes of this schema of which the table is not known.
    SomeOfSchema(u64),
    /// Writes of any table.
    Any,
    /// Writes of which neither table nor schema is known.
    Some,
}

impl Spot {
    /// Where this is counted.
    pub fn new(cluster: ClusterId, about: About) -> Self {
        let mut hasher = DefaultHasher::new();
        (cluster, about).hash(&mut hasher);
        let cell = hasher.finish() % CELLS as u64;
        Self(u32::try_from(cell).expect("invariant: there are fewer cells"))
    }
}

/// Where a write ended, and what tells that a server has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The server that has it for sure.
    backend: BackendId,
    /// Its transactions: whoever has these has all that was written before on that server, too. `None`: they were not told.
    gtids: Option<GtidSet>,
    /// What had been written on other servers before.
    earlier: Earlier,
}

/// What other servers had acknowledged before one became the primary.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Earlier {
    #[default]
    Nothing,
    Told(GtidSet),
    /// Not all of it has told its GTIDs.
    Untold,
}

impl Place {
    /// A write on this server. `gtids`: what the server has told of its transactions.
    pub fn new(backend: BackendId, gtids: Option<GtidSet>) -> Self {
        Self { backend, gtids, earlier: Earlier::Nothing }
    }

    /// What this leaves to be shown by another server.
    fn as_earlier(&self) -> Earlier {
        match (&self.gtids, &self.earlier) {
            (Some(own), Earlier::Nothing) => Earlier::Told(own.clone()),
            (Some(own), Earlier::Told(others)) => {
                let mut all = others.clone();
                all.merge(own);
                if all.parts() <= MOST_PARTS { Earlier::Told(all) } else { Earlier::Untold }
            }
            _ => Earlier::Untold,
        }
    }
}

impl Earlier {
    /// True if a server that has this has all of it. `has_untold`: what has not told its GTIDs counts as there.
    fn is_in(&self, position: Option<&GtidSet>, has_untold: bool) -> bool {
        match self {
            Self::Nothing => true,
            Self::Told(gtids) => position.is_some_and(|position| position.contains(gtids)),
            Self::Untold => has_untold,
        }
    }
}

#[derive(Debug, Default)]
struct Cell {
    count: AtomicU64,
    /// Of all writes that have ended.
    place: ArcSwapOption<Place>,
}

impl Cell {
    /// What other servers had acknowledged before this place is there by now, or lost.
    #[cold]
    fn forget_earlier(&self, place: &Arc<Place>) {
        let settled = Arc::new(Place { earlier: Earlier::Nothing, ..Place::clone(place) });
        self.place.compare_and_swap(place, Some(settled));
    }
}

/// The last writes of all tables.
#[derive(Debug)]
pub struct Tables {
    cells: Box<[Cell]>,
    doubts: Doubts,
    /// Where a stream tells what others write.
    feed: Option<Feed>,
}

/// Writes that run. Dropped without an end they run for ever.
#[derive(Debug)]
#[must_use = "the writes run until they are ended"]
pub struct Running(Box<[(Spot, Before)]>);

/// What there was when a write began.
#[derive(Debug)]
enum Before {
    /// No other write ran, and this was the place of those that had ended.
    Still(Option<Arc<Place>>),
    Others,
}

/// What an answer is about to read: the counts before it is asked for.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The feed's era; 0: there is no feed.
    era: u64,
    cells: Box<[(Spot, u64)]>,
}

/// What an answer has read, as it was when it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reads {
    /// The primary then: after a failover there may be a past in which it never was.
    primary: Option<Primary>,
    /// The edition of what was known of views.
    edition: u64,
    /// The feed's era; 0: there is no feed.
    era: u64,
    cells: Box<[(Spot, u64)]>,
}

impl Reads {
    /// Of what it has noted of tables, in bytes.
    pub(crate) fn size(&self) -> usize {
        size_of_val(&*self.cells)
    }
}

/// What a validity depends on beside the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Regime {
    /// The primary.
    pub primary: Option<Primary>,
    /// The edition of what is known of views: with another one, other tables are read.
    pub edition: u64,
}

/// Who has the role of the primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Primary {
    /// This server.
    pub backend: BackendId,
    /// Grows each time a server gets the role: one that gets it back may have lost something meanwhile.
    pub succession: u64,
    /// Since when; `None`: since before anything was written through this process.
    pub since: Option<Instant>,
    /// A group has elected it, which may do that before it has done all that it has received. Elsewhere what has not told its GTIDs counts
    /// as done by it.
    pub is_elected: bool,
}

impl Primary {
    /// True if it had been the primary for long enough then to have all that other servers had acknowledged.
    pub fn is_settled(&self, then: Instant) -> bool {
        self.since.is_none_or(|since| then.saturating_duration_since(since) >= SETTLING)
    }
}

/// What a primary has of what other servers had acknowledged before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inherited {
    /// What it shows.
    Shown,
    /// That, and what has not told its GTIDs.
    Untold,
    /// Everything: what it does not show is lost.
    All,
}

impl Regime {
    fn backend(&self) -> Option<BackendId> {
        self.primary.map(|primary| primary.backend)
    }

    /// What the primary has then of what other servers had acknowledged before it.
    fn inherited(&self, then: Instant) -> Inherited {
        match self.primary {
            Some(primary) if primary.is_settled(then) => Inherited::All,
            Some(Primary { is_elected: false, .. }) => Inherited::Untold,
            _ => Inherited::Shown,
        }
    }
}

impl Default for Tables {
    fn default() -> Self {
        Self::of_cells(CELLS)
    }
}

impl Tables {
    fn of_cells(count: usize) -> Self {
        let cells = (0..count).map(|_| Cell::default()).collect();
        Self { cells, doubts: Doubts::default(), feed: None }
    }

    /// The same, where a stream tells what others write.
    #[must_use]
    pub fn fed_by(self, feed: Feed) -> Self {
        Self { feed: Some(feed), ..self }
    }

    /// The stream that tells what others write.
    pub fn feed(&self) -> Option<&Feed> {
        self.feed.as_ref()
    }

    /// The feed's era, 0 without a feed; `None`: nothing may be kept or given.
    #[inline]
    fn era(&self, now: Instant) -> Option<u64> {
        self.feed.as_ref().map_or(Some(0), |feed| feed.era(now))
    }

    fn cell(&self, spot: Spot) -> &Cell {
        &self.cells[spot.0 as usize % self.cells.len()]
    }

    /// Writes of these are about to be sent.
    pub fn begin(&self, spots: impl IntoIterator<Item = Spot>) -> Running {
        let begin = |spot: Spot| {
            let cell = self.cell(spot);
            let is_alone = cell.count.fetch_add(BEGUN + 1, Ordering::SeqCst) & RUNNING == 0;
            (spot, if is_alone { Before::Still(cell.place.load_full()) } else { Before::Others })
        };
        Running(spots.into_iter().map(begin).collect())
    }

    /// They have ended, with this place, or have not written anything.
    pub fn end(&self, running: Running, place: Option<&Place>) {
        for (spot, begun) in running.0 {
            let cell = self.cell(spot);
            if let Some(place) = place {
                cell.place.rcu(|now| Some(Arc::new(joined(now.as_ref(), place, &begun))));
            }
            // After the place: whoever sees that it has ended finds that.
            cell.count.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// What an answer is about to read; `None` if that is being written, or what others write is not known.
    pub fn see(&self, spots: impl IntoIterator<Item = Spot>, now: Instant) -> Option<Seen> {
        let era = self.era(now)?;
        let see = |spot: Spot| {
            let count = self.cell(spot).count.load(Ordering::SeqCst);
            (count & RUNNING == 0).then_some((spot, count))
        };
        spots.into_iter().map(see).collect::<Option<_>>().map(|cells| Seen { era, cells })
    }

    /// The same, proved to have all that had been written; `None` if it is not. `origin` is where it is asked for, as it was found
    /// after that was seen: what is written in between ends it.
    pub fn prove(&self, seen: Seen, origin: &Origin, regime: Regime) -> Option<Reads> {
        let is_fed = self.feed.is_some();
        let inherited = regime.inherited(origin.began);
        let is_settled = inherited == Inherited::All;
        let had_all = origin.had_all && !is_fed && inherited != Inherited::Shown;
        let is_there = |(spot, _): &(Spot, u64)| {
            let cell = self.cell(*spot);
            let place = cell.place.load();
            place.as_ref().is_none_or(|place| {
                if is_settled && regime.backend() == Some(place.backend) && place.earlier != Earlier::Nothing
                {
                    cell.forget_earlier(place);
                }
                // That all had all is told by what this process writes: others may have written since.
                had_all || has(origin, place, regime.backend(), inherited)
            })
        };
        let Seen { era, cells } = seen;
        let has_ground = self.feed.as_ref().is_none_or(|feed| feed.carries(era, origin, regime.backend()));
        (has_ground && cells.iter().all(is_there)).then_some(Reads {
            primary: regime.primary,
            edition: regime.edition,
            era,
            cells,
        })
    }

    /// True if nothing of this has been written since, as far as is known, and enough is known. The clock is looked at only where there
    /// is a feed.
    #[inline]
    pub fn is_valid(&self, reads: &Reads, regime: Regime, now: impl FnOnce() -> Instant) -> bool {
        // Before the counts are looked at: they have all that is known by then.
        if self.feed.as_ref().is_some_and(|feed| feed.era(now()) != Some(reads.era)) {
            return false;
        }
        let is_same = |(spot, count): &(Spot, u64)| self.cell(*spot).count.load(Ordering::SeqCst) == *count;
        reads.primary == regime.primary
            && reads.edition == regime.edition
            && reads.primary.is_some()
            && reads.cells.iter().all(is_same)
    }
}

/// The place of all writes that have ended, with one more. One that began when no other ran comes after all that had ended by then: if
/// no other has ended since, its GTIDs stand for all that its server had. But those that a server tells late are of a statement before.
fn joined(now: Option<&Arc<Place>>, place: &Place, begun: &Before) -> Place {
    let Some(there) = now else { return place.clone() };
    if there.backend != place.backend {
        return Place { earlier: there.as_earlier(), ..place.clone() };
    }
    let is_after_all =
        matches!(begun, Before::Still(before) if before.as_ref().is_some_and(|one| Arc::ptr_eq(one, there)));
    let gtids = match (&there.gtids, &place.gtids) {
        (None, Some(own)) if is_after_all => Some(own.clone()),
        (Some(others), Some(own)) if is_after_all && own.is_after(others) => Some(own.clone()),
        (Some(others), Some(own)) => {
            let mut all = others.clone();
            all.merge(own);
            (all.parts() <= MOST_PARTS).then_some(all)
        }
        _ => None,
    };
    Place { backend: place.backend, gtids, earlier: there.earlier.clone() }
}

/// True if an answer from there is sure to have all writes up to this place. What was written on a server that is not the primary any
/// more may be lost with it: only the primary tells, and who has all that is there.
fn has(origin: &Origin, place: &Place, primary: Option<BackendId>, inherited: Inherited) -> bool {
    let position = origin.position.as_deref();
    let (is_settled, has_untold) = (inherited == Inherited::All, inherited != Inherited::Shown);
    let shows = |gtids: &GtidSet| position.is_some_and(|position| position.contains(gtids));
    let is_of_primary = primary == Some(place.backend);
    let has_own = if primary == Some(origin.backend) {
        is_of_primary || is_settled || place.gtids.as_ref().map_or(has_untold, shows)
    } else {
        is_of_primary && place.gtids.as_ref().is_some_and(shows)
    };
    has_own && (is_settled || place.earlier.is_in(position, has_untold))
}

#[cfg(test)]
mod tests;
