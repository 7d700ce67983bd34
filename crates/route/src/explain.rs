//! `EXPLAIN ROUTE`: where a statement would go, and why, in words. It asks the same function as a session does.

use std::sync::Arc;

use delphinus_sql::{
    CacheWish, Effects, Hints, LexOptions, Statement, TableName, Uses, Wanted, classify, digest, hints,
    tables,
};
use delphinus_state::PinReason;
use delphinus_topology::{Backend, Snapshot};

use crate::balance::Balance;
use crate::intent::Intent;
use crate::plan::Target;
use crate::policy::Policy;
use crate::router::plan;
use crate::rules::{Facts, Rule, RulePlace, Rules};
use crate::scope::Scope;
use crate::wish::{Place, Wish};

/// What is known of a statement and of its way, as (item, value), in the order in which it is shown.
///
/// The statement is taken for the first of a session: without a transaction, with autocommit, free to move. Of the
/// client nothing is known, so that rules about users, schemas, addresses and listeners do not match.
pub fn explain(sql: &[u8], lex: LexOptions, cluster: Cluster<'_>) -> Vec<(&'static str, String)> {
    let Cluster { snapshot, rules, policy } = cluster;
    let statement = classify(sql, lex);
    let hint = if statement.uses.contains(Uses::HINTS) { hints(sql, lex) } else { Hints::default() };
    let hinted = hint.wanted.as_ref().and_then(|wanted| place_of(wanted, snapshot));
    let facts = Facts { user: "", schema: None, client: None, listener: "", statement: &statement, sql, lex };
    let rule = rules.look(&facts);
    let ruled = rule.and_then(|rule| rule.then.place.as_ref()).map(RulePlace::as_place);
    let wish = hinted.as_ref().map(RulePlace::as_place).map(Wish::Hint).or(ruled.map(Wish::Rule));
    let intent = Intent {
        access: statement.access,
        why: statement.why,
        in_transaction: false,
        autocommit_off: false,
        pinned: None,
        avoid: &[],
        behind: &[],
        wish,
        scope: Scope::Usual,
    };
    let plan = plan(&intent, snapshot, &mut Balance::new(policy));
    let mut normalised = Vec::new();
    let hash = digest(sql, lex, &mut normalised);
    let names = |ids: &mut dyn Iterator<Item = &str>| ids.collect::<Vec<_>>().join(", ");
    let named =
        |one: &&Backend| !matches!(wish.map(Wish::place), Some(Place::Among(ids)) if !ids.contains(&one.id));
    let (target, backends) = match plan.target {
        Target::Primary => ("primary", names(&mut snapshot.primary().into_iter().map(|one| &*one.name))),
        Target::Replica(_) => {
            ("replica", names(&mut snapshot.readable_replicas().filter(named).map(|one| &*one.name)))
        }
    };
    let mut rows = vec![
        ("class", statement.class.as_str().to_owned()),
        ("statements", statement.count.to_string()),
        ("digest", hash.to_string()),
        ("digest_text", String::from_utf8_lossy(&normalised).into_owned()),
        ("tables", tables(sql, lex).iter().map(shown).collect::<Vec<_>>().join(", ")),
        ("hint", hint.wanted.as_ref().map(describe).unwrap_or_default()),
        ("rule", rule.map(|rule| rule.name.to_string()).unwrap_or_default()),
        ("target", target.to_owned()),
        ("backends", backends),
        ("why", plan.reason.as_str().to_owned()),
        ("may_pin", pins(&statement).map(PinReason::as_str).collect::<Vec<_>>().join(", ")),
    ];
    if let Some(text) = rule.and_then(|rule| rule.rewritten(sql)) {
        rows.push(("rewritten", String::from_utf8_lossy(&text).into_owned()));
    }
    if let Some(message) = rule.and_then(|rule| rule.then.reject.as_ref()) {
        rows.push(("problem", format!("the rule rejects it: {message}")));
    }
    if let Some(text) = kept(&statement, &hint, rule) {
        rows.push(("cache", text));
    }
    for unknown in &hint.unknown {
        rows.push(("problem", format!("the hint {unknown:?} is not known")));
    }
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

/// The cluster, and what an operator has set about it.
#[derive(Debug, Clone, Copy)]
pub struct Cluster<'a> {
    /// The backends.
    pub snapshot: &'a Snapshot,
    /// The rules.
    pub rules: &'a Rules,
    /// How reads are spread.
    pub policy: Policy,
}

/// Whether the answer may come from the cache, where that is asked for.
fn kept(statement: &Statement, hint: &Hints, rule: Option<&Rule>) -> Option<String> {
    let ttl_ms = match hint.cache {
        Some(CacheWish::TtlMs(ttl_ms)) => u128::from(ttl_ms),
        Some(CacheWish::Never) => 0,
        None => rule?.then.cache_ttl?.as_millis(),
    };
    Some(match ttl_ms {
        0 => "no".to_owned(),
        _ if !statement.is_repeatable() => "no: not a read that would always have the same answer".to_owned(),
        ttl_ms => format!("for {ttl_ms} ms"),
    })
}

/// Where a hint wants a statement; `None` for one that leaves the choice, or names nothing that is there.
fn place_of(wanted: &Wanted, snapshot: &Snapshot) -> Option<RulePlace> {
    match wanted {
        Wanted::Primary => Some(RulePlace::Primary),
        Wanted::Replica => Some(RulePlace::Replica),
        Wanted::Auto => None,
        Wanted::Backend(name) => {
            let found = snapshot.backends.iter().find(|one| *one.name == **name)?;
            Some(RulePlace::Among(Arc::from([found.id])))
        }
    }
}

fn describe(wanted: &Wanted) -> String {
    match wanted {
        Wanted::Primary => "primary".to_owned(),
        Wanted::Replica => "replica".to_owned(),
        Wanted::Auto => "auto".to_owned(),
        Wanted::Backend(name) => format!("backend={name}"),
    }
}

fn shown(table: &TableName) -> String {
    match &table.schema {
        Some(schema) => format!("{schema}.{}", table.name),
        None => table.name.clone(),
    }
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
    use crate::rules::{Action, When};

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
        item_under(sql, snapshot, &Rules::default(), name)
    }

    fn item_under(sql: &str, snapshot: &Snapshot, rules: &Rules, name: &str) -> Option<String> {
        let cluster = Cluster { snapshot, rules, policy: Policy::default() };
        let rows = explain(sql.as_bytes(), LexOptions::default(), cluster);
        rows.into_iter().find(|(item, _)| *item == name).map(|(_, value)| value)
    }

    #[test]
    fn hints_and_rules_are_named() {
        let snapshot = cluster();
        let when = When { tables: vec![TableName { schema: None, name: "slow".into() }], ..When::default() };
        let then = Action { reject: Some("not now".into()), ..Action::default() };
        let primary = Action { place: Some(RulePlace::Primary), ..Action::default() };
        let fresh =
            When { match_pattern: Some(regex::bytes::Regex::new("fresh").unwrap()), ..When::default() };
        let rules = Rules::new(vec![
            Rule::new("no".into(), when, then, false),
            Rule::new("fresh".into(), fresh, primary, false),
        ]);
        for (sql, hint, rule, backends) in [
            ("SELECT 1 FROM t", "", "", "db2, db3"),
            ("/*+ delphinus(backend=db3) */ SELECT 1 FROM t", "backend=db3", "", "db3"),
            ("/*master*/ SELECT 1 FROM t", "primary", "", "db1"),
            ("SELECT 1 FROM fresh", "", "fresh", "db1"),
            ("/*slave*/ SELECT 1 FROM fresh", "replica", "fresh", "db2, db3"),
            ("SELECT 1 FROM slow", "", "no", "db2, db3"),
        ] {
            let all =
                ["hint", "rule", "backends"].map(|name| item_under(sql, &snapshot, &rules, name).unwrap());
            assert_eq!(all, [hint, rule, backends], "{sql}");
        }
        let problem = |sql| item_under(sql, &snapshot, &rules, "problem");
        assert_eq!(problem("SELECT 1 FROM slow").as_deref(), Some("the rule rejects it: not now"));
        assert_eq!(item("SELECT 1 FROM a JOIN b.c", &snapshot, "tables").as_deref(), Some("a, b.c"));
        assert!(rules.iter().all(|rule| rule.hits() == 0), "to ask is not to match");
    }

    #[test]
    fn whether_the_answer_may_be_kept_is_said_where_that_is_asked_for() {
        let snapshot = cluster();
        let then = Action { cache_ttl: Some(std::time::Duration::from_millis(500)), ..Action::default() };
        let rules = Rules::new(vec![Rule::new("all".into(), When::default(), then, false)]);
        let none = Rules::default();
        let no = "no: not a read that would always have the same answer";
        for (sql, rules, expected) in [
            ("SELECT a FROM t", &none, None),
            ("SELECT a FROM t", &rules, Some("for 500 ms")),
            ("/*+ delphinus(cache_ttl=7) */ SELECT a FROM t", &rules, Some("for 7 ms")),
            ("/*+ delphinus(no_cache) */ SELECT a FROM t", &rules, Some("no")),
            ("SELECT NOW() FROM t", &rules, Some(no)),
            ("SELECT @a FROM t", &rules, Some(no)),
            ("SELECT a FROM t FOR UPDATE", &rules, Some(no)),
            ("SHOW TABLES", &rules, Some(no)),
            ("DELETE FROM t", &rules, Some(no)),
        ] {
            assert_eq!(item_under(sql, &snapshot, rules, "cache").as_deref(), expected, "{sql}");
        }
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
