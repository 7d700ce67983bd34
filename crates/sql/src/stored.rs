//! Code that is kept in the database, and what it leaves behind in the session that runs it, of which no server says a word.
//!
//! Owns: reading the bodies of routines, triggers and views ([`Body`]), and what follows for a statement that runs them
//! ([`Catalog`]), also while the code changes ([`Changes`]). Must not know where bodies come from. Where a text can be read in two ways, it does more rather than less.

mod body;
mod catalog;
mod change;
mod changes;
mod node;
mod runs;
mod walk;

use std::collections::BTreeSet;

pub use body::Body;
pub use catalog::{Catalog, CatalogBuilder, Stored};
pub use change::CodeChange;
pub use changes::Changes;
pub use runs::Runs;

/// What code may leave behind in its session without a word of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each looked at by itself")]
pub struct Hidden {
    /// Advisory locks.
    pub locks: bool,
    /// What `SET TRANSACTION` says of the next transaction.
    pub next_transaction: bool,
    /// What the statements leave that the session has prepared in SQL text: it runs some of them.
    pub executes: bool,
    /// Other rights or variables, from the next login on.
    pub rights: bool,
    /// Some of its statements may not have run though it has ended well: it has branches, loops or handlers. Not a thing that it leaves.
    pub branches: bool,
    /// It reads `LAST_INSERT_ID()`. Not a thing that it leaves.
    pub reads_last_id: bool,
    /// Nothing: it ends sessions, by ids that are the server's.
    pub kills: bool,
    /// Anything: it runs texts that are not in its own, or nobody may read it.
    pub is_unknown: bool,
    /// User variables that it names: lower-case, without `@` and quotes.
    pub variables: BTreeSet<Box<str>>,
}

/// How many variables code may name.
const MOST_VARIABLES: usize = 256;

/// What a name takes beside its bytes.
const EACH: usize = 64;

impl Hidden {
    /// True if there is nothing.
    pub fn is_empty(&self) -> bool {
        self.facts() == [false; 6] && self.variables.is_empty()
    }

    /// Takes in what other code leaves; true if that is news.
    pub fn add(&mut self, other: &Self) -> bool {
        self.add_with(other, other.kills)
    }

    /// The same, where it is known whether the other one `kills`.
    fn add_with(&mut self, other: &Self, kills: bool) -> bool {
        let had = (self.facts(), self.branches, self.reads_last_id, self.variables.len());
        self.locks |= other.locks;
        self.next_transaction |= other.next_transaction;
        self.executes |= other.executes;
        self.rights |= other.rights;
        self.branches |= other.branches;
        self.reads_last_id |= other.reads_last_id;
        self.kills |= kills;
        self.is_unknown |= other.is_unknown;
        for name in &other.variables {
            if !self.variables.contains(name) {
                self.variables.insert(name.clone());
            }
        }
        self.limit();
        had != (self.facts(), self.branches, self.reads_last_id, self.variables.len())
    }

    /// True if rights may be others now: also where it is not known what was run.
    pub fn may_change_rights(&self) -> bool {
        self.rights || self.executes || self.is_unknown
    }

    /// True if rights are others, where it has ended well.
    pub fn has_changed_rights(&self) -> bool {
        self.rights && !self.branches
    }

    /// Code that names very many variables may do anything: nobody writes it, and the names would have to be kept.
    pub(crate) fn limit(&mut self) {
        self.is_unknown |= self.variables.len() > MOST_VARIABLES;
        while self.variables.len() > MOST_VARIABLES {
            self.variables.pop_last();
        }
    }

    /// What it takes, in bytes.
    fn bytes(&self) -> usize {
        self.variables.iter().map(|name| EACH + name.len()).sum()
    }

    fn facts(&self) -> [bool; 6] {
        [self.locks, self.next_transaction, self.executes, self.rights, self.kills, self.is_unknown]
    }
}
