//! The servers themselves as a lease store: rows in a table of a MySQL group (Group Replication, one primary). A change counts when the
//! primary has answered its COMMIT, and a group commits only what its majority has received. So a primary without its majority gives
//! and renews nothing. Sources:
//! <https://dev.mysql.com/doc/refman/9.0/en/group-replication-consistency-guarantees.html> and
//! <https://dev.mysql.com/doc/refman/9.0/en/group-replication-network-partitioning.html>.
//!
//! Leases that are over are told by their beats (`delphinus_topology::Sightings`), not by a server's clock. Each statement is a
//! transaction of its own: a process that hangs between two of them holds no lock. Each may be done twice, or late, as the messages
//! to any store. How the servers are reached is the affair of whoever implements [`Servers`].

mod sql;

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::thread;
use std::time::Duration;

use delphinus_topology::{BootTime, Sighted, Sightings};

use crate::clock::boot_now;
use crate::store::{Claimed, Entry, Granted, Holding, Store, StoreError};
pub use sql::ADVICE;
use sql::Sql;

/// A row of an answer, by the names of its columns in small letters. NULL is left out.
pub type Row = BTreeMap<String, String>;

/// What the servers are asked, on one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errand {
    /// In this order on the primary, each a transaction of its own. Those that begin with SELECT have rows for an answer.
    pub statements: Vec<String>,
    /// A question for members that are no primary, while the primary is looked for.
    pub glance: String,
}

/// The rows of each question, in order.
pub type Told = Vec<Vec<Row>>;

/// Why there is no answer. All or a part may have been done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServersError {
    /// No primary with a majority has answered in time.
    NoPrimary(String),
    /// There is no such schema or table.
    NoTable,
    /// The primary says no.
    Refused(String),
}

/// Rows that other members have shown, and when the answer was there.
pub type Glance = (BootTime, Vec<Row>);

/// The members of the group. Each call blocks for a bounded time.
pub trait Servers: Send + fmt::Debug {
    /// Runs something on the primary, once at least, and looks for the primary where it is not known. `seen` gets what other members
    /// have answered to the glance meanwhile, also if there is no primary.
    fn run(&mut self, errand: &Errand, seen: &mut Vec<Glance>) -> Result<Told, ServersError>;
}

/// A group as a store.
#[derive(Debug)]
pub struct Group {
    servers: Box<dyn Servers>,
    sql: Sql,
    ttl: Duration,
    sightings: Sightings,
    own: u64,
}

/// Between two lists. Tables tell nobody that they have changed.
const PACE: Duration = Duration::from_millis(250);

/// A holder that has been forgotten leaves a row; more are not looked at, and go with a later turn.
const MOST_ENDED: usize = 16;

impl Group {
    /// Nothing is sent yet. `scope` is what tells the keys of one cluster from those of others: `/delphinus/main/`.
    pub fn new(servers: Box<dyn Servers>, scope: &str, ttl: Duration) -> Self {
        Self { servers, sql: Sql::new(scope), ttl, sightings: Sightings::default(), own: 0 }
    }

    fn run(&mut self, statements: Vec<String>) -> Result<Told, StoreError> {
        let errand = Errand { statements, glance: self.sql.leases() };
        let told = match self.carry(&errand) {
            Err(ServersError::NoTable) => {
                tracing::info!("the tables of leases are made in the group: schema delphinus");
                let create = Errand { statements: sql::create(), glance: self.sql.leases() };
                self.carry(&create).and_then(|_| self.carry(&errand))
            }
            told => told,
        };
        match told {
            Ok(told) => Ok(told),
            Err(ServersError::NoPrimary(why)) => Err(StoreError::Unreachable(why)),
            Err(ServersError::Refused(why)) => Err(StoreError::Refused(why)),
            Err(ServersError::NoTable) => Err(StoreError::Refused(format!(
                "the tables of leases are missing and cannot be made: {ADVICE}"
            ))),
        }
    }

    fn carry(&mut self, errand: &Errand) -> Result<Told, ServersError> {
        let mut seen = Vec::new();
        let told = self.servers.run(errand, &mut seen);
        for (heard, rows) in seen {
            self.sightings.some(&sighted(&rows), heard);
        }
        told
    }

    /// The only rows of the only question.
    fn ask(&mut self, statements: Vec<String>) -> Result<Vec<Row>, StoreError> {
        Ok(self.run(statements)?.into_iter().next().unwrap_or_default())
    }

    /// Takes away what is over.
    fn end_others(&mut self) -> Result<bool, StoreError> {
        let now = boot_now();
        let own = self.own;
        let over: Vec<_> = self.sightings.over(now).filter(|row| row.lease != own).take(MOST_ENDED).collect();
        if over.is_empty() {
            return Ok(false);
        }
        let statements = over.iter().map(|row| self.sql.end_if_still(row.lease, row.beat)).collect();
        self.run(statements)?;
        Ok(true)
    }

    /// All leases and all keys. The keys are looked at later: one whose lease is in the first answer may be gone in the second.
    fn look(&mut self) -> Result<Vec<Entry>, StoreError> {
        let mut rows = self.run(vec![self.sql.leases(), self.sql.keys()])?.into_iter();
        let (leases, keys) = (rows.next().unwrap_or_default(), rows.next().unwrap_or_default());
        self.sightings.all(&sighted(&leases), boot_now());
        Ok(keys.iter().filter_map(entry).collect())
    }
}

impl Store for Group {
    fn grant(&mut self, ttl: Duration) -> Result<Granted, StoreError> {
        self.ttl = ttl;
        let lease = fresh_number();
        self.run(vec![self.sql.grant(lease, ttl)])?;
        self.own = lease;
        Ok(Granted { lease, ttl })
    }

    fn renew(&mut self, lease: u64) -> Result<Option<Duration>, StoreError> {
        let is_there = !self.ask(vec![self.sql.renew(lease, self.ttl), self.sql.is_there(lease)])?.is_empty();
        self.own = if is_there { lease } else { 0 };
        Ok(is_there.then_some(self.ttl))
    }

    fn end(&mut self, lease: u64) -> Result<(), StoreError> {
        self.run(vec![self.sql.end(lease)]).map(drop)
    }

    fn claim(&mut self, key: &str, value: &str, lease: u64) -> Result<Claimed, StoreError> {
        let rows = self.ask(vec![self.sql.claim(key, value, lease), self.sql.holder(key)])?;
        let holder = rows.first().and_then(|row| number(row, "lease"));
        Ok(if holder == Some(lease) { Claimed::Ours } else { Claimed::Taken })
    }

    fn release(&mut self, key: &str, epoch: u64) -> Result<(), StoreError> {
        self.run(vec![self.sql.release(key, epoch)]).map(drop)
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), StoreError> {
        self.run(vec![self.sql.put(key, value)]).map(drop)
    }

    fn delete(&mut self, key: &str) -> Result<(), StoreError> {
        self.run(vec![self.sql.delete(key)]).map(drop)
    }

    fn write_as(&mut self, key: &str, value: Option<&str>, by: &Holding) -> Result<bool, StoreError> {
        let rows = self.ask(vec![self.sql.write_as(key, value, (&by.key, by.epoch)), Sql::changed()])?;
        Ok(rows.first().and_then(|row| number(row, "changed")).is_some_and(|changed| changed > 0))
    }

    fn swap(&mut self, key: &str, value: &str, seen: u64) -> Result<bool, StoreError> {
        let rows = self.ask(vec![self.sql.swap(key, value, seen), Sql::changed()])?;
        Ok(rows.first().and_then(|row| number(row, "changed")).is_some_and(|changed| changed > 0))
    }

    fn list(&mut self) -> Result<Vec<Entry>, StoreError> {
        let entries = self.look()?;
        if self.end_others()? { self.look() } else { Ok(entries) }
    }

    fn watch(&mut self, ring: Box<dyn Fn() -> bool + Send>) {
        let ringing = move || {
            while ring() {
                thread::sleep(PACE);
            }
        };
        // Without it the keeper asks from time to time.
        if let Err(error) = thread::Builder::new().name("lease-watch".into()).spawn(ringing) {
            tracing::warn!(%error, "cannot start the thread that asks for changes in the lease store");
        }
    }
}

/// No process has had it before, and none will.
fn fresh_number() -> u64 {
    // Seeded by the system. 63 bits: a signed column would do, too.
    (RandomState::new().hash_one(boot_now()) >> 1).max(1)
}

fn number(row: &Row, name: &str) -> Option<u64> {
    row.get(name)?.parse().ok()
}

fn sighted(rows: &[Row]) -> Vec<Sighted> {
    let one = |row: &Row| {
        let ttl = Duration::from_millis(number(row, "ttl_ms")?);
        Some(Sighted { lease: number(row, "lease")?, beat: number(row, "beat")?, ttl })
    };
    rows.iter().filter_map(one).collect()
}

fn entry(row: &Row) -> Option<Entry> {
    let epoch = number(row, "epoch")?;
    Some(Entry {
        key: row.get("name")?.clone(),
        value: row.get("value")?.clone(),
        lease: number(row, "lease")?,
        epoch,
        // It grows with each change of a key that stays.
        revision: epoch,
    })
}

#[cfg(test)]
mod tests;
