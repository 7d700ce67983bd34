//! What all workers share: the names of users and schemas, the texts of digests, the bounds, and the lists of rows.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use delphinus_memory::{Account, Owner, Permit};
use delphinus_sql::Digest;
use delphinus_topology::ClusterId;

use crate::recorder::Recorder;
use crate::row::Row;
use crate::sums::{Retired, Who};

/// What an operator sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Statements are counted by digest; else all of a user, schema and backend together.
    pub by_digest: bool,
    /// Rows and texts take no more than so many bytes.
    pub max_bytes: u64,
    /// Texts are cut to so many bytes.
    pub max_text: usize,
}

/// The number of a user in a schema of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WhoNo(pub(crate) u32);

/// So many users in schemas are told apart.
pub(crate) const MOST_WHOS: usize = 4096;
/// And so many more users, whose schemas are not.
pub(crate) const MOST_USERS: usize = 4096;
/// What a text or a name needs beside its bytes, about.
const ENTRY_BYTES: usize = 96;

/// The counts of all statements of the process.
pub struct Statistics {
    account: Account,
    seed: u64,
    by_digest: AtomicBool,
    max_bytes: AtomicU64,
    max_text: AtomicUsize,
    /// How often everything was reset.
    epoch: AtomicU32,
    names: Mutex<Names>,
    texts: Mutex<HashMap<Digest, Text>>,
    ledgers: Mutex<Vec<Arc<Ledger>>>,
    retired: Mutex<Retired>,
}

struct Text {
    text: Arc<str>,
    _permit: Permit,
}

#[derive(Default)]
struct Names {
    all: Vec<(Who, Option<Permit>)>,
    numbers: HashMap<Who, WhoNo>,
}

impl Statistics {
    /// Nothing counted yet. What is kept is taken from the account.
    pub fn new(account: Account, limits: Limits) -> Arc<Self> {
        let seed = RandomState::new().hash_one(0);
        Arc::new(Self {
            account,
            seed,
            by_digest: AtomicBool::new(limits.by_digest),
            max_bytes: AtomicU64::new(limits.max_bytes),
            max_text: AtomicUsize::new(limits.max_text),
            epoch: AtomicU32::new(0),
            names: Mutex::default(),
            texts: Mutex::default(),
            ledgers: Mutex::default(),
            retired: Mutex::default(),
        })
    }

    /// Follows other limits from now on. What is kept beyond them stays until RESET.
    pub fn follow(&self, limits: Limits) {
        self.by_digest.store(limits.by_digest, Ordering::Relaxed);
        self.max_bytes.store(limits.max_bytes, Ordering::Relaxed);
        self.max_text.store(limits.max_text, Ordering::Relaxed);
    }

    /// For one worker of a cluster.
    pub fn recorder(self: &Arc<Self>, cluster: ClusterId) -> Recorder {
        Recorder::new(self.clone(), cluster)
    }

    /// Counts by digest begin anew. Sums that only grow, as metrics want them, go on.
    pub fn reset(&self) {
        self.epoch.fetch_add(1, Ordering::Relaxed);
        lock(&self.texts).clear();
    }

    /// How often counts by digest have begun anew.
    pub fn resets(&self) -> u32 {
        self.epoch()
    }

    pub(crate) fn wants_digests(&self) -> bool {
        self.by_digest.load(Ordering::Relaxed)
    }

    pub(crate) fn max_bytes(&self) -> u64 {
        self.max_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn account(&self) -> &Account {
        &self.account
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    #[inline]
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch.load(Ordering::Relaxed)
    }

    pub(crate) fn take_in(&self, ledger: Arc<Ledger>) {
        lock(&self.ledgers).push(ledger);
    }

    pub(crate) fn ledgers(&self) -> Vec<Arc<Ledger>> {
        lock(&self.ledgers).clone()
    }

    pub(crate) fn retired(&self) -> MutexGuard<'_, Retired> {
        lock(&self.retired)
    }

    /// Notes the text of a digest; false if others are at the texts just now.
    pub(crate) fn note_text(&self, digest: Digest, text: &[u8]) -> bool {
        let mut texts = match self.texts.try_lock() {
            Ok(texts) => texts,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        if texts.contains_key(&digest) {
            return true;
        }
        let text = cut(text, self.max_text.load(Ordering::Relaxed));
        let bytes = text.len() + ENTRY_BYTES;
        if self.account.used_by(Owner::Digests) + bytes as u64 <= self.max_bytes()
            && let Some(permit) = self.account.take(Owner::Digests, bytes)
        {
            texts.insert(digest, Text { text: text.into(), _permit: permit });
        }
        true
    }

    /// The text of a digest, if it is kept.
    pub fn text(&self, digest: Digest) -> Option<Arc<str>> {
        lock(&self.texts).get(&digest).map(|text| text.text.clone())
    }

    /// The same for a worker, which waits for nobody: `None` if others are at the texts just now, too.
    pub(crate) fn text_at_once(&self, digest: Digest) -> Option<Arc<str>> {
        let texts = match self.texts.try_lock() {
            Ok(texts) => texts,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        texts.get(&digest).map(|text| text.text.clone())
    }

    /// The number for those of a cluster that have none of their own.
    pub(crate) fn anybody(&self, cluster: ClusterId) -> WhoNo {
        let who = Who { cluster, user: None, schema: None };
        let mut names = lock(&self.names);
        names.find(&who).unwrap_or_else(|| names.add(who, None))
    }

    pub(crate) fn who(&self, cluster: ClusterId, user: &str, schema: Option<&str>) -> WhoNo {
        let whole = Who { cluster, user: Some(user.into()), schema: schema.map(Arc::from) };
        let alone = Who { schema: None, ..whole.clone() };
        let mut names = lock(&self.names);
        for (who, most) in [(whole, MOST_WHOS), (alone, MOST_WHOS + MOST_USERS)] {
            if let Some(number) = names.find(&who) {
                return number;
            }
            let bytes = user.len() + who.schema.as_deref().map_or(0, str::len) + ENTRY_BYTES;
            if names.all.len() < most
                && let Some(permit) = self.account.take(Owner::Digests, bytes)
            {
                return names.add(who, Some(permit));
            }
        }
        drop(names);
        self.anybody(cluster)
    }

    /// Who has this number.
    pub(crate) fn who_is(&self, number: WhoNo) -> Option<Who> {
        lock(&self.names).all.get(number.0 as usize).map(|(who, _)| who.clone())
    }
}

impl std::fmt::Debug for Statistics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Statistics").finish_non_exhaustive()
    }
}

impl Names {
    fn find(&self, who: &Who) -> Option<WhoNo> {
        self.numbers.get(who).copied()
    }

    fn add(&mut self, who: Who, permit: Option<Permit>) -> WhoNo {
        let number = WhoNo(self.all.len() as u32);
        self.all.push((who.clone(), permit));
        self.numbers.insert(who, number);
        number
    }
}

/// The beginning of a text, in whole characters.
fn cut(text: &[u8], most: usize) -> String {
    let text = String::from_utf8_lossy(text);
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    if end == text.len() { text.into_owned() } else { format!("{} ...", &text[..end]) }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The rows of one worker, as others see them.
pub(crate) struct Ledger(Mutex<Rows>);

#[derive(Default)]
struct Rows {
    /// Which RESET they are younger than.
    epoch: u32,
    current: Vec<Arc<Row>>,
    /// Rows that are older, and that the worker writes no more.
    old: Vec<Arc<Row>>,
}

impl Ledger {
    pub(crate) fn new(epoch: u32) -> Self {
        Self(Mutex::new(Rows { epoch, ..Rows::default() }))
    }

    /// Takes in new rows, if it is free just now.
    pub(crate) fn publish(&self, new: &mut Vec<Arc<Row>>) {
        if let Ok(mut rows) = self.0.try_lock() {
            rows.current.append(new);
        }
    }

    /// Its worker writes all rows that there are no more.
    pub(crate) fn start_over(&self, epoch: u32, unpublished: Vec<Arc<Row>>) {
        let mut rows = lock(&self.0);
        rows.epoch = epoch;
        let mut old = std::mem::take(&mut rows.current);
        rows.old.append(&mut old);
        rows.old.extend(unpublished);
    }

    /// The rows that are written now; true if they are older than the last RESET. Old ones are handed to `retire`.
    pub(crate) fn rows(&self, epoch: u32, retire: &mut dyn FnMut(&Row)) -> (Vec<Arc<Row>>, bool) {
        let (rows, old, is_old) = {
            let mut rows = lock(&self.0);
            (rows.current.clone(), std::mem::take(&mut rows.old), rows.epoch != epoch)
        };
        for row in &old {
            retire(row);
        }
        (rows, is_old)
    }
}
