//! A lease store as etcd is one: keys that vanish with their lease, and a transaction that takes a key only where it is free.

use std::collections::BTreeMap;

/// A key's holder and the lease that it hangs on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) value: String,
    pub(crate) lease: u64,
    /// Another one each time the key is taken.
    pub(crate) epoch: u64,
}

/// Time is in milliseconds.
#[derive(Debug, Default)]
pub(crate) struct Store {
    leases: BTreeMap<u64, u64>,
    pub(crate) keys: BTreeMap<String, Held>,
    last: u64,
}

/// What a member asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Question {
    Grant,
    Renew(u64),
    Claim { key: String, value: String, lease: u64 },
    Release { key: String, epoch: u64 },
    List,
}

/// What it says.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Granted(u64),
    Renewed(bool),
    Done,
    Listed(BTreeMap<String, Held>),
}

impl Store {
    /// Forgets what is over.
    pub(crate) fn expire(&mut self, now: u64) {
        self.leases.retain(|_, ends| *ends > now);
        let leases = &self.leases;
        self.keys.retain(|_, held| leases.contains_key(&held.lease));
    }

    pub(crate) fn answer(&mut self, question: Question, now: u64, ttl: u64) -> Answer {
        match question {
            Question::Grant => {
                self.last += 1;
                self.leases.insert(self.last, now + ttl);
                Answer::Granted(self.last)
            }
            Question::Renew(lease) => {
                let known = self.leases.get_mut(&lease);
                let is_known = known.is_some();
                known.into_iter().for_each(|ends| *ends = now + ttl);
                Answer::Renewed(is_known)
            }
            Question::Claim { key, value, lease } => {
                let before = self.keys.get(&key);
                if self.leases.contains_key(&lease) && before.is_none_or(|held| held.lease == lease) {
                    self.last += 1;
                    let epoch = before.map_or(self.last, |held| held.epoch);
                    self.keys.insert(key, Held { value, lease, epoch });
                }
                Answer::Done
            }
            Question::Release { key, epoch } => {
                if self.keys.get(&key).is_some_and(|held| held.epoch == epoch) {
                    self.keys.remove(&key);
                }
                Answer::Done
            }
            Question::List => Answer::Listed(self.keys.clone()),
        }
    }
}
