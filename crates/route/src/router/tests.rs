//! The table of rules, and that nothing but a free read reaches a replica.

use std::sync::Arc;
use std::time::Instant;

use delphinus_sql::{Access, LexOptions, Why, classify};
use delphinus_state::PinReason;
use delphinus_topology::{Backend, BackendId, Health, Member, Role, Snapshot};
use proptest::prelude::*;

use super::*;

const READ: Intent<'static> = Intent {
    access: Access::Read,
    why: Why::PlainRead,
    in_transaction: false,
    autocommit_off: false,
    pinned: None,
    avoid: &[],
    wish: None,
    scope: Scope::Usual,
};

/// Health of the replicas: `u` up, `d` down, `?` unknown.
fn cluster(replicas: &str) -> Snapshot {
    let member = |role| Member { name: "b".into(), role, weight: 100 };
    let mut members = vec![member(Role::Primary)];
    members.extend(replicas.chars().map(|_| member(Role::Replica)));
    let mut snapshot = Snapshot::new(members);
    let since = Instant::now();
    for (backend, health) in snapshot.backends[1..].iter_mut().zip(replicas.chars()) {
        backend.health = match health {
            'u' => Health::Up { since },
            'd' => Health::Down { since, reason: Arc::from("test") },
            _ => Health::Unknown,
        };
    }
    snapshot
}

#[test]
fn the_first_rule_that_matches_wins() {
    let pinned = Some(PinReason::TemporaryTable);
    let write = Intent { access: Access::Write, why: Why::LockingRead, ..READ };
    let (one, primary) = (Target::Replica(BackendId(1)), Target::Primary);
    let avoided: &[BackendId] = &[BackendId(1)];
    let cases = [
        (READ, "uu", one, Reason::Read),
        (READ, "du", Target::Replica(BackendId(2)), Reason::Read),
        (READ, "?u", Target::Replica(BackendId(2)), Reason::Read),
        (Intent { avoid: avoided, ..READ }, "uu", Target::Replica(BackendId(2)), Reason::Read),
        (Intent { avoid: avoided, ..READ }, "ud", primary, Reason::NoReplica),
        (READ, "", primary, Reason::NoReplica),
        (READ, "d?", primary, Reason::NoReplica),
        (write, "uu", primary, Reason::Write(Why::LockingRead)),
        (Intent { in_transaction: true, ..READ }, "uu", primary, Reason::InTransaction),
        (Intent { in_transaction: true, ..write }, "uu", primary, Reason::InTransaction),
        (Intent { autocommit_off: true, ..READ }, "uu", primary, Reason::AutocommitOff),
        (Intent { autocommit_off: true, ..write }, "uu", primary, Reason::AutocommitOff),
        (Intent { pinned, ..READ }, "uu", primary, Reason::Pinned(PinReason::TemporaryTable)),
        (
            Intent { pinned, in_transaction: true, autocommit_off: true, ..write },
            "uu",
            primary,
            Reason::Pinned(PinReason::TemporaryTable),
        ),
    ];
    for (intent, replicas, target, reason) in cases {
        let plan = plan(&intent, &cluster(replicas), &mut Balance::default());
        assert_eq!(plan, Plan { target, reason }, "{intent:?} with {replicas:?}");
    }
}

#[test]
fn every_reason_has_words_of_its_own() {
    let reasons = [
        Reason::Pinned(PinReason::Cursor),
        Reason::InTransaction,
        Reason::AutocommitOff,
        Reason::Write(Why::Ddl),
        Reason::Read,
        Reason::NoReplica,
    ];
    let distinct = |word: fn(Reason) -> &'static str| {
        reasons.iter().map(|reason| word(*reason)).collect::<std::collections::HashSet<_>>().len()
    };
    assert_eq!((distinct(Reason::as_str), distinct(Reason::kind)), (reasons.len(), reasons.len()));
}

/// Statements, and whether a replica may see them at all: written down here, so that it does not depend on what
/// the classifier says.
const STATEMENTS: &[(&str, bool)] = &[
    ("SELECT a FROM t WHERE id = 1", true),
    ("(SELECT a FROM t) UNION (SELECT b FROM u)", true),
    ("WITH c AS (SELECT 1) SELECT * FROM c", true),
    ("SELECT a FROM t FOR UPDATE", false),
    ("SELECT a FROM t LOCK IN SHARE MODE", false),
    ("SELECT GET_LOCK('x', 1)", false),
    ("SELECT a INTO @x FROM t", false),
    ("SELECT LAST_INSERT_ID()", false),
    ("WITH c AS (SELECT 1) DELETE FROM t", false),
    ("INSERT INTO t VALUES (1)", false),
    ("UPDATE t SET a = 1", false),
    ("SET autocommit = 0", false),
    ("BEGIN", false),
    ("CALL p()", false),
    ("SELECT 1; DELETE FROM t", false),
    ("/*! DELETE FROM t */", false),
    ("nonsense", false),
    ("", false),
];

fn pin() -> impl Strategy<Value = Option<PinReason>> {
    prop::option::weighted(
        0.2,
        prop::sample::select(vec![PinReason::TableLock, PinReason::Cursor, PinReason::UnknownState]),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn only_free_reads_reach_a_replica_that_is_up(
        (sql, may_move) in prop::sample::select(STATEMENTS),
        (in_transaction, autocommit_off) in any::<(bool, bool)>(),
        pinned in pin(),
        replicas in "[ud?]{0,5}",
        avoid in prop::collection::vec((0_u16..7).prop_map(BackendId), 0..3),
        times in 1_usize..5,
    ) {
        let statement = classify(sql.as_bytes(), LexOptions::default());
        let (access, why) = (statement.access, statement.why);
        let intent = Intent { access, why, in_transaction, autocommit_off, pinned, avoid: &avoid, ..READ };
        let (snapshot, mut balance) = (cluster(&replicas), Balance::default());
        for _ in 0..times {
            match plan(&intent, &snapshot, &mut balance) {
                Plan { target: Target::Replica(id), reason } => {
                    prop_assert_eq!(reason, Reason::Read);
                    prop_assert!(!in_transaction && !autocommit_off && pinned.is_none());
                    prop_assert!(access == Access::Read && may_move, "{sql} on a replica");
                    prop_assert!(!avoid.contains(&id));
                    let is_right = snapshot.backend(id).is_some_and(Backend::is_readable_replica);
                    prop_assert!(is_right, "{id:?} is no replica that is up");
                }
                Plan { target: Target::Primary, reason } => prop_assert_ne!(reason, Reason::Read),
            }
        }
    }
}
