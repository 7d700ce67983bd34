//! A lease store as etcd is one: keys that vanish with their lease, and a transaction that takes a key only where it is free. And one that
//! is a table: it forgets nothing by itself, and a process that has seen a lease's beat stand still takes the lease away.

use std::collections::BTreeMap;

use delphinus_topology::{MemberNames, Sighted};

use crate::host::TERMS;
use crate::world::Fault;

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
    is_table: bool,
    /// When each ends; in a table its beat.
    leases: BTreeMap<u64, u64>,
    pub(crate) keys: BTreeMap<String, Held>,
    last: u64,
    /// The members that may take something over, and the number of its last change.
    list: (MemberNames, u64),
}

/// What is there.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shown {
    pub(crate) keys: BTreeMap<String, Held>,
    /// The leases of a table.
    pub(crate) leases: Vec<Sighted>,
    pub(crate) list: (MemberNames, u64),
}

/// What a member asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Question {
    Grant,
    Renew(u64),
    Claim {
        key: String,
        value: String,
        lease: u64,
    },
    Release {
        key: String,
        epoch: u64,
    },
    /// Writes the list if its last change is still that one.
    Swap {
        list: MemberNames,
        seen: u64,
    },
    /// A process gives its own lease back.
    Leave(u64),
    /// Of a table: the lease goes if it has this beat still.
    End {
        lease: u64,
        beat: u64,
    },
    List,
}

/// What it says.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    Granted(u64),
    Renewed(bool),
    Claimed(bool),
    Done,
    Listed(Shown),
}

impl Store {
    pub(crate) fn new(is_table: bool) -> Self {
        Self { is_table, ..Self::default() }
    }

    pub(crate) fn is_table(&self) -> bool {
        self.is_table
    }

    /// Forgets what is over.
    pub(crate) fn expire(&mut self, now: u64) {
        if !self.is_table {
            self.leases.retain(|_, ends| *ends > now);
        }
        let leases = &self.leases;
        self.keys.retain(|_, held| leases.contains_key(&held.lease));
    }

    /// The leases of a table.
    pub(crate) fn beats(&self) -> Vec<Sighted> {
        let all = self.leases.iter().filter(|_| self.is_table);
        all.map(|(lease, beat)| Sighted { lease: *lease, beat: *beat, ttl: TERMS.ttl }).collect()
    }

    pub(crate) fn answer(&mut self, question: Question, now: u64, fault: Option<Fault>) -> Answer {
        let ends = now + TERMS.ttl.as_millis() as u64;
        match question {
            Question::Grant => {
                self.last += 1;
                self.leases.insert(self.last, if self.is_table { 1 } else { ends });
                Answer::Granted(self.last)
            }
            Question::Renew(lease) => {
                let Some(before) = self.leases.get_mut(&lease) else { return Answer::Renewed(false) };
                *before = if self.is_table { *before + 1 } else { ends };
                Answer::Renewed(true)
            }
            Question::Claim { key, value, lease } => {
                let before = self.keys.get(&key);
                let is_open =
                    self.leases.contains_key(&lease) && before.is_none_or(|held| held.lease == lease);
                if is_open {
                    self.last += 1;
                    let epoch = before.map_or(self.last, |held| held.epoch);
                    self.keys.insert(key, Held { value, lease, epoch });
                }
                Answer::Claimed(is_open)
            }
            Question::Release { key, epoch } => {
                if self.keys.get(&key).is_some_and(|held| held.epoch == epoch) {
                    self.keys.remove(&key);
                }
                Answer::Done
            }
            Question::End { lease, beat } => {
                let is_still = self.leases.get(&lease) == Some(&beat);
                if self.is_table && (is_still || fault == Some(Fault::EndsAQuickerHolder)) {
                    self.leases.remove(&lease);
                    self.expire(now);
                }
                Answer::Done
            }
            Question::Swap { list, seen } => {
                if self.list.1 == seen {
                    self.list = (list, self.list.1 + 1);
                }
                Answer::Done
            }
            Question::Leave(lease) => {
                self.leases.remove(&lease);
                self.expire(now);
                Answer::Done
            }
            Question::List => Answer::Listed(Shown {
                keys: self.keys.clone(),
                leases: self.beats(),
                list: self.list.clone(),
            }),
        }
    }
}
