//! Limits on connections, and what is kept back for operators.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "limits/places.rs"]
mod places;
#[path = "limits/support.rs"]
mod support;

use std::io::Read;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use delphinus_e2e::{Address, Client, ConfigFile, Login, ServerError, until};
use delphinus_sandbox::{ADMIN, NOPW};
use support::{BOTH, LIMIT, Limits, OPERATOR, refusal, status};

#[test]
fn an_operator_gets_in_when_an_application_has_taken_everything() {
    for flavor in BOTH {
        let proxy = ["max_connections = 12", "reserved_connections = 2"];
        let pool = ["max_connections = 4", "reserved_connections = 1", "checkout_timeout_ms = 60000"];
        let stage = Limits::start(
            flavor,
            &[],
            &ConfigFile {
                pool: pool.map(str::to_owned).to_vec(),
                sections: vec![OPERATOR.to_owned()],
                ..ConfigFile::with_proxy(&proxy)
            },
        );
        stage.stage.address.connect().unwrap().query("CREATE TABLE app.full (a INT)").unwrap();
        // The application takes every slot of a client that it can get, ...
        stage.all_gone();
        let mut clients: Vec<Client> = (0..10).map(|_| stage.app().unwrap()).collect();
        let error = refusal(stage.app());
        assert_eq!((error.code, &*error.sqlstate, &*error.message), (1040, "08004", "Too many connections"));
        // ... and every connection to the primary.
        for client in &mut clients[..3] {
            client.query("BEGIN").unwrap();
            client.query("INSERT INTO app.full VALUES (1)").unwrap();
        }
        let (mut waiting, stuck) = (clients.pop().unwrap(), clients[0].connection_id);
        let waits = thread::spawn(move || waiting.query("INSERT INTO app.full VALUES (2)").map(|_| waiting));

        // By the listener of everybody.
        let mut operator = stage.log_in(&ADMIN, false).unwrap();
        let mut another = stage.log_in(&ADMIN, true).unwrap();
        assert_eq!(refusal(stage.log_in(&ADMIN, false)).code, 1040, "they are two");
        operator.query("INSERT INTO app.full VALUES (3)").unwrap();
        let sessions = operator.rows("SHOW PROCESSLIST").unwrap();
        let of = |user: &str| sessions.iter().filter(|row| row[1].as_deref() == Some(user)).count();
        assert_eq!((of("app"), of("admin")), (10, 2));
        // An application does not see, and does not end, what is not its own.
        let (id, ours) = (another.connection_id, &mut clients[4]);
        assert_eq!(ours.error(&format!("KILL {id}")).unwrap().code, 1095);
        assert_eq!(ours.rows("SHOW PROCESSLIST").unwrap().len(), 10);
        another.query(&format!("KILL {stuck}")).unwrap();
        let mut waited = waits.join().unwrap().unwrap();
        assert!(clients[0].query("SELECT 1").is_err(), "it was killed");

        // By the operators' own listener.
        let mut ops = stage.operator();
        assert_eq!(ops.rows("SHOW SESSIONS LIKE 'app'").unwrap().len(), 9);
        let row = &ops.rows("SHOW BACKENDS").unwrap()[0];
        assert_eq!((row[9].as_deref(), row[10].as_deref()), (Some("4"), Some("1")));
        assert_eq!(status(&mut ops, "delphinus_sessions_refused_total{limit=\"max_connections\"}"), 2);
        assert_eq!(status(&mut ops, "delphinus_clients_reserved"), 2);
        assert_eq!(status(&mut ops, "delphinus_sessions_admin"), 2);
        ops.query(&format!("KILL {}", clients[1].connection_id)).unwrap();
        until(LIMIT, "it to end", || Ok(clients[1].query("SELECT 1").is_err())).unwrap();
        waited.query("INSERT INTO app.full VALUES (4)").unwrap();
        // What is free again is everybody's, but for what is reserved.
        let more: Vec<_> = std::iter::from_fn(|| stage.app().ok()).collect();
        assert_eq!(more.len(), 2);
    }
}

#[test]
fn half_open_logins_do_not_keep_an_operator_out() {
    let stage = Limits::start(
        BOTH[0],
        &[],
        &ConfigFile {
            sections: vec![OPERATOR.to_owned()],
            ..ConfigFile::with_proxy(&["max_connections = 100", "connect_timeout_ms = 600000"])
        },
    );
    stage.all_gone();
    let address = (stage.stage.address.host.clone(), stage.stage.address.port);
    let greeted = |flood: &mut Vec<TcpStream>| {
        let mut stream = TcpStream::connect(address.clone()).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        // A greeting comes to everybody: nobody is refused before others have to make way.
        assert!(stream.read(&mut [0; 256]).unwrap() > 20);
        flood.push(stream);
    };
    let mut flood = Vec::new();
    for round in 0..5 {
        for _ in 0..100 {
            greeted(&mut flood);
        }
        let begun = Instant::now();
        let mut operator = stage.log_in(&ADMIN, true).unwrap();
        // They take nobody's place: who names himself has it.
        let mut app = stage.app().unwrap();
        app.query("SELECT 1").unwrap();
        assert!(begun.elapsed() < Duration::from_secs(5), "{round}: {:?}", begun.elapsed());
        operator.query("SELECT 1").unwrap();
    }
    let mut ops = stage.operator();
    // All that fit, and 128 more.
    let pending = status(&mut ops, "delphinus_logins_pending");
    assert!((220..=228).contains(&pending), "{pending}");
    assert!(status(&mut ops, "delphinus_logins_total{result=\"evicted\"}") >= 272);
    assert_eq!(flood[0].read(&mut [0; 1]).unwrap(), 0, "the oldest is closed");
}

#[test]
fn users_and_addresses_have_limits() {
    for flavor in BOTH {
        let users = "[[user]]\nname = \"two\"\npassword = \"twopw\"\nmax_connections = 2\n\
                     [[user]]\nname = \"any\"\npassword = \"anypw\"\n";
        let proxy = ["max_user_connections = 3", "max_connections_per_address = 4"];
        let stage = Limits::start(
            flavor,
            &[],
            &ConfigFile {
                sections: vec![OPERATOR.to_owned(), users.to_owned()],
                ..ConfigFile::with_proxy(&proxy)
            },
        );
        let primary = &stage.stage.cluster.servers[0];
        for user in ["two", "any"] {
            primary.query(&format!("CREATE USER '{user}'@'%' IDENTIFIED BY '{user}pw'")).unwrap();
        }
        primary.query("CREATE USER 'own'@'%' IDENTIFIED BY 'ownpw' WITH MAX_USER_CONNECTIONS 2").unwrap();
        // In the words of the server.
        let direct = Limits::login(&stage.stage.primary_address(), ("own", "ownpw"), false);
        let _own = [Client::connect(&direct).unwrap(), Client::connect(&direct).unwrap()];
        let server = refusal(Client::connect(&direct));
        stage.all_gone();
        let log_in = |user: &str, over_tcp| {
            let password = format!("{user}pw");
            let login = Limits::login(&stage.stage.address, (user, &password), over_tcp);
            Client::connect(&login)
        };
        let two: Vec<_> = (0..2).map(|_| log_in("two", false).unwrap()).collect();
        let error = refusal(log_in("two", false));
        assert_eq!((error.code, &error.sqlstate), (server.code, &server.sqlstate));
        assert_eq!(server.code, 1226);
        let words = server.message.replace("own", "two");
        assert!(error.message.starts_with(&words), "{} / {words}", error.message);
        assert!(error.message.contains("max_connections of this [[user]]"));
        let any: Vec<_> = (0..3).map(|_| log_in("any", false).unwrap()).collect();
        let error = refusal(log_in("any", false));
        assert_eq!((error.code, &*error.sqlstate), (1203, "42000"));
        assert!(error.message.contains("[proxy] max_user_connections (3)"), "{error}");

        // Those of the socket come from no address.
        let mut here: Vec<_> = (0..3).map(|_| stage.app_over_tcp().unwrap()).collect();
        drop(any);
        let tcp = |user| log_in(user, true);
        stage.gone("any");
        here.push(tcp("any").unwrap());
        let error = refusal(tcp("any"));
        assert_eq!((error.code, &*error.sqlstate), (1040, "08004"));
        assert!(
            error.message.starts_with("Too many connections from 127.0.0.1.")
                && error.message.contains("max_connections_per_address (4)"),
            "{error}"
        );
        let _operators: Vec<_> = (0..4).map(|_| stage.log_in(&ADMIN, true).unwrap()).collect();
        // A client that becomes another user is counted as that.
        let mut change = stage.log_in(&NOPW, false).unwrap();
        let error = refusal(stage.change_user(&mut change, "two"));
        assert_eq!(error.code, 1226);

        let mut ops = stage.operator();
        let users = ops.rows("SHOW USERS").unwrap();
        let shown = |name: &str| {
            let row = users.iter().find(|row| row[0].as_deref() == Some(name)).unwrap();
            [4, 5, 6].map(|at| row[at].clone().unwrap_or_default())
        };
        assert_eq!(shown("two"), ["2", "2", "NO"]);
        assert_eq!(shown("any"), ["1", "3", "NO"]);
        assert_eq!(shown("admin"), ["4", "", "YES"]);
        let refused = |ops: &mut Client, limit: &str| {
            status(ops, &format!("delphinus_sessions_refused_total{{limit=\"{limit}\"}}"))
        };
        assert_eq!(refused(&mut ops, "max_user_connections"), 3);
        assert_eq!(refused(&mut ops, "max_connections_per_address"), 1);
        assert_eq!(status(&mut ops, "delphinus_address_connections"), 4);
        drop((two, here));
    }
}

/// Counts each login that a server has refused because it has no connection left. Its
/// `Connection_errors_max_connections` does not on MariaDB: see docs/protocol-notes.md.
const REFUSED: &str = "Aborted_connects";

/// So many clients at once, each in a transaction that takes a while; every one has to come to its end.
fn storm(stage: &Limits, clients: usize) {
    thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                let mut client = stage.app().unwrap();
                for sql in ["BEGIN", "SELECT SLEEP(0.05)", "COMMIT"] {
                    client.query(sql).unwrap();
                }
            });
        }
    });
}

#[test]
fn the_pool_stays_below_what_the_servers_allow() {
    for flavor in BOTH {
        // No more than 7 are left: for the pool, which is to have 100, and wants 40.
        let cnf = ["max_connections=12", "wait_timeout=6", "interactive_timeout=6"];
        let config = ConfigFile::with_pool(&["checkout_timeout_ms = 60000"]);
        let stage = Limits::start(flavor, &cnf, &config);
        let refused = |stage: &Limits| stage.stage.status(0, REFUSED).unwrap();
        let aborted = |stage: &Limits| stage.stage.status(0, "Aborted_clients").unwrap();
        let before = (refused(&stage), aborted(&stage));
        storm(&stage, 40);
        assert_eq!(refused(&stage), before.0, "a connection too many was tried");
        let mut ops = stage.operator();
        let backends = ops.rows("SHOW BACKENDS").unwrap();
        let shown = |at: usize| backends[0][at].as_deref().unwrap_or("-");
        let warning = shown(15);
        assert_eq!([9, 10, 11, 12].map(shown), ["7", "0", "12", "6"]);
        assert_eq!(
            warning,
            "max_connections = 100 is configured; the server has 12, of which 5 are left to others"
        );
        assert_eq!(ops.rows("SHOW POOLS LIKE 'primary'").unwrap()[0][9].as_deref(), Some(warning));
        let log = stage.stage.proxy.as_ref().unwrap().log();
        assert!(log.contains("is more than the server allows"), "{log}");
        // Idle ones are closed before the server does so, which would count them as aborted.
        until(LIMIT, "idle connections to be closed", || {
            Ok(ops.rows("SHOW BACKENDS")?.iter().all(|row| row[7].as_deref() == Some("0")))
        })
        .unwrap();
        assert_eq!(aborted(&stage), before.1, "the server closed one");
    }
}

/// Takes all that the server has for others.
fn fill(address: &Address) -> Vec<Client> {
    let mut all = Vec::new();
    loop {
        match Client::connect(&Login::new(address)) {
            Ok(client) => all.push(client),
            Err(error) => {
                assert_eq!(refusal::<()>(Err(error)).code, 1040);
                return all;
            }
        }
    }
}

/// A client whose write was refused because others have all connections of the primary; `None` where one that was on its
/// way out had stood in the way of the last of these.
fn refused_by_the_server(
    stage: &Limits,
    operator: &mut Client,
    primary: &Address,
) -> Option<(Client, Vec<Client>, ServerError)> {
    operator.query("SET BACKEND primary OFFLINE").unwrap();
    until(LIMIT, "no connection to the primary", || {
        Ok(operator.rows("SHOW BACKENDS")?[0][7].as_deref() == Some("0"))
    })
    .unwrap();
    let others = fill(primary);
    let refused = || stage.stage.status(0, REFUSED).unwrap();
    let before = refused();
    operator.query("SET BACKEND primary ONLINE").unwrap();
    let mut client = stage.app().unwrap();
    // Reads go elsewhere, writes wait, as long as for a connection of the pool.
    client.query("SELECT 1").unwrap();
    let error = client.error("INSERT INTO app.waited VALUES (1)").ok()?;
    assert!(refused() > before, "the server was asked");
    Some((client, others, error))
}

#[test]
fn what_others_have_taken_of_a_server_is_waited_for() {
    let config = ConfigFile {
        monitor: vec!["interval_ms = 200".to_owned(), "lag_down_ms = 0".to_owned()],
        ..ConfigFile::with_pool(&["checkout_timeout_ms = 2000", "hold_ms = 0"])
    };
    for flavor in BOTH {
        let stage = Limits::start(flavor, &["max_connections=20"], &config);
        let mut client = stage.app().unwrap();
        client.query("CREATE TABLE app.waited (a INT)").unwrap();
        // The pool has none to the primary any more.
        drop(client);
        stage.all_gone();
        let primary = stage.stage.primary_address();
        let mut operator = stage.operator();
        let (mut client, others, error) = (0..10)
            .find_map(|_| refused_by_the_server(&stage, &mut operator, &primary))
            .expect("a server without room");
        assert_eq!(error.code, 1040, "{}", error.message);
        let before = status(&mut operator, "delphinus_pool_waits_total{cluster=\"main\"}");
        let write = thread::spawn(move || {
            loop {
                // The server may be busy enough for others to need more than the limit to go.
                match client.error("INSERT INTO app.waited VALUES (2)") {
                    Ok(error) => assert_eq!(error.code, 1040, "{}", error.message),
                    // No error but an answer.
                    Err(_) => return client,
                }
            }
        });
        until(LIMIT, "it to wait", || {
            Ok(status(&mut operator, "delphinus_pool_waits_total{cluster=\"main\"}") > before)
        })
        .unwrap();
        drop(others);
        let mut client = write.join().unwrap();
        assert_eq!(client.value("SELECT COUNT(*) FROM app.waited WHERE a = 2").unwrap(), "1");
    }
}

/// Connections of a user to each server, as the servers count them.
fn connections(stage: &Limits, user: &str) -> Vec<usize> {
    let count = format!("SELECT COUNT(*) FROM information_schema.processlist WHERE user = '{user}'");
    let servers = stage.stage.cluster.servers.iter();
    servers.map(|server| server.query(&count).map_or(0, |text| text.trim().parse().unwrap())).collect()
}

#[test]
fn connections_are_opened_in_advance_and_again_after_a_return() {
    for flavor in BOTH {
        let kept = "[[user]]\nname = \"admin\"\npassword = \"adminpw\"\nmin_backend_connections = 4\n";
        let config = ConfigFile {
            sections: vec![kept.to_owned()],
            monitor: ["interval_ms = 100", "timeout_ms = 500", "fall = 2", "rise = 2"]
                .map(str::to_owned)
                .to_vec(),
            pool: ["idle_timeout_s = 1", "max_lifetime_s = 2"].map(str::to_owned).to_vec(),
            ..ConfigFile::default()
        };
        let mut stage = Limits::start(flavor, &[], &config);
        let are_there = |stage: &Limits| Ok(connections(stage, "admin") == [4, 4, 4]);
        until(LIMIT, "four to each", || are_there(&stage)).unwrap();
        stage.stage.cluster.servers[1].kill9();
        until(LIMIT, "the server to be missed", || {
            Ok(stage.operator().rows("SHOW BACKENDS")?[1][3].as_deref() == Some("down"))
        })
        .unwrap();
        stage.stage.cluster.servers[1].start_again().unwrap();
        until(LIMIT, "four to each again", || are_there(&stage)).unwrap();
        // Those of a session's own shape are kept, and no more than are wanted when it is gone.
        let sessions: Vec<_> = (0..8)
            .map(|_| {
                let mut client = stage.log_in(&ADMIN, false).unwrap();
                client.query("BEGIN").unwrap();
                client
            })
            .collect();
        assert!(connections(&stage, "admin")[0] >= 8);
        drop(sessions);
        until(LIMIT, "four to each in the end", || are_there(&stage)).unwrap();
    }
}

#[test]
fn a_user_has_no_more_connections_to_a_backend_than_it_may() {
    let few = "[[user]]\nname = \"admin\"\npassword = \"adminpw\"\nmax_backend_connections = 2\n";
    let config = ConfigFile {
        sections: vec![few.to_owned()],
        // Room for one of each user in each worker: nobody has to give any up.
        each_backend: vec!["max_connections = 6".to_owned()],
        ..ConfigFile::with_pool(&["checkout_timeout_ms = 500"])
    };
    let stage = Limits::start(BOTH[0], &[], &config);
    let log_in = || stage.log_in(&ADMIN, false).unwrap();
    let mut held: Vec<Client> = (0..2).map(|_| log_in()).collect();
    for client in &mut held {
        client.query("BEGIN").unwrap();
    }
    let error = log_in().error("BEGIN").unwrap();
    assert_eq!(error.code, 1203);
    let primary = &stage.stage.cluster.servers[0].name;
    assert_eq!(
        error.message,
        format!(
            "Delphinus: all 2 connections of this user to {primary} are in use; waited 500 ms \
             (max_backend_connections, or max_user_connections of the server)"
        )
    );
    // Those who wait for a place that others cannot give do not stand in their way, and cost them no connection.
    let mut ops = stage.operator();
    let closed = status(&mut ops, "delphinus_backend_closes_total{cluster=\"main\"}");
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..3).map(|_| scope.spawn(|| log_in().error("BEGIN").unwrap().code)).collect();
        for _ in 0..20 {
            stage.app().unwrap().query("SELECT 1 FROM app.answered_by FOR UPDATE").unwrap();
        }
        assert!(waiting.into_iter().all(|one| one.join().unwrap() == 1203));
    });
    let closed = status(&mut ops, "delphinus_backend_closes_total{cluster=\"main\"}") - closed;
    assert!(closed < 5, "{closed} connections were closed");
    let mut others: Vec<Client> = (0..4).map(|_| stage.app().unwrap()).collect();
    for client in &mut others {
        client.query("BEGIN").unwrap();
    }
    let mut last = stage.app().unwrap();
    let error = last.error("BEGIN").unwrap();
    assert!(
        error.message.starts_with(&format!("Delphinus: all 6 connections to {primary} are in use")),
        "{error}"
    );
    held.pop().unwrap().query("COMMIT").unwrap();
    last.query("BEGIN").unwrap();
}

#[test]
fn a_session_that_does_not_share_keeps_its_connection() {
    for flavor in BOTH {
        let sections = "[[user]]\nname = \"admin\"\npassword = \"adminpw\"\nmultiplex = false\n\
                        [[rule]]\nname = \"alone\"\nmatch_pattern = \"on my own\"\nmultiplex = false\n";
        let config =
            ConfigFile { sections: vec![sections.to_owned()], ..ConfigFile::with_pool(&["hold_ms = 0"]) };
        let stage = Limits::start(flavor, &[], &config);
        let mut ops = stage.operator();
        let pins = |ops: &mut Client, id: u32| {
            let rows = ops.rows("SHOW PINS").unwrap();
            let mine = rows.into_iter().filter(|row| row[0] == Some(id.to_string()));
            mine.map(|row| (row[3].clone().unwrap(), row[6].clone().unwrap_or_default())).collect::<Vec<_>>()
        };
        let alone = |statement: &str| vec![("multiplex_off".to_owned(), statement.to_owned())];
        let thread_of = |client: &mut Client| client.value("SELECT @@pseudo_thread_id").unwrap();
        let server_of = |client: &mut Client| client.value("SELECT server_id FROM app.answered_by").unwrap();
        let primary = stage.stage.cluster.servers[0].server_id.to_string();

        let mut own = stage.log_in(&ADMIN, false).unwrap();
        let id = own.connection_id;
        assert_eq!(pins(&mut ops, id), alone(""));
        let first: Vec<_> = (0..4).map(|_| server_of(&mut own)).collect();
        assert!(first.iter().all(|server| *server == primary), "{first:?}");
        // COM_RESET_CONNECTION begins anew.
        assert_eq!(own.command(0x1f, &[]).unwrap()[0], 0);
        assert_eq!(pins(&mut ops, id), alone(""));
        let thread = thread_of(&mut own);
        let mut another = stage.log_in(&ADMIN, false).unwrap();
        for _ in 0..4 {
            assert_ne!(thread_of(&mut another), thread);
            assert_eq!(thread_of(&mut own), thread);
        }

        let mut shared = stage.app().unwrap();
        assert_eq!(pins(&mut ops, shared.connection_id), []);
        until(LIMIT, "a replica", || Ok(server_of(&mut shared) != primary)).unwrap();
        shared.query("SELECT 'on my own'").unwrap();
        assert_eq!(pins(&mut ops, shared.connection_id), alone("SELECT ?"));
        assert!((0..4).all(|_| server_of(&mut shared) == primary));
        let rules = ops.rows("SHOW RULES").unwrap();
        assert_eq!(rules[0][3].as_deref(), Some("multiplex off"));
        assert_eq!(shared.command(0x1f, &[]).unwrap()[0], 0);
        assert_eq!(pins(&mut ops, shared.connection_id), []);
    }
}

#[test]
fn the_servers_limit_of_each_user_is_kept() {
    for flavor in BOTH {
        let config = ConfigFile {
            sections: vec![OPERATOR.to_owned()],
            pool: vec!["checkout_timeout_ms = 60000".to_owned()],
            ..ConfigFile::with_proxy(&["max_user_connections = 30"])
        };
        let stage = Limits::start(flavor, &["max_user_connections=6"], &config);
        // Six for the application, of which KILL has one.
        storm(&stage, 20);
        let mut clients: Vec<_> = (0..6).map(|_| stage.app().unwrap()).collect();
        for client in &mut clients[..5] {
            client.query("BEGIN").unwrap();
            client.query("SELECT COUNT(*) FROM app.answered_by").unwrap();
        }
        assert_eq!(connections(&stage, "app")[0], 5);
        let mut ops = stage.operator();
        let mut sixth = clients.pop().unwrap();
        let id = Some(sixth.connection_id.to_string());
        sixth.send(3, b"CREATE TABLE app.sixth (a INT)").unwrap();
        until(LIMIT, "the sixth to wait", || {
            let sessions = ops.rows("SHOW SESSIONS")?;
            Ok(sessions.iter().any(|row| row[0] == id && row[4].as_deref() == Some("waiting")))
        })
        .unwrap();
        assert_eq!(connections(&stage, "app")[0], 5);
        clients[0].query("COMMIT").unwrap();
        sixth.read_answers().unwrap();
        drop((sixth, clients));
        // In the words of the server.
        let direct = Limits::login(&stage.stage.primary_address(), (NOPW.user, NOPW.password), false);
        let _held: Vec<_> = (0..6).map(|_| Client::connect(&direct).unwrap()).collect();
        let server = refusal(Client::connect(&direct));
        let clients: Vec<_> = (0..30).map(|_| stage.log_in(&NOPW, false).unwrap()).collect();
        let error = refusal(stage.log_in(&NOPW, false));
        assert_eq!((error.code, &error.sqlstate), (server.code, &server.sqlstate));
        assert!(error.message.starts_with(&server.message), "{error} / {server}");
        drop(clients);
    }
}

#[test]
fn the_idle_connection_that_needs_the_least_is_taken() {
    let config =
        ConfigFile { proxy: vec!["workers = 1".to_owned()], ..ConfigFile::with_pool(&["hold_ms = 0"]) };
    let stage = Limits::start(BOTH[0], &[], &config);
    stage.all_gone();
    let begin = |client: &mut Client, length: u32| {
        client.query(&format!("SET group_concat_max_len = {length}")).unwrap();
        client.query("BEGIN").unwrap();
        client.value("SELECT @@pseudo_thread_id").unwrap()
    };
    let (mut near, mut far) = (stage.stage.address.connect().unwrap(), stage.app().unwrap());
    let (near_id, far_id) = (begin(&mut near, 5000), begin(&mut far, 6000));
    assert_ne!(near_id, far_id);
    near.query("COMMIT").unwrap();
    far.query("COMMIT").unwrap();
    drop((near, far));
    stage.all_gone();
    // Both have to be changed; that which was used last has the wrong schema, too.
    let mut client = stage.stage.address.connect().unwrap();
    client.query("BEGIN").unwrap();
    assert_eq!(client.value("SELECT @@pseudo_thread_id").unwrap(), near_id);
    drop(client);
    lifetimes(&stage.stage);
}

/// A connection ends with its lifetime though its session is always busy, and not while it is needed.
fn lifetimes(stage: &delphinus_e2e::Stage) {
    let (_proxy, address, _port) =
        stage.another_proxy(&ConfigFile::with_pool(&["max_lifetime_s = 1"])).unwrap();
    let mut client = address.connect().unwrap();
    client.query("SET @kept = 7").unwrap();
    let thread = |client: &mut Client| {
        client.value("SELECT @@pseudo_thread_id FROM app.answered_by FOR UPDATE").unwrap()
    };
    let first = thread(&mut client);
    until(LIMIT, "another connection", || Ok(thread(&mut client) != first)).unwrap();
    client.query("BEGIN").unwrap();
    let held = thread(&mut client);
    client.query("SELECT SLEEP(1.5)").unwrap();
    assert_eq!(thread(&mut client), held, "a transaction keeps its connection");
    client.query("COMMIT").unwrap();
    assert_ne!(thread(&mut client), held, "it had outlived its time");
    assert_eq!(client.value("SELECT @kept").unwrap(), "7");
}
