//! The table of rules, and that nothing but a free read reaches a replica.

use std::sync::Arc;
use std::time::Instant;

use delphinus_sql::{Access, Flavor, LexOptions, Why, classify};
use delphinus_state::PinReason;
use delphinus_topology::{Backend, BackendId, Health, Member, Role, Snapshot};
use proptest::prelude::*;

use super::*;
use crate::{InReadOnly, Policy, Progress, ReadBalance, in_read_only, is_for_readers, runs_behind_last};

const READ: Intent<'static> = Intent {
    access: Access::Read,
    why: Why::PlainRead,
    in_transaction: false,
    autocommit_off: false,
    pinned: None,
    avoid: &[],
    behind: &[],
    wish: None,
    scope: Scope::Usual,
    text: 0,
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
        (Intent { behind: avoided, ..READ }, "uu", Target::Replica(BackendId(2)), Reason::Read),
        (Intent { behind: avoided, ..READ }, "ud", primary, Reason::Consistency),
        (Intent { behind: avoided, ..READ }, "dd", primary, Reason::NoReplica),
        (Intent { behind: avoided, avoid: avoided, ..READ }, "ud", primary, Reason::NoReplica),
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
        assert_eq!((plan.target, plan.reason), (target, reason), "{intent:?} with {replicas:?}");
    }
}

/// Backends 1 and 2 are replicas.
const SECOND: &[BackendId] = &[BackendId(2)];
const PRIMARY_ALONE: &[BackendId] = &[BackendId(0)];

/// Hint, then `primary_preferred`, then `read_primary_percentage`; no usable replica: the primary.
#[test]
fn who_is_asked_first() {
    use Place::{Among, Primary as Main, Replica};
    let (one, primary) = (Target::Replica(BackendId(1)), Target::Primary);
    let two = Target::Replica(BackendId(2));
    let preferred = Policy { primary_preferred: true, ..Policy::default() };
    let all = Policy { read_primary_percentage: 100, ..Policy::default() };
    let none = Policy::default();
    let (hint, rule) = (|place| Some(Wish::Hint(place)), |place| Some(Wish::Rule(place)));
    let cases = [
        (none, None, "uu", one, Reason::Read),
        (all, None, "uu", primary, Reason::ReadShare),
        (preferred, None, "uu", primary, Reason::PrimaryPreferred),
        (Policy { primary_preferred: true, ..all }, None, "uu", primary, Reason::PrimaryPreferred),
        (preferred, hint(Replica), "uu", one, Reason::Hint),
        (all, hint(Replica), "uu", one, Reason::Hint),
        (all, rule(Replica), "uu", one, Reason::Rule),
        (none, hint(Main), "uu", primary, Reason::Hint),
        (none, rule(Main), "uu", primary, Reason::Rule),
        (all, hint(Among(SECOND)), "uu", two, Reason::Hint),
        (all, rule(Among(SECOND)), "uu", two, Reason::Rule),
        (none, rule(Among(PRIMARY_ALONE)), "uu", primary, Reason::Rule),
        // What is wished for is not there.
        (none, hint(Among(SECOND)), "ud", one, Reason::Hint),
        (preferred, rule(Among(SECOND)), "ud", primary, Reason::PrimaryPreferred),
        (all, hint(Among(SECOND)), "ud", primary, Reason::ReadShare),
        (none, hint(Replica), "dd", primary, Reason::NoReplica),
        (none, rule(Among(SECOND)), "dd", primary, Reason::NoReplica),
        (none, None, "dd", primary, Reason::NoReplica),
    ];
    for (policy, wish, replicas, target, reason) in cases {
        let mut snapshot = cluster(replicas);
        let up = |snapshot: &mut Snapshot| snapshot.backends[0].health = Health::Up { since: Instant::now() };
        up(&mut snapshot);
        let found = plan(&Intent { wish, ..READ }, &snapshot, &mut Balance::new(policy));
        assert_eq!((found.target, found.reason), (target, reason), "{policy:?} {wish:?} with {replicas:?}");
        // Nothing that is wished for moves a write, or a transaction that may write.
        for held in [
            Intent { wish, access: Access::Write, why: Why::LockingRead, ..READ },
            Intent { wish, in_transaction: true, ..READ },
            Intent { wish, autocommit_off: true, ..READ },
            Intent { wish, pinned: Some(PinReason::TableLock), ..READ },
        ] {
            let found = plan(&held, &snapshot, &mut Balance::new(policy));
            assert_eq!(found.target, Target::Primary, "{held:?}");
        }
    }
    // A primary that is down, or has just failed, takes no reads that only prefer it.
    for policy in [preferred, all] {
        let snapshot = cluster("u");
        assert_eq!(plan(&READ, &snapshot, &mut Balance::new(policy)).target, one);
        let mut snapshot = cluster("u");
        snapshot.backends[0].health = Health::Up { since: Instant::now() };
        let intent = Intent { avoid: PRIMARY_ALONE, ..READ };
        assert_eq!(plan(&intent, &snapshot, &mut Balance::new(policy)).target, one);
    }
}

#[test]
fn a_listener_and_a_transaction_that_cannot_write() {
    let begin = Intent { access: Access::Write, why: Why::Transaction, ..READ };
    let (reading, writing) = (Scope::Replicas, Scope::Primary);
    let ro = Scope::ReadOnlyTransaction;
    let (one, primary) = (Target::Replica(BackendId(1)), Target::Primary);
    let two = Target::Replica(BackendId(2));
    let cases = [
        (Intent { scope: writing, ..READ }, primary, Reason::Listener),
        (Intent { scope: writing, ..begin }, primary, Reason::Write(Why::Transaction)),
        (Intent { scope: reading, ..READ }, one, Reason::Listener),
        (Intent { scope: reading, wish: Some(Wish::Hint(Place::Primary)), ..READ }, one, Reason::Listener),
        // Of the replicas it is the one that is named; never the primary.
        (
            Intent { scope: reading, wish: Some(Wish::Rule(Place::Among(SECOND))), ..READ },
            two,
            Reason::Listener,
        ),
        (
            Intent { scope: reading, wish: Some(Wish::Hint(Place::Among(SECOND))), ..begin },
            two,
            Reason::Listener,
        ),
        (
            Intent { scope: reading, wish: Some(Wish::Hint(Place::Among(PRIMARY_ALONE))), ..READ },
            one,
            Reason::Listener,
        ),
        (Intent { scope: reading, ..begin }, one, Reason::Listener),
        (Intent { scope: ro, ..begin }, one, Reason::ReadOnlyTransaction),
        (Intent { scope: ro, autocommit_off: true, ..READ }, one, Reason::ReadOnlyTransaction),
        (Intent { scope: ro, in_transaction: true, ..begin }, primary, Reason::InTransaction),
        (
            Intent { scope: ro, wish: Some(Wish::Hint(Place::Primary)), ..begin },
            primary,
            Reason::Write(Why::Transaction),
        ),
        (
            Intent { scope: ro, wish: Some(Wish::Hint(Place::Replica)), ..begin },
            one,
            Reason::ReadOnlyTransaction,
        ),
    ];
    for (intent, target, reason) in cases {
        let mut snapshot = cluster("uu");
        snapshot.backends.iter_mut().for_each(|backend| backend.read_only = true);
        let found = plan(&intent, &snapshot, &mut Balance::default());
        assert_eq!((found.target, found.reason), (target, reason), "{intent:?}");
    }
    // A replica that takes writes itself gets nothing but plain reads.
    let found = plan(&Intent { scope: ro, ..begin }, &cluster("uu"), &mut Balance::default());
    assert_eq!(found.target, primary);
}

/// Whatever a statement does first: what locks or writes is nothing for a listener for reading, nor for a replica.
#[test]
fn what_comes_first_hides_nothing() {
    for sql in [
        "SELECT @@version, a FROM t FOR UPDATE",
        "SELECT LAST_INSERT_ID(), a FROM t LOCK IN SHARE MODE",
        "SELECT a INTO @x FROM t FOR SHARE",
        "SELECT @@version INTO OUTFILE '/tmp/x'",
        "SELECT f(a), IS_FREE_LOCK('l') FROM t",
        "WITH q AS (SELECT @@version AS v) DELETE FROM t WHERE a IN (SELECT v FROM q)",
        // A server that is newer than the proxy knows runs it.
        "SELECT @@version /*!99999 INTO OUTFILE '/tmp/x' */",
        "SELECT @@version, $$ FOR UPDATE $$",
        // These run, and write.
        "ANALYZE UPDATE t SET a = 1",
        "EXPLAIN ANALYZE DELETE FROM t",
        "SET DEFAULT ROLE r TO u",
    ] {
        let statement = classify(sql.as_bytes(), LexOptions::default());
        assert!(!is_for_readers(&statement), "{sql}");
        let progress = Progress { has_read: true, lists_changes: true };
        assert_ne!(in_read_only(&statement, progress), InReadOnly::Run, "{sql}");
    }
}

#[test]
fn a_comment_that_is_read_as_the_server_runs_it_keeps_no_look_from_readers() {
    for (sql, why) in [
        ("SELECT /*!40001 SQL_NO_CACHE */ @@version", Why::SystemVariable),
        ("SELECT /*!40001 SQL_NO_CACHE */ a FROM t", Why::VersionComment),
        ("SELECT @@version /*!99999 , 1 */", Why::VersionComment),
        // No version of MySQL runs it.
        ("SELECT @@version /*M! FOR UPDATE */", Why::SystemVariable),
    ] {
        let statement = classify(sql.as_bytes(), LexOptions::default());
        assert_eq!(statement.why, why, "{sql}");
        assert_eq!(is_for_readers(&statement), why == Why::SystemVariable, "{sql}");
        assert!(!statement.is_of_session, "{sql}");
    }
}

#[test]
fn what_asks_of_the_statement_before_runs_on_a_replica_if_it_only_reads() {
    for (sql, may) in [
        ("SELECT FOUND_ROWS()", true),
        ("SHOW WARNINGS", true),
        ("SET @a = ROW_COUNT()", true),
        ("DO ROW_COUNT()", true),
        ("SELECT ROW_COUNT() FROM t FOR UPDATE", false),
        ("SELECT ROW_COUNT() FROM t LOCK IN SHARE MODE", false),
        ("SELECT GET_LOCK('a', ROW_COUNT())", false),
        ("CALL p(ROW_COUNT())", false),
        ("INSERT INTO t VALUES (ROW_COUNT())", false),
        ("SELECT FOUND_ROWS(), NEXTVAL(s)", false),
        ("DO SETVAL(s, ROW_COUNT())", false),
        ("SELECT FOUND_ROWS(), IS_FREE_LOCK('a')", false),
        ("SELECT ROW_COUNT() INTO OUTFILE '/tmp/x'", false),
        ("SET GLOBAL max_connections = ROW_COUNT()", false),
        ("SELECT FOUND_ROWS(), @@version /*!999999 INTO OUTFILE '/tmp/x' */", false),
        ("SET PASSWORD = PASSWORD('x')", false),
    ] {
        let mariadb = LexOptions { flavor: Flavor::MariaDb, ..LexOptions::default() };
        let statement = classify(sql.as_bytes(), mariadb);
        assert_eq!(runs_behind_last(&statement, sql.as_bytes()), may, "{sql}");
    }
}

#[test]
fn the_primary_has_its_share_at_every_moment() {
    for percentage in [0, 1, 25, 33, 50, 99, 100] {
        let mut snapshot = cluster("uu");
        snapshot.backends[0].health = Health::Up { since: Instant::now() };
        let mut balance = Balance::new(Policy { read_primary_percentage: percentage, ..Policy::default() });
        let mut on_primary = 0;
        for reads in 1..=1_000_u32 {
            on_primary += u32::from(plan(&READ, &snapshot, &mut balance).target == Target::Primary);
            let due = reads * u32::from(percentage);
            assert!(due.abs_diff(on_primary * 100) < 100, "{percentage}: {on_primary} of {reads}");
        }
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
        Reason::Hint,
        Reason::Rule,
        Reason::PrimaryPreferred,
        Reason::ReadShare,
        Reason::ReadOnlyTransaction,
        Reason::Listener,
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
    ("SHOW TABLES", true),
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

/// The same for what may run in a transaction that cannot write.
const IN_READ_ONLY: &[&str] = &[
    "START TRANSACTION READ ONLY",
    "BEGIN",
    "START TRANSACTION",
    "START TRANSACTION READ WRITE",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    "COMMIT",
    "COMMIT AND CHAIN",
    "SET @a = 1",
    "SET GLOBAL read_only = 0",
    "SAVEPOINT s",
    "LOCK TABLES t READ",
    "XA START 'x'",
    "FLUSH TABLES",
    "EXECUTE s",
    "CREATE TEMPORARY TABLE x (a INT)",
    "SELECT f()",
    "SELECT NEXT VALUE FOR s",
    "KILL 5",
    "CREATE TABLE x (a INT)",
    "SELECT LAST_INSERT_ID(5)",
    "SET ROLE r",
    "SHOW STATUS",
    "SHOW MASTER STATUS",
    "SHOW WARNINGS",
    "SHOW VARIABLES",
    "HANDLER t OPEN",
    "PREPARE s FROM 'SELECT 1'",
    "DROP TEMPORARY TABLE x",
    "DROP TABLE x",
    "TRUNCATE TABLE t",
    "EXPLAIN DELETE FROM t",
    "GRANT SELECT ON t TO u",
    "ANALYZE TABLE t",
    "SET PASSWORD = 'x'",
    "UNLOCK TABLES",
    "SELECT 1; ALTER TABLE t ADD b INT",
];

fn pin() -> impl Strategy<Value = Option<PinReason>> {
    prop::option::weighted(
        0.2,
        prop::sample::select(vec![PinReason::TableLock, PinReason::Cursor, PinReason::UnknownState]),
    )
}

const SOME: &[BackendId] = &[BackendId(0), BackendId(1), BackendId(3)];

fn wish() -> impl Strategy<Value = Option<Wish<'static>>> {
    let places = vec![Place::Primary, Place::Replica, Place::Among(SECOND), Place::Among(SOME)];
    let place = prop::sample::select(places);
    prop::option::of(
        (place, any::<bool>()).prop_map(
            |(place, is_hint)| {
                if is_hint { Wish::Hint(place) } else { Wish::Rule(place) }
            },
        ),
    )
}

fn policy() -> impl Strategy<Value = Policy> {
    let balances = vec![
        ReadBalance::RoundRobin,
        ReadBalance::Weighted,
        ReadBalance::LeastConnections,
        ReadBalance::LeastLatency,
    ];
    let balance = prop::sample::select(balances);
    (0_u8..=100, any::<bool>(), balance).prop_map(
        |(read_primary_percentage, primary_preferred, read_balance)| Policy {
            read_primary_percentage,
            primary_preferred,
            read_balance,
            ..Policy::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    /// Whatever the policy is, whoever wishes for what: free reads, and what cannot write, reach replicas that are up.
    #[test]
    fn nothing_that_writes_reaches_a_replica(
        sql in prop::sample::select(STATEMENTS.iter().map(|(sql, _)| *sql).chain(IN_READ_ONLY.iter().copied()).collect::<Vec<_>>()),
        (in_transaction, autocommit_off, reads_only, up, takes_writes) in any::<(bool, bool, bool, bool, bool)>(),
        pinned in pin(),
        (wish, policy) in (wish(), policy()),
        replicas in "[ud?]{0,5}",
        [avoid, behind] in prop::array::uniform2(prop::collection::vec((0_u16..7).prop_map(BackendId), 0..3)),
    ) {
        let statement = classify(sql.as_bytes(), LexOptions::default());
        let scope = Scope::of_transaction(&statement, reads_only, autocommit_off);
        let (access, why) = (statement.access, statement.why);
        let intent = Intent { access, why, in_transaction, autocommit_off, pinned, avoid: &avoid, behind: &behind, wish, scope, text: 0 };
        let mut snapshot = cluster(&replicas);
        snapshot.backends.iter_mut().skip(1).for_each(|backend| backend.read_only = !takes_writes);
        if up {
            snapshot.backends[0].health = Health::Up { since: Instant::now() };
        }
        let mut balance = Balance::new(policy);
        for _ in 0..3 {
            balance.look(&snapshot, Instant::now(), |id| u32::from(id.0));
            let Plan { target: Target::Replica(id), reason, .. } = plan(&intent, &snapshot, &mut balance) else { continue };
            let is_right = snapshot.backend(id).is_some_and(Backend::is_readable_replica);
            prop_assert!(is_right && !avoid.contains(&id) && !behind.contains(&id), "{id:?} is no replica that can be used");
            prop_assert!(!in_transaction && pinned.is_none(), "{sql}");
            if reason == Reason::ReadOnlyTransaction {
                prop_assert!(!takes_writes);
                let begins = sql == "START TRANSACTION READ ONLY"
                    || reads_only && ["BEGIN", "START TRANSACTION"].contains(&sql);
                let reads = reads_only && autocommit_off && STATEMENTS.contains(&(sql, true));
                prop_assert!(begins || reads, "{sql} on a replica");
            } else {
                prop_assert!(!autocommit_off && STATEMENTS.contains(&(sql, true)), "{sql} on a replica");
            }
        }
    }

    /// In a transaction that cannot write, on a replica: what could leave something there does not run there.
    #[test]
    fn what_runs_in_a_transaction_that_cannot_write(
        sql in prop::sample::select(STATEMENTS.iter().map(|(sql, _)| *sql).chain(IN_READ_ONLY.iter().copied()).collect::<Vec<_>>()),
        (has_read, lists_changes) in any::<(bool, bool)>(),
    ) {
        let may_run = ["COMMIT", "KILL 5", "COMMIT AND CHAIN", "SET @a = 1", "SELECT a INTO @x FROM t", "SELECT LAST_INSERT_ID()",
            "SELECT LAST_INSERT_ID(5)", "SET autocommit = 0", "", "SHOW WARNINGS", "SHOW VARIABLES", "UNLOCK TABLES"];
        let statement = classify(sql.as_bytes(), LexOptions::default());
        let fate = in_read_only(&statement, Progress { has_read, lists_changes });
        let may = may_run.contains(&sql)
            || STATEMENTS.contains(&(sql, true))
            || sql == "SAVEPOINT s" && has_read
            || sql == "SELECT f()" && has_read && lists_changes;
        prop_assert_eq!(fate == InReadOnly::Run, may, "{}", sql);
        let begins = ["BEGIN", "START TRANSACTION", "START TRANSACTION READ ONLY"].contains(&sql);
        let reads = ["SAVEPOINT s", "EXPLAIN DELETE FROM t", "SELECT f()", "SET ROLE r", "SHOW STATUS", "SHOW MASTER STATUS"];
        let reads = may && sql != "UNLOCK TABLES" || reads.contains(&sql);
        prop_assert_eq!(is_for_readers(&statement), begins || reads, "{}", sql);
        let writes = ["INSERT INTO t VALUES (1)", "UPDATE t SET a = 1", "CREATE TEMPORARY TABLE x (a INT)",
            "DROP TEMPORARY TABLE x", "EXPLAIN DELETE FROM t", "/*! DELETE FROM t */"];
        prop_assert_eq!(fate == InReadOnly::Refuse, writes.contains(&sql), "{}", sql);
        let leaves = ["BEGIN", "START TRANSACTION", "START TRANSACTION READ ONLY", "START TRANSACTION READ WRITE",
            "START TRANSACTION WITH CONSISTENT SNAPSHOT", "LOCK TABLES t READ", "CREATE TABLE x (a INT)", "FLUSH TABLES",
            "GRANT SELECT ON t TO u", "ANALYZE TABLE t", "DROP TABLE x", "TRUNCATE TABLE t"];
        prop_assert_eq!(fate == InReadOnly::Leave, leaves.contains(&sql), "{}", sql);
    }

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
                Plan { target: Target::Replica(id), reason, .. } => {
                    prop_assert_eq!(reason, Reason::Read);
                    prop_assert!(!in_transaction && !autocommit_off && pinned.is_none());
                    prop_assert!(access == Access::Read && may_move, "{sql} on a replica");
                    prop_assert!(!avoid.contains(&id));
                    let is_right = snapshot.backend(id).is_some_and(Backend::is_readable_replica);
                    prop_assert!(is_right, "{id:?} is no replica that is up");
                }
                Plan { target: Target::Primary, reason, .. } => prop_assert_ne!(reason, Reason::Read),
            }
        }
    }
}

#[test]
fn what_is_of_its_session_goes_to_a_replica_only_where_there_is_no_primary() {
    let (since, id) = (Instant::now(), Some(BackendId(0)));
    let set =
        Intent { access: Access::Write, why: Why::ChangesSession, scope: Scope::WithoutPrimary, ..READ };
    let reading = Intent { scope: Scope::WithoutPrimary, autocommit_off: true, ..READ };
    let (one, primary) = (Target::Replica(BackendId(1)), Target::Primary);
    let avoided: &[BackendId] = &[BackendId(0)];
    // The primary is up, the replica keeps writes out, where it goes, what else would do.
    let cases = [
        (set, true, true, primary, id),
        (set, false, true, one, None),
        (set, false, false, one, None),
        (Intent { avoid: avoided, ..set }, true, true, one, None),
        (Intent { wish: Some(Wish::Hint(Place::Primary)), ..set }, false, true, primary, None),
        (Intent { in_transaction: true, ..set }, false, true, primary, None),
        (Intent { pinned: Some(PinReason::AdvisoryLock), ..set }, false, true, primary, None),
        (reading, true, true, primary, id),
        (reading, false, true, one, None),
        // It begins a transaction, and what writes next would be written there.
        (reading, false, false, primary, None),
    ];
    for (intent, is_up, read_only, target, or_without) in cases {
        let mut snapshot = cluster("u");
        if is_up {
            snapshot.backends[0].health = Health::Up { since };
        } else {
            snapshot.backends[0].health = Health::Down { since, reason: Arc::from("test") };
        }
        snapshot.backends[1].read_only = read_only;
        let found = plan(&intent, &snapshot, &mut Balance::default());
        assert_eq!((found.target, found.or_without), (target, or_without), "{intent:?} {is_up} {read_only}");
    }
}
