//! Faults that tests plant, to see that they would be found: `DELPHINUS_PLANT` names one. No release build reads it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use delphinus_cache::Spot;
use delphinus_net::rt;
use delphinus_wire::binlog::AnyGtid;
use delphinus_wire::gtid::GtidSet;

/// How late a write is noted, if that is the fault.
const LATE: Duration = Duration::from_millis(1500);

/// What the names of tables end with that are missed.
const MISSED: [&[u8]; 5] = [b"plain", b"target", b"alias", b"orphan", b"two"];

/// What is done wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Writes of [`MISSED`] are not noted.
    TableMissed,
    /// A write is noted later than the stream says.
    PlaceLate,
    /// Any replica is taken for one that has the write.
    LaggingReplica,
}

/// The fault that is planted, if one is.
#[derive(Debug, Default)]
pub(super) struct Fault {
    kind: Option<Kind>,
    late: VecDeque<(Instant, Vec<Spot>, AnyGtid)>,
}

impl Fault {
    /// As the environment has it.
    pub(super) fn planted() -> Self {
        let word = if cfg!(debug_assertions) { std::env::var("DELPHINUS_PLANT").ok() } else { None };
        let kind = match word.as_deref() {
            Some("table_missed") => Some(Kind::TableMissed),
            Some("place_late") => Some(Kind::PlaceLate),
            Some("lagging_replica") => Some(Kind::LaggingReplica),
            _ => None,
        };
        if kind.is_some() {
            tracing::warn!(fault = word, "a fault is planted: answers from the cache are wrong");
        }
        Self { kind, late: VecDeque::new() }
    }

    /// True if rows of this table are passed over.
    pub(super) fn misses(&self, table: &[u8]) -> bool {
        self.kind == Some(Kind::TableMissed) && MISSED.iter().any(|name| table.ends_with(name))
    }

    /// True if replicas need not have what was written.
    fn trusts_replicas(&self) -> bool {
        self.kind == Some(Kind::LaggingReplica)
    }

    /// Gives back what is to be noted, unless it is held back.
    pub(super) fn hold(&mut self, spots: Vec<Spot>, gtid: AnyGtid) -> Option<Vec<Spot>> {
        if self.kind != Some(Kind::PlaceLate) {
            return Some(spots);
        }
        self.late.push_back((rt::now() + LATE, spots, gtid));
        None
    }

    /// What was held back for long enough.
    pub(super) fn held(&mut self) -> Option<(Vec<Spot>, AnyGtid)> {
        if self.late.is_empty() {
            return None;
        }
        let now = rt::now();
        let (_, spots, gtid) = self.late.pop_front_if(|(at, ..)| *at <= now)?;
        Some((spots, gtid))
    }

    /// The GTID that is noted of a write.
    pub(super) fn place(&self, gtid: AnyGtid) -> AnyGtid {
        if self.trusts_replicas() { AnyGtid::Anonymous } else { gtid }
    }

    /// The ground of an era.
    pub(super) fn ground(&self, executed: &GtidSet) -> GtidSet {
        if self.trusts_replicas() { GtidSet::default() } else { executed.clone() }
    }
}
