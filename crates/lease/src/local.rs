//! No store: one process alone, which always gets what it wants. For a single proxy, and for tests.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::store::{Claimed, Entry, Granted, Store, StoreError};

/// Keeps the keys in memory.
#[derive(Debug, Default)]
pub struct Local {
    keys: BTreeMap<String, Entry>,
    last: u64,
}

impl Local {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn write(&mut self, key: &str, value: &str, lease: u64) {
        let revision = self.next();
        let epoch = self.keys.get(key).map_or(revision, |before| before.epoch);
        let entry = Entry { key: key.to_owned(), value: value.to_owned(), lease, epoch, revision };
        self.keys.insert(key.to_owned(), entry);
    }
}

impl Store for Local {
    fn grant(&mut self, ttl: Duration) -> Result<Granted, StoreError> {
        Ok(Granted { lease: self.next(), ttl })
    }

    fn renew(&mut self, _: u64) -> Result<Option<Duration>, StoreError> {
        Ok(Some(Duration::from_hours(24)))
    }

    fn end(&mut self, lease: u64) -> Result<(), StoreError> {
        self.keys.retain(|_, entry| entry.lease != lease);
        Ok(())
    }

    fn claim(&mut self, key: &str, value: &str, lease: u64) -> Result<Claimed, StoreError> {
        if self.keys.get(key).is_some_and(|held| held.lease != lease) {
            return Ok(Claimed::Taken);
        }
        self.write(key, value, lease);
        Ok(Claimed::Ours)
    }

    fn release(&mut self, key: &str, epoch: u64) -> Result<(), StoreError> {
        if self.keys.get(key).is_some_and(|held| held.epoch == epoch) {
            self.keys.remove(key);
        }
        Ok(())
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), StoreError> {
        self.write(key, value, 0);
        Ok(())
    }

    fn delete(&mut self, key: &str) -> Result<(), StoreError> {
        self.keys.remove(key);
        Ok(())
    }

    fn list(&mut self) -> Result<Vec<Entry>, StoreError> {
        Ok(self.keys.values().cloned().collect())
    }

    fn watch(&mut self, _: Box<dyn Fn() -> bool + Send>) {}
}
