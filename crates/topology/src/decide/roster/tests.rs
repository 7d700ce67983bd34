//! Backends that are added and removed, and what follows for roles and reads.

use std::time::{Duration, Instant};

use super::super::tests::{answered, settings};
use super::super::{Event, Kind, decide};
use crate::backend::{BackendId, Role};
use crate::observation::Observation;
use crate::origin::Origin;
use crate::snapshot::{Member, Snapshot};

struct Bench {
    snapshot: Snapshot,
    kind: Kind,
    now: Instant,
}

impl Bench {
    /// A primary and a replica that have been seen often enough.
    fn new(kind: Kind) -> Self {
        let members = [("b0", Role::Primary), ("b1", Role::Replica)];
        let snapshot = Snapshot::new(members.map(|(name, role)| member(name, role, 100)).into());
        let mut bench = Self { snapshot, kind, now: Instant::now() };
        for _ in 0..3 {
            bench.probe(0, false);
            bench.probe(1, true);
        }
        assert_eq!(bench.primary(), Some(0));
        bench
    }

    fn see(&mut self, observation: Observation) -> Vec<Event> {
        let snapshot = std::mem::replace(&mut self.snapshot, Snapshot::new(Vec::new()));
        let (next, events) = decide(snapshot, &[observation], &settings(self.kind), self.now);
        self.snapshot = next;
        events
    }

    fn probe(&mut self, id: u16, read_only: bool) -> Vec<Event> {
        self.now += Duration::from_secs(1);
        let outcome = answered(read_only);
        self.see(Observation::Probe { backend: BackendId(id), at: self.now, outcome })
    }

    fn list(&mut self, id: u16, member: Option<Member>) -> Vec<Event> {
        self.now += Duration::from_secs(1);
        self.see(Observation::Listed { backend: BackendId(id), at: self.now, member })
    }

    fn primary(&self) -> Option<u16> {
        self.snapshot.primary().map(|primary| primary.id.0)
    }

    fn readable(&self) -> Vec<u16> {
        self.snapshot.readable_replicas().map(|one| one.id.0).collect()
    }
}

fn member(name: &str, role: Role, weight: u32) -> Member {
    Member { name: name.into(), role, weight }
}

#[test]
fn one_that_is_added_is_used_once_it_was_seen_and_not_after_it_was_removed() {
    for kind in [Kind::Static, Kind::ReadOnly] {
        let mut bench = Bench::new(kind);
        let added = bench.list(2, Some(member("b2", Role::Replica, 7)));
        assert_eq!(added, [Event::Added { backend: BackendId(2) }]);
        assert_eq!((bench.primary(), bench.readable()), (Some(0), vec![1]), "nothing is known of it");
        assert!(bench.list(2, Some(member("b2", Role::Replica, 7))).is_empty(), "the same again is no news");
        bench.probe(2, true);
        bench.probe(2, true);
        assert_eq!((bench.readable(), bench.snapshot.backends[2].weight), (vec![1, 2], 7));
        bench.list(2, Some(member("b2", Role::Replica, 9)));
        assert_eq!((bench.readable(), bench.snapshot.backends[2].weight), (vec![1, 2], 9));
        let before = bench.snapshot.generation;
        assert_eq!(bench.list(2, None), [Event::Removed { backend: BackendId(2) }]);
        assert!(bench.snapshot.generation > before && bench.snapshot.settled);
        assert_eq!((bench.primary(), bench.readable()), (Some(0), vec![1]));
        // What was seen of it before does not come back with it.
        bench.probe(2, true);
        assert_eq!(bench.snapshot.backends[2].origin, Origin::Vacant);
        bench.list(2, Some(member("b2", Role::Replica, 7)));
        assert_eq!(bench.readable(), [1]);
    }
}

#[test]
fn one_that_is_added_and_takes_writes_does_not_stop_those_of_the_primary() {
    let mut bench = Bench::new(Kind::ReadOnly);
    bench.list(2, Some(member("b2", Role::Replica, 100)));
    for _ in 0..5 {
        bench.probe(2, false);
        bench.probe(0, false);
        assert_eq!((bench.primary(), bench.readable()), (Some(0), vec![1]));
    }
    assert!(bench.snapshot.backends[2].is_fenced());
    // Once it was seen as a replica, roles may move to it as to any other.
    bench.probe(2, true);
    bench.probe(2, true);
    assert_eq!(bench.readable(), [1, 2]);
    bench.probe(0, true);
    bench.probe(2, false);
    assert_eq!(bench.primary(), Some(2));
}

#[test]
fn configured_roles_move_with_the_configuration() {
    let mut bench = Bench::new(Kind::Static);
    bench.list(0, Some(member("b0", Role::Replica, 100)));
    assert_eq!(&*bench.snapshot.why_no_primary(), "the configuration names no primary");
    let moved = bench.list(1, Some(member("b1", Role::Primary, 100)));
    assert_eq!(moved, [Event::Primary { backend: BackendId(1), before: None }]);
    assert_eq!((bench.primary(), bench.readable()), (Some(1), vec![0]));
    // In the other order.
    let moved = bench.list(0, Some(member("b0", Role::Primary, 100)));
    assert_eq!(moved, [Event::Primary { backend: BackendId(0), before: Some(BackendId(1)) }]);
    assert_eq!((bench.primary(), bench.readable()), (Some(0), vec![1]));
    bench.list(0, None);
    assert_eq!(bench.primary(), None);
    assert!(bench.snapshot.why_no_primary().contains("the primary, b0, is no backend now"));
}

#[test]
fn elsewhere_roles_are_what_is_seen() {
    let mut bench = Bench::new(Kind::ReadOnly);
    assert!(bench.list(1, Some(member("b1", Role::Primary, 100))).is_empty());
    assert_eq!(bench.primary(), Some(0));
}
