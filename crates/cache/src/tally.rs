//! What came of keeping answers, by rule and digest.
//!
//! Owns: the counts, and how many of them there are. What is counted for hits has a place for each thread that counts, as far as there are
//! places: threads that hit the same answer do not wait for each other's cache line.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use delphinus_topology::ClusterId;

/// So many rules with digests are counted by themselves. All others are counted together.
const MOST: usize = 1024;

/// Places for threads.
const STRIPES: usize = 8;

/// Whose answers are counted together.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Group {
    /// The cluster that answers.
    pub cluster: ClusterId,
    /// The rule that wants them kept; `None`: a hint, or a setting of a session.
    pub rule: Option<Arc<str>>,
    /// The schema that the sessions were in.
    pub schema: Option<Arc<str>>,
    /// The hash of the text without literals, where that is known.
    pub digest: Option<u64>,
}

/// A table as a statement names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// Its schema; `None`: the one that the session is in.
    pub schema: Option<Box<str>>,
    /// Its name.
    pub table: Box<str>,
}

/// The counts of one group, and what its statements name.
#[derive(Debug)]
pub struct Tally {
    /// Whose they are.
    pub group: Group,
    /// The tables that its statements name; `None`: of all groups that have no counts of their own, whatever they name.
    named: Option<Vec<Named>>,
    stripes: [Stripe; STRIPES],
    answers: AtomicU64,
    bytes: AtomicU64,
    others: [AtomicU64; Event::ALL.len()],
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Stripe {
    hits: AtomicU64,
    stale: AtomicU64,
    saved_us: AtomicU64,
}

/// What is counted beside hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Asked for, and not there, or too old.
    Miss,
    /// There, but perhaps older than what its session has written.
    Behind,
    /// Answered by somebody else's question.
    Coalesced,
    /// Kept.
    Insert,
    /// Made room for another one.
    Eviction,
    /// Forgotten because of a write, or by an operator.
    Invalidation,
    /// Given back because it was too old.
    Expiry,
    /// Not kept, because of what it was, or its size.
    Unfit,
    /// Asked for anew before it was too old.
    Refresh,
    /// The same, in vain.
    FailedRefresh,
}

impl Event {
    /// All, in the order of [`Counts::events`].
    pub const ALL: [Self; 10] = [
        Self::Miss,
        Self::Behind,
        Self::Coalesced,
        Self::Insert,
        Self::Eviction,
        Self::Invalidation,
        Self::Expiry,
        Self::Unfit,
        Self::Refresh,
        Self::FailedRefresh,
    ];
}

/// The counts of a group at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Answers that were given.
    pub hits: u64,
    /// Of these, those that were given while a newer one was asked for, or due.
    pub stale: u64,
    /// The time that backends took for these answers when they were asked, once for each hit, in microseconds.
    pub saved_us: u64,
    /// Answers that are kept now, and those that are still on their way to a client.
    pub answers: u64,
    /// What these take, in bytes.
    pub bytes: u64,
    /// The others, in the order of [`Event::ALL`].
    pub events: [u64; Event::ALL.len()],
}

impl Counts {
    /// How often this has happened.
    pub fn of(&self, event: Event) -> u64 {
        self.events[event as usize]
    }
}

impl Tally {
    fn new(group: Group, named: Option<Vec<Named>>) -> Self {
        let (stripes, others) = Default::default();
        Self { group, named, stripes, answers: AtomicU64::new(0), bytes: AtomicU64::new(0), others }
    }

    /// True if its statements name this table, or may: in this schema, or in any.
    pub fn may_name_table(&self, schema: Option<&str>, table: &str) -> bool {
        self.may_name(|named| {
            named.table.eq_ignore_ascii_case(table) && schema.is_none_or(|schema| self.is_in(named, schema))
        })
    }

    /// True if they name a table of this schema, or may.
    pub fn may_name_schema(&self, schema: &str) -> bool {
        self.may_name(|named| self.is_in(named, schema))
    }

    fn may_name(&self, is_it: impl Fn(&Named) -> bool) -> bool {
        self.named.as_ref().is_none_or(|all| all.iter().any(is_it))
    }

    /// As servers compare names where case says nothing. Elsewhere, one answer too many is forgotten.
    fn is_in(&self, named: &Named, schema: &str) -> bool {
        self.schema_of(named).is_some_and(|own| own.eq_ignore_ascii_case(schema))
    }

    fn schema_of<'a>(&'a self, named: &'a Named) -> Option<&'a str> {
        named.schema.as_deref().or(self.group.schema.as_deref())
    }

    /// An answer was given that a backend has taken so long for. `place`: the caller's own number ([`Tallies::place`]).
    #[inline]
    pub fn hit(&self, place: usize, saved_us: u64, is_stale: bool) {
        let stripe = &self.stripes[place % STRIPES];
        stripe.hits.fetch_add(1, Ordering::Relaxed);
        stripe.saved_us.fetch_add(saved_us, Ordering::Relaxed);
        if is_stale {
            stripe.stale.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// This has happened.
    pub fn count(&self, event: Event) {
        self.others[event as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn came(&self, bytes: u64) {
        self.answers.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn went(&self, bytes: u64) {
        self.answers.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// As they are now.
    pub fn counts(&self) -> Counts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let sum = |count: fn(&Stripe) -> &AtomicU64| self.stripes.iter().map(|one| of(count(one))).sum();
        Counts {
            hits: sum(|stripe| &stripe.hits),
            stale: sum(|stripe| &stripe.stale),
            saved_us: sum(|stripe| &stripe.saved_us),
            answers: of(&self.answers),
            bytes: of(&self.bytes),
            events: Event::ALL.map(|event| of(&self.others[event as usize])),
        }
    }
}

/// The counts of all groups.
#[derive(Debug, Default)]
pub struct Tallies {
    groups: RwLock<HashMap<Group, Arc<Tally>>>,
    places: AtomicUsize,
}

impl Tallies {
    /// A number for one who counts: as far as there are places, no other one has the same.
    pub fn place(&self) -> usize {
        self.places.fetch_add(1, Ordering::Relaxed)
    }

    /// The counts of this group; where there are too many groups, those of all that have none of their own.
    /// `named`: the tables that its statements name.
    pub fn of(&self, group: &Group, named: impl FnOnce() -> Vec<Named>) -> Arc<Tally> {
        if let Some(known) = self.groups.read().unwrap_or_else(PoisonError::into_inner).get(group) {
            return known.clone();
        }
        // Without a digest, statements that name other tables are in the same group.
        let named = group.digest.is_some().then(named);
        let mut all = self.groups.write().unwrap_or_else(PoisonError::into_inner);
        let (group, named) = if all.len() < MOST || all.contains_key(group) {
            (group.clone(), named)
        } else {
            (Group { rule: None, schema: None, digest: None, ..*group }, None)
        };
        all.entry(group.clone()).or_insert_with(|| Arc::new(Tally::new(group, named))).clone()
    }

    /// All groups with their counts, in the order of their names.
    pub fn all(&self) -> Vec<(Group, Counts)> {
        let all = self.groups.read().unwrap_or_else(PoisonError::into_inner);
        let mut found: Vec<_> = all.iter().map(|(group, tally)| (group.clone(), tally.counts())).collect();
        drop(all);
        found.sort_by(|one, other| one.0.cmp(&other.0));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(digest: u64) -> Group {
        let (rule, schema) = (Some("a".into()), None);
        Group { cluster: ClusterId(0), rule, schema, digest: Some(digest) }
    }

    #[test]
    fn counts_of_threads_add_up() {
        let tallies = Tallies::default();
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| {
                    let tally = tallies.of(&group(1), Vec::new);
                    tally.hit(tallies.place(), 5, false);
                    tally.hit(tallies.place(), 5, true);
                    tally.count(Event::Refresh);
                });
            }
        });
        let counts = tallies.all()[0].1;
        assert_eq!((counts.hits, counts.stale, counts.saved_us), (40, 20, 200));
        assert_eq!((counts.of(Event::Refresh), counts.of(Event::Miss)), (20, 0));
    }

    #[test]
    fn events_are_numbered_in_their_order() {
        assert!(Event::ALL.iter().enumerate().all(|(at, event)| *event as usize == at));
    }

    #[test]
    fn tables_are_those_that_are_named_in_their_schemas() {
        let tallies = Tallies::default();
        let named =
            |schema: Option<&str>, table: &str| Named { schema: schema.map(Box::from), table: table.into() };
        let in_app = Group { schema: Some("app".into()), ..group(1) };
        let tally = tallies.of(&in_app, || vec![named(None, "T"), named(Some("other"), "u")]);
        for (schema, table, expected) in [
            (None, "t", true),
            (Some("app"), "t", true),
            (Some("other"), "t", false),
            (Some("other"), "u", true),
            (Some("app"), "u", false),
            (None, "v", false),
        ] {
            assert_eq!(tally.may_name_table(schema, table), expected, "{schema:?} {table}");
        }
        assert!(
            tally.may_name_schema("app") && tally.may_name_schema("other") && !tally.may_name_schema("ap")
        );
        let unknown = tallies.of(&Group { digest: None, ..in_app }, Vec::new);
        assert!(unknown.may_name_table(None, "v") && unknown.may_name_schema("x"), "who knows");
    }

    #[test]
    fn groups_are_bounded() {
        let tallies = Tallies::default();
        for digest in 0..3 * MOST as u64 {
            tallies.of(&group(digest), Vec::new).count(Event::Miss);
        }
        let all = tallies.all();
        assert_eq!(all.len(), MOST + 1);
        assert_eq!(all.iter().map(|(_, counts)| counts.of(Event::Miss)).sum::<u64>(), 3 * MOST as u64);
    }
}
