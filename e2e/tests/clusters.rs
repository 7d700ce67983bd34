//! Several clusters behind one proxy: who gets to which, and that nobody gets to another one unseen.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "clusters/support.rs"]
mod support;

use std::collections::BTreeMap;

use delphinus_e2e::{Client, Proxy, ServerError, until};
use delphinus_sandbox::Cluster;
use support::{LIMIT, Two, refusal, wait_for};

/// A rule that is for one cluster.
const RULE: &str =
    "[[rule]]\nname = \"counted\"\ncluster = [\"stats\"]\ntable = [\"orders.t\"]\ntarget = \"primary\"\n";

#[test]
fn each_client_gets_to_its_cluster() {
    let two = Two::start(RULE, "[cluster.pool]\nmax_connections = 7\n");
    counts(&two);
    choice(&two);
    both_at_once(&two);
    schemas_of_others(&two);
    another_user(&two);
    kill_across(&two);
    operators(&two);
    doctor(&two);
    assert!(
        two.stage
            .proxy
            .as_ref()
            .unwrap()
            .log()
            .contains("this listener greets clients with the version of cluster shop")
    );
}

/// Sessions of `shop` find what they have written; those of `stats` were told not to look for it.
fn consistency(two: &Two) {
    let (shop, stats) = (&two.stage.cluster.servers[0], &two.stats.servers[0]);
    shop.query("CREATE TABLE sbtest.written (a INT)").unwrap();
    let delay = |cluster: &Cluster, sql: &str| {
        cluster.servers[1..].iter().for_each(|server| drop(server.query(sql).unwrap()));
    };
    delay(&two.stage.cluster, "STOP SLAVE; CHANGE MASTER TO MASTER_DELAY=60; START SLAVE");
    delay(&two.stats, "STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_DELAY=60; START REPLICA");
    let read_by_replicas = |client: &mut Client, write: &str, primary: u16| {
        client.query(write).unwrap();
        let ports = (0..6).map(|_| client.value("SELECT port FROM app.answered_by").unwrap());
        ports.filter(|port| *port != primary.to_string()).count()
    };
    // They were out for a moment, while their replication was stopped.
    for (schema, primary) in [("sbtest", shop.port), ("orders", stats.port)] {
        until(LIMIT, "replicas to be read again", || {
            Ok(read_by_replicas(&mut two.app(schema), "DO 0", primary) > 0)
        })
        .unwrap();
    }
    let found = read_by_replicas(&mut two.app("sbtest"), "INSERT INTO written VALUES (1)", shop.port);
    assert_eq!(found, 0, "replicas of shop have not got the row");
    let found = read_by_replicas(&mut two.app("orders"), "INSERT INTO t VALUES ('a')", stats.port);
    assert!(found > 0, "stats reads from its replica, however old");
}

/// Everything that SHOW STATUS has.
fn status(operator: &mut Client) -> BTreeMap<String, u64> {
    let rows = operator.rows("SHOW STATUS").unwrap();
    let pair =
        |row: Vec<Option<String>>| (row[0].clone().unwrap(), row[1].as_ref().unwrap().parse().unwrap());
    rows.into_iter().map(pair).collect()
}

/// What is done in a cluster is counted there, and nowhere else.
fn counts(two: &Two) {
    let mut operator = two.operator();
    // Who looked whether the proxy is ready may be on its way out.
    until(LIMIT, "everybody to leave", || Ok(status(&mut operator)["delphinus_clients"] == 0)).unwrap();
    let mut before = status(&mut operator);
    let mut grown =
        |cluster: &str, before: &BTreeMap<String, u64>| -> (BTreeMap<String, u64>, BTreeMap<String, u64>) {
            let now = status(&mut operator);
            let is_of =
                |name: &str| name.contains("_total{") && name.contains(&format!("{{cluster=\"{cluster}\""));
            let more = now.iter().filter(|(name, value)| is_of(name) && **value != before[*name]);
            (more.map(|(name, value)| (name.clone(), value - before[name])).collect(), now)
        };
    let mut client = two.app("orders");
    for _ in 0..20 {
        client.query("SELECT port FROM app.answered_by").unwrap();
    }
    for sql in ["BEGIN", "INSERT INTO t VALUES ('counted')", "ROLLBACK"] {
        client.query(sql).unwrap();
    }
    assert_eq!(grown("shop", &before).0, BTreeMap::new());
    let (stats, now) = grown("stats", &before);
    assert_eq!(stats["delphinus_commands_total{cluster=\"stats\",kind=\"query\"}"], 23);
    assert_eq!(
        stats.get("delphinus_routed_total{cluster=\"stats\",target=\"replica\"}"),
        Some(&20),
        "{stats:?}"
    );
    for name in [
        "client_bytes_total{cluster=\"stats\",direction=\"out\"}",
        "backend_bytes_total{cluster=\"stats\",direction=\"in\"}",
        "backend_connects_total{cluster=\"stats\",result=\"ok\"}",
        "pinned_microseconds_total{cluster=\"stats\",reason=\"transaction\"}",
    ] {
        assert!(stats.contains_key(&format!("delphinus_{name}")), "{name}: {stats:?}");
    }
    for (name, value) in [
        ("delphinus_sessions{cluster=\"shop\"}", 0),
        ("delphinus_sessions{cluster=\"stats\"}", 1),
        ("delphinus_backend_up{cluster=\"shop\",backend=\"primary\"}", 1),
        ("delphinus_backend_up{cluster=\"stats\",backend=\"stats2\"}", 1),
        ("delphinus_backend_connections_max{cluster=\"stats\",backend=\"stats1\"}", 7),
    ] {
        assert_eq!(now[name], value, "{name}");
    }
    // A client that has no cluster yet is nobody's.
    let logins = "delphinus_logins_total{result=\"ok\"}";
    assert_eq!(now[logins], before[logins] + 1);
    before = now;
    client.change_user(&two.login("app", "apppw", "app")).unwrap();
    client.query("SELECT 1").unwrap();
    let (shop, now) = grown("shop", &before);
    assert_eq!(shop["delphinus_commands_total{cluster=\"shop\",kind=\"query\"}"], 1);
    assert_eq!(now["delphinus_sessions{cluster=\"shop\"}"], 1);
    // It has left the other one, which has its time.
    let stats = grown("stats", &before).0;
    assert!(stats.contains_key("delphinus_session_microseconds_total{cluster=\"stats\"}"), "{stats:?}");
    assert!(!stats.contains_key("delphinus_commands_total{cluster=\"stats\",kind=\"query\"}"), "{stats:?}");
}

/// By listener, user, schema, and without any of them.
fn choice(two: &Two) {
    for (user, password, schema, cluster) in [
        ("app", "apppw", "app", "shop"),
        ("app", "apppw", "", "shop"),
        ("app", "apppw", "sbtest", "shop"),
        ("app", "apppw", "orders", "stats"),
        ("etl", "etl-pw", "", "stats"),
        ("etl", "etl-pw", "app", "stats"),
    ] {
        let login = two.login(user, password, schema);
        assert_eq!(two.of(&mut Client::connect(&login).unwrap()), cluster, "{user} {schema:?}");
        // The listener says it for everybody.
        if schema != "sbtest" {
            let login = login.over_tcp(&two.to_stats);
            assert_eq!(two.of(&mut Client::connect(&login).unwrap()), "stats", "{user} {schema:?}");
        }
    }
    let told =
        Client::connect(&two.login("app", "apppw", "").over_tcp(&two.to_stats)).unwrap().server_version;
    assert!(told.starts_with('9') || told.starts_with('8'), "{told}");
    assert!(two.app("").server_version.contains("MariaDB"));
    // Nobody gets a schema from a cluster that it is not in.
    let wrong = refusal(&two.login("etl", "etl-pw", "sbtest"));
    assert_eq!((wrong.code, &*wrong.sqlstate), (1044, "42000"));
    assert!(
        wrong
            .message
            .contains("schema 'sbtest' is in cluster 'shop', and this session is in cluster 'stats'"),
        "{wrong}"
    );
    assert_eq!(refusal(&two.login("app", "apppw", "sbtest").over_tcp(&two.to_stats)).code, 1044);
    assert_eq!(refusal(&two.login("app", "wrong", "sbtest").over_tcp(&two.to_stats)).code, 1045);
}

/// Sessions of both find what they have written, and only that.
fn both_at_once(two: &Two) {
    let mut sessions = [two.app("app"), two.app("orders")];
    for client in &mut sessions {
        client.query("CREATE TABLE app.at_once (who INT)").unwrap();
    }
    for round in 0..20 {
        for (who, client) in sessions.iter_mut().enumerate() {
            client.query(&format!("INSERT INTO app.at_once VALUES ({who})")).unwrap();
            let rows = client.rows("SELECT COUNT(*), MIN(who), MAX(who) FROM app.at_once").unwrap();
            let expected = [round + 1, who, who].map(|number| Some(number.to_string()));
            assert_eq!(rows, [expected]);
        }
    }
    for (who, server) in [&two.stage.cluster.servers[0], &two.stats.servers[0]].iter().enumerate() {
        let found = server.query("SELECT COUNT(*), MIN(who), MAX(who) FROM app.at_once").unwrap();
        assert_eq!(found.trim(), format!("20\t{who}\t{who}"));
    }
}

/// No way leads into a schema of another cluster, though there is one of that name.
fn schemas_of_others(two: &Two) {
    let mut login = two.login("app", "apppw", "app");
    login.allows_multi_statements = true;
    let mut client = Client::connect(&login).unwrap();
    let is_told = |error: &ServerError| {
        assert_eq!((error.code, &*error.sqlstate), (1044, "42000"), "{error}");
        assert!(error.message.contains("schema 'orders' is in cluster 'stats'"), "{error}");
        assert!(error.message.contains("connect again"), "{error}");
    };
    for sql in
        ["USE orders", "/* x */ use `Orders`", "/*!40000 USE orders */", "SELECT 1; USE orders; SELECT 2"]
    {
        let error = client.error(sql).unwrap();
        assert_eq!(error.code, 1044, "{sql}");
        if !sql.contains("Orders") {
            is_told(&error);
        }
        assert_eq!(client.value("SELECT DATABASE()").unwrap(), "app", "{sql}");
    }
    is_told(&client.command(2, b"orders").unwrap_err().downcast().unwrap());
    is_told(&client.prepare("USE orders").unwrap_err().downcast().unwrap());
    assert_eq!(client.value("SELECT DATABASE()").unwrap(), "app");
    // Its own, and those that nobody claims.
    client.query("USE sbtest").unwrap();
    client.command(2, b"app").unwrap();
    client.query("SELECT 1; USE sbtest").unwrap();
    assert_eq!(client.value("SELECT DATABASE()").unwrap(), "sbtest");
    // A session that gets there unseen ends before it can do anything.
    let _ = client.query("EXECUTE IMMEDIATE 'USE orders'");
    assert!(
        client.query("CREATE TABLE lost (a INT)").is_err()
            || client.value("SELECT DATABASE()").unwrap() == "sbtest"
    );
    let lost = "SELECT COUNT(*) FROM information_schema.tables WHERE table_name = 'lost' AND table_schema = 'orders'";
    assert_eq!(two.stage.cluster.servers[0].query(lost).unwrap().trim(), "0");
    let mut client = two.app("orders");
    assert_eq!(client.error("USE sbtest").unwrap().code, 1044);
    client.query("USE app").unwrap();
    client.query("USE orders").unwrap();
    assert_eq!(two.of(&mut client), "stats");
}

/// COM_CHANGE_USER moves the whole session.
fn another_user(two: &Two) {
    let mut client = two.app("app");
    client.query("SET @mine = 1, NAMES latin1").unwrap();
    client.query("CREATE TEMPORARY TABLE app.mine (a INT)").unwrap();
    let version = |client: &mut Client| client.value("SELECT VERSION()").unwrap();
    assert!(version(&mut client).contains("MariaDB"));
    client.change_user(&two.login("etl", "etl-pw", "")).unwrap();
    assert_eq!(two.of(&mut client), "stats");
    assert!(!version(&mut client).contains("MariaDB"));
    assert_eq!(client.rows("SELECT @mine, DATABASE()").unwrap(), [[None, None]]);
    // MySQL's alone: how texts are read has moved, too.
    client.query("SET SESSION sql_mode = 'ANSI_QUOTES'").unwrap();
    assert_eq!(client.value("SELECT \"user\" FROM mysql.\"user\" WHERE \"user\" = 'etl'").unwrap(), "etl");
    client.query("BEGIN").unwrap();
    client.change_user(&two.login("app", "apppw", "orders")).unwrap();
    assert_eq!(two.of(&mut client), "stats");
    client.query("INSERT INTO t VALUES ('moved')").unwrap();
    assert_eq!(client.value("SELECT who FROM t").unwrap(), "moved");
    client.change_user(&two.login("app", "apppw", "app")).unwrap();
    assert_eq!(two.of(&mut client), "shop");
    assert_eq!(client.error("SELECT * FROM mine").unwrap().code, 1146);
    let error = client.change_user(&two.login("etl", "etl-pw", "sbtest")).unwrap_err();
    assert_eq!(error.downcast::<ServerError>().unwrap().code, 1044);
    assert_eq!(two.of(&mut client), "shop", "the old user goes on, as on a server of its family");
}

/// KILL finds its victim in every cluster, with the usual rights.
fn kill_across(two: &Two) {
    let sleeping =
        "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP(1000)%'";
    let on_stats = || {
        let counts = two.stats.servers.iter().map(|server| server.query(sleeping));
        counts.sum_ok()
    };
    let mut killer = two.app("app");
    for scope in ["QUERY", "CONNECTION"] {
        let mut victim = two.app("orders");
        let id = victim.connection_id;
        let victim = std::thread::spawn(move || {
            let error = victim.query("SELECT SLEEP(1000), 'x'").map(|_| ());
            (error, victim.query("SELECT 1").is_ok())
        });
        until(LIMIT, "the statement to run", || Ok(on_stats()? == 1)).unwrap();
        let listed = killer.rows("SHOW PROCESSLIST").unwrap();
        assert!(listed.iter().any(|row| row[0] == Some(id.to_string())), "the user's own, in both");
        let mut stranger = Client::connect(&two.login("nopw", "", "")).unwrap();
        assert_eq!(stranger.error(&format!("KILL {scope} {id}")).unwrap().code, 1095);
        killer.query(&format!("KILL {scope} {id}")).unwrap();
        // Long before it would have by itself.
        until(LIMIT, "the statement to end", || Ok(on_stats()? == 0)).unwrap();
        let (_, goes_on) = victim.join().unwrap();
        assert_eq!(goes_on, scope == "QUERY");
    }
}

/// The sum of numbers that servers have answered.
trait SumOk {
    fn sum_ok(self) -> anyhow::Result<u32>;
}

impl<I: Iterator<Item = anyhow::Result<String>>> SumOk for I {
    fn sum_ok(mut self) -> anyhow::Result<u32> {
        self.try_fold(0, |sum, one| Ok(sum + one?.trim().parse::<u32>()?))
    }
}

/// What operators see and do.
/// A user whom only one of the clusters knows, and whose clients can get to both.
fn doctor(two: &Two) {
    let shop = &two.stage.cluster;
    shop.servers[0].query("CREATE USER shopper@'%' IDENTIFIED BY 'shopper-pw'").unwrap();
    wait_for(shop, "shopper");
    let mut operator = two.operator();
    operator.query("ADD USER shopper password = 'shopper-pw'").unwrap();
    let refused = operator
        .rows("SELECT severity || ': ' || object FROM doctor WHERE check_name = 'user_refused' AND object LIKE 'user shopper%' ORDER BY object")
        .unwrap();
    let backend = |name: &str| vec![Some(format!("warning: user shopper, backend {name} of stats"))];
    assert_eq!(refused, ["stats1", "stats2"].map(backend));
    operator.query("REMOVE USER shopper").unwrap();
}

fn operators(two: &Two) {
    let mut operator = two.operator();
    let mut column = |sql: &str, at: usize| -> Vec<String> {
        let rows = operator.rows(sql).unwrap();
        rows.into_iter().map(|row| row[at].clone().unwrap_or_default()).collect()
    };
    assert_eq!(column("SHOW CLUSTERS", 0), ["shop", "stats"]);
    assert_eq!(column("SHOW CLUSTERS", 2), ["primary", "stats1"]);
    assert_eq!(column("SHOW CLUSTERS LIKE 'stats'", 7), ["orders"]);
    assert_eq!(column("SHOW CLUSTERS LIKE 'stats'", 8), ["to stats"]);
    assert_eq!(column("SHOW CLUSTERS LIKE 'stats'", 9), ["etl"]);
    assert_eq!(column("SHOW BACKENDS", 16), ["shop", "shop", "shop", "stats", "stats"]);
    assert_eq!(column("SHOW BACKENDS LIKE 'stats%'", 9), ["7", "7"]);
    let (mut shop, mut stats) = (two.app("app"), two.app("orders"));
    for client in [&mut shop, &mut stats] {
        client.query("BEGIN").unwrap();
        client.query("SELECT 1 FROM app.answered_by FOR UPDATE").unwrap();
    }
    let mut ids = [shop.connection_id, stats.connection_id].map(|id| id.to_string()).to_vec();
    ids.sort_by_key(|id| id.parse::<u32>().unwrap());
    assert_eq!(column("SHOW PINS", 0), ids);
    assert_eq!(column("SHOW PINS", 2), ["primary", "stats1"]);
    assert_eq!(column("SHOW PINS", 7), ["shop", "stats"]);
    let sessions = operator.rows("SHOW SESSIONS LIKE 'app'").unwrap();
    let of = |id: u32| sessions.iter().find(|row| row[0] == Some(id.to_string())).unwrap();
    assert_eq!(
        (of(shop.connection_id)[6].as_deref(), of(shop.connection_id)[11].as_deref()),
        (Some("primary"), Some("shop"))
    );
    assert_eq!(
        (of(stats.connection_id)[6].as_deref(), of(stats.connection_id)[11].as_deref()),
        (Some("stats1"), Some("stats"))
    );
    let pools = operator.rows("SHOW POOLS LIKE 'stats1'").unwrap();
    assert!(!pools.is_empty() && pools.iter().all(|row| row[10].as_deref() == Some("stats")), "{pools:?}");
    stats.query("COMMIT").unwrap();
    stats.query("SELECT * FROM orders.t").unwrap();
    let rules = operator.rows("SHOW RULES").unwrap();
    assert_eq!(rules.len(), 1);
    assert_ne!(rules[0][5].as_deref(), Some("0"), "hits");
    assert_eq!(rules[0][10].as_deref(), Some("stats"));
    let route = |operator: &mut Client, text: &str| format!("{:?}", operator.rows(text).unwrap());
    let told = route(&mut operator, "EXPLAIN ROUTE IN CLUSTER stats SELECT * FROM orders.t");
    assert!(told.contains("stats1") && told.contains("counted") && !told.contains("\"shop\""), "{told}");
    assert!(!route(&mut operator, "EXPLAIN ROUTE SELECT * FROM orders.t").contains("counted"));
    operator.query("SET BACKEND stats2 OFFLINE").unwrap();
    let mut reader = two.app("orders");
    assert_eq!(
        reader.value("SELECT port FROM app.answered_by").unwrap(),
        two.stats.servers[0].port.to_string()
    );
    assert_eq!(two.of(&mut two.app("app")), "shop");
    operator.query("SET BACKEND stats2 ONLINE").unwrap();
}

/// Whatever happens to one cluster, the other does not notice.
#[test]
fn one_clusters_end_is_not_the_others() {
    let asks = "[authentication]\nauth = \"backend\"\n";
    let mut two = Two::start(asks, "[cluster.routing]\nfailover_wait_ms = 0\nconsistency = \"eventual\"\n");
    people_of_the_same_name(&two);
    consistency(&two);
    let (mut shop, mut stats) = (two.app("app"), two.app("orders"));
    shop.query("CREATE TABLE app.steady (a INT)").unwrap();
    two.stats.servers[0].kill9();
    for number in 0..100 {
        shop.query(&format!("INSERT INTO app.steady VALUES ({number})")).unwrap();
        assert_eq!(two.of(&mut two.app("app")), "shop");
    }
    // A connection that dies under it first, perhaps.
    until(LIMIT, "the error of a cluster without primary", || {
        Ok(stats.error("INSERT INTO orders.t VALUES ('x')")?.code == 9102)
    })
    .unwrap();
    assert_eq!(shop.value("SELECT COUNT(*) FROM app.steady").unwrap(), "100");
    two.stats.servers[0].start_again().unwrap();
    until(LIMIT, "the return", || Ok(stats.query("INSERT INTO orders.t VALUES ('back')").is_ok())).unwrap();
    drop((shop, stats));
    start_without_the_default(two);
}

/// A name is one account in each cluster: what is known of a password in one says nothing in the other.
fn people_of_the_same_name(two: &Two) {
    for (cluster, password) in [(&two.stage.cluster, "of-shop"), (&two.stats, "of-stats")] {
        let server = &cluster.servers[0];
        server.query(&format!("CREATE USER twin@'%' IDENTIFIED BY '{password}'")).unwrap();
        server.query("GRANT ALL ON app.* TO twin@'%'; GRANT ALL ON orders.* TO twin@'%'").unwrap();
        wait_for(cluster, "twin");
    }
    let to_stats = |password: &str| two.login("twin", password, "orders");
    let mut victim = Client::connect(&two.login("twin", "of-shop", "app")).unwrap();
    assert_eq!(two.of(&mut victim), "shop");
    // Right in the other cluster, and remembered there.
    assert_eq!(refusal(&to_stats("of-shop")).code, 1045);
    let mut other = Client::connect(&to_stats("of-stats")).unwrap();
    assert_eq!(two.of(&mut other), "stats");
    assert_eq!(refusal(&two.login("twin", "of-stats", "app")).code, 1045);
    // Not the same person.
    assert_eq!(other.error(&format!("KILL {}", victim.connection_id)).unwrap().code, 1095);
    assert_eq!(other.rows("SHOW PROCESSLIST").unwrap().len(), 1);
    let error = victim.change_user(&to_stats("of-shop")).unwrap_err();
    assert_eq!(error.downcast::<ServerError>().unwrap().code, 1045);
}

/// A proxy that starts while its default cluster is down lets clients into the other one.
fn start_without_the_default(mut two: Two) {
    two.stage.proxy().unwrap().stop(LIMIT).unwrap();
    two.stage.proxy = None;
    for server in &mut two.stage.cluster.servers {
        server.kill9();
    }
    let mut proxy = Proxy::start(&two.config).unwrap();
    let by_schema = two.login("app", "apppw", "orders");
    until(LIMIT, "a login to the other cluster", || Ok(Client::connect(&by_schema).is_ok())).unwrap();
    let mut client = Client::connect(&by_schema).unwrap();
    assert_eq!(two.of(&mut client), "stats");
    assert_eq!(refusal(&two.login("app", "apppw", "")).code, 9102);
    drop(client);
    proxy.stop(LIMIT).unwrap();
}
