//! The turns, the weights, the loads, and what follows from time.

use std::sync::Arc;
use std::time::Instant;

use delphinus_topology::{Health, Member, Role};
use proptest::prelude::*;

use super::*;

/// A primary and replicas of these weights; `None` is one that is down.
fn cluster(replicas: &[Option<u32>]) -> Snapshot {
    let member = |role, weight| Member { name: "b".into(), role, weight };
    let mut members = vec![member(Role::Primary, 100)];
    members.extend(replicas.iter().map(|weight| member(Role::Replica, weight.unwrap_or(500))));
    let mut snapshot = Snapshot::new(members);
    let since = Instant::now();
    for (backend, weight) in snapshot.backends[1..].iter_mut().zip(replicas) {
        backend.health = match weight {
            Some(_) => Health::Up { since },
            None => Health::Down { since, reason: Arc::from("test") },
        };
    }
    snapshot
}

fn run(replicas: &[Option<u32>], avoid: &[BackendId], times: usize) -> Vec<Option<u16>> {
    let (snapshot, mut balance) = (cluster(replicas), Balance::default());
    (0..times)
        .map(|_| {
            balance
                .choose(&snapshot, 0, |backend| backend.is_readable_replica() && !avoid.contains(&backend.id))
                .map(|id| id.0)
        })
        .collect()
}

#[test]
fn equal_weights_take_turns() {
    assert_eq!(run(&[Some(100), Some(100), Some(100)], &[], 6), [1, 2, 3, 1, 2, 3].map(Some));
}

#[test]
fn unequal_weights_are_spread_evenly() {
    assert_eq!(run(&[Some(2), Some(1)], &[], 6), [1, 2, 1, 1, 2, 1].map(Some));
}

#[test]
fn those_down_or_to_be_avoided_are_left_out() {
    assert_eq!(run(&[Some(1), None, Some(1)], &[BackendId(1)], 3), [3, 3, 3].map(Some));
    assert_eq!(run(&[None, None], &[], 1), [None]);
    assert_eq!(run(&[Some(1)], &[BackendId(1)], 1), [None]);
    assert_eq!(run(&[], &[], 1), [None]);
}

#[test]
fn weight_zero_is_for_when_nothing_else_is_there() {
    assert_eq!(run(&[Some(0), Some(7), Some(0)], &[], 3), [2, 2, 2].map(Some));
    assert_eq!(run(&[Some(0), None, Some(0)], &[], 4), [1, 3, 1, 3].map(Some));
}

#[test]
fn a_replica_that_returns_is_not_made_to_catch_up() {
    let (with, without) = (cluster(&[Some(10), Some(10)]), cluster(&[Some(10), None]));
    let mut balance = Balance::default();
    for _ in 0..1001 {
        assert!(balance.choose(&without, 0, Backend::is_readable_replica).is_some());
    }
    let taken: Vec<_> =
        (0..10).filter_map(|_| balance.choose(&with, 0, Backend::is_readable_replica)).collect();
    assert_eq!(taken.iter().filter(|id| id.0 == 2).count(), 5);
}

proptest! {
    /// After any number of reads nobody is further than one read per replica from its exact share.
    #[test]
    fn shares_come_out_right(weights in prop::collection::vec(1_u32..=1000, 1..8), reads in 0_u32..3000) {
        let replicas: Vec<_> = weights.iter().copied().map(Some).collect();
        let taken = run(&replicas, &[], reads as usize);
        let (total, slack) = (weights.iter().map(|weight| u64::from(*weight)).sum::<u64>(), weights.len());
        for (index, weight) in (1_u16..).zip(&weights) {
            let count = taken.iter().filter(|id| **id == Some(index)).count() as u64;
            // Multiplied by the total, so that nothing is rounded.
            let (got, due) = (count * total, u64::from(reads) * u64::from(*weight));
            prop_assert!(got.abs_diff(due) <= slack as u64 * total, "{count} reads on replica {index}");
        }
    }
}
