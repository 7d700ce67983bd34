//! How much clients may do: statements in a second, and at the same time. Shared by all workers of a cluster; an account is touched
//! without a lock.
//!
//! Owns: which limits are about a client, what they count, and whether a statement may run now. Must not know what a session
//! looks after while it waits.

mod account;
mod result_cap;

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use delphinus_net::Network;
use delphinus_net::rt::{OwnedSemaphorePermit, Semaphore};
use delphinus_sql::Digest;

use crate::admission::Source;
use account::LimitAccount;
pub use result_cap::ResultCap;

/// What a limit counts by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitPer {
    /// All that fit together.
    All,
    /// Each user.
    User,
    /// Each schema.
    Schema,
    /// Each address of clients.
    Client,
    /// Each digest.
    Digest,
}

/// What an operator has written of a limit. Conditions that are empty always fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitTerms {
    /// Users.
    pub users: Vec<String>,
    /// Current schemas.
    pub schemas: Vec<String>,
    /// Networks of clients.
    pub clients: Vec<Network>,
    /// Digests.
    pub digests: Vec<Digest>,
    /// What is counted by itself.
    pub per: LimitPer,
    /// Statements in a second, and how many of them at once after a rest.
    pub rate: Option<(u32, u32)>,
    /// Statements at the same time.
    pub concurrency: Option<u32>,
    /// So many wait.
    pub queue: u32,
    /// For so long.
    pub queue_timeout: Duration,
    /// Rows of one result.
    pub max_rows: Option<u64>,
    /// Bytes of the results of one statement.
    pub max_bytes: Option<u64>,
    /// So long a statement runs.
    pub timeout: Option<Duration>,
    /// So long a session does nothing while its transaction is open.
    pub idle_in_transaction: Option<Duration>,
}

/// A limit, with what it counts.
#[derive(Debug)]
pub struct Limit {
    /// Its name.
    pub name: Arc<str>,
    /// What it says.
    pub terms: LimitTerms,
    /// What has come of it, also as it was before the configuration changed.
    pub counts: Arc<LimitCounts>,
    common: Arc<LimitAccount>,
    accounts: Mutex<HashMap<Key, Arc<LimitAccount>>>,
}

/// What has come of a limit.
#[derive(Debug, Default)]
pub struct LimitCounts {
    /// Statements that have waited.
    pub waited: AtomicU64,
    /// Statements that were refused because too many came in a second.
    pub refused_rate: AtomicU64,
    /// Statements that were refused because too many ran.
    pub refused_concurrency: AtomicU64,
    /// Results that were cut because they had too many rows or bytes.
    pub cut: AtomicU64,
    /// Sessions that were ended because they did nothing in a transaction.
    pub ended_idle: AtomicU64,
}

/// What is counted by itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Name(Box<str>),
    Client(Source),
    Digest(u64),
}

/// All limits of a cluster.
#[derive(Debug, Default)]
pub struct Limits(Vec<Arc<Limit>>);

/// The limits that are about one session.
#[derive(Debug)]
pub struct Limited {
    applied: Vec<Applied>,
    /// What the statement that runs has taken; returned when it ends.
    taken: Vec<OwnedSemaphorePermit>,
}

#[derive(Debug)]
struct Applied {
    limit: Arc<Limit>,
    /// Where its statements count; `None`: that depends on the statement.
    account: Option<Arc<LimitAccount>>,
    /// It counts statements, and not only their time.
    counts: bool,
    /// It looks at each statement.
    is_conditional: bool,
}

/// What a limit may look at of one statement.
#[derive(Debug, Clone, Copy)]
pub struct Limitable<'a> {
    /// The current schema.
    pub schema: Option<&'a str>,
    /// The digest of the statement, where [`Limited::needs_digest`].
    pub digest: Option<Digest>,
    /// A transaction is open: the statement may hold locks that others wait for, so that it does not wait itself.
    pub in_transaction: bool,
}

/// Why a statement cannot run at once: the step of [`Limited::take`] that it has not got past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Obstacle(usize);

impl Obstacle {
    /// Each limit has two steps: its rate, then its slots.
    fn option(self) -> &'static str {
        if self.0.is_multiple_of(2) { RATE } else { CONCURRENCY }
    }
}

/// What a statement in a queue waits for.
#[derive(Debug)]
pub enum Turn {
    /// For this moment; then the next step is due.
    At(Instant),
    /// For a slot, which it keeps ([`Limited::keep`]), for so long.
    Slot(Arc<Semaphore>, Duration),
}

/// The limit that refuses a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitReached {
    /// Its name.
    pub limit: Arc<str>,
    /// Which option of it.
    pub option: &'static str,
    /// And why it did not wait, or no longer.
    pub why: &'static str,
}

impl fmt::Display for LimitReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, option, why } = self;
        write!(f, "the limit {limit:?} is reached ({option}): {why}")
    }
}

/// A place among those that wait for a limit.
#[derive(Debug)]
pub struct InQueue(Arc<LimitAccount>);

impl Drop for InQueue {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A limit keeps so many accounts of its own; what comes beyond counts together.
const MOST_ACCOUNTS: usize = 10_000;

impl Limit {
    /// A limit that nothing has met yet.
    pub fn new(name: Arc<str>, terms: LimitTerms) -> Self {
        let common = Arc::new(LimitAccount::new(&terms));
        Self { name, terms, counts: Arc::default(), common, accounts: Mutex::default() }
    }

    /// Why one more is refused; counted.
    fn refuse(&self, option: &'static str, why: &'static str) -> LimitReached {
        let is_rate = option == RATE;
        let count = if is_rate { &self.counts.refused_rate } else { &self.counts.refused_concurrency };
        count.fetch_add(1, Ordering::Relaxed);
        LimitReached { limit: self.name.clone(), option, why }
    }

    /// How many wait for it now.
    pub fn waiting(&self) -> u64 {
        let accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        accounts
            .values()
            .chain([&self.common])
            .map(|one| u64::from(one.waiting.load(Ordering::Relaxed)))
            .sum()
    }

    /// How many run by it now.
    pub fn running(&self) -> u64 {
        let most = self.terms.concurrency.unwrap_or(0) as usize;
        let free =
            |one: &Arc<LimitAccount>| one.slots.as_ref().map_or(most, |slots| slots.available_permits());
        let accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        accounts.values().chain([&self.common]).map(|one| most.saturating_sub(free(one)) as u64).sum()
    }

    fn is_for(&self, user: &str, ip: Option<IpAddr>) -> bool {
        let terms = &self.terms;
        let ip = ip.map(|ip| ip.to_canonical());
        (terms.users.is_empty() || terms.users.iter().any(|one| one == user))
            && (terms.clients.is_empty()
                || ip.is_some_and(|ip| terms.clients.iter().any(|network| network.contains(ip))))
    }

    fn fits(&self, about: &Limitable<'_>) -> bool {
        let terms = &self.terms;
        let is_schema = |schema: &str| terms.schemas.iter().any(|one| one == schema);
        (terms.schemas.is_empty() || about.schema.is_some_and(is_schema))
            && (terms.digests.is_empty()
                || about.digest.is_some_and(|digest| terms.digests.contains(&digest)))
    }

    fn needs_digest(&self) -> bool {
        !self.terms.digests.is_empty() || self.terms.per == LimitPer::Digest
    }

    /// Counts statements, and not only their time.
    fn counts_statements(&self) -> bool {
        self.terms.rate.is_some() || self.terms.concurrency.is_some()
    }

    /// The account of all that have this key.
    fn account(&self, key: Key) -> Arc<LimitAccount> {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = accounts.get(&key) {
            return known.clone();
        }
        if accounts.len() >= MOST_ACCOUNTS {
            let now = delphinus_net::rt::now();
            accounts.retain(|_, one| Arc::strong_count(one) > 1 || one.is_busy(now));
            if accounts.len() >= MOST_ACCOUNTS {
                return self.common.clone();
            }
        }
        accounts.entry(key).or_insert_with(|| Arc::new(LimitAccount::new(&self.terms))).clone()
    }
}

/// The options, for errors.
const RATE: &str = "statements_per_second";
const CONCURRENCY: &str = "concurrency";
/// Why one is refused that could have waited.
const TOO_LONG: &str = "its turn does not come in queue_timeout_ms";

impl Limits {
    /// These. One that is what `before` has, is that: what it counts goes on.
    pub fn new(limits: impl IntoIterator<Item = (Arc<str>, LimitTerms)>, before: Option<&Self>) -> Self {
        let one = |(name, terms): (Arc<str>, LimitTerms)| {
            let known = before.and_then(|before| before.0.iter().find(|known| known.name == name));
            match known {
                Some(known) if known.terms == terms => known.clone(),
                Some(known) => Arc::new(Limit { counts: known.counts.clone(), ..Limit::new(name, terms) }),
                None => Arc::new(Limit::new(name, terms)),
            }
        };
        Self(limits.into_iter().map(one).collect())
    }

    /// They.
    pub fn iter(&self) -> impl Iterator<Item = &Limit> {
        self.0.iter().map(|limit| &**limit)
    }

    /// Those that are about the sessions of this client; `None`: there are none.
    pub fn about(&self, user: &str, ip: Option<IpAddr>) -> Option<Box<Limited>> {
        let source = Source::of(ip);
        let one = |limit: &Arc<Limit>| {
            let account = match limit.terms.per {
                LimitPer::All => Some(limit.common.clone()),
                LimitPer::User => Some(limit.account(Key::Name(user.into()))),
                LimitPer::Client => Some(limit.account(Key::Client(source))),
                LimitPer::Schema | LimitPer::Digest => None,
            };
            Applied {
                account,
                counts: limit.counts_statements(),
                is_conditional: !(limit.terms.schemas.is_empty() && limit.terms.digests.is_empty()),
                limit: limit.clone(),
            }
        };
        let applied: Vec<_> = self.0.iter().filter(|limit| limit.is_for(user, ip)).map(one).collect();
        (!applied.is_empty()).then(|| Box::new(Limited { applied, taken: Vec::new() }))
    }
}

impl Limited {
    /// True if the digest of each statement has to be known.
    pub fn needs_digest(&self) -> bool {
        self.applied.iter().any(|one| one.limit.needs_digest())
    }

    /// True if any limit says how long statements run, or how large their results are.
    pub fn limits_statements(&self) -> bool {
        let says = |terms: &LimitTerms| {
            terms.timeout.is_some() || terms.max_rows.is_some() || terms.max_bytes.is_some()
        };
        self.applied.iter().any(|one| says(&one.limit.terms))
    }

    /// How large the result of this statement may be.
    pub fn cap(&self, about: &Limitable<'_>) -> Option<ResultCap> {
        let fitting = || self.applied.iter().map(|one| &one.limit).filter(|limit| limit.fits(about));
        let smallest = |of: fn(&LimitTerms) -> Option<u64>| {
            fitting()
                .filter_map(|limit| Some((of(&limit.terms)?, limit.clone())))
                .min_by_key(|(most, _)| *most)
        };
        ResultCap::new(smallest(|terms| terms.max_rows), smallest(|terms| terms.max_bytes))
    }

    /// How long this statement may run.
    pub fn timeout(&self, about: &Limitable<'_>) -> Option<Duration> {
        let fitting = self.applied.iter().filter(|one| one.limit.fits(about));
        fitting.filter_map(|one| one.limit.terms.timeout).min()
    }

    /// How long the session may do nothing while its transaction is open, and which limit says that.
    pub fn idle_in_transaction(&self) -> Option<(Duration, &Limit)> {
        let all =
            self.applied.iter().filter_map(|one| Some((one.limit.terms.idle_in_transaction?, &*one.limit)));
        all.min_by_key(|(limit, _)| *limit)
    }

    /// Takes what the statement needs of each limit, from a step on; on success all of it.
    #[inline]
    pub fn take(&mut self, from: usize, about: &Limitable<'_>, now: Instant) -> Result<(), Obstacle> {
        for step in from..2 * self.applied.len() {
            let one = &self.applied[step / 2];
            if !one.counts || one.is_conditional && !one.limit.fits(about) {
                continue;
            }
            let found;
            let account = if let Some(account) = &one.account {
                account
            } else {
                found = one.account_of(about);
                &found
            };
            let is_rate = step % 2 == 0;
            if is_rate {
                let is_taken = account.rate.as_ref().is_none_or(|rate| rate.take(now, about.in_transaction));
                if !is_taken {
                    return Err(Obstacle(step));
                }
            } else if let Some(slots) = &account.slots {
                match slots.clone().try_acquire_owned() {
                    Ok(permit) => self.taken.push(permit),
                    // It is one more than there should be.
                    Err(_) if about.in_transaction => {}
                    Err(_) => return Err(Obstacle(step)),
                }
            }
        }
        Ok(())
    }

    /// Lines the statement up for what it has not got: what it waits for, and its place in the queue; or why it may not wait.
    pub fn line_up(
        &self,
        obstacle: Obstacle,
        about: &Limitable<'_>,
        now: Instant,
    ) -> Result<(Turn, InQueue), LimitReached> {
        let one = &self.applied[obstacle.0 / 2];
        let (account, terms) = (one.account_of(about), &one.limit.terms);
        let option = obstacle.option();
        let add = |n| (n < terms.queue).then_some(n + 1);
        if account.waiting.fetch_update(Ordering::AcqRel, Ordering::Relaxed, add).is_err() {
            return Err(one.limit.refuse(option, "as many statements wait as may (queue)"));
        }
        let place = InQueue(account.clone());
        let turn = match (&account.rate, &account.slots) {
            (Some(rate), _) if option == RATE => match rate.reserve(now, terms.queue_timeout) {
                Some(wait) => Turn::At(now + wait),
                None => return Err(one.limit.refuse(option, TOO_LONG)),
            },
            (_, Some(slots)) => Turn::Slot(slots.clone(), terms.queue_timeout),
            _ => Turn::At(now),
        };
        one.limit.counts.waited.fetch_add(1, Ordering::Relaxed);
        Ok((turn, place))
    }

    /// The step behind the obstacle that was waited for.
    pub fn next(Obstacle(step): Obstacle) -> usize {
        step + 1
    }

    /// Keeps the slot that was waited for.
    pub fn keep(&mut self, permit: OwnedSemaphorePermit) {
        self.taken.push(permit);
    }

    /// The statement has waited for as long as it may.
    pub fn gives_up(&self, obstacle: Obstacle) -> LimitReached {
        self.applied[obstacle.0 / 2].limit.refuse(obstacle.option(), TOO_LONG)
    }

    /// Gives back what the statement has taken.
    #[inline]
    pub fn give_back(&mut self) {
        self.taken.clear();
    }
}

impl Applied {
    /// Where this statement counts.
    fn account_of(&self, about: &Limitable<'_>) -> Arc<LimitAccount> {
        if let Some(account) = &self.account {
            return account.clone();
        }
        match self.limit.terms.per {
            LimitPer::Digest => self.limit.account(Key::Digest(about.digest.unwrap_or_default().0)),
            _ => self.limit.account(Key::Name(about.schema.unwrap_or_default().into())),
        }
    }
}

#[cfg(test)]
mod tests;
