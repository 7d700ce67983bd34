//! The admin listener: what operators see, and what they do, on real servers.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "admin/support.rs"]
mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use delphinus_e2e::{Client, Login, ServerError, Stage, eventually, proxy_binary, run, run_python, until};
use delphinus_sandbox::{Flavor, ensure_packages};
use support::{Admin, BOTH, LIMIT, WHO, admin_stage};

#[test]
fn pins_appear_and_vanish() {
    for flavor in BOTH {
        let (stage, admin) = admin_stage(flavor, &[]);
        let mut operator = admin.operator();
        let mut client = stage.address.connect().unwrap();
        let pins = |operator: &mut Client| {
            let rows = operator.rows("SHOW PINS").unwrap();
            rows.into_iter().map(|row| (row[3].clone().unwrap(), row[6].clone().unwrap())).collect::<Vec<_>>()
        };
        assert_eq!(pins(&mut operator), []);
        client.query("BEGIN").unwrap();
        client.query("SELECT GET_LOCK('a secret', 0)").unwrap();
        let pin = |reason: &str, statement: &str| (reason.to_owned(), statement.to_owned());
        let lock = pin("get_lock", "SELECT GET_LOCK(?, ...)");
        assert_eq!(pins(&mut operator), [pin("transaction", "BEGIN"), lock.clone()]);
        let session = &operator.rows("SHOW SESSIONS LIKE 'app'").unwrap()[0];
        let shown: Vec<_> = session.iter().map(|value| value.as_deref().unwrap_or("-")).collect();
        assert_eq!(shown[0], client.connection_id.to_string());
        assert_eq!(shown[1..5], ["app", "localhost", "app", "sleep"]);
        assert_eq!(shown[6..], [&*admin.primary, "-", "transaction", "YES", "-", "main"]);
        client.query("COMMIT").unwrap();
        assert_eq!(pins(&mut operator), [lock]);
        client.query("SELECT RELEASE_LOCK('a secret')").unwrap();
        assert_eq!(pins(&mut operator), []);
        assert_eq!(operator.rows("SHOW SESSIONS").unwrap()[0][9].as_deref(), Some("NO"));
    }
}

/// The client of a session that is killed is told before the session is off the list.
fn until_gone(operator: &mut Client, id: u32) {
    let is_gone = || Ok(operator.error(&format!("KILL {id}"))?.code == 1094);
    until(LIMIT, "the session to be gone", is_gone).unwrap();
}

#[test]
fn kill_ends_a_statement_or_its_session() {
    for flavor in BOTH {
        let (stage, admin) = admin_stage(flavor, &[]);
        let mut operator = admin.operator();
        // Text and prepared: the text of the statement is shown without its literals.
        for prepared in [false, true] {
            let mut client = stage.address.connect().unwrap();
            let id = client.connection_id;
            let sql = "SELECT SLEEP(100), 'hidden' FROM app.answered_by";
            let victim = std::thread::spawn(move || {
                let outcome = if prepared {
                    let statement = client.prepare(sql).unwrap();
                    client.execute(statement).map(|_| ())
                } else {
                    client.query(sql).map(|_| ())
                };
                (client, outcome)
            });
            let running = |operator: &mut Client| -> anyhow::Result<Option<Vec<Option<String>>>> {
                let rows = operator.rows("SHOW SESSIONS")?;
                let row = rows.into_iter().find(|row| row[0] == Some(id.to_string()));
                Ok(row.filter(|row| row[4].as_deref() == Some("query") && row[10].is_some()))
            };
            let server_of = |row: &[Option<String>]| {
                let name = row[6].as_deref();
                stage.cluster.servers.iter().find(|server| Some(server.name.as_str()) == name).unwrap()
            };
            // Not what prepares it, which is over before anybody can end it.
            let row = eventually(LIMIT, "the statement", || {
                let Some(row) = running(&mut operator)? else { return Ok(None) };
                let sleeps = format!(
                    "SELECT COUNT(*) FROM information_schema.processlist WHERE id = {} AND state = 'User sleep'",
                    row[7].as_deref().unwrap_or("0")
                );
                Ok((server_of(&row).query(&sleeps)?.trim() == "1").then_some(row))
            })
            .unwrap();
            assert_eq!(row[10].as_deref(), Some("SELECT SLEEP(?), ? FROM app.answered_by"));
            let server = server_of(&row);
            let thread: u32 = row[7].clone().unwrap().parse().unwrap();
            let mut refused = admin.reader();
            assert_eq!(refused.error(&format!("KILL {id}")).unwrap().code, 1227, "a reader may not");
            let began = Instant::now();
            operator.query(&format!("KILL QUERY {id}")).unwrap();
            let (mut client, outcome) = victim.join().unwrap();
            // A killed SLEEP is an error, or an answer that came too early, as on a server.
            if let Err(error) = outcome {
                assert_eq!(error.downcast_ref::<ServerError>().unwrap().code, 1317);
            }
            assert!(began.elapsed() < Duration::from_secs(30));
            let count = format!(
                "SELECT COUNT(*) FROM information_schema.processlist WHERE id = {thread} AND info LIKE '%SLEEP%'"
            );
            // A server has answered before its list of processes says so.
            until(LIMIT, "it not to run on", || Ok(server.query(&count)?.trim() == "0")).unwrap();
            assert_eq!(client.value("SELECT 1").unwrap(), "1", "the session lives");

            operator.query(&format!("KILL CONNECTION {id}")).unwrap();
            until(LIMIT, "the session to end", || Ok(client.query("SELECT 1").is_err())).unwrap();
            until_gone(&mut operator, id);
        }
        // A transaction that is killed is rolled back.
        let mut client = stage.address.connect().unwrap();
        client.query("CREATE TABLE app.killed (a INT)").unwrap();
        client.query("BEGIN").unwrap();
        client.query("INSERT INTO app.killed VALUES (1)").unwrap();
        operator.query(&format!("KILL {}", client.connection_id)).unwrap();
        until(LIMIT, "the rollback", || Ok(operator.rows("SHOW SESSIONS")?.is_empty())).unwrap();
        let mut other = stage.address.connect().unwrap();
        other.query("BEGIN").unwrap();
        until(LIMIT, "the lock to be free", || {
            Ok(other.value("SELECT COUNT(*) FROM app.killed FOR UPDATE")? == "0")
        })
        .unwrap();
        what_runs_with_a_digest_is_ended(&stage, &mut operator);
    }
}

/// How many statements sleep on all servers.
fn sleeping(stage: &Stage) -> anyhow::Result<usize> {
    let count = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User sleep'";
    let servers = stage.cluster.servers.iter();
    servers.map(|server| Ok(server.query(count)?.trim().parse::<usize>()?)).sum()
}

/// As text and prepared; what is not quite the same runs on.
fn what_runs_with_a_digest_is_ended(stage: &Stage, operator: &mut Client) {
    let asleep = |seconds: u32| format!("SELECT SLEEP({seconds}), 'hidden' FROM app.answered_by LIMIT 1");
    stage.address.connect().unwrap().query(&asleep(0)).unwrap();
    let digest = operator
        .value("SELECT digest FROM digests WHERE digest_text = 'SELECT SLEEP(?), ? FROM app.answered_by LIMIT ?'")
        .unwrap();
    let [mut text, mut prepared, mut other] = [(); 3].map(|()| stage.address.connect().unwrap());
    let id = other.connection_id;
    let ended = std::thread::scope(|scope| {
        let victims = [
            scope.spawn(|| text.query(&asleep(100)).map(drop)),
            scope.spawn(|| prepared.prepare(&asleep(101)).and_then(|id| prepared.execute(id)).map(drop)),
        ];
        let runs_on = scope.spawn(|| other.query("SELECT SLEEP(102) FROM app.answered_by LIMIT 1").map(drop));
        let running =
            "SELECT COUNT(*) FROM sessions WHERE state = 'query' AND statement LIKE 'SELECT SLEEP%'";
        // What prepares one is over soon; on the servers they sleep when they run.
        until(LIMIT, "all three to run", || Ok(sleeping(stage)? == 3)).unwrap();
        assert_eq!(operator.value(&format!("KILL QUERY DIGEST {digest}")).unwrap(), "2");
        let began = Instant::now();
        let ended = victims.map(|victim| victim.join().unwrap());
        assert!(began.elapsed() < Duration::from_secs(30));
        assert_eq!(operator.value(running).unwrap(), "1");
        assert_eq!(operator.value(&format!("KILL DIGEST {digest}")).unwrap(), "0");
        operator.query(&format!("KILL QUERY {id}")).unwrap();
        let _ = runs_on.join().unwrap();
        ended
    });
    for outcome in ended {
        // A killed SLEEP is an error, or an answer that came too early, as on a server.
        if let Err(error) = outcome {
            assert_eq!(error.downcast_ref::<ServerError>().unwrap().code, 1317);
        }
    }
    for client in [&mut text, &mut prepared] {
        assert_eq!(client.value("SELECT 1").unwrap(), "1", "the session lives");
    }
}

#[test]
fn an_offline_backend_finishes_what_it_has_and_gets_nothing_new() {
    for flavor in BOTH {
        let (stage, admin) = admin_stage(flavor, &["hold_ms = 60000"]);
        let mut operator = admin.operator();
        let servers = &stage.cluster.servers;
        let [primary, one, other] = [0, 1, 2].map(|at| servers[at].server_id.to_string());
        let mut client = stage.address.connect().unwrap();
        let who = |client: &mut Client| client.value(WHO).unwrap();
        until(LIMIT, "both replicas", || Ok((0..4).any(|_| who(&mut client) == one))).unwrap();

        // A read that runs there already comes to its end; everything else goes elsewhere at once, held or not.
        let name = &servers[1].name;
        let mut slow = stage.address.connect().unwrap();
        until(LIMIT, "a slow read on the replica", || {
            slow.send(3, b"SELECT SLEEP(2), server_id FROM app.answered_by")?;
            let is_there = until(Duration::from_secs(1), "it", || {
                let rows = operator.rows("SHOW SESSIONS")?;
                Ok(rows.iter().any(|row| {
                    row[0] == Some(slow.connection_id.to_string()) && row[6].as_deref() == Some(name)
                }))
            });
            if is_there.is_err() {
                slow.read_answers()?;
            }
            Ok(is_there.is_ok())
        })
        .unwrap();
        operator.query(&format!("SET BACKEND {name} OFFLINE")).unwrap();
        let state = |operator: &mut Client, name: &str| {
            operator.rows(&format!("SHOW BACKENDS LIKE '{name}'")).unwrap()[0][3].clone().unwrap()
        };
        assert_eq!(state(&mut operator, name), "draining");
        for _ in 0..30 {
            assert_eq!(who(&mut client), other);
        }
        let answers = slow.read_answers().unwrap();
        assert!(format!("{answers:?}").contains(&format!("{one:?}")), "{answers:?}");
        until(LIMIT, "maintenance", || Ok(state(&mut operator, name) == "maintenance")).unwrap();
        let sessions = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'app'";
        until(LIMIT, "no connection on the server", || Ok(servers[1].query(sessions)?.trim() == "0"))
            .unwrap();

        // The probes go on, and it stays offline whatever they say.
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(state(&mut operator, name), "maintenance");
        operator.query(&format!("set backend `{name}` online;")).unwrap();
        assert_eq!(state(&mut operator, name), "up");
        until(LIMIT, "its share of the reads", || Ok((0..4).any(|_| who(&mut client) == one))).unwrap();

        // The primary: an open transaction commits, new writes are refused with the reason, reads go on.
        client.query("CREATE TABLE app.drained (a INT)").unwrap();
        client.query("BEGIN").unwrap();
        client.query("INSERT INTO app.drained VALUES (1)").unwrap();
        operator.query(&format!("SET BACKEND {} OFFLINE", servers[0].name)).unwrap();
        client.query("INSERT INTO app.drained VALUES (2)").unwrap();
        client.query("COMMIT").unwrap();
        let error = client.error("INSERT INTO app.drained VALUES (3)").unwrap();
        assert!(error.code == 9102 && error.message.contains("is set OFFLINE"), "{error}");
        assert_ne!(who(&mut client), primary);
        let problem = operator.rows("EXPLAIN ROUTE DELETE FROM app.drained").unwrap();
        assert!(
            problem.iter().any(|row| row[1].as_deref() == Some("the primary is set OFFLINE")),
            "{problem:?}"
        );
        operator.query(&format!("SET BACKEND {} ONLINE", servers[0].name)).unwrap();
        client.query("INSERT INTO app.drained VALUES (4)").unwrap();
        assert_eq!(
            servers[0].query("SELECT GROUP_CONCAT(a ORDER BY a) FROM app.drained").unwrap().trim(),
            "1,2,4"
        );
    }
}

#[test]
fn an_operator_gets_in_when_applications_have_taken_everything() {
    let (stage, admin) = support::small_stage();
    // Whoever has asked whether it is ready has a place until the proxy has seen him go.
    let mut operator = admin.operator();
    until(LIMIT, "nobody else", || Ok(operator.rows("SHOW SESSIONS")?.is_empty())).unwrap();
    drop(operator);
    let mut clients = Vec::new();
    while let Ok(client) = stage.address.connect() {
        clients.push(client);
        assert!(clients.len() <= 4);
    }
    assert_eq!(clients.len(), 4);
    // The only connection to the primary is taken, and somebody waits for it.
    clients[0].query("BEGIN").unwrap();
    clients[1].send(3, b"INSERT INTO app.visits (server_id) VALUES (1)").unwrap();
    let mut operator = admin.operator();
    let waiting = |operator: &mut Client| -> anyhow::Result<Vec<String>> {
        let rows = operator.rows("SHOW SESSIONS")?;
        let waiting = rows.into_iter().filter(|row| row[4].as_deref() == Some("waiting"));
        Ok(waiting.filter_map(|row| row[0].clone()).collect())
    };
    let waits = clients[1].connection_id.to_string();
    until(LIMIT, "the one that waits", || Ok(waiting(&mut operator)? == [waits.clone()])).unwrap();
    let pools = operator.rows(&format!("SHOW POOLS LIKE '{}'", admin.primary)).unwrap();
    let sum =
        |at: usize| pools.iter().map(|row| row[at].as_ref().unwrap().parse::<u32>().unwrap()).sum::<u32>();
    assert_eq!((sum(5), sum(6)), (1, 1), "in use, and waiting: {pools:?}");
    operator.query(&format!("KILL {}", clients[0].connection_id)).unwrap();
    clients[1].read_answers().unwrap();
    until(LIMIT, "a place for another client", || Ok(stage.address.connect().is_ok())).unwrap();

    // The operators' own places are bounded, too, and those of others are not taken.
    let mut operators = vec![operator];
    while let Ok(one) = admin.try_connect("ops") {
        operators.push(one);
        assert!(operators.len() <= 3);
    }
    assert_eq!(operators.len(), 3);
    drop(operators);
    until(LIMIT, "a place for an operator", || Ok(admin.try_connect("ops").is_ok())).unwrap();
}

#[test]
fn the_clients_of_servers_work_as_operators_tools() {
    ensure_packages(&["mariadb-client"]).unwrap();
    for flavor in BOTH {
        let (stage, admin) = admin_stage(flavor, &[]);
        let client = stage.cluster.client_program();
        let tls = if flavor == Flavor::MySql { "--ssl-mode=REQUIRED" } else { "--ssl" };
        let plain = if flavor == Flavor::MySql { "--ssl-mode=DISABLED" } else { "--skip-ssl" };
        for option in [tls, plain] {
            let said = admin
                .program(client, &[option], "SHOW LISTENERS; SHOW WARNINGS; SELECT DATABASE(); HELP;")
                .success();
            let said = said.unwrap();
            assert!(said.contains("operators") && said.contains("clients"), "{said}");
            let commands: &[&str] = if flavor == Flavor::MySql { &["--commands"] } else { &[] };
            let status = admin.program(client, &[&[option], commands].concat(), "status").success().unwrap();
            assert!(status.contains("delphinus-admin"), "{status}");
        }
        let denied = admin.login("ops", "wrong").unwrap_err();
        assert_eq!(denied.downcast_ref::<ServerError>().unwrap().code, 1045);
        for (user, password) in [
            ("nobody", "reader-pw"),
            ("look", "operator-pw"),
            ("ops", ""),
            (&*stage.address.user, &*stage.address.password),
        ] {
            let denied = admin.login(user, password).unwrap_err();
            assert_eq!(denied.downcast_ref::<ServerError>().unwrap().code, 1045, "{user}");
        }
        let mut login = Login::new(&stage.address);
        (login.user, login.password) = ("ops".to_owned(), "operator-pw".to_owned());
        assert!(Client::connect(&login).is_err(), "operators are no clients");
        let mut operator = admin.operator();
        let told: Vec<_> = ["SHOW CONFIG", "SHOW USERS", "SHOW STATUS", "SHOW BACKENDS", "SHOW COMMANDS"]
            .iter()
            .flat_map(|sql| operator.rows(sql).unwrap().into_iter().flatten().flatten())
            .collect();
        for secret in [&*stage.address.password, "operator-pw", "reader-pw"] {
            assert!(!told.iter().any(|cell| cell == secret), "a password is shown");
        }
    }
}

#[test]
fn python_drivers_connect() {
    let (_stage, admin) = admin_stage(Flavor::MariaDb, &[]);
    let said = run_python("check_admin.py", &admin.as_operator(), &[]).unwrap();
    assert_eq!(said.lines().filter(|line| line.starts_with("ok")).count(), 6, "{said}");
}

#[test]
fn ctl_prints_tables_and_json() {
    let (stage, admin) = admin_stage(Flavor::MariaDb, &[]);
    let ctl = |args: &[&str]| {
        let mut command = Command::new(proxy_binary().unwrap());
        command.arg("ctl").args(["--config", admin.config.to_str().unwrap()]).args(args);
        run(command.env_remove("DELPHINUS_ADMIN_PASSWORD"), LIMIT).unwrap()
    };
    let table = ctl(&["SHOW", "BACKENDS"]).success().unwrap();
    let lines: Vec<_> = table.lines().collect();
    assert!(lines[0].starts_with("NAME") && lines[0].ends_with("LATENCY_US"), "{table}");
    assert!(lines.len() == 4 && lines[1].starts_with(&admin.primary), "{table}");
    let json = ctl(&["--json", "SHOW BACKENDS LIKE '%1'"]).success().unwrap();
    let list: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (list[0]["role"].as_str(), list[0]["weight"].as_u64()),
        (Some("replica"), Some(100)),
        "{json}"
    );
    assert_eq!(ctl(&["SET BACKEND", &stage.cluster.servers[1].name, "OFFLINE"]).success().unwrap(), "");
    assert!(ctl(&["SHOW BACKENDS"]).success().unwrap().contains("maintenance"));
    let refused = ctl(&["--user", "look", "KILL 1"]);
    assert!(refused.status.code() == Some(1) && refused.output.contains("error 1227"), "{refused:?}");
    let tcp = format!("127.0.0.1:{}", admin.port);
    assert!(ctl(&["--address", &tcp, "SHOW VERSION"]).success().unwrap().contains("uptime_s"));
    let wrong = ctl(&["--address", "127.0.0.1:1", "HELP"]);
    assert!(wrong.status.code() == Some(1) && wrong.output.contains("efused"), "{wrong:?}");
    let unknown = ctl(&["--user", "nobody", "HELP"]);
    assert!(unknown.output.contains("DELPHINUS_ADMIN_PASSWORD"), "{unknown:?}");
}

#[test]
fn hostile_bytes_do_no_harm() {
    let (stage, admin) = admin_stage(Flavor::MariaDb, &[]);
    let mut numbers = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        numbers ^= numbers << 13;
        numbers ^= numbers >> 7;
        numbers ^= numbers << 17;
        numbers
    };
    for round in 0..200_u32 {
        let mut socket = TcpStream::connect(("127.0.0.1", admin.port)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut greeting = [0; 4];
        socket.read_exact(&mut greeting).unwrap();
        let length = (random() % 300) as usize;
        let mut bytes: Vec<u8> = (0..length).map(|_| random() as u8).collect();
        if round % 2 == 0 {
            // A packet of the right length and number, with anything in it.
            let header = [(length & 255) as u8, (length >> 8) as u8, 0, 1];
            bytes = [&header[..], &bytes].concat();
        }
        // It may have hung up already.
        let _ = socket.write_all(&bytes);
        if round % 3 == 0 {
            let _ = socket.shutdown(std::net::Shutdown::Write);
            let _ = socket.read_to_end(&mut Vec::new());
        }
    }
    // After the login, too: every command number, with anything behind it.
    for command in 0..=255_u8 {
        let payload: Vec<u8> = (0..random() % 40).map(|_| random() as u8).collect();
        let mut operator = until_connected(&admin);
        operator.send(command, &payload).unwrap();
        if !matches!(command, 1 | 0x18 | 0x19) {
            // An answer, or the end; never silence.
            let mut wire = operator.into_wire();
            assert!(wire.read(&mut [0; 64]).is_ok(), "command {command}");
        }
    }
    let mut large = until_connected(&admin);
    assert!(large.query(&"x".repeat(70_000)).is_err());
    let mut operator = until_connected(&admin);
    assert_eq!(operator.rows("SHOW BACKENDS").unwrap().len(), 3);
    assert_eq!(stage.address.connect().unwrap().value("SELECT 1").unwrap(), "1");
}

/// The places of connections that were left behind are free a moment later.
fn until_connected(admin: &Admin) -> Client {
    let mut found = None;
    until(LIMIT, "a place for an operator", || {
        found = admin.try_connect("ops").ok();
        Ok(found.is_some())
    })
    .unwrap();
    found.unwrap()
}

#[test]
fn commands_are_counted_where_they_run_on_held_connections_too() {
    for flavor in BOTH {
        let (stage, admin) = admin_stage(flavor, &[]);
        let mut operator = admin.operator();
        let mut routed = || {
            ["primary", "replica"].map(|target| -> u64 {
                let name = format!("delphinus_routed_total{{cluster=\"main\",target=\"{target}\"}}");
                operator.rows(&format!("SHOW STATUS LIKE '{name}'")).unwrap()[0][1]
                    .as_deref()
                    .unwrap()
                    .parse()
                    .unwrap()
            })
        };
        let mut client = stage.address.connect().unwrap();
        let insert = client.prepare("INSERT INTO app.visits (server_id) VALUES (1)").unwrap();
        let before = routed();
        let mut counted = |text: &str| {
            let now = routed();
            assert!(now[0] >= before[0] && now[1] >= before[1], "{text}");
            [now[0] - before[0], now[1] - before[1]]
        };
        for sql in
            ["BEGIN", "INSERT INTO app.visits (server_id) VALUES (1)", "SELECT COUNT(*) FROM app.visits"]
        {
            client.query(sql).unwrap();
        }
        client.execute(insert).unwrap();
        client.query("ROLLBACK").unwrap();
        assert_eq!(counted("a transaction"), [5, 0]);
        // One that has written nothing reads on any replica.
        let mut reader = stage.address.connect().unwrap();
        for sql in ["START TRANSACTION READ ONLY", WHO, WHO, "COMMIT"] {
            reader.query(sql).unwrap();
        }
        assert_eq!(counted("a transaction that cannot write"), [5, 4]);
        for sql in [
            "CREATE TEMPORARY TABLE app.mine (a INT)",
            "SELECT * FROM app.mine",
            "DROP TEMPORARY TABLE app.mine",
        ] {
            client.query(sql).unwrap();
        }
        assert_eq!(counted("a session that is pinned"), [8, 4]);
        reader.query(WHO).unwrap();
        assert_eq!(counted("a read"), [8, 5]);
    }
}
