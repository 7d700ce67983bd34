//! The immutable view of the cluster that every worker reads.

use std::sync::Arc;
use std::time::Instant;

use delphinus_wire::Capabilities;

use crate::backend::{Backend, BackendId, Fault, Role};
use crate::decide::Contest;
use crate::facts::ServerFacts;
use crate::origin::Origin;
use crate::rest::{Pulse, Rest};

/// A backend as the configuration names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name in logs and commands; unique.
    pub name: Arc<str>,
    /// What it is for.
    pub role: Role,
    /// Share of the reads, 0 to 1000.
    pub weight: u32,
}

/// Which time in the role of the primary it is: a server that has had it before, and has it again, may have lost something meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Succession {
    /// Grows by one each time a server gets the role, also another one under the same name.
    pub number: u64,
    /// Since when it has the role. `None`: since this process began.
    pub since: Option<Instant>,
    /// A group has elected it, which may do that before it has done all that it has received.
    pub is_elected: bool,
    /// Which backend it is.
    of: Option<BackendId>,
}

impl Succession {
    /// This one has the role now.
    pub(crate) fn follow(&mut self, primary: Option<BackendId>, is_elected: bool, now: Instant) {
        if primary == self.of {
            return;
        }
        // The first one that is found was there before.
        let since = (self.number > 0).then_some(now);
        *self = if primary.is_some() {
            Self { number: self.number + 1, since, is_elected, of: primary }
        } else {
            Self { of: None, ..*self }
        };
    }

    /// The server that has the role is not the one that had it: another one has its name or its address.
    pub(crate) fn end(&mut self) {
        self.of = None;
    }
}

/// The cluster at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Grows by one with each change that a reader could see.
    pub generation: u64,
    /// All backends, where `BackendId` says; between them places without one: see [`Self::present`].
    pub backends: Vec<Backend>,
    /// What clients are told: the primary's, else those of the first backend that was heard. They stay when
    /// everything is down.
    pub facts: Option<Arc<ServerFacts>>,
    /// True once every configured backend was probed.
    pub settled: bool,
    /// Nothing was being written when the cluster was looked at last.
    pub rest: Option<Rest>,
    /// The primary tells what it has executed.
    pub tells_gtids: bool,
    /// Grows when another server becomes the primary, or the same one again.
    pub succession: Succession,
    pub(crate) pulse: Pulse,
    /// Why no backend has the role of the primary, if none has.
    pub(crate) no_primary: Option<Arc<str>>,
    pub(crate) contest: Contest,
    /// Members of the group that cannot be taken in.
    pub(crate) strangers: Vec<Arc<str>>,
}

impl Snapshot {
    /// The start: nothing is known of the members.
    pub fn new(members: Vec<Member>) -> Self {
        let backend = |(index, member): (usize, Member)| {
            let id =
                BackendId(u16::try_from(index).expect("invariant: the configuration allows fewer backends"));
            Backend::new(id, member.name, member.role, member.weight)
        };
        let backends: Vec<_> = members.into_iter().enumerate().map(backend).collect();
        let settled = backends.is_empty();
        let no_primary = (!backends.iter().any(|backend| backend.role == Role::Primary))
            .then(|| Arc::from("it is not known yet which backend is the primary"));
        Self {
            generation: 0,
            backends,
            facts: None,
            settled,
            rest: None,
            tells_gtids: false,
            succession: Succession::default(),
            pulse: Pulse::default(),
            no_primary,
            contest: Contest::default(),
            strangers: Vec::new(),
        }
    }

    /// The same with places for so many backends that are found later, whose share of the reads is `weight`.
    #[must_use]
    pub fn with_spares(mut self, spares: usize, weight: u32) -> Self {
        for index in self.backends.len()..self.backends.len() + spares {
            let id =
                BackendId(u16::try_from(index).expect("invariant: the configuration allows fewer backends"));
            let spare = Backend::new(id, "".into(), Role::Replica, weight);
            self.backends.push(Backend { origin: Origin::Spare, ..spare });
        }
        self
    }

    /// The backends that there are.
    pub fn present(&self) -> impl Iterator<Item = &Backend> {
        self.backends.iter().filter(|backend| backend.origin.is_present())
    }

    /// The backends of the configuration.
    pub(crate) fn configured(&self) -> impl Iterator<Item = &Backend> {
        self.backends.iter().filter(|backend| backend.origin == Origin::Configured)
    }

    /// The backend with this name.
    pub fn named(&self, name: &str) -> Option<&Backend> {
        self.present().find(|backend| *backend.name == *name)
    }

    /// The backend that new writes go to.
    ///
    /// # Errors
    /// Why there is none: no backend has the role, or the one that has it cannot be used.
    pub fn writer(&self) -> Result<&Backend, Arc<str>> {
        let Some(primary) = self.primary() else { return Err(self.why_no_primary()) };
        if primary.is_offline() {
            return Err(format!("the primary {} is set OFFLINE", primary.name).into());
        }
        match primary.health.reason() {
            None => Ok(primary),
            Some(reason) => {
                Err(format!("the primary {} is {}: {reason}", primary.name, primary.health.as_str()).into())
            }
        }
    }

    /// Why clients cannot be greeted, where only a human can change that: every backend was looked at, and all that live have refused the
    /// monitor's user, so that nobody knows what they are.
    pub fn why_unknown(&self) -> Option<String> {
        if self.facts.is_some() || !self.settled {
            return None;
        }
        let denied = self.present().find_map(|backend| match &backend.fault {
            Some(Fault::Denied(text)) => Some((&backend.name, text)),
            _ => None,
        });
        denied.map(|(name, text)| format!("the monitor's user cannot log in to {name}: {text}"))
    }

    /// Why `primary()` finds none.
    pub fn why_no_primary(&self) -> Arc<str> {
        self.no_primary.clone().unwrap_or_else(|| "there is no primary".into())
    }

    /// The backend that has the role of the primary, whatever its health. Where roles move, there is none while nobody knows
    /// for sure which one it is.
    #[inline]
    pub fn primary(&self) -> Option<&Backend> {
        self.backends.iter().find(|backend| backend.role == Role::Primary)
    }

    /// The `sql_mode` of sessions that set none: the primary's, or, until that is known, another backend's.
    pub fn sql_mode(&self) -> Option<&Arc<str>> {
        let of_primary = self.primary().and_then(|primary| primary.sql_mode.as_ref());
        of_primary.or_else(|| self.present().find_map(|backend| backend.sql_mode.as_ref()))
    }

    /// The replicas that may take reads: up, and not taken out of use.
    #[inline]
    pub fn readable_replicas(&self) -> impl Iterator<Item = &Backend> {
        self.backends.iter().filter(|backend| backend.is_readable_replica())
    }

    /// The backend with this id.
    #[inline]
    pub fn backend(&self, id: BackendId) -> Option<&Backend> {
        self.backends.get(id.index())
    }

    /// The capabilities that all backends heard so far have; none before one was heard. Those that are down
    /// count too, because they come back.
    pub fn common_capabilities(&self) -> Capabilities {
        let heard = self.backends.iter().filter_map(|backend| backend.capabilities);
        heard.reduce(|all, one| all & one).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn who_gets_the_role_back_has_it_for_another_time() {
        let start = Instant::now();
        let mut succession = Succession::default();
        let mut follow = |primary: Option<u16>, after: u64| {
            let now = start + Duration::from_secs(after);
            succession.follow(primary.map(BackendId), false, now);
            let since = succession.since.map(|since| since.duration_since(start).as_secs());
            (succession.number, since)
        };
        assert_eq!(follow(None, 1), (0, None));
        assert_eq!(follow(Some(0), 2), (1, None), "it was the primary before this process began");
        assert_eq!(follow(Some(0), 3), (1, None));
        assert_eq!(follow(Some(1), 4), (2, Some(4)));
        assert_eq!(follow(Some(1), 5), (2, Some(4)));
        assert_eq!(follow(Some(0), 6), (3, Some(6)));
        assert_eq!(follow(None, 7), (3, Some(6)));
        assert_eq!(follow(Some(0), 8), (4, Some(8)), "nobody knows what was between");
    }
}
