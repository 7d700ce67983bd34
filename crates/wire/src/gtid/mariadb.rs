//! MariaDB's positions: of each replication domain the last transaction, as `domain-server-sequence`.

use std::collections::BTreeMap;
use std::fmt;

use super::{BadGtidSet, join};
use crate::binlog::MariaDbGtid;

/// The last transaction of each domain. A domain's sequence numbers only grow, whichever server writes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GtidPosition(BTreeMap<u32, Last>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Last {
    server: u32,
    sequence: u64,
}

impl GtidPosition {
    /// Reads `0-1-14,1-2-30`.
    pub fn parse(text: &str) -> Result<Self, BadGtidSet> {
        let mut position = Self::default();
        for one in text.split(',').map(str::trim).filter(|one| !one.is_empty()) {
            let mut numbers = one.splitn(3, '-');
            let mut next = || numbers.next().ok_or(BadGtidSet);
            let domain = next()?.parse().map_err(|_| BadGtidSet)?;
            let server = next()?.parse().map_err(|_| BadGtidSet)?;
            let sequence = next()?.parse().map_err(|_| BadGtidSet)?;
            position.add(domain, Last { server, sequence });
        }
        Ok(position)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn parts(&self) -> usize {
        self.0.len()
    }

    /// True if it has all domains of `part`, with the same or a later transaction. Sequence numbers alone are compared, which is
    /// right for servers that have one history.
    pub fn contains(&self, part: &Self) -> bool {
        part.0
            .iter()
            .all(|(domain, last)| self.0.get(domain).is_some_and(|own| own.sequence >= last.sequence))
    }

    /// The same, for servers whose histories may differ: true only if the last transaction of each of these domains is also by the
    /// same server.
    pub fn continues(&self, part: &Self) -> bool {
        let is_further = |own: &Last, last: &Last| own.server == last.server && own.sequence >= last.sequence;
        part.0.iter().all(|(domain, last)| self.0.get(domain).is_some_and(|own| is_further(own, last)))
    }

    /// This transaction is the last of its domain from now on, whatever its number: a log says in which order they came.
    pub fn insert(&mut self, gtid: MariaDbGtid) {
        self.0.insert(gtid.domain, Last { server: gtid.server_id, sequence: gtid.sequence });
    }

    /// True if this transaction, or a later one of its domain, is the last.
    pub fn has(&self, gtid: MariaDbGtid) -> bool {
        self.0.get(&gtid.domain).is_some_and(|own| own.sequence >= gtid.sequence)
    }

    /// The last transaction of this domain.
    pub fn last_of(&self, domain: u32) -> Option<MariaDbGtid> {
        let last = self.0.get(&domain)?;
        Some(MariaDbGtid { domain, server_id: last.server, sequence: last.sequence })
    }

    /// The last transaction of each domain.
    pub fn iter(&self) -> impl Iterator<Item = MariaDbGtid> + '_ {
        self.0.iter().map(|(&domain, last)| MariaDbGtid {
            domain,
            server_id: last.server,
            sequence: last.sequence,
        })
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (domain, last) in &other.0 {
            self.add(*domain, *last);
        }
    }

    fn add(&mut self, domain: u32, last: Last) {
        let own = self.0.entry(domain).or_insert(last);
        if own.sequence < last.sequence {
            *own = last;
        }
    }
}

/// `@@gtid_binlog_state`: of each domain the last transaction of each server that is in the log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GtidState(BTreeMap<(u32, u32), u64>);

impl GtidState {
    /// Reads `0-1-14,0-2-13,1-2-30`.
    pub fn parse(text: &str) -> Result<Self, BadGtidSet> {
        let mut state = Self::default();
        for one in text.split(',').map(str::trim).filter(|one| !one.is_empty()) {
            let numbers: Vec<_> = one.split('-').collect();
            let [domain, server, sequence] = numbers[..] else { return Err(BadGtidSet) };
            let domain = domain.parse().map_err(|_| BadGtidSet)?;
            let server = server.parse().map_err(|_| BadGtidSet)?;
            let sequence: u64 = sequence.parse().map_err(|_| BadGtidSet)?;
            let last = state.0.entry((domain, server)).or_default();
            *last = sequence.max(*last);
        }
        Ok(state)
    }

    /// True if this transaction is in the log: a log has all transactions of a server in a domain up to the last.
    pub fn has(&self, gtid: MariaDbGtid) -> bool {
        self.0.get(&(gtid.domain, gtid.server_id)).is_some_and(|last| *last >= gtid.sequence)
    }

    /// Adds a transaction, and with it all earlier ones of its server in its domain.
    pub fn insert(&mut self, gtid: MariaDbGtid) {
        let last = self.0.entry((gtid.domain, gtid.server_id)).or_default();
        *last = gtid.sequence.max(*last);
    }

    /// True if any transaction of this domain is in the log.
    pub fn has_domain(&self, domain: u32) -> bool {
        self.0.range((domain, 0)..=(domain, u32::MAX)).next().is_some()
    }

    /// What this log has of servers in whose domain `other` has nothing of them at all: it does not show that it has their transactions.
    #[must_use]
    pub fn of_strangers(&self, other: &Self) -> Self {
        let strange =
            |(key, last): (&(u32, u32), &u64)| (!other.0.contains_key(key)).then_some((*key, *last));
        Self(self.0.iter().filter_map(strange).collect())
    }

    /// The last transaction of each server in each domain.
    pub fn iter(&self) -> impl Iterator<Item = MariaDbGtid> + '_ {
        self.0.iter().map(|(&(domain, server_id), &sequence)| MariaDbGtid { domain, server_id, sequence })
    }

    /// What this log has and `other` has not: of each domain and server the first and the last number. A log has all
    /// transactions of a server in a domain up to the last, so that the last ones tell.
    pub fn without(&self, other: &Self) -> Vec<(u32, u32, u64, u64)> {
        let rest = |(&(domain, server), &last): (&(u32, u32), &u64)| {
            let known = other.0.get(&(domain, server)).copied().unwrap_or_default();
            (last > known).then_some((domain, server, known.saturating_add(1), last))
        };
        self.0.iter().filter_map(rest).collect()
    }
}

impl fmt::Display for GtidState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        join(&self.0, f, |(domain, server), sequence, f| write!(f, "{domain}-{server}-{sequence}"))
    }
}

impl fmt::Display for GtidPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        join(&self.0, f, |domain, last, f| write!(f, "{domain}-{}-{}", last.server, last.sequence))
    }
}
