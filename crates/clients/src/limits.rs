//! How much clients may do: statements in a second, and at the same time. Shared by all workers of a cluster; an account is touched
//! without a lock.
//!
//! Owns: which limits are about a client, what they count, and whether a statement may run now. Must not know what a session
//! looks after while it waits.

mod account;
mod result_cap;
mod slots;

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use delphinus_net::Network;
use delphinus_sql::Digest;

use crate::admission::Source;
use account::{LimitAccount, since_start};
pub use result_cap::ResultCap;
pub use slots::{Slot, Slots};

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
    applied: Vec<Arc<Limit>>,
    /// What each statement takes, one after the other.
    steps: Vec<Step>,
    needs_digest: bool,
    /// What the statement that runs has taken; returned when it ends.
    taken: Vec<Slot>,
}

/// One thing that a statement takes of a limit.
#[derive(Debug)]
struct Step {
    limit: Arc<Limit>,
    /// Where statements count; `None`: that depends on the statement.
    account: Option<Arc<LimitAccount>>,
    /// One of those in a second; else one of those at the same time.
    is_rate: bool,
    /// Not for each statement.
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

/// What a statement in a queue waits for.
#[derive(Debug)]
pub enum Turn {
    /// For this moment; then the next step is due.
    At(Instant),
    /// For a slot, which it keeps ([`Limited::keep`]), for so long.
    Slot(Arc<Slots>, Duration),
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

/// A place among those that wait for a limit. Who leaves it before its turn gives that to others.
#[derive(Debug)]
pub struct InQueue {
    account: Arc<LimitAccount>,
    /// One of those in a second is reserved.
    has_reserved: bool,
}

impl InQueue {
    /// The moment that was waited for has come.
    pub fn is_due(&mut self) {
        self.has_reserved = false;
    }
}

impl Drop for InQueue {
    fn drop(&mut self) {
        self.account.waiting.fetch_sub(1, Ordering::AcqRel);
        if self.has_reserved
            && let Some(rate) = &self.account.rate
        {
            rate.give_back();
        }
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
        let running = |one: &Arc<LimitAccount>| one.slots.as_ref().map_or(0, |slots| slots.running());
        let accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        accounts.values().chain([&self.common]).map(running).sum()
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

    /// What each statement of this client takes.
    fn steps(self: &Arc<Self>, user: &str, source: Source) -> impl Iterator<Item = Step> {
        let terms = &self.terms;
        let counts = [(true, terms.rate.is_some()), (false, terms.concurrency.is_some())];
        let account = match terms.per {
            LimitPer::All => Some(self.common.clone()),
            LimitPer::User => Some(self.account(Key::Name(user.into()))),
            LimitPer::Client => Some(self.account(Key::Client(source))),
            LimitPer::Schema | LimitPer::Digest => None,
        };
        counts.into_iter().filter(|(_, counts)| *counts).map(move |(is_rate, _)| Step {
            limit: self.clone(),
            account: account.clone(),
            is_rate,
            is_conditional: !(self.terms.schemas.is_empty() && self.terms.digests.is_empty()),
        })
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
const TOO_LONG: &str = "its turn does not come within queue_timeout_ms";

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
        let applied: Vec<_> = self.0.iter().filter(|limit| limit.is_for(user, ip)).cloned().collect();
        let steps = applied.iter().flat_map(|limit| limit.steps(user, Source::of(ip))).collect();
        let needs_digest = applied.iter().any(|limit| limit.needs_digest());
        let limited = |applied| Box::new(Limited { applied, steps, needs_digest, taken: Vec::new() });
        Some(applied).filter(|applied| !applied.is_empty()).map(limited)
    }
}

impl Limited {
    /// True if the digest of each statement has to be known.
    pub fn needs_digest(&self) -> bool {
        self.needs_digest
    }

    /// True if any limit says how long statements run, or how large their results are.
    pub fn limits_statements(&self) -> bool {
        let says = |terms: &LimitTerms| {
            terms.timeout.is_some() || terms.max_rows.is_some() || terms.max_bytes.is_some()
        };
        self.applied.iter().any(|limit| says(&limit.terms))
    }

    /// How large the result of this statement may be.
    pub fn cap(&self, about: &Limitable<'_>) -> Option<ResultCap> {
        let fitting = || self.applied.iter().filter(|limit| limit.fits(about));
        let smallest = |of: fn(&LimitTerms) -> Option<u64>| {
            fitting()
                .filter_map(|limit| Some((of(&limit.terms)?, limit.clone())))
                .min_by_key(|(most, _)| *most)
        };
        ResultCap::new(smallest(|terms| terms.max_rows), smallest(|terms| terms.max_bytes))
    }

    /// How long this statement may run.
    pub fn timeout(&self, about: &Limitable<'_>) -> Option<Duration> {
        let fitting = self.applied.iter().filter(|limit| limit.fits(about));
        fitting.filter_map(|limit| limit.terms.timeout).min()
    }

    /// How long the session may do nothing while its transaction is open, and which limit says that.
    pub fn idle_in_transaction(&self) -> Option<(Duration, &Limit)> {
        let all = self.applied.iter().filter_map(|limit| Some((limit.terms.idle_in_transaction?, &**limit)));
        all.min_by_key(|(limit, _)| *limit)
    }

    /// Takes what the statement needs of each limit, from a step on; on success all of it.
    #[inline]
    pub fn take(&mut self, from: usize, about: &Limitable<'_>, now: Instant) -> Result<(), Obstacle> {
        let now = since_start(now);
        for (at, step) in self.steps.iter().enumerate().skip(from) {
            if step.is_conditional && !step.limit.fits(about) {
                continue;
            }
            let found;
            let account = if let Some(account) = &step.account {
                account
            } else {
                found = step.account_of(about);
                &found
            };
            if step.is_rate {
                let is_taken = account.rate.as_ref().is_none_or(|rate| rate.take(now, about.in_transaction));
                if !is_taken {
                    return Err(Obstacle(at));
                }
            } else if let Some(slots) = &account.slots {
                match slots.take() {
                    Some(slot) => self.taken.push(slot),
                    // It is one more than there should be.
                    None if about.in_transaction => {}
                    None => return Err(Obstacle(at)),
                }
            }
        }
        Ok(())
    }

    /// Lines the statement up for what it has not got: what it waits for, and its place in the queue; or why it may not wait.
    pub fn line_up(
        &self,
        Obstacle(at): Obstacle,
        about: &Limitable<'_>,
        now: Instant,
    ) -> Result<(Turn, InQueue), LimitReached> {
        let step = &self.steps[at];
        let (account, limit) = (step.account_of(about), &step.limit);
        let (terms, option) = (&limit.terms, step.option());
        let add = |n| (n < terms.queue).then_some(n + 1);
        if account.waiting.fetch_update(Ordering::AcqRel, Ordering::Relaxed, add).is_err() {
            return Err(limit.refuse(option, "the queue is full (queue)"));
        }
        let mut place = InQueue { account: account.clone(), has_reserved: false };
        let turn = match (&account.rate, &account.slots) {
            (Some(rate), _) if step.is_rate => match rate.reserve(now, terms.queue_timeout) {
                Some(wait) => {
                    place.has_reserved = true;
                    Turn::At(now + wait)
                }
                None => return Err(limit.refuse(option, TOO_LONG)),
            },
            (_, Some(slots)) => Turn::Slot(slots.clone(), terms.queue_timeout),
            _ => Turn::At(now),
        };
        limit.counts.waited.fetch_add(1, Ordering::Relaxed);
        Ok((turn, place))
    }

    /// The step behind the obstacle that was waited for.
    pub fn next(Obstacle(at): Obstacle) -> usize {
        at + 1
    }

    /// Keeps the slot that was waited for.
    pub fn keep(&mut self, slot: Slot) {
        self.taken.push(slot);
    }

    /// The statement has waited for as long as it may.
    pub fn gives_up(&self, Obstacle(at): Obstacle) -> LimitReached {
        let step = &self.steps[at];
        step.limit.refuse(step.option(), TOO_LONG)
    }

    /// Gives back what the statement has taken.
    #[inline]
    pub fn give_back(&mut self) {
        self.taken.clear();
    }
}

impl Step {
    /// What it is called in errors.
    fn option(&self) -> &'static str {
        if self.is_rate { RATE } else { CONCURRENCY }
    }

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
