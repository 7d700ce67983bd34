//! What must not be run again, or go on as if nothing had happened: what has been done in part, what somebody has killed on
//! its server, and what was in a transaction, or beside one, on a connection that broke.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::thread::{ScopedJoinHandle, scope, sleep};
use std::time::{Duration, Instant};

use delphinus_e2e::{Answer, Client, ConfigFile, Relay, ServerError, Stage, until};
use delphinus_sandbox::{Flavor, Server};
use delphinus_testkit::Login;
use delphinus_wire::Capabilities;

const LIMIT: Duration = Duration::from_mins(1);

/// A server that becomes read-only, and nobody else who takes writes: what can run again waits for that to be over.
fn roles_that_move() -> Stage {
    let config = ConfigFile { topology: Some("read_only"), ..ConfigFile::default() };
    let stage = Stage::with_servers(Flavor::MariaDb, &["general_log=OFF"], &config).unwrap();
    until(LIMIT, "a primary", || {
        Ok(stage.address.connect()?.query("CREATE OR REPLACE TABLE app.ready (id INT)").is_ok())
    })
    .unwrap();
    stage
}

fn testkit(stage: &Stage, flags: Capabilities) -> delphinus_testkit::Client {
    let (user, password) = (&stage.cluster.app_user, &stage.cluster.app_password);
    let login = Login::new(&stage.address.socket, user, password).patience(LIMIT).schema("app");
    login.with(flags).connect().unwrap()
}

fn set_read_only(server: &Server, on: bool) {
    server.query(&format!("SET GLOBAL read_only = {}", u8::from(on))).unwrap();
}

/// A statement with these words has run on this server for so long.
fn wait_until_running(server: &Server, marker: &str, seconds: u32) {
    let sql = format!(
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '%{marker}%' AND USER = 'app' AND TIME >= {seconds}"
    );
    until(LIMIT, marker, || Ok(server.query(&sql)?.trim() != "0")).unwrap();
}

fn code<T>(outcome: anyhow::Result<T>) -> u16 {
    match outcome {
        Ok(_) => 0,
        Err(error) => error.downcast_ref::<ServerError>().map_or(1, |error| error.code),
    }
}

/// Waits for what a thread does, and takes `read_only` back if it does not come to an end without that: else the test would
/// fail by its own patience.
fn ends_by_itself<T>(running: &ScopedJoinHandle<'_, T>, stage: &Stage) -> bool {
    let ended = until(Duration::from_secs(5), "the answer", || Ok(running.is_finished())).is_ok();
    set_read_only(&stage.cluster.servers[0], false);
    ended
}

/// A procedure commits by itself: when its second statement is refused, the first one is there already.
#[test]
fn a_procedure_that_has_written_before_it_was_refused_does_not_run_again() {
    let stage = roles_that_move();
    let primary = &stage.cluster.servers[0];
    let mut client = stage.address.connect().unwrap();
    client.query("CREATE TABLE parts (what VARCHAR(9))").unwrap();
    client
        .query(
            "CREATE PROCEDURE in_parts() BEGIN INSERT INTO parts VALUES ('first'); DO SLEEP(3) /*between*/; \
             INSERT INTO parts VALUES ('second'); END",
        )
        .unwrap();
    let prepared = client.prepare("CALL in_parts()").unwrap();
    let acts: [&(dyn Fn(&mut Client) -> u16 + Sync); 3] = [
        &|client| code(client.query("CALL in_parts()")),
        &|client| code(client.execute(prepared)),
        &|client| code(client.query("BEGIN").and_then(|_| client.query("CALL in_parts()"))),
    ];
    for act in acts {
        client.query("ROLLBACK").unwrap();
        client.query("DELETE FROM parts").unwrap();
        scope(|scope| {
            let running = scope.spawn(|| act(&mut client));
            wait_until_running(primary, "SLEEP", 0);
            set_read_only(primary, true);
            let ended = ends_by_itself(&running, &stage);
            let told = running.join().unwrap();
            let rows = primary.query("SELECT GROUP_CONCAT(what) FROM app.parts").unwrap();
            assert_eq!((told, ended), (1290, true), "and then there was: {rows}");
        });
    }
}

/// What a server refuses for another option says nothing of roles: the backends are not looked at out of turn, as they are when it
/// takes no writes any more.
#[test]
fn a_refusal_for_another_option_makes_no_server_be_looked_at() {
    let monitor = vec!["interval_ms = 600000".to_owned()];
    let config = ConfigFile { topology: Some("read_only"), monitor, ..ConfigFile::default() };
    let stage = Stage::with_servers(Flavor::MariaDb, &["general_log=OFF"], &config).unwrap();
    let primary = &stage.cluster.servers[0];
    let user = &stage.cluster.app_user;
    // Connections that are there already have no new rights.
    primary.query(&format!("GRANT FILE ON *.* TO {user}@'%'; KILL USER {user}@'%'")).unwrap();
    let mut client = stage.address.connect().unwrap();
    let questions = || stage.status(2, "Questions").unwrap();
    // Probes out of turn come every 100 ms; the question itself is a few, too.
    let (while_at_rest, few) = (Duration::from_secs(2), 10);
    until(LIMIT, "rest", || {
        let before = questions();
        sleep(while_at_rest);
        Ok(questions() < before + few / 2)
    })
    .unwrap();
    let mut asked_while_refused = || {
        let before = questions();
        let begun = Instant::now();
        while begun.elapsed() < while_at_rest {
            assert_eq!(code(client.query("SELECT 1 INTO OUTFILE '/nowhere/at/all'")), 1290);
        }
        questions() - before
    };
    // On a busy machine a statement may hang for long enough to make the monitor look once; it would look each time.
    let asked: Vec<_> = (0..3).map(|_| asked_while_refused()).collect();
    assert!(asked.iter().any(|asked| *asked < few), "{asked:?} questions");
    let before = questions();
    set_read_only(primary, true);
    scope(|scope| {
        let running = scope.spawn(|| client.query("CREATE TABLE looked_at (id INT)"));
        let seen = until(LIMIT, "probes", || Ok(questions() > before + 3 * few));
        set_read_only(primary, false);
        running.join().unwrap().unwrap();
        seen.unwrap();
    });
}

/// Of several statements in one text the client has the answers to the first ones when a later one is refused.
#[test]
fn a_text_of_several_statements_is_not_answered_twice() {
    let stage = roles_that_move();
    let primary = &stage.cluster.servers[0];
    stage.address.connect().unwrap().query("CREATE TABLE several (id INT PRIMARY KEY)").unwrap();
    let mut client = testkit(&stage, Capabilities::MULTI_STATEMENTS | Capabilities::SESSION_TRACK);
    client.query("BEGIN").unwrap();
    set_read_only(primary, true);
    let text = "SET @mine = 1; INSERT INTO several VALUES (1)";
    scope(|scope| {
        let running = scope.spawn(|| client.query(text).map_err(|error| format!("{error:#}")));
        let ended = ends_by_itself(&running, &stage);
        let replies = running.join().unwrap().unwrap();
        let told: Vec<_> =
            replies.iter().map(|reply| reply.failure().map_or(0, |failure| failure.code)).collect();
        assert_eq!((told, ended), (vec![0, 1290], true));
    });
}

/// A BEGIN that the server does not understand leaves the transaction open that was there before, and what it has written.
#[test]
fn a_transaction_that_has_written_is_not_begun_anew_after_a_begin_in_error() {
    let stage = roles_that_move();
    let primary = &stage.cluster.servers[0];
    let mut client = stage.address.connect().unwrap();
    client.query("CREATE TABLE begun (id INT PRIMARY KEY)").unwrap();
    client.query("BEGIN").unwrap();
    client.query("INSERT INTO begun VALUES (1)").unwrap();
    assert_eq!(code(client.query("BEGIN WORK in error")), 1064);
    set_read_only(primary, true);
    let told = scope(|scope| {
        let running = scope.spawn(|| code(client.query("INSERT INTO begun VALUES (2)")));
        ends_by_itself(&running, &stage);
        running.join().unwrap()
    });
    client.query("COMMIT").unwrap();
    let rows = primary.query("SELECT GROUP_CONCAT(id) FROM app.begun").unwrap();
    assert_eq!((told, rows.trim()), (1213, "NULL"), "half a transaction");
}

/// Whoever waits for the next primary can be killed, though a server has had the statement already.
#[test]
fn a_statement_that_waits_after_it_was_refused_can_be_killed() {
    let stage = roles_that_move();
    let mut client = stage.address.connect().unwrap();
    client.query("CREATE TABLE waits (id INT PRIMARY KEY)").unwrap();
    let id = client.connection_id;
    let mut other = stage.address.connect().unwrap();
    set_read_only(&stage.cluster.servers[0], true);
    let told = scope(|scope| {
        let running = scope.spawn(|| code(client.query("INSERT INTO waits VALUES (1)")));
        until(LIMIT, "the statement to wait", || {
            other.query(&format!("KILL QUERY {id}"))?;
            Ok(running.is_finished())
        })
        .ok();
        set_read_only(&stage.cluster.servers[0], false);
        running.join().unwrap()
    });
    assert_eq!(told, 1317);
    let rows = stage.cluster.servers[0].query("SELECT COUNT(*) FROM app.waits").unwrap();
    assert_eq!(rows.trim(), "0");
}

/// A read that takes long wherever it runs.
fn long(marker: &str) -> String {
    let columns = "information_schema.COLUMNS";
    format!("SELECT COUNT(*) FROM {columns} a, {columns} b, {columns} c, answered_by /*{marker}*/")
}

/// The server where this has run for so long, and its id there.
fn who_runs(stage: &Stage, marker: &str, seconds: u32) -> Option<(usize, String)> {
    let sql = format!(
        "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE '%{marker}%' AND USER = 'app' AND TIME >= {seconds}"
    );
    let servers = stage.cluster.servers.iter().enumerate();
    let mut ids = servers.map(|(at, server)| (at, server.query(&sql).unwrap_or_default().trim().to_owned()));
    ids.find(|(_, id)| !id.is_empty())
}

/// Who kills a read on its server does not want it to appear on another one.
fn killed_reads_end(flavor: Flavor) {
    let stage = Stage::with_servers(flavor, &["general_log=OFF"], &ConfigFile::default()).unwrap();
    let mut client = stage.address.connect().unwrap();
    client.query("SET @own = 'kept'").unwrap();
    let prepared = client.prepare(&long("prepared")).unwrap();
    // MariaDB has a word for a connection that was killed, and seldom says it: as MySQL, it closes the connection.
    let dropped = if flavor == Flavor::MariaDb { &[9103, 1927][..] } else { &[9103] };
    for (kill, marker, wanted) in
        [("KILL QUERY", "query", &[1317][..]), ("KILL", "connection", dropped), ("KILL", "prepared", dropped)]
    {
        scope(|scope| {
            let running = scope.spawn(|| match marker {
                "prepared" => code(client.execute(prepared)),
                _ => code(client.query(&long(marker))),
            });
            let mut found = None;
            until(LIMIT, "the read to run", || {
                found = who_runs(&stage, marker, 4);
                Ok(found.is_some())
            })
            .unwrap();
            let (at, id) = found.unwrap();
            stage.cluster.servers[at].query(&format!("{kill} {id}")).unwrap();
            let ended = until(Duration::from_secs(10), "the answer", || Ok(running.is_finished())).is_ok();
            // If it runs again, it does not do so for ever.
            for server in stage.cluster.servers.iter().filter(|_| !ended) {
                let list =
                    "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'app' AND INFO IS NOT NULL";
                for id in server.query(list).unwrap().lines() {
                    let _ = server.query(&format!("KILL QUERY {id}"));
                }
            }
            let told = running.join().unwrap();
            assert!(ended, "{flavor}: {kill} of a read as {marker}: it runs again");
            assert!(wanted.contains(&told), "{flavor}: {kill} of a read as {marker}: {told}");
        });
        assert_eq!(client.value("SELECT @own").unwrap(), "kept", "{flavor}: {kill}");
    }
}

#[test]
fn a_read_that_is_killed_on_its_server_does_not_run_again_on_mariadb() {
    killed_reads_end(Flavor::MariaDb);
}

#[test]
fn a_read_that_is_killed_on_its_server_does_not_run_again_on_mysql() {
    killed_reads_end(Flavor::MySql);
}

/// Waits until the read runs on a server that is none of these; which, and its id there.
fn until_elsewhere(stage: &Stage, marker: &str, gone: &[usize], seconds: u32) -> (usize, String) {
    let mut found = None;
    until(LIMIT, "the read to run", || {
        found = who_runs(stage, marker, seconds).filter(|(at, _)| !gone.contains(at));
        Ok(found.is_some())
    })
    .unwrap();
    found.unwrap()
}

/// Servers do not say whether somebody has ended a statement, or they end themselves: one that has run for long is not run again.
#[test]
fn a_long_read_ends_with_its_server() {
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        let stage = Stage::with_servers(flavor, &["general_log=OFF"], &ConfigFile::default()).unwrap();
        let mut client = stage.address.connect().unwrap();
        scope(|scope| {
            client.query("SET @own = 'kept'").unwrap();
            let running = scope.spawn(move || client.error(&long("ends")).map(|told| (client, told)));
            let (first, _) = until_elsewhere(&stage, "ends", &[], 4);
            stage.cluster.servers[first].terminate().unwrap();
            let (mut client, told) = running.join().unwrap().unwrap();
            assert!(told.code == 1053 || told.message.contains("does not run it again"), "{flavor} {told}");
            assert_eq!(client.value("SELECT @own").unwrap(), "kept");
        });
    }
}

/// There are statements that servers die of: no read gets to see a third.
#[test]
fn a_read_survives_the_death_of_one_server_and_not_of_two() {
    let mut stage = Stage::with_servers(Flavor::MySql, &["general_log=OFF"], &ConfigFile::default()).unwrap();
    let mut client = stage.address.connect().unwrap();
    client.query("SET @own = 'kept'").unwrap();
    scope(|scope| {
        let running = scope.spawn(move || client.error(&long("deadly")).map(|told| (client, told)));
        let (first, _) = until_elsewhere(&stage, "deadly", &[], 0);
        stage.cluster.servers[first].kill9();
        let (second, _) = until_elsewhere(&stage, "deadly", &[first], 0);
        stage.cluster.servers[second].kill9();
        let (mut client, told) = running.join().unwrap().unwrap();
        assert_eq!(told.code, 9103, "{told}");
        assert!(told.message.contains("does not try a third"), "{told}");
        assert_eq!(client.value("SELECT @own").unwrap(), "kept");
    });
}

/// A client that does not wait for answers loses none of its commands when one of them is tried again, in vain.
#[test]
fn the_command_behind_one_that_is_given_up_is_the_next() {
    let mut stage =
        Stage::with_servers(Flavor::MariaDb, &["general_log=OFF"], &ConfigFile::default()).unwrap();
    let config = ConfigFile {
        only_primary_at: Some(stage.cluster.servers[0].socket.clone()),
        ..ConfigFile::with_sections("[routing]\nfailover_wait_ms = 300")
    };
    let (_proxy, address, _port) = stage.another_proxy(&config).unwrap();
    let mut client = address.connect().unwrap();
    client.send(3, long("given up").as_bytes()).unwrap();
    // Longer than the one before it, so that a part of it would be left.
    client.send(3, format!("SELECT {:300}@@delphinus.mode", "").as_bytes()).unwrap();
    wait_until_running(&stage.cluster.servers[0], "given up", 0);
    stage.cluster.servers[0].kill9();
    assert_eq!(code(client.read_next_answers()), 9102);
    assert_eq!(client.read_next_answers().unwrap(), [Answer::Rows(vec![vec![Some("auto".to_owned())]])]);
}

/// Ends the connection of a statement about the session, which has a way of its own; what the client is told.
fn break_under(client: &mut Client, primary: &Server) -> u16 {
    scope(|scope| {
        let running = scope.spawn(|| code(client.query("SELECT CONNECTION_ID(), SLEEP(60)")));
        wait_until_running(primary, "SLEEP(60)", 0);
        let list =
            "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE '%SLEEP(60)%' AND USER = 'app'";
        for id in primary.query(list).unwrap().lines() {
            primary.query(&format!("KILL {id}")).unwrap();
        }
        running.join().unwrap()
    })
}

#[test]
fn a_statement_about_the_session_does_not_hide_that_its_transaction_is_lost() {
    let stage = Stage::with_servers(Flavor::MySql, &["general_log=OFF"], &ConfigFile::default()).unwrap();
    let primary = &stage.cluster.servers[0];
    let mut client = stage.address.connect().unwrap();
    client.query("CREATE TABLE halves (id INT PRIMARY KEY)").unwrap();
    client.query("BEGIN").unwrap();
    client.query("INSERT INTO halves VALUES (1)").unwrap();
    assert_eq!(break_under(&mut client, primary), 1213);
    // The client knows that it is in none any more, and so does the proxy.
    client.query("INSERT INTO halves VALUES (2)").unwrap();
    client.query("ROLLBACK").unwrap();
    assert_eq!(primary.query("SELECT GROUP_CONCAT(id) FROM app.halves").unwrap().trim(), "2");

    client.query("CREATE TEMPORARY TABLE mine (id INT)").unwrap();
    assert_eq!(break_under(&mut client, primary), 4031);
    assert_eq!(code(client.query("SELECT COUNT(*) FROM mine")), 1, "the session goes on without its table");
}

/// Nothing can have come of a BEGIN, however often its connection breaks.
#[test]
fn a_begin_waits_for_a_connection_that_lasts() {
    let stage = Stage::start(Flavor::MariaDb).unwrap();
    let relay = Relay::start(&stage.cluster.dir().join("relay"), &stage.cluster.servers[0].socket).unwrap();
    let config = ConfigFile {
        monitor: vec!["interval_ms = 60000".to_owned()],
        only_primary_at: Some(relay.path.clone()),
        ..ConfigFile::default()
    };
    let (_proxy, address, _port) = stage.another_proxy(&config).unwrap();
    let mut client = address.connect().unwrap();
    client.query("CREATE TABLE lasting (id INT PRIMARY KEY)").unwrap();
    relay.cut_on(b"BEGIN", 8);
    client.query("BEGIN").unwrap();
    assert_eq!(relay.cuts_left(), 0);
    client.query("INSERT INTO lasting VALUES (1)").unwrap();
    client.query("COMMIT").unwrap();
    // What never succeeds is told in the same words as a missing primary.
    relay.cut_on(b"BEGIN", u32::MAX);
    assert_eq!(code(client.query("BEGIN")), 9102);
    relay.cut_on(b"BEGIN", 0);
    client.query("BEGIN").unwrap();
    let rows = stage.cluster.servers[0].query("SELECT COUNT(*) FROM app.lasting").unwrap();
    assert_eq!(rows.trim(), "1");
}
