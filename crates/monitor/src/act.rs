//! The only code that changes a backend's state: takes observations in, logs what changed, and publishes.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use delphinus_topology::{
    Answer, BackendId, Event, Fault, Observation, ProbeOutcome, Snapshot, Wish, decide,
};
use tracing::{error, info, warn};

use delphinus_view::Positions;
use delphinus_view::Publisher;

/// The monitor's own copy of the cluster, which also holds what readers need not see.
#[derive(Debug)]
pub(crate) struct Actor {
    snapshot: Snapshot,
    settings: Rc<crate::Settings>,
    publisher: Publisher,
    positions: Arc<Positions>,
    /// What was said last of the primary's GTIDs.
    told_gtids: Option<bool>,
}

/// What observations have led to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Changes {
    /// Readers could see a difference.
    pub(crate) is_news: bool,
    /// A backend is in another state, or the roles have moved.
    pub(crate) has_moved: bool,
}

impl Actor {
    pub(crate) fn new(
        snapshot: Snapshot,
        settings: Rc<crate::Settings>,
        publisher: Publisher,
        positions: Arc<Positions>,
    ) -> Self {
        Self { snapshot, settings, publisher, positions, told_gtids: None }
    }

    /// What holds now.
    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Decides on the observations; readers hear of it only if they could see a difference.
    pub(crate) fn act(&mut self, observations: &[Observation], now: Instant) -> Changes {
        let before = self.snapshot.generation;
        self.learn_positions(observations);
        // Moved in and out: with thousands of backends a copy for each answer would be most of the work.
        let snapshot = std::mem::replace(&mut self.snapshot, Snapshot::new(Vec::new()));
        let (next, events) = decide(snapshot, observations, &self.settings.rules(), now);
        self.snapshot = next;
        let is_news = self.snapshot.generation != before;
        if is_news {
            self.publisher.publish(self.snapshot.clone());
        }
        for event in &events {
            self.log(event);
        }
        self.log_gtids();
        Changes { is_news, has_moved: events.iter().any(is_move) }
    }

    /// Whether sessions can be sure to read what they have written: said where they cannot, and when they can again.
    fn log_gtids(&mut self) {
        let Some(primary) = self.snapshot.primary().filter(|primary| primary.facts.is_some()) else { return };
        let tells = self.snapshot.tells_gtids;
        match self.told_gtids.replace(tells) {
            told if told == Some(tells) || told.is_none() && tells => {}
            _ if tells => info!(backend = &*primary.name, "the primary reports its GTIDs again"),
            _ => warn!(
                backend = &*primary.name,
                "the primary reports no GTIDs: a read on a replica may be older than what its session has written, \
                 unless consistency is set (MySQL: gtid_mode=ON, MariaDB: log_bin)"
            ),
        }
    }

    fn learn_positions(&self, observations: &[Observation]) {
        for observation in observations {
            match observation {
                Observation::Probe { backend, outcome: ProbeOutcome::Answered(answer), .. } => {
                    if self.is_another(*backend, answer) {
                        self.positions.begin_anew(*backend);
                    }
                    self.positions.learn(*backend, answer.position.as_ref());
                }
                Observation::Moved { backend, .. } | Observation::Listed { backend, member: None, .. } => {
                    self.positions.begin_anew(*backend);
                }
                _ => {}
            }
        }
    }

    /// True if another server answers than the one that was there before, by what both have told.
    fn is_another(&self, backend: BackendId, answer: &Answer) -> bool {
        let known = self.snapshot.backend(backend).and_then(|known| known.identity.clone());
        known.zip(answer.told_identity()).is_some_and(|(known, told)| !known.is_same(&told))
    }

    fn log(&self, event: &Event) {
        match event {
            Event::Up { backend, down_for } => {
                let (name, role) = self.describe(*backend);
                let found = self.snapshot.backend(*backend);
                if found.is_some_and(|found| matches!(found.fault, Some(Fault::Denied(_)))) {
                    warn!(
                        backend = name,
                        role, "backend is alive, but the monitor's user cannot log in to probe it"
                    );
                    return;
                }
                let facts = found.and_then(|backend| backend.facts.as_ref());
                let version = facts.map(|facts| facts.version.as_str());
                let down_ms = down_for.map(|time| time.as_millis() as u64);
                info!(backend = name, role, version, down_ms, "backend is up");
            }
            Event::Down { backend, reason } => {
                let (name, role) = self.describe(*backend);
                warn!(backend = name, role, reason = &**reason, "backend is down");
            }
            Event::Out { backend, state, reason } => {
                let (name, role) = self.describe(*backend);
                warn!(backend = name, role, state, reason = &**reason, "backend gets no statements");
            }
            Event::Added { .. }
            | Event::Removed { .. }
            | Event::Found { .. }
            | Event::Left { .. }
            | Event::Ignored { .. } => self.log_member(event),
            Event::Moved { backend, to } => {
                let (name, role) = self.describe(*backend);
                warn!(backend = name, role, address = %to, "the name of a backend resolves to another address now");
            }
            Event::Primary { backend, before } => {
                let (name, _) = self.describe(*backend);
                let before = before.map(|before| self.describe(before).0);
                warn!(backend = name, before, "backend is the primary");
            }
            Event::NoPrimary { reason, is_conflict: true } => {
                error!(reason = &**reason, "writes are stopped: there are two writers");
            }
            Event::NoPrimary { reason, is_conflict: false } => {
                warn!(reason = &**reason, "writes are stopped: there is no primary");
            }
            Event::Faulty { backend, fault } => {
                let (name, role) = self.describe(*backend);
                error!(
                    backend = name,
                    role,
                    fault = fault.kind(),
                    reason = fault.text(),
                    "backend has a fault"
                );
            }
            Event::Sound { backend } => {
                let (name, role) = self.describe(*backend);
                info!(backend = name, role, "the fault of a backend is over");
            }
            Event::Wished { backend, wish } => self.log_wish(*backend, *wish),
            Event::Released { backend, wish } => {
                let (name, role) = self.describe(*backend);
                let wish = if wish.is_offline() { "offline" } else { "online" };
                info!(
                    backend = name,
                    role, wish, "a move has released a backend: it is as an operator has set it"
                );
            }
        }
    }

    /// An operator's word, or a part of a move.
    fn log_wish(&self, backend: BackendId, wish: Wish) {
        let (name, role) = self.describe(backend);
        match wish {
            Wish::Online => warn!(backend = name, role, wish = "online", "an operator has set a backend"),
            Wish::Offline { .. } => {
                warn!(backend = name, role, wish = "offline", "an operator has set a backend");
            }
            Wish::Held { .. } => {
                warn!(backend = name, role, "the proxy moves the role of a backend: new transactions wait");
            }
            Wish::GivenUp { .. } => {
                warn!(backend = name, role, "the proxy gives a backend up: another one takes its role");
            }
        }
    }

    /// Which servers are backends has changed.
    fn log_member(&self, event: &Event) {
        match event {
            Event::Added { backend } => {
                info!(backend = self.describe(*backend).0, "a backend was added to the configuration");
            }
            Event::Removed { backend } => {
                info!(backend = self.describe(*backend).0, "a backend was removed from the configuration");
            }
            Event::Found { backend, by } => {
                let (name, _) = self.describe(*backend);
                warn!(backend = name, by = &**by, "found a backend");
            }
            Event::Left { backend, reason } => {
                let (name, _) = self.describe(*backend);
                warn!(backend = name, reason = &**reason, "a backend that was found has left");
            }
            Event::Ignored { address, reason } => {
                warn!(address = &**address, reason, "a server of the cluster cannot be a backend");
            }
            _ => {}
        }
    }

    fn describe(&self, id: BackendId) -> (&str, &'static str) {
        self.snapshot.backend(id).map_or(("?", "?"), |backend| (&*backend.name, backend.role.as_str()))
    }
}

/// True if others may be what they were not before, or are about to be.
fn is_move(event: &Event) -> bool {
    match event {
        Event::Moved { .. }
        | Event::Down { .. }
        | Event::Out { .. }
        | Event::Primary { .. }
        | Event::NoPrimary { .. } => true,
        Event::Up { .. }
        | Event::Faulty { .. }
        | Event::Sound { .. }
        | Event::Wished { .. }
        | Event::Released { .. }
        | Event::Added { .. }
        | Event::Removed { .. }
        | Event::Found { .. }
        | Event::Left { .. }
        | Event::Ignored { .. } => false,
    }
}
