//! Filters of the operator: what happens with dangerous statements.
//!
//! Owns: which filter is responsible for a risk. One that names the user is stronger than one for all; of several such ones the
//! strictest decides. Their order means nothing. Must not know how a statement is refused.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use delphinus_sql::{Class, Risks, Statement};

/// All filters. Shared by all workers, for the sake of their counts.
#[derive(Debug, Default)]
pub struct Filters(Vec<Filter>);

/// One filter.
#[derive(Debug)]
pub struct Filter {
    /// Its name.
    pub name: Arc<str>,
    /// What it is about.
    pub risks: Risks,
    /// What happens with it.
    pub action: FilterAction,
    /// What happens with statements that may do any of it.
    pub unseen: FilterAction,
    /// Whom it is about; empty: everybody.
    pub users: Vec<String>,
    counts: Arc<Counts>,
}

/// What a filter does with a statement, from the mildest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FilterAction {
    /// Nothing.
    Off,
    /// It is logged.
    Log,
    /// It is refused.
    Reject,
}

/// Why a statement is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filtered {
    /// The name of the filter.
    pub filter: Arc<str>,
    /// What it is about.
    pub risk: Risks,
}

impl fmt::Display for Filtered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the filter {:?} refuses the statement: {}", self.filter, self.risk.text())
    }
}

/// What has come of a filter, also as it was before the configuration changed.
#[derive(Debug, Default)]
struct Counts {
    logged: AtomicU64,
    rejected: AtomicU64,
}

/// What all filters together say for one user: all that an ordinary statement is compared with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Guard {
    log: Risks,
    reject: Risks,
}

impl Guard {
    /// True if a statement with these risks has to be looked at.
    #[inline]
    pub fn concerns(self, risks: Risks) -> bool {
        risks.intersects(self.log.union(self.reject))
    }

    /// True if the statement has to be looked at. What EXECUTE runs is not in its text, also where nobody fears what is not seen.
    #[inline]
    pub fn looks_at(self, statement: &Statement) -> bool {
        self.concerns(statement.risks) || statement.class == Class::Execute && self != Self::default()
    }

    /// True if one with these risks is refused.
    pub fn refuses(self, risks: Risks) -> bool {
        risks.intersects(self.reject)
    }
}

impl Filter {
    /// A filter that nothing has met yet.
    pub fn new(
        name: Arc<str>,
        (risks, users): (Risks, Vec<String>),
        (action, unseen): (FilterAction, FilterAction),
    ) -> Self {
        Self { name, risks, action, unseen, users, counts: Arc::default() }
    }

    /// The same, whose counts go on from those of one of the same name.
    #[must_use]
    pub fn counting_on(self, known: &Self) -> Self {
        Self { counts: known.counts.clone(), ..self }
    }

    /// How many statements it has logged.
    pub fn logged(&self) -> u64 {
        self.counts.logged.load(Ordering::Relaxed)
    }

    /// How many it has refused.
    pub fn rejected(&self) -> u64 {
        self.counts.rejected.load(Ordering::Relaxed)
    }

    /// Counts a statement that it has met.
    pub fn count(&self, action: FilterAction) {
        match action {
            FilterAction::Off => {}
            FilterAction::Log => _ = self.counts.logged.fetch_add(1, Ordering::Relaxed),
            FilterAction::Reject => _ = self.counts.rejected.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// What it says about one risk.
    fn action_for(&self, risk: Risks) -> FilterAction {
        if risk == Risks::UNSEEN { self.unseen } else { self.action }
    }

    /// The strongest decides.
    fn strength(&self) -> (bool, FilterAction) {
        (!self.users.is_empty(), self.action)
    }

    fn is_for(&self, user: &str) -> bool {
        self.users.is_empty() || self.users.iter().any(|one| one == user)
    }
}

impl Filters {
    /// These.
    pub fn new(filters: Vec<Filter>) -> Self {
        Self(filters)
    }

    /// They.
    pub fn iter(&self) -> impl Iterator<Item = &Filter> {
        self.0.iter()
    }

    /// The one with this name.
    pub fn named(&self, name: &str) -> Option<&Filter> {
        self.0.iter().find(|filter| *filter.name == *name)
    }

    /// What they say for a user.
    pub fn guard(&self, user: &str) -> Guard {
        let mut guard = Guard::default();
        if self.0.is_empty() {
            return guard;
        }
        for risk in Risks::all() {
            match self.responsible(user, risk).map(|filter| filter.action_for(risk)) {
                Some(FilterAction::Log) => guard.log |= risk,
                Some(FilterAction::Reject) => guard.reject |= risk,
                Some(FilterAction::Off) | None => {}
            }
        }
        guard
    }

    /// The filter that decides about a statement with these risks, what it is about, and what it does: the strictest, over all risks.
    pub fn verdict(&self, user: &str, risks: Risks) -> Option<(&Filter, Risks, FilterAction)> {
        let mut found: Option<(&Filter, Risks, FilterAction)> = None;
        for risk in Risks::all().filter(|risk| risks.intersects(*risk)) {
            let Some(filter) = self.responsible(user, risk) else { continue };
            let action = filter.action_for(risk);
            if action > found.map_or(FilterAction::Off, |(_, _, action)| action) {
                found = Some((filter, risk, action));
            }
        }
        found
    }

    /// Why a statement with these risks is refused, if it is.
    pub fn refusal(&self, user: &str, risks: Risks) -> Option<Filtered> {
        let (filter, risk, action) = self.verdict(user, risks)?;
        (action == FilterAction::Reject).then(|| Filtered { filter: filter.name.clone(), risk })
    }

    /// The filter that decides about one risk.
    fn responsible(&self, user: &str, risk: Risks) -> Option<&Filter> {
        let concerned = self.0.iter().filter(|filter| filter.is_for(user));
        if risk != Risks::UNSEEN {
            let about = concerned.filter(|filter| filter.risks.intersects(risk));
            return about.max_by_key(|filter| filter.strength());
        }
        // One that does nothing about all that it names has nothing to fear from what cannot be seen.
        let acts = |filter: &&Filter| {
            Risks::all().any(|risk| {
                risk != Risks::UNSEEN
                    && filter.risks.intersects(risk)
                    && self.responsible(user, risk).is_some_and(|one| one.strength() == filter.strength())
                    && filter.action > FilterAction::Off
            })
        };
        concerned.filter(acts).max_by_key(|filter| filter.unseen)
    }
}

#[cfg(test)]
mod tests {
    use delphinus_sql::{LexOptions, classify};

    use super::*;

    fn filter(name: &str, risks: Risks, users: &[&str], actions: (FilterAction, FilterAction)) -> Filter {
        Filter::new(name.into(), (risks, users.iter().map(ToString::to_string).collect()), actions)
    }

    #[test]
    fn the_user_is_stronger_than_all_and_the_strictest_decides() {
        use FilterAction::{Log, Off, Reject};
        let filters = Filters::new(vec![
            filter("ddl", Risks::CHANGES_SCHEMA | Risks::SLEEPS, &[], (Reject, Reject)),
            filter("migrations", Risks::CHANGES_SCHEMA, &["m", "n"], (Off, Off)),
            filter("watch n", Risks::CHANGES_SCHEMA, &["n"], (Log, Log)),
            filter("sleepers", Risks::SLEEPS, &[], (Log, Log)),
        ]);
        let name = |user: &str, risks: Risks| {
            filters.verdict(user, risks).map(|(filter, _, action)| (filter.name.to_string(), action))
        };
        assert_eq!(name("app", Risks::CHANGES_SCHEMA), Some(("ddl".into(), Reject)));
        assert_eq!(name("m", Risks::CHANGES_SCHEMA), None);
        assert_eq!(name("n", Risks::CHANGES_SCHEMA), Some(("watch n".into(), Log)));
        assert_eq!(name("app", Risks::SLEEPS), Some(("ddl".into(), Reject)));
        assert_eq!(name("n", Risks::SLEEPS | Risks::CHANGES_SCHEMA), Some(("ddl".into(), Reject)));
        assert_eq!(name("app", Risks::SETS_GLOBAL), None);
        assert_eq!(name("app", Risks::UNSEEN), Some(("ddl".into(), Reject)));
        assert!(filters.guard("app").refuses(Risks::CHANGES_SCHEMA));
        assert!(!filters.guard("m").concerns(Risks::CHANGES_SCHEMA));
        assert!(filters.guard("m").refuses(Risks::SLEEPS) && filters.guard("m").refuses(Risks::UNSEEN));
        assert!(filters.guard("n").concerns(Risks::CHANGES_SCHEMA));
        assert!(!filters.guard("n").refuses(Risks::CHANGES_SCHEMA));
        assert!(!filters.guard("app").concerns(Risks::SETS_GLOBAL));
        assert_eq!(Filters::default().guard("app"), Guard::default());
    }

    #[test]
    fn what_is_not_seen_is_as_bad_as_what_is_refused() {
        use FilterAction::{Log, Off, Reject};
        let filters = Filters::new(vec![
            filter("all", Risks::SLEEPS, &[], (Reject, Reject)),
            filter("trusted", Risks::SLEEPS, &["t"], (Off, Off)),
            filter("lenient", Risks::SLEEPS, &["l"], (Reject, Off)),
            filter("watched", Risks::SLEEPS, &["w"], (Reject, Log)),
        ]);
        assert!(filters.guard("app").refuses(Risks::UNSEEN));
        // Nothing is refused to this one.
        assert!(!filters.guard("t").concerns(Risks::UNSEEN));
        assert!(!filters.guard("l").concerns(Risks::UNSEEN) && filters.guard("l").refuses(Risks::SLEEPS));
        assert!(filters.guard("w").concerns(Risks::UNSEEN) && !filters.guard("w").refuses(Risks::UNSEEN));
        // The text that EXECUTE runs may be known.
        let runs_text = classify(b"EXECUTE s", LexOptions::default());
        assert!(filters.guard("l").looks_at(&runs_text) && !filters.guard("t").looks_at(&runs_text));
        assert!(!filters.guard("l").looks_at(&classify(b"CALL p", LexOptions::default())));
    }
}
