//! What a server has executed, or a session has written, as sets of global transaction ids: MySQL's
//! `uuid:1-5:7,uuid:tag:1-3` and MariaDB's `0-1-14,1-2-30`.
//!
//! Owns: the texts and the comparison. Must not know who has which set.
//! Source: <https://dev.mysql.com/doc/refman/9.0/en/replication-gtids-concepts.html> and
//! <https://mariadb.com/kb/en/gtid/>.

use std::collections::BTreeMap;
use std::fmt;

use crate::binlog::AnyGtid;

mod mariadb;
mod mysql;
mod mysql_bytes;

pub use mariadb::{GtidPosition, GtidState};
pub use mysql::GtidIntervals;
pub use mysql::uuid_text;

/// Transactions of one of the two families of servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GtidSet {
    /// MySQL's: any transactions.
    MySql(GtidIntervals),
    /// MariaDB's: of each domain all up to the last one.
    MariaDb(GtidPosition),
}

/// A text that is no set of global transaction ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadGtidSet;

impl Default for GtidSet {
    fn default() -> Self {
        Self::MySql(GtidIntervals::default())
    }
}

impl GtidSet {
    /// Reads a set of either family: the two cannot be mistaken for one another, but for the empty one, which is taken
    /// for MySQL's. Fails on anything else.
    pub fn parse(text: &str) -> Result<Self, BadGtidSet> {
        let is_mariadb = !text.contains(':') && text.contains('-');
        if is_mariadb {
            return GtidPosition::parse(text).map(Self::MariaDb);
        }
        GtidIntervals::parse(text).map(Self::MySql)
    }

    /// True if nothing is in it.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::MySql(set) => set.is_empty(),
            Self::MariaDb(position) => position.is_empty(),
        }
    }

    /// True if a server that has executed this has executed all of `other`. Of different families only the empty set is
    /// part of another.
    pub fn contains(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::MySql(all), Self::MySql(part)) => all.contains(part),
            (Self::MariaDb(all), Self::MariaDb(part)) => all.contains(part),
            (_, part) => part.is_empty(),
        }
    }

    /// True if of each source of `other` all that is in this came later, as far as numbers tell: sources number what they do in order.
    pub fn is_after(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::MySql(own), Self::MySql(earlier)) => own.is_after(earlier),
            _ => self.contains(other),
        }
    }

    /// How many parts its text has: intervals, or domains.
    pub fn parts(&self) -> usize {
        match self {
            Self::MySql(set) => set.parts(),
            Self::MariaDb(position) => position.parts(),
        }
    }

    /// Adds all of `other`. One of another family replaces it.
    pub fn merge(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::MySql(all), Self::MySql(part)) => all.merge(part),
            (Self::MariaDb(all), Self::MariaDb(part)) => all.merge(part),
            (_, part) if part.is_empty() => {}
            (all, part) => *all = part.clone(),
        }
    }
}

impl GtidSet {
    /// Adds one transaction. One of another family replaces the set; one without a number changes nothing.
    pub fn insert(&mut self, gtid: &AnyGtid) {
        match (&mut *self, gtid) {
            (_, AnyGtid::Anonymous) => {}
            (Self::MySql(set), AnyGtid::MySql(gtid)) => set.insert(gtid),
            (Self::MariaDb(position), AnyGtid::MariaDb(gtid)) => position.insert(*gtid),
            (set, AnyGtid::MySql(gtid)) => {
                let mut own = GtidIntervals::default();
                own.insert(gtid);
                *set = Self::MySql(own);
            }
            (set, AnyGtid::MariaDb(gtid)) => {
                let mut own = GtidPosition::default();
                own.insert(*gtid);
                *set = Self::MariaDb(own);
            }
        }
    }

    /// True if this transaction is in it. One without a number never is.
    pub fn has(&self, gtid: &AnyGtid) -> bool {
        match (self, gtid) {
            (Self::MySql(set), AnyGtid::MySql(gtid)) => set.has(gtid),
            (Self::MariaDb(position), AnyGtid::MariaDb(gtid)) => position.has(*gtid),
            _ => false,
        }
    }
}

impl fmt::Display for GtidSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MySql(set) => set.fmt(f),
            Self::MariaDb(position) => position.fmt(f),
        }
    }
}

/// Pairs of a map, separated by commas.
fn join<K, V>(
    map: &BTreeMap<K, V>,
    f: &mut fmt::Formatter<'_>,
    mut one: impl FnMut(&K, &V, &mut fmt::Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    for (at, (key, value)) in map.iter().enumerate() {
        if at > 0 {
            f.write_str(",")?;
        }
        one(key, value, f)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
