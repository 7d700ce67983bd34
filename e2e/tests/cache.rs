//! Answers that are kept: who gets them, how old they are, and what is never kept. How often a statement really ran is asked
//! of the servers (their general logs).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "cache/budget.rs"]
mod budget;
#[path = "cache/flush.rs"]
mod flush;
#[path = "cache/growing_old.rs"]
mod growing_old;
#[path = "cache/herd.rs"]
mod herd;
#[path = "cache/terms.rs"]
mod terms;

use std::process::Command;
use std::time::Duration;

use delphinus_e2e::{Address, Client, ConfigFile, Login, Operators, Stage, delay_replica, run, until};
use delphinus_sandbox::{APP2, Flavor, PortLease};
use delphinus_testkit::{Login as Direct, Param, Reply};
use delphinus_wire::Capabilities;

const LIMIT: Duration = Duration::from_mins(1);
/// Until the end of the test.
const KEPT: &str = "/*+ delphinus(cache_ttl=3600000) */";

/// Two rules, and an admin listener.
fn sections(port: u16) -> String {
    format!(
        "[[rule]]\nname = \"minute\"\nmatch_pattern = 'FROM kept .*by rule'\ncache_ttl_ms = 60000\n\
         [[rule]]\nname = \"aged\"\nmatch_pattern = 'aged'\ncache_ttl_ms = 60000\nconsistency = \"eventual\"\n\
         [admin]\naddresses = [\"127.0.0.1:{port}\"]\n\
         [[admin.user]]\nname = \"ops\"\npassword = \"ops-pw\"\nrole = \"operate\"\n"
    )
}

fn operator(address: &Address, port: u16) -> Client {
    let admin = Address { port, database: String::new(), ..address.clone() };
    let mut login = Login::new(&admin).over_tcp(&admin);
    (login.user, login.password) = ("ops".to_owned(), "ops-pw".to_owned());
    Client::connect(&login).unwrap()
}

/// A number of `SHOW CACHE`.
fn shown(operator: &mut Client, item: &str) -> u64 {
    let rows = operator.rows(&format!("SHOW CACHE LIKE '{item}'")).unwrap();
    rows[0][1].as_deref().unwrap().parse().unwrap()
}

/// How often a statement with this mark ran, on all servers, for whomever.
fn runs(stage: &Stage, marker: &str) -> u32 {
    let sql = format!(
        "SELECT COUNT(*) FROM mysql.general_log WHERE command_type IN ('Query', 'Execute') \
         AND CONVERT(argument USING utf8mb4) LIKE '%{marker}*/%' AND user_host NOT LIKE 'root%'"
    );
    let count =
        |server: &delphinus_sandbox::Server| -> u32 { server.query(&sql).unwrap().trim().parse().unwrap() };
    stage.cluster.servers.iter().map(count).sum()
}

fn kept(body: &str, marker: &str) -> String {
    format!("{KEPT} {body} /*{marker}*/")
}

fn session(stage: &Stage) -> Direct {
    session_at(&stage.address)
}

fn session_at(address: &Address) -> Direct {
    let Address { socket, user, password, database, .. } = address;
    Direct::new(socket, user, password).schema(database)
}

/// The only reply.
fn reply(client: &mut delphinus_testkit::Client, sql: &str) -> Reply {
    let mut replies = client.query(sql).unwrap();
    assert_eq!(replies.len(), 1, "{sql}");
    replies.remove(0)
}

fn prepare_tables(stage: &Stage) {
    let mut client = stage.address.connect().unwrap();
    for sql in [
        "CREATE TABLE kept (id INT PRIMARY KEY, v INT NOT NULL, name VARCHAR(40) CHARACTER SET utf8mb4, at TIMESTAMP NULL)",
        "INSERT INTO kept VALUES (1, 1, 'é', FROM_UNIXTIME(0 + 86400)), (2, 2, 'b', NULL), (3, 3, '\u{4e2d}', NULL), (4, 4, NULL, NULL)",
        "CREATE TABLE made (id INT PRIMARY KEY AUTO_INCREMENT)",
        "CREATE TABLE sbtest.kept AS SELECT id, v + 100 AS v, name, at FROM kept",
    ] {
        client.query(sql).unwrap_or_else(|error| panic!("{sql}: {error:#}"));
    }
    for server in &stage.cluster.servers {
        until(LIMIT, "the tables are everywhere", || {
            Ok(server.query("SELECT COUNT(*) FROM sbtest.kept").is_ok_and(|count| count.trim() == "4"))
        })
        .unwrap();
    }
}

/// Text and prepared, by hint, rule, attribute and setting of the session: run once, answered often.
fn check_hits(stage: &Stage, operator: &mut Client) {
    let mut one = session(stage).connect().unwrap();
    let mut other = session(stage).connect().unwrap();
    let sql = kept("SELECT id, v, name FROM kept ORDER BY id", "hits");
    let first = reply(&mut one, &sql);
    assert_eq!(first.clone().rows().unwrap().len(), 4);
    let before = shown(operator, "lookups_hit");
    for _ in 0..5 {
        assert_eq!(reply(&mut one, &sql), first);
        assert_eq!(reply(&mut other, &sql), first, "the same for another session, on another worker perhaps");
    }
    assert_eq!(runs(stage, "hits"), 1);
    assert_eq!(shown(operator, "lookups_hit") - before, 10);
    for _ in 0..3 {
        reply(&mut one, "SELECT v FROM kept WHERE id = 1 /*by rule*/");
        reply(&mut one, "/*+ delphinus(no_cache) */ SELECT v FROM kept WHERE id = 1 /*by rule, not kept*/");
    }
    assert_eq!((runs(stage, "by rule"), runs(stage, "by rule, not kept")), (1, 3));
    let mut client = stage.address.connect().unwrap();
    // Query attributes are a part of MySQL's protocol only.
    if stage.cluster.flavor == Flavor::MySql {
        let mut login = Login::new(&stage.address);
        login.has_query_attributes = true;
        let mut client = Client::connect(&login).unwrap();
        for _ in 0..3 {
            client
                .rows_with(&[("delphinus.cache_ttl", "3600000")], "SELECT v FROM kept /*attribute*/")
                .unwrap();
        }
        assert_eq!(runs(stage, "attribute"), 1);
    }
    client.query("SET @@delphinus.cache_ttl = 3600000").unwrap();
    assert_eq!(client.value("SELECT @@delphinus.cache_ttl").unwrap(), "3600000");
    for _ in 0..3 {
        client.rows("SELECT v FROM kept /*setting*/").unwrap();
    }
    client.query("SET @@delphinus.cache_ttl = DEFAULT").unwrap();
    client.rows("SELECT v FROM kept /*setting*/").unwrap();
    assert_eq!(runs(stage, "setting"), 2);
    // All are forgotten.
    operator.query("CLEAR CACHE").unwrap();
    assert_eq!((shown(operator, "answers"), shown(operator, "bytes")), (0, 0));
    assert_eq!(reply(&mut one, &sql), first);
    assert_eq!(runs(stage, "hits"), 2);
}

fn check_prepared(stage: &Stage) {
    let mut one = session(stage).connect().unwrap();
    let mut other = session(stage).connect().unwrap();
    let sql = kept("SELECT id, v, ? AS said FROM kept WHERE id = ?", "prepared");
    let ids = [&mut one, &mut other].map(|client| client.prepare(&sql).unwrap().unwrap().id);
    let text = |text: &str| Param::Text(text.to_owned());
    let asked = [
        [text("a"), Param::Int(1)],
        [text("a"), Param::Int(2)],
        [text("b"), Param::Int(1)],
        [Param::Null, Param::Int(1)],
        [Param::Int(7), Param::Int(1)],
        [Param::Unsigned(7), Param::Int(1)],
        [text("7"), Param::Int(1)],
    ];
    let mut first = Vec::new();
    for params in &asked {
        first.push(one.execute(ids[0], params, true).unwrap());
    }
    assert_eq!(runs(stage, "prepared"), 7, "whatever is bound belongs to the question");
    for (params, expected) in asked.iter().zip(&first) {
        assert_eq!(&one.execute(ids[0], params, true).unwrap(), expected, "{params:?}");
        assert_eq!(&one.execute(ids[0], params, false).unwrap(), expected, "{params:?}, types sent before");
        assert_eq!(&other.execute(ids[1], params, true).unwrap(), expected, "{params:?}");
    }
    assert_eq!(runs(stage, "prepared"), 7);
    // As text it is another question.
    reply(&mut one, &kept("SELECT id, v, 'a' AS said FROM kept WHERE id = 1", "prepared"));
    assert_eq!(runs(stage, "prepared"), 8);
}

fn check_ttl(stage: &Stage) {
    let mut client = stage.address.connect().unwrap();
    let sql = "/*+ delphinus(cache_ttl=400) */ SELECT v FROM kept /*its time is over*/";
    client.rows(sql).unwrap();
    until(LIMIT, "it is too old", || {
        client.rows(sql)?;
        Ok(runs(stage, "its time is over") == 3)
    })
    .unwrap();
    // Young enough for others is too old for who says so: nothing is one millisecond old for long.
    client.query("SET @@delphinus.cache_ttl = 3600000").unwrap();
    client.rows("SELECT v FROM kept /*whose*/").unwrap();
    client.query("SET @@delphinus.cache_ttl = 1").unwrap();
    until(LIMIT, "it is too old for this one", || {
        client.rows("SELECT v FROM kept /*whose*/")?;
        Ok(runs(stage, "whose") >= 2)
    })
    .unwrap();
}

/// Sessions that differ in anything that answers depend on get their own.
fn check_sharing(stage: &Stage) {
    let usual = || session(stage);
    let variants: [(Direct, &[&str]); 13] = [
        (usual(), &[]),
        (usual().user(APP2.user, APP2.password), &[]),
        (usual(), &["USE sbtest"]),
        (usual(), &["SET NAMES latin1"]),
        (usual(), &["SET character_set_results = binary"]),
        (usual(), &["SET collation_connection = utf8mb4_bin"]),
        (usual(), &["SET time_zone = '+05:00'"]),
        (usual(), &["SET sql_mode = 'ANSI_QUOTES'"]),
        (usual(), &["SET sql_mode = ''"]),
        (usual(), &["SET group_concat_max_len = 4"]),
        (usual(), &["SET @@delphinus.mode = 'primary'"]),
        (usual().with(Capabilities::DEPRECATE_EOF), &[]),
        (usual().without(Capabilities::DEPRECATE_EOF).with(Capabilities::FOUND_ROWS), &[]),
    ];
    let body =
        "SELECT GROUP_CONCAT(name), MAX(v), MAX(at), DATABASE(), CURRENT_USER(), 'é' AS e, \"id\" FROM kept";
    // Some are the same, such as DEPRECATE_EOF where the client asks for it anyway.
    let mut answers = Vec::new();
    for round in 0..2 {
        for (number, (login, settings)) in variants.iter().enumerate() {
            let mut client = login.connect().unwrap();
            for sql in *settings {
                assert!(reply(&mut client, sql).failure().is_none(), "{sql}");
            }
            let fresh = reply(&mut client, &format!("/*+ delphinus(no_cache) */ {body} /*fresh*/"));
            let given = reply(&mut client, &kept(body, "shared"));
            assert_eq!(given, fresh, "round {round}, variant {number}: {settings:?}");
            if round == 0 {
                answers.push(given);
            } else {
                assert_eq!(given, answers[number]);
            }
        }
        let ran = runs(stage, "shared");
        assert!(ran == 12 || ran == 13, "round {round}: {ran}");
    }
}

/// What runs each time: what changes by itself, what belongs to a session or a transaction, what is more than rows.
fn check_never_kept(stage: &Stage) {
    let mut client = stage.address.connect().unwrap();
    let twice = |client: &mut Client, sql: &str, marker: &str| {
        for _ in 0..2 {
            let _ = client.query_all(sql);
        }
        assert_eq!(runs(stage, marker), 2, "{sql}");
    };
    client.query("SET @mine = 1").unwrap();
    for (number, body) in [
        "SELECT NOW(), v FROM kept",
        "SELECT CURRENT_TIMESTAMP FROM kept",
        "SELECT RAND() FROM kept",
        "SELECT UUID()",
        "SELECT @mine",
        "SELECT CONNECTION_ID()",
        "SELECT v FROM kept FOR UPDATE",
        "SELECT CAST('x' AS SIGNED)",
        "SELECT no_such_column FROM kept",
        "SELECT @@server_id",
        "SHOW TABLES",
    ]
    .into_iter()
    .enumerate()
    {
        let marker = format!("never{number}");
        twice(&mut client, &kept(body, &marker), &marker);
    }
    for (number, (before, after)) in [
        ("BEGIN", "COMMIT"),
        ("SET autocommit = 0", "SET autocommit = 1"),
        ("SET sql_select_limit = 2", "SET sql_select_limit = DEFAULT"),
        ("CREATE TEMPORARY TABLE mine (id INT)", "DROP TEMPORARY TABLE mine"),
        ("SET @@delphinus.consistency = 'global'", "SET @@delphinus.consistency = DEFAULT"),
        (
            "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
            "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        client.query(before).unwrap();
        let marker = format!("state{number}");
        twice(&mut client, &kept("SELECT v FROM kept", &marker), &marker);
        client.query(after).unwrap();
    }
    // With a cursor.
    let mut client = session(stage).connect().unwrap();
    let id = client.prepare(kept("SELECT v FROM kept", "cursor")).unwrap().unwrap().id;
    for _ in 0..2 {
        client.open_cursor(id, &[]).unwrap();
        client.reset_statement(id).unwrap();
    }
    assert_eq!(runs(stage, "cursor"), 2);
    // Prepared where the tables are the server's own, whatever the schema is now.
    client.query("USE information_schema").unwrap();
    let id = client.prepare(kept("SELECT COUNT(*) FROM schemata", "inside")).unwrap().unwrap().id;
    client.query("USE app").unwrap();
    for _ in 0..2 {
        client.execute(id, &[], false).unwrap();
    }
    assert_eq!(runs(stage, "inside"), 2);
    check_uncommitted_by_default(stage);
}

/// Where servers let all sessions read what is not committed, answers are kept for those that have set another level.
fn check_uncommitted_by_default(stage: &Stage) {
    let level = |level: &str| {
        for server in &stage.cluster.servers {
            server.query(&format!("SET GLOBAL TRANSACTION ISOLATION LEVEL {level}")).unwrap();
        }
        wait_for_probes(stage);
    };
    level("READ UNCOMMITTED");
    let mut client = session(stage).connect().unwrap();
    for (marker, times) in [("dirty", 2), ("clean", 1)] {
        for _ in 0..2 {
            reply(&mut client, &kept("SELECT v FROM kept", marker));
        }
        assert_eq!(runs(stage, marker), times);
        client.query("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ").unwrap();
    }
    level("REPEATABLE READ");
}

/// The monitor has looked so often that the cluster is known to be at rest, if it is.
fn wait_for_probes(stage: &Stage) {
    let seen = || -> u32 {
        let sql = "SELECT COUNT(*) FROM mysql.general_log WHERE user_host LIKE 'monitor[%' AND command_type = 'Query'";
        stage.cluster.servers[0].query(sql).unwrap().trim().parse().unwrap()
    };
    let before = seen();
    until(LIMIT, "the monitor has looked", || Ok(seen() >= before + 20)).unwrap();
}

/// A session finds what it has written, and what it was told to find, whoever has asked before.
fn check_own_writes(stage: &Stage) {
    let sql = kept("SELECT v FROM kept WHERE id = 1", "own");
    let (mut reader, mut writer) = (stage.address.connect().unwrap(), stage.address.connect().unwrap());
    let prepared = writer.prepare("UPDATE kept SET v = v + 1 WHERE id = 1").unwrap();
    let value = |client: &mut Client| -> u32 { client.value(&sql).unwrap().parse().unwrap() };
    // Somebody who has seen nothing yet.
    let stranger = || stage.address.connect().unwrap();
    let mut v = value(&mut writer);
    for round in 0..60 {
        // What others write it may see later.
        assert!((1..=v).contains(&value(&mut reader)), "round {round}");
        match round % 3 {
            0 => writer.query("UPDATE kept SET v = v + 1 WHERE id = 1").map(drop).unwrap(),
            1 => writer.execute(prepared).map(drop).unwrap(),
            _ => {
                writer.query("BEGIN").unwrap();
                writer.query("UPDATE kept SET v = v + 1 WHERE id = 1").unwrap();
                assert!(value(&mut reader) <= v, "round {round}: nobody sees what is not committed");
                writer.query("COMMIT").unwrap();
            }
        }
        if round % 20 == 0 {
            assert!(value(&mut stranger()) <= v, "round {round}: others asked for what is as old as this");
            // At rest everybody has everything, but not what is kept.
            wait_for_probes(stage);
        }
        v += 1;
        for again in 0..3 {
            assert_eq!(value(&mut writer), v, "round {round}, {again}");
        }
    }
    // Another session is told.
    writer.query("UPDATE kept SET v = v + 1 WHERE id = 1").unwrap();
    let token = writer.value("SELECT @@delphinus.causality_token").unwrap();
    let mut told = stage.address.connect().unwrap();
    told.query(&format!("SET @@delphinus.causality_token = '{token}'")).unwrap();
    assert!(value(&mut stranger()) <= v);
    assert_eq!(value(&mut told), v + 1);
    // Where its age is all that counts, it is.
    let aged = "SELECT v FROM kept WHERE id = 1 /*aged*/";
    let before = writer.value(aged).unwrap();
    writer.query("UPDATE kept SET v = v + 1 WHERE id = 1").unwrap();
    assert_eq!(writer.value(aged).unwrap(), before);
    assert_eq!(runs(stage, "aged"), 1);
}

/// When and where a session has last written: an answer from there, but from before, does not have it, nor one from behind, but from
/// elsewhere.
fn check_time_and_place(stage: &Stage, flavor: Flavor) {
    let mut writer = stage.address.connect().unwrap();
    let value = |client: &mut Client, sql: &str| -> u32 { client.value(sql).unwrap().parse().unwrap() };
    let there = "/*+ delphinus(primary, cache_ttl=3600000) */ SELECT v FROM kept WHERE id = 1 /*there*/";
    let before = value(&mut writer, there);
    for n in 1..=3 {
        writer.query("UPDATE kept SET v = v + 1 WHERE id = 1").unwrap();
        assert_eq!(value(&mut writer, there), before + n, "what was asked on the primary before the write");
    }
    for replica in &stage.cluster.servers[1..] {
        delay_replica(flavor, replica, 600).unwrap();
    }
    let primary = stage.cluster.servers[0].port.to_string();
    until(LIMIT, "replicas take reads", || {
        let mut stranger = stage.address.connect()?;
        let on_replicas =
            (0..8).all(|_| stranger.value("SELECT port FROM answered_by").is_ok_and(|port| port != primary));
        Ok(on_replicas)
    })
    .unwrap();
    let elsewhere = kept("SELECT v FROM kept WHERE id = 1", "elsewhere");
    writer.query("UPDATE kept SET v = v + 1 WHERE id = 1").unwrap();
    let stale = value(&mut stage.address.connect().unwrap(), &elsewhere);
    assert!(stale < before + 4, "a stranger reads on a replica, which has not got it");
    assert_eq!(value(&mut writer, &elsewhere), before + 4, "what was asked on a replica behind the write");
    for replica in &stage.cluster.servers[1..] {
        delay_replica(flavor, replica, 0).unwrap();
    }
}

/// What the next statement asks about an answer from the cache is what it would ask a server.
fn check_what_is_left_behind(stage: &Stage, operator: &mut Client) {
    let sql = kept("SELECT id FROM kept ORDER BY id LIMIT 3", "left");
    let script = [
        "INSERT INTO made VALUES ()",
        &sql,
        "SELECT FOUND_ROWS()",
        &sql,
        "SELECT ROW_COUNT()",
        "SELECT CAST('x' AS SIGNED)",
        &sql,
        "SHOW WARNINGS",
        "SELECT CAST('x' AS SIGNED)",
        &sql,
        "SHOW COUNT(*) WARNINGS",
        "SELECT id FROM kept",
        &sql,
        "SELECT FOUND_ROWS(), LAST_INSERT_ID() - (SELECT MAX(id) FROM made)",
        "UPDATE kept SET v = v WHERE id = 3",
        &sql,
        "SELECT ROW_COUNT(), FOUND_ROWS()",
    ];
    let answers = |address: &Address| -> Vec<_> {
        let mut client = address.connect().unwrap();
        client.query(&sql).unwrap();
        script.iter().map(|sql| client.rows(sql).unwrap_or_default()).collect()
    };
    let direct = answers(&stage.primary_address());
    let hits = shown(operator, "lookups_hit");
    let through = answers(&stage.address);
    // After a write, and where the session has been elsewhere since, it is asked again.
    assert!(shown(operator, "lookups_hit") >= hits + 2);
    for (number, (through, direct)) in through.iter().zip(&direct).enumerate() {
        assert_eq!(through, direct, "{}", script[number]);
    }
}

/// TLS and compression are between the client and the proxy only; large answers pass in many pieces.
fn check_carriage(stage: &Stage) {
    let mut client = session(stage).connect().unwrap();
    let large = kept("SELECT REPEAT('x', 100000), REPEAT(name, 50000) FROM kept", "large");
    let first = reply(&mut client, &large);
    assert_eq!(reply(&mut client, &large), first);
    assert_eq!(runs(stage, "large"), 1);
    let too_large = kept("SELECT REPEAT('x', 600000) FROM kept", "vast");
    let first = reply(&mut client, &too_large);
    assert_eq!(reply(&mut client, &too_large), first);
    assert_eq!(runs(stage, "vast"), 2);
    for (options, marker) in
        [(&["--ssl"][..], "carried1"), (&["--compress"], "carried2"), (&["--ssl", "--compress"], "carried3")]
    {
        // The program spoils the marks of hints.
        let sql =
            format!("SELECT v, REPEAT(name, 2000) FROM kept WHERE id > 1 ORDER BY id /*by rule, {marker}*/");
        let mut command = Command::new("mariadb");
        let port = stage.address.port.to_string();
        command.args(["--no-defaults", "--comments", "-Nh127.0.0.1", "-P", &port]).args(options);
        command.arg(format!("-u{}", stage.address.user)).arg(format!("-p{}", stage.address.password));
        command.args([&stage.address.database, "-e", &format!("{sql}; {sql}")]);
        let first = run(&mut command, LIMIT).unwrap().success().unwrap();
        let ran = runs(stage, marker);
        let second = run(&mut command, LIMIT).unwrap().success().unwrap();
        // The program cuts its texts in two ways.
        assert!(first == second && first.lines().count() == 6, "{marker}: {first:.200}");
        assert!((1..=2).contains(&ran) && runs(stage, marker) == ran, "{marker}: {ran}");
    }
}

/// The room is bounded, one answer is, and what does not fit makes way.
fn check_limits(stage: &Stage) {
    let lease = PortLease::take().unwrap();
    let text = format!("[cache]\nmax_bytes = 65536\nmax_entry_bytes = 8192\n{}", sections(lease.port()));
    let (_proxy, address, _port) = stage.another_proxy(&ConfigFile::with_sections(&text)).unwrap();
    let mut operator = operator(&address, lease.port());
    let mut client = address.connect().unwrap();
    for (bytes, marker, expected) in [(7000, "small", 1), (9000, "big", 2)] {
        let sql = kept(&format!("SELECT REPEAT('x', {bytes})"), marker);
        for _ in 0..2 {
            assert_eq!(client.value(&sql).unwrap().len(), bytes);
        }
        assert_eq!(runs(stage, marker), expected, "{marker}");
    }
    for number in 0..200 {
        let sql = kept(&format!("SELECT REPEAT('x', 2000), {number}"), "pressure");
        assert_eq!(client.rows(&sql).unwrap()[0][1].as_deref(), Some(number.to_string().as_str()));
        assert!(shown(&mut operator, "bytes") <= 65536);
    }
    assert!(shown(&mut operator, "evictions") > 100);
    assert_eq!(shown(&mut operator, "answers_too_large"), 2);
    // Both limits can change while it runs.
    let big = kept("SELECT REPEAT('x', 9000)", "grown");
    operator.query("SET cache.max_entry_bytes = 12288").unwrap();
    assert_eq!(shown(&mut operator, "answers"), 0, "it begins anew");
    (0..3).for_each(|_| assert_eq!(client.value(&big).unwrap().len(), 9000));
    assert_eq!(runs(stage, "grown"), 1);
    let (is_off, operators) = (
        "[routing]\nstrict_hints = true\n[cache]\nmax_bytes = 0\nmax_entry_bytes = 8192\n",
        Operators::default(),
    );
    let config = ConfigFile::with_sections(&[is_off, &operators.section()].concat());
    let (_proxy, address, _port) = stage.another_proxy(&config).unwrap();
    let (mut client, mut operator) = (address.connect().unwrap(), operators.connect(&address).unwrap());
    let mut is_off = || {
        assert_eq!(client.error(&kept("SELECT 1", "off")).unwrap().code, 1105);
        assert_eq!(client.error("SET @@delphinus.cache_ttl = 5").unwrap().code, 1231);
    };
    is_off();
    operator.query("SET cache.max_bytes = 131072").unwrap();
    let mut other = address.connect().unwrap();
    (0..3).for_each(|_| assert_eq!(other.value(&kept("SELECT 2", "switched")).unwrap(), "2"));
    assert_eq!((runs(stage, "switched"), shown(&mut operator, "max_bytes")), (1, 131_072));
    operator.query("SET cache.max_bytes = 0").unwrap();
    is_off();
}

/// Random questions of sessions with random settings: with and without the cache the replies are equal, byte for byte.
fn check_differential(stage: &Stage) {
    let settings = [
        "DO 0",
        "SET NAMES latin1",
        "SET NAMES utf8mb4",
        "SET time_zone = '+03:00'",
        "SET time_zone = 'SYSTEM'",
        "SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'",
        "SET sql_mode = 'STRICT_ALL_TABLES'",
        "USE sbtest",
        "USE app",
        "SET group_concat_max_len = 8",
        "SET lc_time_names = 'de_DE'",
    ];
    let bodies = [
        "SELECT id, v FROM kept ORDER BY id",
        "SELECT name, at, \"name\" FROM kept ORDER BY id",
        "SELECT GROUP_CONCAT(v ORDER BY v), 'a\\\\b' FROM kept",
        "SELECT DATE_FORMAT('2020-05-01', '%M %W'), DATABASE(), COLLATION('a')",
        "SELECT MAX(at), COUNT(*) FROM kept WHERE name IS NOT NULL",
        "SELECT * FROM kept WHERE id = 9",
    ];
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed >> 33).unwrap() % below
    };
    let mut sessions: Vec<_> = (0..6)
        .map(|number| {
            let login = session(stage);
            let login = if number % 3 == 2 { login.user(APP2.user, APP2.password) } else { login };
            let eof = Capabilities::DEPRECATE_EOF;
            (if number % 2 == 0 { login.with(eof) } else { login.without(eof) }).connect().unwrap()
        })
        .collect();
    for step in 0..400 {
        let which = random(sessions.len());
        let client = &mut sessions[which];
        if random(4) == 0 {
            let setting = settings[random(settings.len())];
            assert!(reply(client, setting).failure().is_none(), "{setting}");
            continue;
        }
        let body = bodies[random(bodies.len())];
        let fresh = format!("/*+ delphinus(no_cache) */ {body}");
        let kept = format!("{KEPT} {body}");
        if random(2) == 0 {
            let fresh = client.query(&fresh).unwrap();
            assert_eq!(client.query(&kept).unwrap(), fresh, "step {step}, session {which}: {body}");
        } else {
            let (fresh, kept) = (client.prepare(&fresh).unwrap(), client.prepare(&kept).unwrap());
            let (Ok(fresh), Ok(kept)) = (fresh, kept) else { panic!("step {step}: {body}") };
            let expected = client.execute(fresh.id, &[], false).unwrap();
            for _ in 0..2 {
                let given = client.execute(kept.id, &[], false).unwrap();
                assert_eq!(given, expected, "step {step}, session {which}, prepared: {body}");
            }
            client.close(fresh.id).unwrap();
            client.close(kept.id).unwrap();
        }
    }
}

fn check(flavor: Flavor) {
    let lease = PortLease::take().unwrap();
    // Longer than this takes: a client that logs in after the end of an epoch is given no answer of a connection of before.
    let config = ConfigFile {
        pool: vec!["rights_max_age_ms = 3600000".to_owned()],
        ..ConfigFile::with_sections(&sections(lease.port()))
    };
    let stage = Stage::with(flavor, &config).unwrap();
    let mut operator = operator(&stage.address, lease.port());
    prepare_tables(&stage);
    herd::check(&stage);
    growing_old::check(&stage);
    terms::check(&stage);
    flush::check(&stage);
    check_hits(&stage, &mut operator);
    check_prepared(&stage);
    check_ttl(&stage);
    check_sharing(&stage);
    check_never_kept(&stage);
    check_what_is_left_behind(&stage, &mut operator);
    check_carriage(&stage);
    check_limits(&stage);
    let before = shown(&mut operator, "lookups_hit");
    check_differential(&stage);
    assert!(shown(&mut operator, "lookups_hit") > before + 100);
    check_own_writes(&stage);
    check_time_and_place(&stage, flavor);
    // The last: it fills the servers' logs, which are asked how often a statement ran.
    budget::check(&stage);
}

#[test]
fn answers_are_kept_on_mariadb() {
    check(Flavor::MariaDb);
}

#[test]
fn answers_are_kept_on_mysql() {
    check(Flavor::MySql);
}
