//! What every store can do.

use std::fmt;
use std::time::Duration;

/// A key, as the store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Without the prefix that all keys of this cluster have.
    pub key: String,
    /// What it says.
    pub value: String,
    /// The lease that it vanishes with; 0: it stays.
    pub lease: u64,
    /// Grows each time that the key is taken: who holds it with a higher one holds it later.
    pub epoch: u64,
    /// Another one after each change of a key that stays; never 0.
    pub revision: u64,
}

/// A lease that the store has given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted {
    /// Its number.
    pub lease: u64,
    /// How long the store will wait for the next word.
    pub ttl: Duration,
}

/// By what right something is written: a key that was taken at that epoch, and has not been free since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// Which key.
    pub key: String,
    /// When it was taken.
    pub epoch: u64,
}

/// What has become of a wish to hold a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claimed {
    /// This lease holds it.
    Ours,
    /// Another does.
    Taken,
}

/// Why the store has not done it. It may have done it all the same, unless it is `Refused`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It does not answer.
    #[error("the lease store does not answer: {0}")]
    Unreachable(String),
    /// It answers, and says no.
    #[error("the lease store refuses: {0}")]
    Refused(String),
}

/// Keys that vanish when their holder has not been heard of for a while. Each call blocks for a bounded time.
pub trait Store: Send + fmt::Debug {
    /// Makes a lease.
    fn grant(&mut self, ttl: Duration) -> Result<Granted, StoreError>;

    /// Says that the holder lives. None: the store does not know the lease any more.
    fn renew(&mut self, lease: u64) -> Result<Option<Duration>, StoreError>;

    /// Ends the lease, and with it all of its keys.
    fn end(&mut self, lease: u64) -> Result<(), StoreError>;

    /// Takes a key that is free, or writes another value into one that this lease holds.
    fn claim(&mut self, key: &str, value: &str, lease: u64) -> Result<Claimed, StoreError>;

    /// Gives a key back that was taken at that epoch. Nothing happens if it is another's by now.
    fn release(&mut self, key: &str, epoch: u64) -> Result<(), StoreError>;

    /// Writes a key that stays.
    fn put(&mut self, key: &str, value: &str) -> Result<(), StoreError>;

    /// Deletes a key that stays.
    fn delete(&mut self, key: &str) -> Result<(), StoreError>;

    /// Writes a key that stays, or deletes it, if `by` is still held as it was; else nothing changes. False: it is not held any more. A
    /// store that others write to, too, has to compare and write in one go; this looks before it writes, which is enough for one process.
    fn write_as(&mut self, key: &str, value: Option<&str>, by: &Holding) -> Result<bool, StoreError> {
        if !self.list()?.iter().any(|entry| entry.key == by.key && entry.epoch == by.epoch) {
            return Ok(false);
        }
        match value {
            Some(value) => self.put(key, value)?,
            None => self.delete(key)?,
        }
        Ok(true)
    }

    /// Writes a key that stays if it is as it was listed: `seen` is its revision then, 0 where it was not there. False: nothing was
    /// changed, or this change had been made already. A store that others write to, too, compares and writes in one go.
    fn swap(&mut self, key: &str, value: &str, seen: u64) -> Result<bool, StoreError> {
        let now = self.list()?.into_iter().find(|entry| entry.key == key);
        if now.map_or(0, |entry| entry.revision) != seen {
            return Ok(false);
        }
        self.put(key, value)?;
        Ok(true)
    }

    /// All keys.
    fn list(&mut self) -> Result<Vec<Entry>, StoreError>;

    /// Has `ring` called when something may have changed, until it returns false. A store that cannot tell is asked from time to time.
    fn watch(&mut self, ring: Box<dyn Fn() -> bool + Send>);
}
