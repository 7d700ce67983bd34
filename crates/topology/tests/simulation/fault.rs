//! Mistakes that the code under test could make, made on purpose: the properties have to find each of them.

use delphinus_topology::{Backend, BackendId, Health, Observation, Origin, Role, Snapshot};

use crate::world::Style;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Of two writable backends the first is taken.
    TakesTheFirst,
    /// The same, and the other is fenced.
    FencesTheSecond,
    /// A primary that lost its role keeps it.
    KeepsTheOld,
    /// A fenced backend is used like any other.
    NeverFences,
    /// An old primary that comes back is the primary again.
    CrownsWhoReturns,
    /// A member without the majority keeps the writes.
    TrustsTheMinority,
    /// A member that its group has left behind is read from.
    KeepsTheExpelled,
    /// How far replicas are behind is not looked at.
    IgnoresLag,
    /// When the primary dies, its replicas look late, and are left out.
    DropsReplicas,
    /// One backend's answers are never taken in.
    GoesDeaf,
    /// Something changes all the time.
    NeverRests,
    /// Whoever the primary names is read from.
    BelievesThePrimary,
    /// One that was found and takes writes is the primary when that is away.
    CrownsWhoIsFound,
    /// Those that were found go when the primary dies.
    ForgetsWithThePrimary,
    /// A backend that is removed stays.
    KeepsTheRemoved,
    /// One that is added and takes writes is used although there is a primary.
    TrustsTheAdded,
}

impl Fault {
    pub(crate) const ALL: &[Self] = &[
        Self::TakesTheFirst,
        Self::FencesTheSecond,
        Self::KeepsTheOld,
        Self::NeverFences,
        Self::CrownsWhoReturns,
        Self::TrustsTheMinority,
        Self::KeepsTheExpelled,
        Self::IgnoresLag,
        Self::DropsReplicas,
        Self::GoesDeaf,
        Self::NeverRests,
        Self::BelievesThePrimary,
        Self::CrownsWhoIsFound,
        Self::ForgetsWithThePrimary,
        Self::KeepsTheRemoved,
        Self::TrustsTheAdded,
    ];

    pub(crate) fn style(self) -> Style {
        let is_groups = matches!(self, Self::TrustsTheMinority | Self::KeepsTheExpelled);
        if is_groups { Style::Group } else { Style::ReadOnly }
    }

    /// Part of what the property says that finds it.
    pub(crate) fn says(self) -> &'static [&'static str] {
        match self {
            Self::TakesTheFirst => &["two writers"],
            Self::FencesTheSecond => &["is lost to", "which is behind"],
            Self::NeverFences => &["two writers", "does not settle"],
            Self::CrownsWhoReturns => &["two writers", "writes go back", "2 primaries", "does not settle"],
            Self::KeepsTheOld => &["which is read_only", "two writers"],
            Self::TrustsTheMinority => {
                &["in the minority", "which is read_only", "not elected", "two writers"]
            }
            Self::KeepsTheExpelled => &["which its group goes on without"],
            Self::IgnoresLag => &["which is behind"],
            Self::DropsReplicas => &["has lost its reads"],
            Self::GoesDeaf => &["has settled"],
            Self::NeverRests => &["does not settle"],
            Self::BelievesThePrimary => &["and nobody knows it"],
            Self::CrownsWhoIsFound => &["writes go to"],
            Self::ForgetsWithThePrimary => &["has left without a reason"],
            Self::KeepsTheRemoved => &["was removed, and is there"],
            Self::TrustsTheAdded => &["two writers", "writes go back"],
        }
    }

    /// Before the code under test sees them.
    pub(crate) fn tamper(self, observations: &mut Vec<Observation>) {
        if self == Self::GoesDeaf {
            observations.retain(|observation| observation.backend().index() != 1);
        }
        if self == Self::KeepsTheRemoved {
            observations.retain(|one| !matches!(one, Observation::Listed { member: None, .. }));
        }
    }

    /// After it has decided.
    pub(crate) fn spoil(self, snapshot: &mut Snapshot, before: &Snapshot) {
        let writable = |snapshot: &Snapshot| {
            let found =
                snapshot.backends.iter().find(|one| one.facts.is_some() && !one.read_only && one.is_up());
            found.map(|one| one.id)
        };
        match self {
            Self::TakesTheFirst if snapshot.primary().is_none() => {
                if let Some(id) = writable(snapshot) {
                    snapshot.backends[id.index()].role = Role::Primary;
                }
            }
            Self::FencesTheSecond if snapshot.primary().is_none() => {
                let Some(first) = writable(snapshot).and_then(|id| snapshot.backend(id).cloned()) else {
                    return;
                };
                for backend in &mut snapshot.backends {
                    let lacks = match (&first.position, &backend.position) {
                        (Some(all), Some(part)) => !all.contains(part),
                        _ => false,
                    };
                    if let (false, true, Health::Up { since }) =
                        (backend.read_only, lacks, backend.health.clone())
                    {
                        backend.health = Health::Fenced { since, reason: "it is the second".into() };
                        snapshot.backends[first.id.index()].role = Role::Primary;
                        return;
                    }
                }
            }
            Self::KeepsTheOld | Self::TrustsTheMinority if snapshot.primary().is_none() => {
                if let Some(old) = before.primary() {
                    snapshot.backends[old.id.index()].role = Role::Primary;
                }
            }
            Self::CrownsWhoReturns => {
                let fenced = snapshot.backends.iter().find(|one| one.is_fenced()).map(|one| one.id);
                if let Some(id) = fenced {
                    for backend in &mut snapshot.backends {
                        let is_it = backend.id == id;
                        backend.role = if is_it { Role::Primary } else { Role::Replica };
                        if let (true, Some(since)) = (is_it, backend.health.since()) {
                            backend.health = Health::Up { since };
                        }
                    }
                }
            }
            Self::NeverFences | Self::IgnoresLag | Self::KeepsTheExpelled | Self::TrustsTheAdded => {
                self.revive(snapshot);
            }
            Self::DropsReplicas if snapshot.primary().is_none_or(|primary| primary.health.is_down()) => {
                for backend in &mut snapshot.backends {
                    if let (Role::Replica, Health::Up { since }) = (backend.role, backend.health.clone()) {
                        backend.health = Health::Lagging { since, reason: "it says nothing".into() };
                    }
                }
            }
            Self::NeverRests => snapshot.generation += 1,
            _ => self.spoil_found(snapshot),
        }
    }

    /// What concerns those that were found.
    fn spoil_found(self, snapshot: &mut Snapshot) {
        match self {
            Self::BelievesThePrimary => {
                let now = snapshot.backends.iter().find_map(|one| one.health.since());
                for backend in snapshot.backends.iter_mut().filter(|one| one.origin.found().is_some()) {
                    if let (Health::Unknown, Some(since)) = (&backend.health, now) {
                        backend.health = Health::Up { since };
                    }
                }
            }
            Self::CrownsWhoIsFound if snapshot.primary().is_none_or(|primary| primary.health.is_down()) => {
                let found = writable_one_that_was_found(snapshot);
                if let Some(id) = found {
                    for backend in &mut snapshot.backends {
                        backend.role = if backend.id == id { Role::Primary } else { Role::Replica };
                    }
                }
            }
            Self::ForgetsWithThePrimary
                if snapshot.primary().is_some_and(|primary| primary.health.is_down()) =>
            {
                for backend in &mut snapshot.backends {
                    if let Origin::Found(found) = &backend.origin {
                        backend.origin = Origin::Left(found.clone());
                    }
                }
            }
            _ => {}
        }
    }

    fn revive(self, snapshot: &mut Snapshot) {
        for backend in &mut snapshot.backends {
            match backend.health {
                Health::Fenced { since, .. } if self == Self::NeverFences => {
                    backend.health = Health::Up { since }
                }
                Health::Fenced { since, ref reason }
                    if self == Self::TrustsTheAdded && reason.contains("it was added while") =>
                {
                    backend.health = Health::Up { since }
                }
                Health::Shunned { since, .. } if self == Self::KeepsTheExpelled => {
                    backend.health = Health::Up { since }
                }
                Health::Lagging { since, .. } if self == Self::IgnoresLag => {
                    backend.health = Health::Up { since }
                }
                _ => {}
            }
        }
    }
}

fn writable_one_that_was_found(snapshot: &Snapshot) -> Option<BackendId> {
    let is_it = |one: &&Backend| one.origin.found().is_some() && one.facts.is_some() && !one.read_only;
    snapshot.backends.iter().find(is_it).map(|one| one.id)
}
