//! `EXPLAIN ROUTE` of clients, and traces: they say where statements go, and the servers say the same.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use delphinus_e2e::{Address, Client, ConfigFile, Operators, Stage, delay_replica, eventually, until};
use delphinus_sandbox::Flavor;

const LIMIT: Duration = Duration::from_secs(30);
/// The server that runs it answers with its port.
const WHO: &str = "SELECT port FROM app.answered_by";

const SECTIONS: &str = "[routing]\nexplain_route = true\n\
    [[user]]\nname = \"admin\"\npassword = \"adminpw\"\nexplain_route = false\n\
    [[rule]]\nname = \"pinned down\"\nmatch_pattern = \"fresh\"\ntarget = \"primary\"\nlog = true\n\
    [[rule]]\nname = \"no\"\ntable = [\"app.secrets\"]\nreject = \"not you\"\n\
    [[rule]]\nname = \"own\"\nuser = [\"app\"]\nmatch_pattern = \"for me\"\ntarget = \"primary\"\n";

type Rows = Vec<(String, String)>;

fn explained(client: &mut Client, sql: &str) -> Rows {
    let rows =
        client.rows(&format!("EXPLAIN ROUTE {sql}")).unwrap_or_else(|error| panic!("{sql}: {error:#}"));
    rows.into_iter().map(|row| (row[0].clone().unwrap(), row[1].clone().unwrap())).collect()
}

fn item<'a>(rows: &'a Rows, name: &str) -> &'a str {
    rows.iter().find(|(item, _)| item == name).map_or("", |(_, value)| value)
}

/// Where it says that the statement goes.
fn backends(rows: &Rows) -> Vec<&str> {
    item(rows, "backends").split(", ").collect()
}

fn name(stage: &Stage, at: usize) -> &str {
    &stage.cluster.servers[at].name
}

/// The name of the server that a statement with its port in the first column ran on.
fn ran_on(stage: &Stage, client: &mut Client, sql: &str) -> String {
    let port: u16 = client.value(sql).unwrap_or_else(|error| panic!("{sql}: {error:#}")).parse().unwrap();
    stage.cluster.servers.iter().find(|server| server.port == port).unwrap().name.clone()
}

/// A proxy that answers, with operators who are answered, too.
fn start(flavor: Flavor) -> (Stage, Address) {
    let operators = Operators::default();
    let config = ConfigFile {
        monitor: vec!["interval_ms = 200".to_owned(), "lag_down_ms = 3600000".to_owned()],
        ..ConfigFile::with_sections(&format!("{SECTIONS}{}", operators.section()))
    };
    let stage = Stage::with(flavor, &config).unwrap();
    let operators = operators.address(&stage.address);
    (stage, operators)
}

fn check(flavor: Flavor) {
    let (stage, operators) = start(flavor);
    stage.cluster.servers[0].query("CREATE TABLE app.explained (a INT)").unwrap();
    check_who_may(&stage, flavor);
    check_where_it_goes(&stage);
    check_same_words(&stage, &operators);
    check_transactions(&stage);
    check_traces(&stage);
    check_consistency(&stage, flavor);
}

#[test]
fn routes_are_explained_before_mariadb() {
    check(Flavor::MariaDb);
}

#[test]
fn routes_are_explained_before_mysql() {
    check(Flavor::MySql);
}

fn check_who_may(stage: &Stage, flavor: Flavor) {
    let of = |address: &Address, user: &str, password: &str| {
        let (user, password, database) = (user.to_owned(), password.to_owned(), String::new());
        Address { user, password, database, ..address.clone() }.connect().unwrap()
    };
    // Nobody, unless it is allowed; a user for whom it is not, where it is for others.
    let (_proxy, closed, _port) = stage.another_proxy(&ConfigFile::default()).unwrap();
    for mut client in [closed.connect().unwrap(), of(&stage.address, "admin", "adminpw")] {
        for sql in ["EXPLAIN ROUTE SELECT 1", "SET @@delphinus.trace = 1"] {
            let error = client.error(sql).unwrap();
            assert_eq!((error.code, &*error.sqlstate), (1227, "42000"), "{sql}: {}", error.message);
        }
        // The last error is one of the proxy's own; it is shown as a server's would be, until something else has run.
        let rows = client.rows("SHOW WARNINGS").unwrap();
        assert_eq!(rows[0][..2], [Some("Error".to_owned()), Some("1227".to_owned())], "{rows:?}");
        assert_eq!(client.rows("SHOW ERRORS LIMIT 1").unwrap(), rows);
        assert_eq!(client.value("SHOW COUNT(*) ERRORS").unwrap(), "1");
        assert_eq!(client.value("SELECT @@error_count").unwrap(), "1");
        client.query("SELECT 1 FROM (SELECT 1) AS t").unwrap();
        assert!(client.rows("SHOW WARNINGS").unwrap().is_empty());
        client.error("EXPLAIN ROUTE SELECT 1").unwrap();
        client.query("SET @@delphinus.trace = 0").unwrap();
        // It has no tables: to MariaDB the error is still the last one.
        assert_eq!(client.rows("SHOW WARNINGS").unwrap().is_empty(), flavor == Flavor::MySql);
        client.query("SELECT 1 FROM (SELECT 1) AS t").unwrap();
        assert!(client.rows("SHOW WARNINGS").unwrap().is_empty());
    }
    let mut client = stage.address.connect().unwrap();
    let error = client.prepare("EXPLAIN ROUTE SELECT 1").unwrap_err();
    assert!(error.to_string().contains("1295"), "{error:#}");
    // A table with this name is a table.
    client.query("CREATE TABLE app.route (id INT)").unwrap();
    until(LIMIT, "the table to be everywhere", || Ok(client.rows("EXPLAIN route")?.len() == 1)).unwrap();
    assert_eq!(client.rows("EXPLAIN route id").unwrap().len(), 1);
    assert_eq!(client.error("SET @@delphinus.trace = 'x'").unwrap().code, 1231);
}

/// What is said is what happens.
fn check_where_it_goes(stage: &Stage) {
    let hinted = format!("/*+ delphinus(backend={}) */ {WHO}", name(stage, 2));
    for (sql, target) in [
        (WHO.to_owned(), "replica"),
        (format!("/*master*/ {WHO}"), "primary"),
        (hinted, "replica"),
        (format!("{WHO} FOR UPDATE"), "primary"),
        (format!("{WHO} WHERE 'fresh' = 'fresh'"), "primary"),
        (format!("{WHO} WHERE 'for me' = 'for me'"), "primary"),
        (format!("/*+ delphinus(consistency=global) */ {WHO}"), "primary"),
    ] {
        // A new session for each: one that has read on the primary goes on there.
        let mut client = stage.address.connect().unwrap();
        let rows = explained(&mut client, &sql);
        assert_eq!(item(&rows, "target"), target, "{sql}: {rows:?}");
        for _ in 0..4 {
            let server = ran_on(stage, &mut client, &sql);
            assert!(backends(&rows).contains(&&*server), "{sql} ran on {server}: {rows:?}");
        }
    }
    let mut client = stage.address.connect().unwrap();
    let rows = explained(&mut client, "SELECT * FROM secrets");
    assert_eq!(item(&rows, "problem"), "the rule rejects it: not you");
    assert_eq!(client.error("SELECT * FROM secrets").unwrap().code, 1105);
    assert_eq!(item(&explained(&mut client, &format!("{WHO} WHERE 'for me' = ''")), "rule"), "own");
    assert_eq!(
        item(&explained(&mut client, "CREATE TEMPORARY TABLE x (a INT)"), "may_pin"),
        "temporary_table"
    );
    assert_eq!(item(&explained(&mut client, "SELECT 1; SELECT 2"), "statements"), "2");
    client.query("SET @@delphinus.mode = 'primary', @@delphinus.timeout_ms = 5000").unwrap();
    let rows = explained(&mut client, WHO);
    assert_eq!(backends(&rows), [name(stage, 0)]);
    assert_eq!((item(&rows, "why"), item(&rows, "timeout_ms")), ("a hint", "5000"));
    assert_eq!(ran_on(stage, &mut client, WHO), name(stage, 0));
}

/// The operators' side and the client's say the same of a session that has done nothing.
fn check_same_words(stage: &Stage, operators: &Address) {
    let mut operator = operators.connect().unwrap();
    let mut client = stage.address.connect().unwrap();
    for sql in [
        "INSERT INTO explained VALUES (1)",
        "/*+ delphinus(consistency=eventual) */ SELECT 'x' FROM explained",
        "/*+ delphinus(consistency=eventual, nonsense) */ SELECT 'x' FROM answered_by WHERE 'fresh' = 'x'",
        "KILL 7",
    ] {
        let mut ours = explained(&mut client, sql);
        let mut theirs = explained(&mut operator, sql);
        // What a session has to find is known to itself only.
        ours.retain(|(item, _)| item != "to_find" && item != "found_on");
        theirs.retain(|(item, _)| item != "to_find" && item != "found_on");
        assert_eq!(ours, theirs, "{sql}");
    }
}

fn check_transactions(stage: &Stage) {
    let mut client = stage.address.connect().unwrap();
    client.query("BEGIN").unwrap();
    client.query("INSERT INTO app.explained VALUES (1)").unwrap();
    let rows = explained(&mut client, WHO);
    assert_eq!((item(&rows, "target"), item(&rows, "pinned")), ("primary", "transaction"), "{rows:?}");
    assert_eq!(ran_on(stage, &mut client, WHO), name(stage, 0));
    // To ask is to do nothing: not what is asked about, and not what it would end.
    for sql in ["COMMIT", "DROP TABLE explained", "SET autocommit = 1"] {
        explained(&mut client, sql);
    }
    client.query("ROLLBACK").unwrap();
    assert_eq!(client.value("SELECT COUNT(*) FROM app.explained").unwrap(), "0");
    assert_eq!(item(&explained(&mut client, WHO), "pinned"), "");
}

/// Lines of the log about traces that contain `marker`.
fn traces(stage: &Stage, marker: &str) -> Vec<String> {
    let log = stage.proxy.as_ref().unwrap().log();
    log.lines().filter(|line| line.contains(": trace ") && line.contains(marker)).map(str::to_owned).collect()
}

fn trace(stage: &Stage, marker: &str) -> String {
    eventually(LIMIT, &format!("a trace of {marker}"), || Ok(traces(stage, marker).pop())).unwrap()
}

fn check_traces(stage: &Stage) {
    let mut client = stage.address.connect().unwrap();
    client.query("SET @@delphinus.trace = 1").unwrap();
    assert_eq!(client.value("SELECT @@delphinus.trace").unwrap(), "1");
    let sql = format!("{WHO} WHERE 'top secret' = 'top secret' AND 1 = 1");
    let told = explained(&mut client, &sql);
    let server = ran_on(stage, &mut client, &sql);
    let line = trace(stage, "? = ? AND ? = ?");
    assert!(line.contains(&format!("ran_on=\"{server}\"")) && line.contains("error=0"), "{line}");
    // Word for word what EXPLAIN ROUTE says.
    for (item, value) in told.iter().filter(|(_, value)| !value.is_empty()) {
        assert!(line.contains(&format!("{item}: {value}")), "{item}: {value}: {line}");
    }
    let statement = client.prepare("SELECT port, 'top secret', 7 FROM app.answered_by").unwrap();
    client.execute(statement).unwrap();
    client.execute(statement).unwrap();
    until(LIMIT, "three traces", || Ok(traces(stage, "SELECT port, ?, ... FROM").len() == 3)).unwrap();
    client.query("BEGIN").unwrap();
    client.query("SELECT 'held' AS held").unwrap();
    client.query("ROLLBACK").unwrap();
    let line = trace(stage, "SELECT ? AS held");
    assert!(line.contains("why: transaction") && line.contains("pinned: transaction"), "{line}");
    client.error("SELECT * FROM secrets WHERE a = 'top secret'").unwrap();
    let line = trace(stage, "the rule rejects it");
    assert!(line.contains("error=1105") && line.contains("ran_on=\"-\""), "{line}");
    client.query("SET @@delphinus.trace = 0").unwrap();
    client.query("SELECT 'untraced' IS NULL").unwrap();
    // A rule's, in the same words, without anybody asking.
    client.query(&format!("{WHO} WHERE 'fresh' = 'top secret'")).unwrap();
    let line = trace(stage, "rule: pinned down");
    assert!(
        line.contains(&format!("ran_on=\"{}\"", name(stage, 0))) && line.contains("why: a rule"),
        "{line}"
    );
    assert!(traces(stage, "IS NULL").is_empty());
    assert!(!stage.proxy.as_ref().unwrap().log().contains("top secret"), "no literals in the log");
}

fn check_consistency(stage: &Stage, flavor: Flavor) {
    let mut client = stage.address.connect().unwrap();
    let rows = explained(&mut client, WHO);
    assert_eq!(item(&rows, "consistency"), "session (by default)");
    assert_eq!(item(&rows, "to_find"), "nothing: every replica has what the session needs");
    delay_replica(flavor, &stage.cluster.servers[2], 600).unwrap();
    client.query("INSERT INTO app.explained VALUES (1)").unwrap();
    let token = client.value("SELECT @@delphinus.causality_token").unwrap();
    // At rest, which comes with the second probe, it is all that the primary has, too. Before the one that was stopped for a moment is
    // a replica again, there may be nothing to find: the other one is every replica.
    let rows = eventually(LIMIT, "one replica alone to be known to have it", || {
        let rows = explained(&mut client, WHO);
        let is_known = item(&rows, "found_on") == name(stage, 1) && item(&rows, "to_find").ends_with(&token);
        Ok(is_known.then_some(rows))
    });
    let rows = rows.unwrap();
    assert_eq!(backends(&rows), [name(stage, 1)], "{rows:?}");
    assert_eq!(ran_on(stage, &mut client, WHO), name(stage, 1));
    // Both, as soon as the one that was stopped for a moment is a replica again.
    until(LIMIT, "any replica to do", || {
        let rows = explained(&mut client, &format!("/*+ delphinus(consistency=eventual) */ {WHO}"));
        Ok(item(&rows, "to_find").is_empty() && backends(&rows).len() == 2)
    })
    .unwrap();
    let rows = explained(&mut client, &format!("/*+ delphinus(consistency=global) */ {WHO}"));
    assert_eq!(backends(&rows), [name(stage, 0)], "{rows:?}");
}
