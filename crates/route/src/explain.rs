//! `EXPLAIN ROUTE`: where a statement would go, and why, in words. It asks the same function as a session does.

use delphinus_sql::{Effects, LexOptions, Statement, classify, digest};
use delphinus_state::PinReason;
use delphinus_topology::Snapshot;

use crate::balance::Balance;
use crate::intent::Intent;
use crate::plan::Target;
use crate::router::plan;
use crate::scope::Scope;

/// What is known of a statement and of its way, as (item, value), in the order in which it is shown.
///
/// The statement is taken for the first of a session: without a transaction, with autocommit, free to move.
pub fn explain(sql: &[u8], lex: LexOptions, snapshot: &Snapshot) -> Vec<(&'static str, String)> {
    let statement = classify(sql, lex);
    let intent = Intent {
        access: statement.access,
        why: statement.why,
        in_transaction: false,
        autocommit_off: false,
        pinned: None,
        avoid: &[],
        wish: None,
        scope: Scope::Usual,
    };
    let plan = plan(&intent, snapshot, &mut Balance::default());
    let mut normalised = Vec::new();
    let hash = digest(sql, lex, &mut normalised);
    let names = |ids: &mut dyn Iterator<Item = &str>| ids.collect::<Vec<_>>().join(", ");
    let (target, backends) = match plan.target {
        Target::Primary => ("primary", names(&mut snapshot.primary().into_iter().map(|one| &*one.name))),
        Target::Replica(_) => ("replica", names(&mut snapshot.readable_replicas().map(|one| &*one.name))),
    };
    let mut rows = vec![
        ("class", statement.class.as_str().to_owned()),
        ("statements", statement.count.to_string()),
        ("digest", hash.to_string()),
        ("digest_text", String::from_utf8_lossy(&normalised).into_owned()),
        ("target", target.to_owned()),
        ("backends", backends),
        ("why", plan.reason.as_str().to_owned()),
        ("may_pin", pins(&statement).map(PinReason::as_str).collect::<Vec<_>>().join(", ")),
    ];
    if plan.target == Target::Primary
        && let Some(primary) = snapshot.primary()
        && (primary.is_offline() || !primary.is_up())
    {
        let problem =
            if primary.is_offline() { "the primary is set OFFLINE" } else { "the primary is not up" };
        rows.push(("problem", problem.to_owned()));
    }
    rows
}

/// What may hold a session to its connection after the statement.
const MAY_PIN: [(Effects, PinReason); 11] = [
    (Effects::BEGINS_TRANSACTION, PinReason::Transaction),
    (Effects::SETS_NEXT_TRANSACTION, PinReason::NextTransaction),
    (Effects::CREATES_TEMP_TABLE, PinReason::TemporaryTable),
    (Effects::LOCKS_TABLES, PinReason::TableLock),
    (Effects::READ_LOCK, PinReason::ReadLock),
    (Effects::GETS_LOCK, PinReason::AdvisoryLock),
    (Effects::OPENS_HANDLER, PinReason::Handler),
    (Effects::SQL_PREPARES, PinReason::SqlPrepared),
    (Effects::XA_STARTS, PinReason::Xa),
    (Effects::SETS_TRACKING, PinReason::Tracking),
    (Effects::SETS_ROLE, PinReason::Role),
];

/// What only the server can tell: it reports a change that nobody can name.
const OPAQUE: Effects = Effects::CALLS_ROUTINE.union(Effects::SQL_EXECUTES).union(Effects::UNKNOWN);

fn pins(statement: &Statement) -> impl Iterator<Item = PinReason> + '_ {
    let known = MAY_PIN.iter().filter(|(effects, _)| statement.effects.intersects(*effects));
    let opaque = statement.effects.intersects(OPAQUE).then_some(PinReason::UnknownState);
    known.map(|(_, reason)| *reason).chain(opaque)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use delphinus_topology::{Health, Member, Role, Wish};

    use super::*;

    fn cluster() -> Snapshot {
        let member = |name: &str, role| Member { name: name.into(), role, weight: 100 };
        let members =
            vec![member("db1", Role::Primary), member("db2", Role::Replica), member("db3", Role::Replica)];
        let mut snapshot = Snapshot::new(members);
        for backend in &mut snapshot.backends {
            backend.health = Health::Up { since: Instant::now() };
        }
        snapshot
    }

    fn item(sql: &str, snapshot: &Snapshot, name: &str) -> Option<String> {
        let rows = explain(sql.as_bytes(), LexOptions::default(), snapshot);
        rows.into_iter().find(|(item, _)| *item == name).map(|(_, value)| value)
    }

    #[test]
    fn statements_are_explained() {
        let mut snapshot = cluster();
        for (sql, class, backends, why, may_pin) in [
            ("SELECT 1 FROM t WHERE a = 'x'", "select", "db2, db3", "only reads", ""),
            ("SELECT 1 FROM t FOR UPDATE", "select", "db1", "locking read", ""),
            ("BEGIN", "begin", "db1", "controls a transaction", "transaction"),
            ("SELECT GET_LOCK('a', 1)", "select", "db1", "advisory lock", "get_lock"),
            ("CALL p()", "call", "db1", "calls a procedure", "unknown_state"),
            (
                "CREATE TEMPORARY TABLE x (a INT)",
                "create_temporary_table",
                "db1",
                "changes the schema",
                "temporary_table",
            ),
        ] {
            let all = ["class", "backends", "why", "may_pin"].map(|name| item(sql, &snapshot, name).unwrap());
            assert_eq!(all, [class, backends, why, may_pin], "{sql}");
            assert_eq!(item(sql, &snapshot, "problem"), None);
        }
        let text = item("SELECT 1 FROM t WHERE a = 'secret'", &snapshot, "digest_text");
        assert_eq!(text.as_deref(), Some("SELECT ? FROM t WHERE a = ?"));
        snapshot.backends[1].wish = Wish::Offline { since: Instant::now() };
        assert_eq!(item("SELECT 1", &snapshot, "backends").as_deref(), Some("db3"));
        snapshot.backends[0].wish = Wish::Offline { since: Instant::now() };
        assert_eq!(
            item("DELETE FROM t", &snapshot, "problem").as_deref(),
            Some("the primary is set OFFLINE")
        );
    }
}
