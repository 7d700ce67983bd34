//! Backends that go away and come back, and a proxy that is told to stop.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use delphinus_e2e::{Answer, Client, ConfigFile, Login, ServerError, Stage, run_python, until};
use delphinus_sandbox::Flavor;

/// A monitor that notices at once, and few retries in the way.
fn quick() -> ConfigFile {
    let monitor = ["interval_ms = 100", "timeout_ms = 500", "fall = 2", "rise = 2"];
    let routing = "[routing]\nfailover_wait_ms = 500\n";
    ConfigFile { monitor: monitor.map(str::to_owned).to_vec(), ..ConfigFile::with_sections(routing) }
}

/// How long the proxy may take to notice what happened to a backend.
const NOTICE: Duration = Duration::from_secs(20);

/// A plain read that says which server answered. A user variable or `@@server_id` would have to be routed first.
const WHO: &str = "SELECT server_id FROM app.answered_by";

fn who(client: &mut Client) -> anyhow::Result<u32> {
    Ok(client.value(WHO)?.parse()?)
}

/// Who answers `count` reads in a row, in sessions of their own; any error ends it.
fn answering(stage: &Stage, count: usize) -> anyhow::Result<Vec<u32>> {
    let mut seen = Vec::new();
    for _ in 0..count {
        let mut client = stage.address.connect()?;
        seen.push(who(&mut client)?);
        client.quit()?;
    }
    Ok(seen)
}

/// What a client may see while a backend fails: an error packet, never a closed socket.
fn assert_proper(error: &anyhow::Error) {
    let proper = error.downcast_ref::<ServerError>();
    assert!(proper.is_some(), "not an error packet: {error:#}");
}

#[test]
fn a_dead_replica_is_left_out_until_it_is_back() {
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        let mut stage = Stage::with(flavor, &quick()).unwrap();
        let dead = stage.cluster.servers[1].server_id;
        until(NOTICE, "both replicas", || Ok(answering(&stage, 10)?.contains(&dead))).unwrap();
        let mut session = stage.address.connect().unwrap();
        who(&mut session).unwrap();

        stage.cluster.servers[1].kill9();
        until(NOTICE, "reads without the dead replica", || {
            if let Err(error) = who(&mut session) {
                assert_proper(&error);
                return Ok(false);
            }
            let seen = answering(&stage, 20).inspect_err(assert_proper)?;
            Ok(!seen.contains(&dead) && seen.len() == 20)
        })
        .unwrap();
        // From here on nothing fails, in old sessions and new ones.
        for _ in 0..100 {
            assert_ne!(who(&mut session).unwrap(), dead);
        }

        stage.cluster.servers[1].start_again().unwrap();
        until(NOTICE, "the replica to be used again", || Ok(answering(&stage, 10)?.contains(&dead))).unwrap();
    }
}

#[test]
fn a_frozen_replica_is_left_out() {
    let stage = Stage::with(Flavor::MariaDb, &quick()).unwrap();
    let frozen = stage.cluster.servers[2].server_id;
    until(NOTICE, "both replicas", || Ok(answering(&stage, 10)?.contains(&frozen))).unwrap();
    stage.cluster.servers[2].pause().unwrap();
    until(NOTICE, "quick reads", || {
        let begun = Instant::now();
        let seen = answering(&stage, 20).inspect_err(assert_proper)?;
        Ok(!seen.contains(&frozen) && begun.elapsed() < Duration::from_secs(2))
    })
    .unwrap();
    stage.cluster.servers[2].resume().unwrap();
    until(NOTICE, "the replica to be used again", || Ok(answering(&stage, 10)?.contains(&frozen))).unwrap();
}

/// Some of these sessions have the answer to their CALL, and the proxy asks what that has left.
#[test]
fn no_session_waits_for_a_frozen_primary() {
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        let stage = Stage::with(flavor, &quick()).unwrap();
        let primary = &stage.cluster.servers[0];
        primary.query("CREATE PROCEDURE app.leaves() SET @a = 1").unwrap();
        let (calls, is_over) = (AtomicU32::new(0), AtomicBool::new(false));
        let call = || {
            let mut client = stage.address.connect().unwrap();
            while !is_over.load(Ordering::Relaxed) && client.query("CALL leaves()").is_ok() {
                calls.fetch_add(1, Ordering::Relaxed);
            }
        };
        thread::scope(|scope| {
            let sessions: Vec<_> = (0..16).map(|_| scope.spawn(call)).collect();
            let begun = until(NOTICE, "calls", || Ok(calls.load(Ordering::Relaxed) > 500));
            primary.pause().unwrap();
            let ended = until(NOTICE, "all sessions to end", || {
                Ok(sessions.iter().all(thread::ScopedJoinHandle::is_finished))
            });
            is_over.store(true, Ordering::Relaxed);
            primary.resume().unwrap();
            begun.and(ended).unwrap_or_else(|error| panic!("{flavor}: {error:#}"));
        });
    }
}

#[test]
fn without_replicas_the_primary_reads() {
    let mut stage = Stage::with(Flavor::MariaDb, &quick()).unwrap();
    let primary = stage.cluster.servers[0].server_id;
    stage.cluster.servers[1].kill9();
    stage.cluster.servers[2].kill9();
    until(NOTICE, "reads from the primary", || {
        Ok(answering(&stage, 10).inspect_err(assert_proper)?.iter().all(|id| *id == primary))
    })
    .unwrap();
}

#[test]
fn a_dead_primary_is_an_error_and_reads_go_on() {
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        let mut stage = Stage::with(flavor, &quick()).unwrap();
        let mut session = stage.address.connect().unwrap();
        session.query("CREATE TABLE down (id INT PRIMARY KEY)").unwrap();
        session.query("INSERT INTO down VALUES (1)").unwrap();
        // What no replica has got is nowhere when the primary dies: see the next test.
        for replica in &stage.cluster.servers[1..] {
            until(NOTICE, "the row", || Ok(replica.query("SELECT id FROM app.down")?.trim() == "1")).unwrap();
        }
        stage.cluster.servers[0].kill9();

        let begun = Instant::now();
        let error = session.query("INSERT INTO down VALUES (2)").unwrap_err();
        assert_proper(&error);
        assert!(begun.elapsed() < NOTICE, "the error took {:?}", begun.elapsed());
        until(NOTICE, "an error soon", || {
            let begun = Instant::now();
            let mut client = stage.address.connect()?;
            let error = client.query("INSERT INTO down VALUES (3)").unwrap_err();
            assert_proper(&error);
            Ok(begun.elapsed() < Duration::from_secs(4))
        })
        .unwrap();
        // Replicas answer, also the session that has written: they have all that it was told of.
        assert_ne!(who(&mut session).unwrap(), stage.cluster.servers[0].server_id);
        drivers_read_on(&stage, flavor);
        programs_show_the_error(&stage);

        stage.cluster.servers[0].start_again().unwrap();
        // The session has outlived the error.
        until(NOTICE, "writes", || Ok(session.query("INSERT INTO down VALUES (4)").is_ok())).unwrap();
        let rows = session.rows("SELECT id FROM down ORDER BY id FOR UPDATE").unwrap();
        let rows: Vec<String> = rows.into_iter().flatten().flatten().collect();
        assert_eq!(rows, ["1", "4"], "nothing was written while the primary was dead, and nothing twice");
    }
}

/// What drivers say of their sessions before they read: none of it waits for a primary, and all of it holds.
fn drivers_read_on(stage: &Stage, flavor: Flavor) {
    let isolation = if flavor == Flavor::MySql { "transaction_isolation" } else { "tx_isolation" };
    let mut session = stage.address.connect().unwrap();
    for sql in [
        "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
        "SET @@session.autocommit = OFF",
        "SET AUTOCOMMIT = 1",
        "SET @a = 'x', @b = @a",
        "SET sql_mode = 'ANSI_QUOTES'",
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "USE app",
        "SHOW VARIABLES LIKE 'sql_mode'",
        "SELECT @@autocommit, @@version_comment",
        "COMMIT",
        "ROLLBACK",
    ] {
        session.query(sql).unwrap_or_else(|error| panic!("{flavor}: {sql}: {error:#}"));
    }
    // On whichever replica it is asked.
    for _ in 0..6 {
        who(&mut session).unwrap();
        let sql = format!("SELECT @a, @@sql_mode, @@{isolation}, @@collation_connection");
        let row = session.rows(&sql).unwrap().remove(0);
        let row: Vec<_> = row.into_iter().flatten().collect();
        assert_eq!(row, ["x", "ANSI_QUOTES", "READ-COMMITTED", "utf8mb4_bin"], "{flavor}");
    }
    // What may reach for more waits for the primary.
    for sql in
        ["SET GLOBAL max_connections = 99", "SET @a = (SELECT 1)", "SET @a = no_such_function()", "DO 1"]
    {
        assert_eq!(session.error(sql).unwrap().code, 9102, "{flavor}: {sql}");
    }
    // Sessions without autocommit, as PEP 249 has them: what writes after a read is to be tried again.
    let mut python = stage.address.connect().unwrap();
    python.query("SET AUTOCOMMIT = 0").unwrap();
    assert_eq!(python.value("SELECT id FROM down").unwrap(), "1");
    assert_eq!(python.value("SELECT id FROM down").unwrap(), "1");
    python.query("COMMIT").unwrap();
    assert_eq!(python.value("SELECT id FROM down").unwrap(), "1");
    python.query("ROLLBACK").unwrap();
    assert_eq!(python.value("SELECT id FROM down").unwrap(), "1");
    let told = python.error("INSERT INTO down VALUES (5)").unwrap();
    assert_eq!((told.code, told.sqlstate.as_str()), (1213, "40001"), "{flavor}: {told}");
    python.query("ROLLBACK").unwrap();
    let said = run_python("check_without_primary.py", &stage.address, &[]).unwrap();
    assert_eq!(said.lines().filter(|line| line.starts_with("ok ")).count(), 4, "{flavor}: {said}");
}

/// libmariadb takes an error with a number of its own for a broken packet.
fn programs_show_the_error(stage: &Stage) {
    let mut program = std::process::Command::new("mariadb");
    program.args(["--no-defaults", "-u", &stage.address.user, "-e", "INSERT INTO app.down VALUES (6)"]);
    program.arg(format!("--password={}", stage.address.password)).arg("--socket").arg(&stage.address.socket);
    let said = delphinus_e2e::run(&mut program, NOTICE).unwrap().output;
    assert!(said.contains("ERROR 9102 (HY000)") && said.contains("no primary"), "{said}");
}

/// A session whose write died with the primary is told so, and not what was before it.
#[test]
fn what_only_the_dead_primary_had_is_not_read_elsewhere() {
    let mut stage = Stage::with(Flavor::MariaDb, &quick()).unwrap();
    let mut session = stage.address.connect().unwrap();
    session.query("CREATE TABLE only_there (id INT PRIMARY KEY)").unwrap();
    let (primary, replicas) = stage.cluster.servers.split_first_mut().unwrap();
    let replicas = &*replicas;
    for replica in replicas {
        until(NOTICE, "the table", || Ok(replica.query("SELECT id FROM app.only_there").is_ok())).unwrap();
    }
    std::thread::scope(|scope| {
        for replica in replicas {
            // Nothing of what comes is applied. The end of this is that of its connection.
            scope.spawn(|| replica.query("FLUSH TABLES WITH READ LOCK; SELECT SLEEP(59.25)"));
            until(NOTICE, "the lock", || Ok(!holder(replica)?.is_empty())).unwrap();
        }
        session.query("INSERT INTO only_there VALUES (1)").unwrap();
        primary.kill9();
        let told = session.error("SELECT id FROM only_there").unwrap();
        assert_eq!(told.code, 9102, "{told}");
        // Others, who have nothing to find, read on.
        let other = || Ok(who(&mut stage.address.connect()?)? != primary.server_id);
        until(NOTICE, "reads of others", other).unwrap();
        for replica in replicas {
            replica.query(&format!("KILL {}", holder(replica).unwrap())).unwrap();
        }
    });
}

fn holder(server: &delphinus_sandbox::Server) -> anyhow::Result<String> {
    let list = "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO = 'SELECT SLEEP(59.25)'";
    Ok(server.query(list)?.trim().to_owned())
}

/// A transaction whose connection has gone must not go on as if nothing had happened.
#[test]
fn a_lost_transaction_is_an_error() {
    let stage = Stage::start(Flavor::MariaDb).unwrap();
    let mut session = stage.address.connect().unwrap();
    session.query("CREATE TABLE lost (id INT PRIMARY KEY)").unwrap();
    session.query("BEGIN").unwrap();
    session.query("INSERT INTO lost VALUES (1)").unwrap();
    kill_connections(&stage, 0);
    let error = session.error("INSERT INTO lost VALUES (2)").unwrap();
    assert_eq!((error.code, error.sqlstate.as_str()), (1213, "40001"), "{error}");
    session.query("COMMIT").unwrap();
    let mut other = stage.address.connect().unwrap();
    assert_eq!(other.value("SELECT COUNT(*) FROM lost FOR UPDATE").unwrap(), "0");
}

/// Servers close idle connections; a read that meets a closed one is sent again.
#[test]
fn reads_do_not_notice_that_idle_connections_were_closed() {
    let stage = Stage::start(Flavor::MySql).unwrap();
    let mut session = stage.address.connect().unwrap();
    for _ in 0..10 {
        for _ in 0..4 {
            who(&mut session).unwrap();
        }
        kill_connections(&stage, 1);
        kill_connections(&stage, 2);
        for _ in 0..4 {
            who(&mut session).unwrap();
        }
    }
}

/// Kills the application's connections to one server.
fn kill_connections(stage: &Stage, server: usize) {
    let server = &stage.cluster.servers[server];
    let list = "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'app'";
    for id in server.query(list).unwrap().lines() {
        // It may be gone by now.
        let _ = server.query(&format!("KILL {id}"));
    }
    until(NOTICE, "the connections to end", || Ok(server.query(list)?.is_empty())).unwrap();
}

/// The statement with this mark runs on some server.
fn wait_until_running(stage: &Stage, marker: &str) {
    let sql = format!(
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '%{marker}%' AND USER = 'app'"
    );
    until(NOTICE, "the statement to run", || {
        let counts = stage
            .cluster
            .servers
            .iter()
            .map(|server| server.query(&sql))
            .collect::<anyhow::Result<Vec<_>>>()?;
        Ok(counts.iter().any(|count| count.trim() != "0"))
    })
    .unwrap();
}

#[test]
fn on_sigterm_running_commands_and_transactions_finish() {
    let mut stage = Stage::start(Flavor::MariaDb).unwrap();
    let mut running = stage.address.connect().unwrap();
    let mut writing = stage.address.connect().unwrap();
    let mut idle = stage.address.connect().unwrap();
    idle.query("SELECT 1").unwrap();
    writing.query("CREATE TABLE drained (id INT PRIMARY KEY)").unwrap();
    writing.query("BEGIN").unwrap();
    writing.query("INSERT INTO drained VALUES (1)").unwrap();
    running.send(3, b"SELECT SLEEP(2), 'finished' /*draining*/").unwrap();
    wait_until_running(&stage, "draining");

    let address = stage.address.clone();
    stage.proxy().unwrap().terminate().unwrap();
    until(NOTICE, "new clients to be refused", || Ok(Client::connect(&Login::new(&address)).is_err()))
        .unwrap();
    writing.query("INSERT INTO drained VALUES (2)").unwrap();
    writing.query("COMMIT").unwrap();
    let answers = running.read_answers().unwrap();
    assert_eq!(answers, [Answer::Rows(vec![vec![Some("0".to_owned()), Some("finished".to_owned())]])]);
    let status = stage.proxy().unwrap().wait(NOTICE).unwrap();
    assert!(status.success(), "{status}: {}", stage.proxy().unwrap().log());
    let rows = stage.cluster.servers[0].query("SELECT COUNT(*) FROM app.drained").unwrap();
    assert_eq!(rows, "2");
    assert!(!address.socket.exists(), "the Unix socket was left behind");
}

#[test]
fn shutdown_has_a_deadline() {
    let config = ConfigFile::with_proxy(&["shutdown_timeout_ms = 500"]);
    let mut stage = Stage::with(Flavor::MariaDb, &config).unwrap();
    let mut running = stage.address.connect().unwrap();
    running.send(3, b"SELECT SLEEP(60) /*endless*/").unwrap();
    wait_until_running(&stage, "endless");
    stage.proxy().unwrap().stop(Duration::from_secs(10)).unwrap();
}

/// Whatever the clients do, the servers see connections that were closed as they should be.
#[test]
fn nothing_counts_as_aborted() {
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        let mut stage = Stage::with(flavor, &ConfigFile::with_pool(&["max_connections = 10"])).unwrap();
        let count = |stage: &Stage| -> Vec<u64> {
            let one = |server| {
                ["Aborted_clients", "Aborted_connects"].map(|name| stage.status(server, name).unwrap())
            };
            (0..stage.cluster.servers.len()).flat_map(one).collect()
        };
        let before = count(&stage);
        for number in 0..30 {
            let mut client = stage.address.connect().unwrap();
            who(&mut client).unwrap();
            client.query("DO 1").unwrap();
            client.query("BEGIN").unwrap();
            client.query("SELECT 1").unwrap();
            match number % 3 {
                0 => client.quit().unwrap(),
                1 => drop(client), // without COM_QUIT, in a transaction
                _ => client.send(3, b"SELECT REPEAT('x', 1000000)").unwrap(), // goes away before the answer
            }
        }
        stage.proxy().unwrap().stop(NOTICE).unwrap();
        for server in &stage.cluster.servers {
            let list = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER IN ('app', 'monitor')";
            until(NOTICE, "all connections to end", || Ok(server.query(list)? == "0")).unwrap();
        }
        assert_eq!(count(&stage), before, "{flavor}: Aborted_clients, Aborted_connects of each server");
    }
}
