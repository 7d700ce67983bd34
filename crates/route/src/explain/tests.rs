//! What is told of statements, by who asks.

use std::time::{Duration, Instant};

use delphinus_sql::CacheWish;
use delphinus_topology::{Health, Member, Role, Wish};

use super::*;
use crate::rules::{Action, Rule, When};

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
    item_for(sql, (snapshot, rules), &Asker::default(), name)
}

fn item_for(
    sql: &str,
    (snapshot, rules): (&Snapshot, &Rules),
    asker: &Asker<'_>,
    name: &str,
) -> Option<String> {
    let policy = Policy { read_primary_percentage: 25, ..Policy::default() };
    let cluster = Cluster { snapshot, rules, policy };
    let (sql, lex) = (sql.as_bytes(), LexOptions::default());
    let statement = classify(sql, lex);
    let rows = explain(&Question { sql, lex, statement: &statement }, cluster, asker);
    rows.into_iter().find(|(item, _)| *item == name).map(|(_, value)| value)
}

#[test]
fn hints_and_rules_are_named() {
    let snapshot = cluster();
    let when = When { tables: vec![TableName { schema: None, name: "slow".into() }], ..When::default() };
    let then = Action { reject: Some("not now".into()), ..Action::default() };
    let primary = Action { place: Some(RulePlace::Primary), ..Action::default() };
    let fresh = When { match_pattern: Some(regex::bytes::Regex::new("fresh").unwrap()), ..When::default() };
    let locks = When { match_pattern: Some(regex::bytes::Regex::new("locks").unwrap()), ..When::default() };
    let rewrite = Action { rewrite: Some("t FOR UPDATE".into()), ..Action::default() };
    let rules = Rules::new(vec![
        Rule::new("no".into(), when, then, false),
        Rule::new("fresh".into(), fresh, primary, false),
        Rule::new("rewrites".into(), locks, rewrite, false),
    ]);
    for (sql, hint, rule, backends) in [
        ("SELECT 1 FROM t", "", "", "db2, db3"),
        ("/*+ delphinus(backend=db3) */ SELECT 1 FROM t", "backend=db3", "", "db3"),
        ("/*master*/ SELECT 1 FROM t", "primary", "", "db1"),
        ("SELECT 1 FROM fresh", "", "fresh", "db1"),
        ("/*slave*/ SELECT 1 FROM fresh", "replica", "fresh", "db2, db3"),
        ("SELECT 1 FROM slow", "", "no", "db2, db3"),
        // It goes where the text that it is made goes.
        ("SELECT 1 FROM locks", "", "rewrites", "db1"),
    ] {
        let all = ["hint", "rule", "backends"].map(|name| item_under(sql, &snapshot, &rules, name).unwrap());
        assert_eq!(all, [hint, rule, backends], "{sql}");
    }
    let problem = |sql| item_under(sql, &snapshot, &rules, "problem");
    assert_eq!(problem("SELECT 1 FROM slow").as_deref(), Some("the rule rejects it: not now"));
    assert_eq!(item("SELECT 1 FROM a JOIN b.c", &snapshot, "tables").as_deref(), Some("a, b.c"));
    assert!(rules.iter().all(|rule| rule.hits() == 0), "to ask is not to match");
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
    // One without a weight gets nothing while another one is there.
    snapshot.backends[2].weight = 0;
    assert_eq!(item("SELECT 1", &snapshot, "backends").as_deref(), Some("db2"));
    snapshot.backends[1].wish = Wish::Offline { since: Instant::now() };
    assert_eq!(item("SELECT 1", &snapshot, "backends").as_deref(), Some("db3"));
    // What is named cannot be used.
    let named = "/*+ delphinus(backend=db2) */ SELECT 1";
    assert_eq!(item(named, &snapshot, "backends").as_deref(), Some("db3"));
    snapshot.backends[0].wish = Wish::Offline { since: Instant::now() };
    assert_eq!(item("DELETE FROM t", &snapshot, "problem").as_deref(), Some("the primary is set OFFLINE"));
}

#[test]
fn who_asks_decides_with() {
    let (snapshot, rules) = (cluster(), Rules::default());
    let own =
        Hints { wanted: Some(Wanted::Primary), consistency: Some(Consistency::Eventual), ..Hints::default() };
    let usual =
        Asker { usual: Usual { level: Consistency::Session, by: "set for the user" }, ..Asker::default() };
    let demanded = |level| match level {
        Consistency::Global => Demanded { behind: vec![BackendId(1), BackendId(2)], ..Demanded::default() },
        _ => Demanded {
            what: "0-1-7".into(),
            known: vec![BackendId(2)],
            behind: vec![BackendId(1)],
            wait_ms: None,
        },
    };
    let follows = Asker { demanded: Some(&demanded), ..usual.clone() };
    let held = Asker {
        held: Some(BackendId(1)),
        in_transaction: true,
        pins: vec![PinReason::Transaction, PinReason::Handler],
        ..Asker::default()
    };
    let (read, global) = ("SELECT 1 FROM t", "/*+ delphinus(consistency=global) */ SELECT 1");
    let busy = Asker { in_transaction: true, ..Asker::default() };
    for (sql, asker, item, value) in [
        (read, &Asker { own: own.clone(), ..usual.clone() }, "backends", Some("db1")),
        (read, &Asker { own: own.clone(), ..usual.clone() }, "hint", Some("primary (set in the session)")),
        ("/*slave*/ SELECT 1", &Asker { own: own.clone(), ..usual.clone() }, "hint", Some("replica")),
        (read, &Asker { own, ..usual.clone() }, "consistency", Some("eventual (set in the session)")),
        (read, &usual, "consistency", Some("session (set for the user)")),
        (read, &usual, "to_find", Some("what the session has written and read")),
        (read, &Asker::default(), "to_find", None),
        (read, &follows, "backends", Some("db3")),
        (read, &follows, "to_find", Some("0-1-7")),
        (read, &follows, "found_on", Some("db3")),
        (global, &follows, "backends", Some("db1")),
        (
            global,
            &Asker::default(),
            "why",
            Some("only reads, but no replica has caught up with this session's writes"),
        ),
        (global, &Asker::default(), "consistency", Some("global (from a hint)")),
        (read, &held, "target", Some("replica")),
        (read, &held, "backends", Some("db2")),
        (read, &held, "why", Some("transaction")),
        (read, &held, "pinned", Some("transaction, handler")),
        (read, &busy, "why", Some("in a transaction")),
        (read, &Asker { avoid: vec![BackendId(1)], ..Asker::default() }, "backends", Some("db3")),
    ] {
        assert_eq!(item_for(sql, (&snapshot, &rules), asker, item).as_deref(), value, "{item} of {sql}");
    }
}

#[test]
fn what_is_wrong_is_told() {
    let (snapshot, rules) = (cluster(), Rules::default());
    let timed = Asker { own: Hints { timeout_ms: Some(7), ..Hints::default() }, ..Asker::default() };
    let busy = Asker { in_transaction: true, ..Asker::default() };
    let refused = Asker { refused: Some("no".into()), ..Asker::default() };
    let (read, write, replica) =
        ("SELECT 1 FROM t", "DELETE FROM t", "/*+ delphinus(replica) */ DELETE FROM t");
    for (sql, asker, item, value) in [
        (read, &refused, "problem", Some("the proxy refuses it: no")),
        (read, &timed, "timeout_ms", Some("7")),
        ("/*+ delphinus(timeout_ms=9) */ SELECT 1", &timed, "timeout_ms", Some("9")),
        (read, &Asker::default(), "timeout_ms", None),
        (replica, &Asker::default(), "problem", Some("the hint cannot be obeyed: writes")),
        (
            "/*+ delphinus(replica) */ SELECT 1",
            &busy,
            "problem",
            Some("the hint cannot be obeyed: in a transaction"),
        ),
        (
            "/*+ delphinus(backend=db9) */ SELECT 1",
            &busy,
            "problem",
            Some("the hint cannot be obeyed: there is no backend \"db9\""),
        ),
        ("/*+ delphinus(nonsense) */ SELECT 1", &busy, "problem", Some("the hint \"nonsense\" is not known")),
        (
            read,
            &Asker::default(),
            "note",
            Some("25 of 100 such reads go to the primary, the others to replicas"),
        ),
        ("/*slave*/ SELECT 1", &Asker::default(), "note", None),
        (write, &Asker::default(), "note", None),
        (
            "SELECT FOUND_ROWS()",
            &busy,
            "note",
            Some("it asks about the statement before it, so it runs where that one ran"),
        ),
        ("KILL 7", &busy, "target", Some("proxy")),
        ("SET @@delphinus.mode = 'primary'", &busy, "target", Some("proxy")),
    ] {
        assert_eq!(item_for(sql, (&snapshot, &rules), asker, item).as_deref(), value, "{item} of {sql}");
    }
}

#[test]
fn rules_match_who_asks() {
    let snapshot = cluster();
    let when = When { users: vec!["report".into()], listeners: vec!["slow".into()], ..When::default() };
    let then = Action {
        consistency: Some(Consistency::Global),
        timeout: Some(Duration::from_secs(2)),
        dedicates: true,
        ..Action::default()
    };
    let rules = Rules::new(vec![Rule::new("reports".into(), when, then, false)]);
    let asker = Asker { user: "report", listener: "slow", ..Asker::default() };
    let all = ["rule", "consistency", "timeout_ms", "may_pin"];
    let shown =
        |asker| all.map(|item| item_for("SELECT 1", (&snapshot, &rules), asker, item).unwrap_or_default());
    assert_eq!(shown(&asker), ["reports", "global (from the rule)", "2000", "multiplex_off"]);
    assert_eq!(shown(&Asker { user: "app", ..asker.clone() }), ["", "eventual (by default)", "", ""]);
}

#[test]
fn a_line_has_no_literals() {
    let snapshot = cluster();
    let when = When { match_pattern: Some(regex::bytes::Regex::new("old").unwrap()), ..When::default() };
    let then = Action { rewrite: Some("new".into()), ..Action::default() };
    let rules = Rules::new(vec![Rule::new("moved".into(), when, then, false)]);
    let cluster = Cluster { snapshot: &snapshot, rules: &rules, policy: Policy::default() };
    let (sql, lex, asker) =
        (b"SELECT 1 FROM old WHERE a = 'secret'\nAND b = 4711", LexOptions::default(), Asker::default());
    let statement = classify(sql, lex);
    let question = Question { sql, lex, statement: &statement };
    let explanation = Explanation::new(&question, cluster, &asker);
    let way = explanation.way(&question, cluster, &asker);
    assert!(
        explanation
            .rows(way, cluster)
            .iter()
            .any(|(item, value)| *item == "rewritten" && value.contains("secret"))
    );
    let line = explanation.line(way, cluster);
    assert!(!line.contains("secret") && !line.contains("4711") && !line.contains('\n'), "{line}");
    assert!(line.contains("rule: moved; ") && line.contains("backends: db2, db3; why: only reads"), "{line}");
    assert!(!line.contains("hint"), "{line}");
}

#[test]
fn whether_the_answer_may_be_kept_is_said_where_that_is_asked_for() {
    let snapshot = cluster();
    let then = Action { cache_ttl: Some(Duration::from_millis(500)), ..Action::default() };
    let rules = Rules::new(vec![Rule::new("all".into(), When::default(), then, false)]);
    let none = Rules::default();
    let no = "no: only deterministic reads are cached";
    let anybody = Asker::default();
    let busy = Asker { in_transaction: true, ..Asker::default() };
    let own = Hints { cache: Some(CacheWish::TtlMs(9)), ..Hints::default() };
    let setting = Asker { own, ..Asker::default() };
    for (sql, rules, asker, expected) in [
        ("SELECT a FROM t", &none, &anybody, None),
        ("SELECT a FROM t", &rules, &anybody, Some("for 500 ms")),
        ("SELECT a FROM t", &none, &setting, Some("for 9 ms")),
        ("SELECT a FROM t", &rules, &setting, Some("for 9 ms")),
        ("/*+ delphinus(cache_ttl=7) */ SELECT a FROM t", &rules, &setting, Some("for 7 ms")),
        ("/*+ delphinus(no_cache) */ SELECT a FROM t", &rules, &anybody, Some("no")),
        (
            "/*+ delphinus(consistency=global) */ SELECT a FROM t",
            &rules,
            &anybody,
            Some("no: with consistency = \"global\" every answer comes from a server"),
        ),
        ("SELECT a FROM t", &rules, &busy, Some("no: the session is pinned or in a transaction")),
        ("SELECT NOW() FROM t", &rules, &anybody, Some(no)),
        ("SELECT @a FROM t", &rules, &anybody, Some(no)),
        ("SELECT a FROM t FOR UPDATE", &rules, &anybody, Some(no)),
        ("SHOW TABLES", &rules, &anybody, Some(no)),
        ("DELETE FROM t", &rules, &anybody, Some(no)),
    ] {
        assert_eq!(item_for(sql, (&snapshot, rules), asker, "cache").as_deref(), expected, "{sql}");
    }
}
