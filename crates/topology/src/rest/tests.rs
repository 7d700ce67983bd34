//! Histories of probes, and whether the cluster is at rest after them.

use std::time::{Duration, Instant};

use super::*;
use crate::{Member, Observation, ProbeOutcome, Role, ServerFacts, Settings, decide};

struct Bench {
    snapshot: Snapshot,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        let member = |(name, role): (&str, Role)| Member { name: name.into(), role, weight: 1 };
        let members = [("p", Role::Primary), ("r1", Role::Replica), ("r2", Role::Replica)].map(member);
        Self { snapshot: Snapshot::new(members.into()), now: Instant::now() }
    }

    fn see(&mut self, backend: u16, outcome: ProbeOutcome) -> Option<Rest> {
        self.now += Duration::from_secs(1);
        let seen = Observation::Probe { backend: BackendId(backend), at: self.now, outcome };
        let settings = Settings { fall: 1, rise: 1, ..Settings::default() };
        self.snapshot = decide(self.snapshot.clone(), &[seen], &settings, self.now).0;
        self.snapshot.rest
    }

    fn probe(&mut self, backend: u16, position: &str, writes: Option<u64>) -> Option<Rest> {
        let position = (!position.is_empty()).then(|| Arc::new(GtidSet::parse(position).unwrap()));
        let bare = Answer::bare(ServerFacts::bare("8.0.36").into(), backend > 0);
        self.see(backend, ProbeOutcome::Answered(Answer { position, writes, ..bare }))
    }
}

#[test]
fn two_equal_positions_without_a_write_between_are_a_rest() {
    let mut bench = Bench::new();
    bench.probe(1, "0-1-5", None);
    bench.probe(2, "0-1-4", None);
    assert_eq!(bench.probe(0, "0-1-5", Some(7)), None);
    assert!(bench.snapshot.tells_gtids);
    assert_eq!(bench.probe(0, "0-1-5", Some(7)), Some(Rest { writes: 7, is_even: false }));
    assert_eq!(bench.probe(2, "0-1-5", None), Some(Rest { writes: 7, is_even: true }));
    // Somebody else writes; then a write of ours is running.
    assert_eq!(bench.probe(0, "0-1-6", Some(7)), None);
    assert_eq!(bench.probe(0, "0-1-6", None), None);
    assert_eq!(bench.probe(0, "0-1-6", Some(8)), Some(Rest { writes: 8, is_even: false }));
}

#[test]
fn another_delphinus_may_have_kept_what_is_older() {
    let mut bench = Bench::new();
    let facts = ServerFacts { is_delphinus: true, ..ServerFacts::bare("8.0.36") };
    let position = Some(Arc::new(GtidSet::parse("0-1-5").unwrap()));
    bench.see(1, ProbeOutcome::Answered(Answer { position, ..Answer::bare(facts.into(), true) }));
    bench.probe(2, "0-1-5", None);
    bench.probe(0, "0-1-5", Some(1));
    assert_eq!(bench.probe(0, "0-1-5", Some(1)), Some(Rest { writes: 1, is_even: false }));
}

#[test]
fn a_replica_that_is_down_does_not_count_until_it_is_back() {
    let mut bench = Bench::new();
    for (backend, position) in [(1, "0-1-5"), (2, "0-1-2"), (0, "0-1-5")] {
        bench.probe(backend, position, Some(1));
    }
    assert_eq!(bench.probe(0, "0-1-5", Some(1)), Some(Rest { writes: 1, is_even: false }));
    assert_eq!(bench.see(2, ProbeOutcome::Refused("gone".into())), Some(Rest { writes: 1, is_even: true }));
    assert_eq!(bench.probe(2, "0-1-3", None), Some(Rest { writes: 1, is_even: false }));
}

#[test]
fn without_the_primary_or_its_position_there_is_no_rest() {
    let mut bench = Bench::new();
    for _ in 0..2 {
        bench.probe(1, "0-1-5", None);
        bench.probe(2, "0-1-5", None);
        bench.probe(0, "0-1-5", Some(0));
    }
    assert!(bench.snapshot.rest.is_some());
    assert_eq!(bench.see(0, ProbeOutcome::Refused("gone".into())), None);
    assert!(bench.snapshot.tells_gtids, "it will tell again");
    assert_eq!(bench.probe(0, "", Some(0)), None);
    assert_eq!(bench.probe(0, "", Some(0)), None);
    assert!(!bench.snapshot.tells_gtids);
}

/// It lives, and others may write there: nobody can see that any more.
#[test]
fn a_primary_that_cannot_be_asked_ends_the_rest_until_it_has_told_twice_again() {
    let rest = Some(Rest { writes: 3, is_even: true });
    for failure in [
        ProbeOutcome::Denied("Access denied for user 'monitor'".into()),
        ProbeOutcome::Full("Too many connections".into()),
    ] {
        let mut bench = Bench::new();
        for _ in 0..2 {
            for backend in [1, 2, 0] {
                bench.probe(backend, "0-1-5", Some(3));
            }
        }
        assert_eq!(bench.snapshot.rest, rest);
        assert_eq!(bench.see(1, failure.clone()), rest, "{failure:?} of a replica");
        assert_eq!(bench.see(0, failure.clone()), None, "{failure:?}");
        assert!(bench.snapshot.primary().is_some_and(Backend::is_up) && bench.snapshot.tells_gtids);
        assert_eq!(bench.probe(0, "0-1-5", Some(3)), None, "{failure:?}");
        assert_eq!(bench.probe(0, "0-1-5", Some(3)), rest, "{failure:?}");
    }
}

/// Found step by step, it is what a look at all replicas would find.
#[test]
fn the_search_finds_what_a_look_at_everybody_does() {
    let mut state = 7_u64;
    let mut below = move |limit: u64| {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % limit
    };
    let (mut bench, mut written, mut seen) = (Bench::new(), 5_u64, [0_u32; 2]);
    let mut positions = [5_u64; 3];
    for step in 0..5_000 {
        let backend = below(3) as u16;
        if below(12) == 0 {
            written += 1;
        }
        let own = &mut positions[usize::from(backend)];
        // A replica may also be set back.
        *own = if backend == 0 { written } else { (*own + below(3)).min(written) - below(40) / 39 };
        let told = if below(30) == 0 {
            bench.see(backend, ProbeOutcome::Refused("gone".into()))
        } else {
            bench.probe(backend, &format!("0-1-{own}"), Some(written))
        };
        let Some(rest) = told else { continue };
        let position = bench.snapshot.backends[0].position.clone().unwrap();
        let has_all = |one: &crate::Backend| one.position.as_ref().is_some_and(|own| own.contains(&position));
        assert_eq!(rest.is_even, bench.snapshot.readable_replicas().all(has_all), "step {step}");
        seen[usize::from(rest.is_even)] += 1;
    }
    assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
}
