//! Where writes end answers that are kept, no client is given one without a write that was acknowledged before it asked. The same at
//! length: `cargo xtask e2e cache`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use delphinus_e2e::cache_writes::{self, Layers};
use delphinus_e2e::{Address, Client, ConfigFile, Login, Stage, on_both_flavors, until};
use delphinus_sandbox::Flavor;

const LASTS: Duration = Duration::from_secs(20);

fn no_answer_lacks_a_write(flavor: Flavor) {
    let stage = Stage::start(flavor).unwrap();
    if flavor == Flavor::MariaDb {
        a_write_after_a_conflict_ends_answers(&stage);
    }
    the_default_mode_says_how_texts_are_read(&stage);
    let report = cache_writes::run_on(&stage, LASTS, Layers::One).unwrap();
    eprintln!("{flavor}: {report}");
    assert_eq!(report.stale, 0, "{report}: {:#?}", report.told);
    assert!(report.hits > 100 && report.writes > 30, "{report}");
    match flavor {
        Flavor::MariaDb => no_answer_lacks_a_write_behind_another(&stage),
        Flavor::MySql | Flavor::Group => no_answer_lacks_a_write_without_gtids(&stage),
    }
}

on_both_flavors!(no_answer_lacks_a_write);

/// The same with a second proxy before the first one. It keeps answers, too: the run would be an error else.
fn no_answer_lacks_a_write_behind_another(stage: &Stage) {
    let report = cache_writes::run_on(stage, Duration::from_secs(15), Layers::Two).unwrap();
    eprintln!("behind another: {report}; {}", report.counted);
    assert_eq!(report.stale, 0, "{report}: {:#?}", report.told);
    assert!(report.hits > 100 && report.writes > 30, "{report}");
}

/// The same where writes have no GTIDs. Servers still show those of earlier ones, and these prove nothing.
fn no_answer_lacks_a_write_without_gtids(stage: &Stage) {
    let (primary, replicas) = stage.cluster.servers.split_first().unwrap();
    let everywhere = |mode: &str| {
        for server in &stage.cluster.servers {
            server.query(&format!("SET GLOBAL gtid_mode = {mode}")).unwrap();
        }
    };
    for replica in replicas {
        let by_position =
            "STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_AUTO_POSITION = 0; START REPLICA";
        replica.query(by_position).unwrap();
    }
    everywhere("ON_PERMISSIVE");
    everywhere("OFF_PERMISSIVE");
    let last = primary.query("SELECT @@gtid_executed").unwrap();
    for replica in replicas {
        let wait = format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{}', 60)", last.trim().replace("\\n", ""));
        assert_eq!(replica.query(&wait).unwrap().trim(), "0");
    }
    everywhere("OFF");
    let report = cache_writes::run_on(stage, Duration::from_secs(10), Layers::One).unwrap();
    eprintln!("without GTIDs: {report}; {}", report.counted);
    assert_eq!(report.stale, 0, "{report}: {:#?}", report.told);
    assert!(report.hits > 100 && report.writes > 30, "{report}");
}

/// MariaDB rolls back a transaction that is about to write over what it has not seen. What the session sends next commits by itself.
fn a_write_after_a_conflict_ends_answers(stage: &Stage) {
    // What a view reads is shown to who may read that.
    let monitor = &stage.cluster.monitor_user;
    stage.cluster.servers[0].query(&format!("GRANT SELECT ON app.* TO {monitor}@'%'")).unwrap();
    let config = ConfigFile::with_sections("[cache]\ninvalidation = \"own_writes\"\n");
    let (_proxy, address, _port) = stage.another_proxy(&config).unwrap();
    let [mut one, mut other, mut reader] = [(); 3].map(|()| address.connect().unwrap());
    for sql in [
        "CREATE TABLE conflict (id INT PRIMARY KEY, v INT NOT NULL) ENGINE=InnoDB",
        "CREATE TABLE unconcerned (id INT PRIMARY KEY) ENGINE=InnoDB",
        "CREATE VIEW conflict_stamp AS SELECT UUID() AS u",
        "INSERT INTO conflict VALUES (1, 0)",
    ] {
        one.query(sql).unwrap();
    }
    let add = "UPDATE conflict SET v = v + 1 WHERE id = 1";
    for sql in ["SET innodb_snapshot_isolation = ON", "BEGIN", "SELECT v FROM conflict"] {
        one.query(sql).unwrap();
    }
    other.query(add).unwrap();
    assert_eq!(one.error(add).unwrap().code, 1020);
    // A value that is made anew each time tells what was kept.
    let ask = "/*+ delphinus(primary, cache_ttl=3600000) */ SELECT v, (SELECT u FROM conflict_stamp) AS u FROM conflict";
    until(LASTS, "the answer is kept, and the tables are known", || {
        let kept = reader.rows(ask)?;
        other.query("DELETE FROM unconcerned")?;
        Ok(reader.rows(ask)? == kept)
    })
    .unwrap();
    one.query(add).unwrap();
    assert_eq!(reader.value(ask).unwrap(), "2");
}

/// What a double quote and a backslash are in a session that has set no `sql_mode` is what the servers' own says: as the proxy finds it
/// at its start, and as somebody changes it past the proxy.
fn the_default_mode_says_how_texts_are_read(stage: &Stage) {
    let servers = &stage.cluster.servers;
    let before = servers[0].query("SELECT @@global.sql_mode").unwrap();
    let set = |mode: &str| {
        for server in servers {
            server.query(&format!("SET GLOBAL sql_mode = '{}'", mode.trim())).unwrap();
        }
    };
    let monitor = &stage.cluster.monitor_user;
    servers[0].query(&format!("GRANT SELECT ON app.* TO {monitor}@'%'")).unwrap();
    for server in servers {
        server.query("SET GLOBAL log_bin_trust_function_creators = 1").unwrap();
    }
    // What it sets is undone: the proxy reads by the servers' own, as on connections that were opened while that was another one.
    let at_connections = |text: &str| {
        for server in servers {
            server.query(&format!("SET GLOBAL init_connect = '{text}'")).unwrap();
        }
    };
    at_connections("SET sql_mode = 0");
    set("ANSI_QUOTES");
    let config = ConfigFile::with_sections("[cache]\ninvalidation = \"own_writes\"\n");
    let (_proxy, address, _port) = stage.another_proxy(&config).unwrap();
    let [mut client, mut reader] = [(); 2].map(|()| several(&address));
    for sql in [
        "CREATE TABLE moded (id INT PRIMARY KEY, v INT NOT NULL) ENGINE=InnoDB",
        "CREATE TABLE unmoded (id INT PRIMARY KEY) ENGINE=InnoDB",
        "CREATE VIEW moded_stamp AS SELECT UUID() AS u",
        "INSERT INTO moded VALUES (1, 0)",
        "CREATE FUNCTION counts_up() RETURNS INT BEGIN UPDATE moded SET v = v + 1 WHERE id = 1; RETURN 1; END",
    ] {
        client.query(sql).unwrap_or_else(|error| panic!("{sql}: {error:#}"));
    }
    stage
        .wait_for_replicas(
            "SELECT COUNT(*) FROM information_schema.ROUTINES WHERE ROUTINE_NAME = 'counts_up'",
        )
        .unwrap();
    assert_eq!(client.value("SELECT \"counts_up\"()").unwrap(), "1", "on the primary");
    assert_eq!(client.value("/*+ delphinus(primary) */ SELECT v FROM moded").unwrap(), "1");
    let ask = "/*+ delphinus(primary, cache_ttl=3600000) */ SELECT COUNT(*), (SELECT u FROM moded_stamp) AS u FROM moded";
    until(LASTS, "the answer is kept, and the tables are known", || {
        let kept = reader.rows(ask)?;
        client.query("DELETE FROM unmoded")?;
        Ok(reader.rows(ask)? == kept)
    })
    .unwrap();
    client.query("DELETE FROM \"moded\"").unwrap();
    assert_eq!(reader.value(ask).unwrap(), "0");

    set("NO_BACKSLASH_ESCAPES");
    client.query("INSERT INTO moded VALUES (2, 0)").unwrap();
    until(LASTS, "a new session is read by the new mode: the write goes to the primary", || {
        let is_done = several(&address).query_all("SELECT 'a\\'; DELETE FROM moded -- '").is_ok();
        Ok(is_done && servers[0].query("SELECT COUNT(*) FROM app.moded")?.trim() == "0")
    })
    .unwrap();
    // A session that runs keeps what it began with.
    assert_eq!(client.value("SELECT \"v\" + 1 FROM (SELECT 6 AS v) AS t").unwrap(), "7");
    at_connections("");
    set(&before);

    servers[1].query("SET GLOBAL sql_mode = 'ANSI_QUOTES'").unwrap();
    for _ in 0..20 {
        let read = several(&address).value("SELECT \"a\" FROM (SELECT 1) AS t").unwrap();
        assert_eq!(read, "a", "where servers differ, the primary's holds on all");
    }
    set(&before);
}

/// A session that may send several statements in one text.
fn several(address: &Address) -> Client {
    let mut login = Login::new(address);
    login.allows_multi_statements = true;
    Client::connect(&login).unwrap()
}

/// The same with half of all writes past the proxy.
fn no_answer_lacks_a_write_past_the_proxy(flavor: Flavor) {
    let stage = Stage::start(flavor).unwrap();
    let report = cache_writes::run_on(&stage, LASTS, Layers::Stream).unwrap();
    eprintln!("{flavor}: {report}; {}", report.counted);
    assert_eq!(report.stale, 0, "{report}: {:#?}", report.told);
    assert!(report.hits > 100 && report.writes > 30, "{report}");
}

/// The same while the primary's role moves.
fn no_answer_lacks_a_write_while_the_primary_moves(flavor: Flavor) {
    let stage = Stage::start(flavor).unwrap();
    let report = cache_writes::run_on(&stage, LASTS, Layers::Moved).unwrap();
    eprintln!("{flavor}: {report}; {}", report.counted);
    assert_eq!(report.stale, 0, "{report}: {:#?}", report.told);
    // No session writes while the role is under way, and on few processors a replica takes seconds to reach it.
    assert!(report.hits > 100 && report.writes > 30 && report.moves > 0, "{report}");
}

mod moved {
    use super::*;
    on_both_flavors!(no_answer_lacks_a_write_while_the_primary_moves);
}

mod stream {
    use super::*;
    on_both_flavors!(no_answer_lacks_a_write_past_the_proxy);
}

/// Each fault that is planted in the proxy is found.
fn a_planted_fault_is_found(fault: &'static str) {
    let report = cache_writes::run(Flavor::MariaDb, LASTS, Layers::Faulty(fault)).unwrap();
    eprintln!("{fault}: {report}");
    assert!(report.stale > 0 && report.hits > 100, "{fault}: {report}");
}

#[test]
fn a_table_that_is_missed_is_found() {
    a_planted_fault_is_found("table_missed");
}

#[test]
fn a_place_that_is_taken_late_is_found() {
    a_planted_fault_is_found("place_late");
}

#[test]
fn a_view_that_is_missed_is_found() {
    a_planted_fault_is_found("view_missed");
}

#[test]
fn a_replica_that_lags_is_found() {
    a_planted_fault_is_found("lagging_replica");
}

#[test]
fn without_that_many_do() {
    let report = cache_writes::run(Flavor::MariaDb, Duration::from_secs(5), Layers::UntilTheirEnd).unwrap();
    assert!(report.stale > 0 && report.hits > 100, "{report}");
}
