//! MySQL's sets: for each source, and each tag of it since 8.3, intervals of numbers.

use std::collections::BTreeMap;
use std::fmt;

use super::{BadGtidSet, join};
use crate::binlog::MySqlGtid;

/// Transactions by source and tag.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GtidIntervals(pub(super) BTreeMap<Source, Vec<Interval>>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Source {
    /// The 32 digits of the uuid, without hyphens.
    pub(super) uuid: u128,
    /// In lower case; empty where there is none.
    pub(super) tag: Box<str>,
}

impl Source {
    /// Allocates nothing where there is no tag. With one it does: a walk over all tags of the uuid would not, and a set may have very
    /// many of them.
    fn of(gtid: &MySqlGtid) -> Self {
        Self { uuid: gtid.uuid, tag: gtid.tag.as_str().into() }
    }
}

/// First and last number, both in it. Those of one source are sorted and do not touch.
pub(super) type Interval = (u64, u64);

/// Tags have at most this many characters.
const LONGEST_TAG: usize = 32;

impl GtidIntervals {
    /// Reads `uuid:1-5:7, uuid:tag:1-3`; white space may stand around the parts.
    pub fn parse(text: &str) -> Result<Self, BadGtidSet> {
        let mut set = Self::default();
        for one in text.split(',').map(str::trim).filter(|one| !one.is_empty()) {
            set.read_source(one)?;
        }
        // Once, at the end: texts may have them in any order.
        set.0.values_mut().for_each(join_all);
        Ok(set)
    }

    /// Reads one source's part; its intervals are not in order yet.
    fn read_source(&mut self, text: &str) -> Result<(), BadGtidSet> {
        let mut parts = text.split(':').map(str::trim);
        let uuid = read_uuid(parts.next().ok_or(BadGtidSet)?)?;
        let mut tag = "".into();
        let mut is_bare = true;
        for part in parts {
            if part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
                tag = read_tag(part)?;
                is_bare = true;
            } else {
                let interval = read_interval(part)?;
                self.0.entry(Source { uuid, tag: tag.clone() }).or_default().push(interval);
                is_bare = false;
            }
        }
        if is_bare { Err(BadGtidSet) } else { Ok(()) }
    }

    /// True if nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many intervals it has.
    pub fn parts(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    /// True if all of `part` is in it.
    pub fn contains(&self, part: &Self) -> bool {
        part.0.iter().all(|(source, wanted)| {
            let own = self.0.get(source).map(Vec::as_slice).unwrap_or_default();
            wanted.iter().all(|(first, last)| {
                let after = own.partition_point(|(begin, _)| begin <= first);
                after > 0 && own[after - 1].1 >= *last
            })
        })
    }

    /// True if of each source of `earlier` there is something in this, and that has higher numbers.
    pub fn is_after(&self, earlier: &Self) -> bool {
        earlier.0.iter().all(|(source, theirs)| {
            let first = self.0.get(source).and_then(|own| own.first());
            first.zip(theirs.last()).is_some_and(|(own, theirs)| own.0 > theirs.1)
        })
    }

    /// What is in this one and not in `other`.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let rest = |(source, own): (&Source, &Vec<Interval>)| {
            let taken = other.0.get(source).map(Vec::as_slice).unwrap_or_default();
            let left: Vec<_> = own.iter().flat_map(|interval| cut(*interval, taken)).collect();
            (!left.is_empty()).then(|| (source.clone(), left))
        };
        Self(self.0.iter().filter_map(rest).collect())
    }

    /// Without those of this source; all of it where the text is no uuid.
    #[must_use]
    pub fn without_source(&self, uuid: &str) -> Self {
        let Ok(uuid) = read_uuid(uuid) else { return self.clone() };
        let others = self.0.iter().filter(|(source, _)| source.uuid != uuid);
        Self(others.map(|(source, intervals)| (source.clone(), intervals.clone())).collect())
    }

    /// Adds one transaction.
    pub fn insert(&mut self, gtid: &MySqlGtid) {
        add(self.0.entry(Source::of(gtid)).or_default(), (gtid.number, gtid.number));
    }

    /// True if this transaction is in it.
    pub fn has(&self, gtid: &MySqlGtid) -> bool {
        let Some(own) = self.0.get(&Source::of(gtid)) else { return false };
        let after = own.partition_point(|(first, _)| *first <= gtid.number);
        after > 0 && own[after - 1].1 >= gtid.number
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (source, intervals) in &other.0 {
            let own = self.0.entry(source.clone()).or_default();
            if let [interval] = intervals[..] {
                add(own, interval);
            } else {
                own.extend_from_slice(intervals);
                join_all(own);
            }
        }
    }
}

/// With hyphens.
pub fn uuid_text(uuid: u128) -> String {
    let digits = format!("{uuid:032x}");
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

fn read_uuid(text: &str) -> Result<u128, BadGtidSet> {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    if digits.len() != 32 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(BadGtidSet);
    }
    u128::from_str_radix(&digits, 16).map_err(|_| BadGtidSet)
}

fn read_tag(text: &str) -> Result<Box<str>, BadGtidSet> {
    let is_tag = text.len() <= LONGEST_TAG && text.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_');
    if is_tag { Ok(text.to_ascii_lowercase().into()) } else { Err(BadGtidSet) }
}

fn read_interval(text: &str) -> Result<Interval, BadGtidSet> {
    let number = |text: &str| text.trim().parse::<u64>().ok().filter(|number| *number > 0).ok_or(BadGtidSet);
    match text.split_once('-') {
        None => number(text).map(|one| (one, one)),
        Some((first, last)) => {
            let interval = (number(first)?, number(last)?);
            if interval.0 <= interval.1 { Ok(interval) } else { Err(BadGtidSet) }
        }
    }
}

/// What is left of an interval without those that are `taken`, which are in order.
fn cut((first, last): Interval, taken: &[Interval]) -> Vec<Interval> {
    let mut left = Vec::new();
    let mut next = Some(first);
    let from = taken.partition_point(|(_, end)| *end < first);
    for &(begin, end) in &taken[from..] {
        let Some(at) = next.filter(|at| *at <= last && begin <= last) else { break };
        if begin > at {
            left.push((at, begin - 1));
        }
        next = end.checked_add(1);
    }
    left.extend(next.filter(|at| *at <= last).map(|at| (at, last)));
    left
}

/// Adds an interval, and joins those that overlap or follow one another.
pub(super) fn add(intervals: &mut Vec<Interval>, (first, last): Interval) {
    // The usual case: the next transaction of a source, or one behind all others.
    match intervals.last_mut() {
        Some(end) if end.1.checked_add(1) == Some(first) => {
            end.1 = last;
            return;
        }
        Some(end) if end.1 >= first => {}
        _ => return intervals.push((first, last)),
    }
    let is_before = |&(_, end): &Interval| end.checked_add(1).is_some_and(|next| next < first);
    let is_reached = |&(begin, _): &Interval| last.checked_add(1).is_none_or(|next| begin <= next);
    let met = intervals.partition_point(is_before)..intervals.partition_point(is_reached);
    let joined = match &intervals[met.clone()] {
        [] => (first, last),
        [one] => (first.min(one.0), last.max(one.1)),
        [one, .., other] => (first.min(one.0), last.max(other.1)),
    };
    intervals.splice(met, [joined]);
}

/// Puts intervals in order, and joins those that overlap or follow one another.
fn join_all(intervals: &mut Vec<Interval>) {
    intervals.sort_unstable();
    intervals.dedup_by(|next, one| {
        let touches = one.1.checked_add(1).is_none_or(|after| next.0 <= after);
        if touches {
            one.1 = one.1.max(next.1);
        }
        touches
    });
}

impl fmt::Display for GtidIntervals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        join(&self.0, f, |source, intervals, f| {
            f.write_str(&uuid_text(source.uuid))?;
            if !source.tag.is_empty() {
                write!(f, ":{}", source.tag)?;
            }
            intervals.iter().try_for_each(|&(first, last)| {
                if first == last { write!(f, ":{first}") } else { write!(f, ":{first}-{last}") }
            })
        })
    }
}
