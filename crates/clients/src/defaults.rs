//! What sessions began with, of that which SET GLOBAL has changed since. Owns what is remembered of that, in one cluster; but for the
//! `sql_mode`, which says how texts are read, nothing is kept before the first SET GLOBAL. Which variables this is done for, and what a
//! session does with them, is `session`'s.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use delphinus_net::rt;
use delphinus_pool::Epoch;

/// The variable that says how texts are read.
pub const SQL_MODE: &str = "sql_mode";

/// Of each variable so many former values are remembered, and none that is longer.
const MOST_VALUES: usize = 8;
const LONGEST: usize = 2 << 10;

/// What SET GLOBAL has changed.
#[derive(Debug, Default)]
pub struct Defaults {
    /// The epoch of the last change.
    latest: AtomicU64,
    changed: ArcSwap<Vec<Variable>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Variable {
    name: Box<str>,
    /// With which value sessions have begun before these epochs.
    before: Vec<(Epoch, Box<[u8]>)>,
    /// And since.
    now: Box<[u8]>,
    /// When a SET GLOBAL has passed that has set it.
    set: Option<Instant>,
}

impl Defaults {
    /// True if sessions of this epoch may have begun with other values.
    #[inline]
    pub fn is_before(&self, epoch: Epoch) -> bool {
        epoch < self.latest()
    }

    /// The epoch of the last change.
    pub fn latest(&self) -> Epoch {
        Epoch(self.latest.load(Ordering::Acquire))
    }

    /// From this epoch on a variable has another value: `own` is what the connection began with that has changed it, if that can be told.
    pub fn learn(&self, name: &str, epoch: Epoch, (own, now): (Option<&[u8]>, &[u8])) {
        if own.unwrap_or_default().len().max(now.len()) > LONGEST {
            return;
        }
        self.changed.rcu(|changed| {
            let mut changed = Vec::clone(changed);
            take_in(&mut changed, name, epoch, (own, now));
            changed
        });
        self.latest.fetch_max(epoch.0, Ordering::AcqRel);
    }

    /// It was found out with which value sessions begin: how that was before, if it was otherwise, makes no difference to them.
    pub fn found(&self, name: &str, now: &[u8]) {
        self.changed.rcu(|changed| {
            let mut changed = Vec::clone(changed);
            match changed.iter_mut().find(|variable| *variable.name == *name) {
                Some(known) => known.now = now.into(),
                None => changed.push(Variable::new(name, now)),
            }
            changed
        });
    }

    /// With which value sessions begin now, if that is known.
    pub fn now(&self, name: &str) -> Option<Box<[u8]>> {
        let changed = self.changed.load();
        changed.iter().find(|variable| *variable.name == *name).map(|variable| variable.now.clone())
    }

    /// A SET GLOBAL of this variable has passed, and what it has changed was learnt.
    pub fn has_passed(&self, name: &str) {
        let now = rt::now();
        self.changed.rcu(|changed| {
            let mut changed = Vec::clone(changed);
            let known = changed.iter_mut().find(|variable| *variable.name == *name);
            if let Some(known) = known {
                known.set = Some(now);
            }
            changed
        });
    }

    /// How long ago a SET GLOBAL of this variable has passed, if one has.
    pub fn since_set(&self, name: &str) -> Option<Duration> {
        let changed = self.changed.load();
        let set = changed.iter().find(|variable| *variable.name == *name)?.set?;
        Some(rt::now().saturating_duration_since(set))
    }

    /// What a session of this epoch began with, where later ones begin with something else.
    pub fn of(&self, epoch: Epoch) -> Vec<(Box<str>, Box<[u8]>)> {
        let changed = self.changed.load();
        let values = changed.iter().filter_map(|variable| {
            let (_, value) = variable.before.iter().find(|(until, _)| epoch < *until)?;
            Some((variable.name.clone(), value.clone()))
        });
        values.collect()
    }
}

impl Variable {
    fn new(name: &str, now: &[u8]) -> Self {
        Self { name: name.into(), before: Vec::new(), now: now.into(), set: None }
    }
}

fn take_in(changed: &mut Vec<Variable>, name: &str, epoch: Epoch, (own, now): (Option<&[u8]>, &[u8])) {
    let known = changed.iter_mut().find(|variable| *variable.name == *name);
    let Some(known) = known else {
        if let Some(own) = own.filter(|own| *own != now) {
            let before = vec![(epoch, own.into())];
            changed.push(Variable { before, ..Variable::new(name, now) });
        }
        return;
    };
    if *known.now == *now {
        return;
    }
    let before = std::mem::replace(&mut known.now, now.into());
    if known.before.len() == MOST_VALUES {
        // Sessions that run for very long, and new ones, are more than those between.
        known.before.remove(1);
    }
    known.before.push((epoch, before));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_have_what_they_began_with() {
        let defaults = Defaults::default();
        assert!(!defaults.is_before(Epoch(0)));
        let learn = |epoch, own: Option<&str>, now: &str| {
            defaults.learn("sql_mode", Epoch(epoch), (own.map(str::as_bytes), now.as_bytes()));
        };
        let of = |epoch| {
            defaults.of(Epoch(epoch)).pop().map(|(_, value)| String::from_utf8_lossy(&value).into_owned())
        };
        learn(3, None, "a");
        assert_eq!(of(2), None, "nobody knows");
        learn(4, Some("a"), "a");
        assert_eq!(of(2), None, "it is what it was");
        learn(5, Some("a"), "b");
        learn(7, Some("its own"), "c");
        let found: Vec<_> = [4, 5, 6, 7].map(of).into_iter().map(Option::unwrap_or_default).collect();
        assert_eq!(found, ["a", "b", "b", ""]);
        assert!(defaults.is_before(Epoch(6)) && !defaults.is_before(Epoch(7)));
        for epoch in 8..1000 {
            learn(epoch, None, &epoch.to_string());
        }
        assert_eq!(of(4).unwrap(), "a", "of the oldest");
        assert_eq!((of(997).unwrap(), of(998).unwrap()), ("997".to_owned(), "998".to_owned()));
        assert_eq!(defaults.changed.load()[0].before.len(), MOST_VALUES);
    }

    #[test]
    fn what_sessions_begin_with_is_known_before_the_first_change() {
        let defaults = Defaults::default();
        let of = |epoch| {
            defaults.of(Epoch(epoch)).pop().map(|(_, value)| String::from_utf8_lossy(&value).into_owned())
        };
        assert_eq!(defaults.now(SQL_MODE), None);
        defaults.found(SQL_MODE, b"a");
        assert_eq!((defaults.now(SQL_MODE).as_deref(), of(0)), (Some(&b"a"[..]), None));
        assert!(!defaults.is_before(Epoch(0)) && defaults.since_set(SQL_MODE).is_none());
        defaults.learn(SQL_MODE, Epoch(3), (None, b"b"));
        assert_eq!((of(2).unwrap(), of(3)), ("a".to_owned(), None));
        assert!(defaults.is_before(Epoch(2)) && !defaults.is_before(Epoch(3)));
        defaults.has_passed(SQL_MODE);
        assert!(defaults.since_set(SQL_MODE).is_some());
    }
}
