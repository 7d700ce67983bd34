//! The account of the process: a limit, what is taken of it, and by whom.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// For whom memory is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// Commands that are being received, and answers on their way: what buffers have grown beyond their ordinary size.
    Buffers,
    /// Packets of clients that compress, while they are unpacked.
    Unpacked,
    /// What sessions keep between their commands: prepared statements, variables, warnings.
    Sessions,
    /// Copies of commands for mirrors.
    Mirrors,
    /// What is known of the code in the database.
    StoredCode,
    /// Answers that are kept.
    Cache,
    /// What operators have done.
    Audit,
    /// What statements cost, by digest.
    Digests,
    /// Statements that wait to be written into a log.
    Logs,
    /// The activity history: what waits to be stored, and what its files need while they are open.
    History,
    /// Relays: what they receive, and send to replicas.
    Relay,
}

impl Owner {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Buffers,
        Self::Unpacked,
        Self::Sessions,
        Self::Mirrors,
        Self::StoredCode,
        Self::Cache,
        Self::Audit,
        Self::Digests,
        Self::Logs,
        Self::History,
        Self::Relay,
    ];

    /// The word shown to operators.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Buffers => "buffers",
            Self::Unpacked => "unpacked",
            Self::Sessions => "sessions",
            Self::Mirrors => "mirrors",
            Self::StoredCode => "stored_code",
            Self::Cache => "cache",
            Self::Audit => "audit",
            Self::Digests => "digests",
            Self::Logs => "logs",
            Self::History => "history",
            Self::Relay => "relay",
        }
    }
}

/// The account. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Account(Arc<Books>);

#[derive(Debug)]
struct Books {
    limit: AtomicU64,
    used: AtomicU64,
    by_owner: [Entry; Owner::ALL.len()],
}

#[derive(Debug, Default)]
struct Entry {
    used: AtomicU64,
    refused: AtomicU64,
}

impl Account {
    /// An account with so many bytes.
    pub fn new(limit: u64) -> Self {
        Self(Arc::new(Books {
            limit: AtomicU64::new(limit),
            used: AtomicU64::new(0),
            by_owner: Default::default(),
        }))
    }

    /// An account that never refuses anything, for tests and tools.
    pub fn unlimited() -> Self {
        Self::new(u64::MAX / 2)
    }

    /// How many bytes there are.
    pub fn limit(&self) -> u64 {
        self.0.limit.load(Ordering::Relaxed)
    }

    /// Sets another limit. What is taken beyond it stays taken; nothing more is given until there is room again.
    pub fn set_limit(&self, limit: u64) {
        self.0.limit.store(limit, Ordering::Relaxed);
    }

    /// How many of them are taken.
    pub fn used(&self) -> u64 {
        self.0.used.load(Ordering::Relaxed)
    }

    /// How many of them are taken for this owner.
    pub fn used_by(&self, owner: Owner) -> u64 {
        self.entry(owner).used.load(Ordering::Relaxed)
    }

    /// How often this owner was refused something, by the account or by a session's share.
    pub fn refused(&self, owner: Owner) -> u64 {
        self.entry(owner).refused.load(Ordering::Relaxed)
    }

    /// A permit for nothing yet.
    pub fn open(&self, owner: Owner) -> Permit {
        Permit { account: self.clone(), owner, bytes: 0 }
    }

    /// A permit for so many bytes; `None` if there are not as many.
    #[must_use]
    pub fn take(&self, owner: Owner, bytes: usize) -> Option<Permit> {
        let mut permit = self.open(owner);
        permit.grow_to(bytes).then_some(permit)
    }

    /// A permit for what has a limit of its own, and is not refused: there is less for others.
    #[must_use]
    pub fn reserve(&self, owner: Owner, bytes: usize) -> Permit {
        let mut permit = self.open(owner);
        permit.hold(bytes);
        permit
    }

    pub(crate) fn note_refused(&self, owner: Owner) {
        self.entry(owner).refused.fetch_add(1, Ordering::Relaxed);
    }

    fn entry(&self, owner: Owner) -> &Entry {
        &self.0.by_owner[owner as usize]
    }

    fn add(&self, owner: Owner, bytes: u64) -> bool {
        // Orders nothing: it is a number, and who takes it has its memory from elsewhere.
        let add = |used: u64| used.checked_add(bytes).filter(|used| *used <= self.limit());
        let is_added = self.0.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok();
        if is_added {
            self.entry(owner).used.fetch_add(bytes, Ordering::Relaxed);
        } else {
            self.note_refused(owner);
        }
        is_added
    }

    fn subtract(&self, owner: Owner, bytes: u64) {
        self.0.used.fetch_sub(bytes, Ordering::Relaxed);
        self.entry(owner).used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Leave to keep so many bytes; dropped, they are others' again.
#[derive(Debug)]
pub struct Permit {
    account: Account,
    owner: Owner,
    bytes: usize,
}

impl Permit {
    /// For how many bytes.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A permit of the same account and owner for what cannot be refused any more; see [`Account::reserve`].
    #[must_use]
    pub fn reserve_beside(&self, bytes: usize) -> Self {
        self.account.reserve(self.owner, bytes)
    }

    /// Takes as many more as it needs to be for `bytes`; false, and it is what it was, if there are not as many.
    #[must_use]
    pub fn grow_to(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        if more == 0 {
            return true;
        }
        let is_added = self.account.add(self.owner, more as u64);
        if is_added {
            self.bytes = bytes;
        }
        is_added
    }

    /// Is for so many bytes, more or less than before, and is not refused: see [`Account::reserve`].
    #[inline]
    pub fn hold(&mut self, bytes: usize) {
        let more = bytes.saturating_sub(self.bytes);
        if more > 0 {
            self.account.0.used.fetch_add(more as u64, Ordering::Relaxed);
            self.account.entry(self.owner).used.fetch_add(more as u64, Ordering::Relaxed);
            self.bytes = bytes;
        } else {
            self.shrink_to(bytes);
        }
    }

    /// Gives back what it has beyond `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        if less > 0 {
            self.account.subtract(self.owner, less as u64);
            self.bytes = bytes;
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_can_be_taken_again() {
        let account = Account::new(100);
        let mut one = account.take(Owner::Buffers, 60).unwrap();
        assert!(account.take(Owner::Sessions, 41).is_none());
        let two = account.take(Owner::Sessions, 40).unwrap();
        assert_eq!((account.used(), account.used_by(Owner::Sessions)), (100, 40));
        assert!(!one.grow_to(61));
        one.shrink_to(50);
        assert_eq!((one.bytes(), account.used()), (50, 90));
        assert!(one.grow_to(60) && one.grow_to(20));
        drop((one, two));
        assert_eq!((account.used(), account.used_by(Owner::Buffers)), (0, 0));
        assert_eq!((account.refused(Owner::Buffers), account.refused(Owner::Sessions)), (1, 1));
    }

    #[test]
    fn what_has_a_limit_of_its_own_is_counted_and_not_refused() {
        let account = Account::new(100);
        let mut held = account.open(Owner::Relay);
        for bytes in [150, 20, 20, 120] {
            held.hold(bytes);
            assert_eq!((held.bytes(), account.used_by(Owner::Relay)), (bytes, bytes as u64));
            assert!(account.take(Owner::Buffers, 81).is_none(), "{bytes}");
        }
        drop(held);
        assert_eq!((account.used(), account.refused(Owner::Relay)), (0, 0));
    }

    #[test]
    fn many_threads_take_no_more_than_there_is() {
        let account = Account::new(1000);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for size in (1..400).cycle().take(20_000) {
                        let permit = account.take(Owner::Sessions, size);
                        assert!(account.used() <= 1000);
                        drop(permit);
                    }
                });
            }
        });
        assert_eq!(account.used(), 0);
    }
}
