//! What operators change while clients work: on real servers, under load, and no client sees an error.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use delphinus_e2e::{Address, Client, ConfigFile, Login, Operators, ServerError, Stage, until};
use delphinus_sandbox::Flavor;

const LIMIT: Duration = Duration::from_secs(30);

/// Clients that work until they are told to stop; an error is one of the test.
struct Load {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    /// Sessions that stay, and one client that logs in anew each time.
    fn start(address: &Address, sessions: u64) -> Self {
        let (stop, rounds) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let client = |number: u64| {
            let (address, stop, rounds) = (address.clone(), stop.clone(), rounds.clone());
            thread::spawn(move || {
                let mut client = address.connect().unwrap();
                while !stop.load(Ordering::Relaxed) {
                    if number == 0 {
                        client = address.connect().unwrap();
                    }
                    work(&mut client, number);
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let clients = (0..=sessions).map(client).collect();
        Self { stop, rounds, clients }
    }

    /// Waits until each has worked for a while.
    fn go_on(&self) {
        let aim = self.rounds.load(Ordering::Relaxed) + 10 * self.clients.len() as u64;
        until(LIMIT, "the clients' work", || {
            Ok(self.rounds.load(Ordering::Relaxed) >= aim || self.has_failed())
        })
        .unwrap();
        assert!(!self.has_failed(), "a client has seen an error");
    }

    fn has_failed(&self) -> bool {
        self.clients.iter().any(JoinHandle::is_finished)
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.join().expect("a client has seen no error");
        }
    }
}

/// Reads, writes and transactions, which find what they have written.
fn work(client: &mut Client, number: u64) {
    client.query("SELECT COUNT(*) FROM app.changed").unwrap();
    client.query(&format!("INSERT INTO app.changed (client) VALUES ({number})")).unwrap();
    client.query("BEGIN").unwrap();
    client
        .query(&format!("UPDATE app.changed SET touched = touched + 1 WHERE client = {number} LIMIT 1"))
        .unwrap();
    let rows = client.rows(&format!("SELECT COUNT(*) FROM app.changed WHERE client = {number}")).unwrap();
    assert_ne!(rows[0][0].as_deref(), Some("0"));
    client.query("COMMIT").unwrap();
    client.query(&format!("DELETE FROM app.changed WHERE client = {number}")).unwrap();
}

/// A proxy whose file is changed and read again.
struct Changing {
    stage: Stage,
    operators: Operators,
    file: PathBuf,
}

impl Changing {
    fn start(flavor: Flavor, config: ConfigFile) -> Self {
        let operators = Operators::default();
        let sections = [config.sections, vec![operators.section()]].concat();
        let stage =
            Stage::with_servers(flavor, &["general_log=OFF"], &ConfigFile { sections, ..config }).unwrap();
        let file = stage.address.socket.with_file_name("delphinus.toml");
        let mut setup = stage.address.connect().unwrap();
        let table = "CREATE TABLE app.changed (id BIGINT AUTO_INCREMENT PRIMARY KEY, client INT, touched INT DEFAULT 0)";
        setup.query(table).unwrap();
        stage.wait_for_replicas("SELECT COUNT(*) FROM app.changed").unwrap();
        Self { stage, operators, file }
    }

    fn operator(&self) -> Client {
        self.operators.connect(&self.stage.address).unwrap()
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.file).unwrap()
    }

    /// Has the file read again with this text; what has changed, and when that takes effect.
    fn reload(&self, text: &str) -> Vec<(String, String)> {
        std::fs::write(&self.file, text).unwrap();
        let changed = self.operator().rows("RELOAD CONFIG").unwrap();
        changed.into_iter().map(|row| (row[0].clone().unwrap(), row[3].clone().unwrap())).collect()
    }

    /// All of it takes effect at once.
    fn apply(&self, text: &str) {
        let changed = self.reload(text);
        assert!(
            !changed.is_empty() && changed.iter().all(|(_, effect)| effect == "applied" || effect == "drain"),
            "{changed:?}"
        );
    }

    fn backends(&self) -> Vec<(String, String)> {
        let all = self.operators.backends(&self.stage.address).unwrap();
        all.into_iter().map(|one| (one.name, one.state)).collect()
    }

    fn until_up(&self, name: &str) {
        let is_up = || Ok(self.backends().iter().any(|(one, state)| one == name && state == "up"));
        until(LIMIT, &format!("{name} to be up"), is_up).unwrap();
    }

    /// The server that reads of a new session are given, by its port, of so many.
    fn places(&self, count: usize) -> Vec<u16> {
        let mut client = self.stage.address.connect().unwrap();
        let mut port =
            || client.rows("SELECT port FROM answered_by").unwrap()[0][0].as_ref().unwrap().parse().unwrap();
        let mut all: Vec<u16> = (0..count).map(|_| port()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// A section of a file, from its head to the next one.
fn section(text: &str, marker: &str) -> String {
    let at = text.find(marker).unwrap();
    let begin = text[..at].rfind("[[").unwrap();
    let end = text[at..].find("\n[").map_or(text.len(), |length| at + length + 1);
    text[begin..end].to_owned()
}

#[test]
fn backends_come_and_go_and_no_client_sees_it() {
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        let topology = (flavor == Flavor::MySql).then_some("read_only");
        let changing = Changing::start(flavor, ConfigFile { topology, ..ConfigFile::default() });
        let servers = &changing.stage.cluster.servers;
        let (all, replica) = (changing.text(), &servers[2]);
        let without = all.replace(&section(&all, &format!("name = \"{}\"", replica.name)), "");
        let load = Load::start(&changing.stage.address, 6);
        for _ in 0..3 {
            changing.apply(&without);
            assert_eq!(changing.backends().len(), 2);
            assert!(!changing.places(20).contains(&replica.port));
            load.go_on();
            changing.apply(&all);
            changing.until_up(&replica.name);
            until(LIMIT, "reads on it", || Ok(changing.places(20).contains(&replica.port))).unwrap();
            load.go_on();
        }
        // Weights, and the limits of connections, of backends that stay.
        changing.apply(&all.replace(
            &format!("name = \"{}\"", replica.name),
            &format!("name = \"{}\"\nweight = 0\nmax_connections = 3", replica.name),
        ));
        until(LIMIT, "no more reads on it", || Ok(!changing.places(20).contains(&replica.port))).unwrap();
        load.go_on();
        // One that is not there, and one that is no replica of this cluster: neither gets anything.
        let port = servers.iter().map(|one| one.port).max().unwrap() + 1;
        let role = if topology.is_none() { "role = \"replica\"\n" } else { "" };
        changing.apply(&format!(
            "{all}\n[[cluster.backend]]\nname = \"nobody\"\n{role}address = \"127.0.0.1:{port}\"\n"
        ));
        load.go_on();
        until(LIMIT, "it to be down", || {
            Ok(changing.backends().contains(&("nobody".to_owned(), "down".to_owned())))
        })
        .unwrap();
        load.go_on();
        changing.apply(&all);
        assert_eq!(changing.backends().len(), 3);
        load.go_on();
        load.end();
    }
}

#[test]
fn commands_change_what_runs_and_the_file_when_that_is_saved() {
    let changing = Changing::start(Flavor::MariaDb, ConfigFile::default());
    let servers = &changing.stage.cluster.servers;
    let (before, replica) = (format!("# kept\n{}", changing.text()), &servers[2]);
    std::fs::write(&changing.file, &before).unwrap();
    assert!(changing.reload(&before).is_empty(), "a comment changes nothing");
    let load = Load::start(&changing.stage.address, 4);
    let mut operator = changing.operator();
    // A backend goes and comes, by command.
    run(&mut operator, &format!("REMOVE BACKEND '{}'", replica.name));
    assert_eq!(changing.backends().len(), 2);
    load.go_on();
    let add = format!(
        "ADD BACKEND '{}' address = '127.0.0.1:{}', role = replica, weight = 300",
        replica.name, replica.port
    );
    assert!(run(&mut operator, &add).iter().all(|row| row[3].as_deref() == Some("applied")));
    changing.until_up(&replica.name);
    load.go_on();
    run(&mut operator, &format!("SET BACKEND '{}' weight = 7", replica.name));
    // A rule for one table alone, which holds for sessions that are there.
    let mut client = changing.stage.address.connect().unwrap();
    client.query("SELECT 1 FROM answered_by").unwrap();
    run(&mut operator, "ADD RULE careful table = ['answered_by'], reject = 'not now'");
    let refused = client.query("SELECT 1 FROM answered_by").unwrap_err();
    assert!(refused.to_string().contains("not now"), "{refused:#}");
    load.go_on();
    run(&mut operator, "REMOVE RULE careful");
    client.query("SELECT 1 FROM answered_by").unwrap();
    // An option of a section; and what differs from the file.
    run(&mut operator, "SET routing.read_primary_percentage = 30");
    let told = run(&mut operator, "CONFIG DIFF");
    let row =
        |option: &str| told.iter().find(|row| row[0].as_deref() == Some(option)).map(|row| row[1..].to_vec());
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(row("routing.read_primary_percentage"), Some(vec![text("30"), text("0")]));
    assert_eq!(
        row(&format!("cluster.backend[\"{}\"].weight", replica.name)),
        Some(vec![text("7"), text("100")])
    );
    assert_eq!(changing.text(), before);
    // Saved: the comment is there, and nothing differs any more.
    operator.query("CONFIG SAVE").unwrap();
    assert!(
        changing.text().starts_with("# kept\n") && changing.text().contains("read_primary_percentage = 30")
    );
    assert!(run(&mut operator, "CONFIG DIFF").is_empty());
    check_history(&mut operator);
    load.go_on();
    check_mistakes(&changing, &mut operator);
    load.go_on();
    load.end();
}

#[test]
fn users_their_passwords_and_listeners_change_and_nobody_who_is_in_notices() {
    let changing = Changing::start(Flavor::MariaDb, ConfigFile::default());
    let load = Load::start(&changing.stage.address, 4);
    let mut operator = changing.operator();
    let primary = &changing.stage.cluster.servers[0];
    primary.query("CREATE USER late@'%' IDENTIFIED BY 'pw-one'; GRANT ALL ON app.* TO late@'%'").unwrap();
    let log_in = |password: &str| {
        Address { user: "late".into(), password: password.into(), ..changing.stage.address.clone() }.connect()
    };
    assert!(log_in("pw-one").is_err());
    run(&mut operator, "ADD USER late password = 'pw-one'");
    changing.stage.wait_for_replicas("SELECT COUNT(*) FROM mysql.user WHERE user = 'late'").unwrap();
    let mut inside = log_in("pw-one").unwrap();
    inside.query("SELECT COUNT(*) FROM app.changed").unwrap();
    // Both passwords are right while it is being changed.
    run(&mut operator, "SET USER late secondary_password = 'pw-two'");
    log_in("pw-two").unwrap();
    primary.query("ALTER USER late@'%' IDENTIFIED BY 'pw-two'").unwrap();
    inside.query("INSERT INTO app.changed (client) VALUES (99)").unwrap();
    let mut other = log_in("pw-one").unwrap();
    other.query("INSERT INTO app.changed (client) VALUES (99)").unwrap();
    run(&mut operator, "SET USER late password = 'pw-two', secondary_password = DEFAULT");
    assert!(log_in("pw-one").is_err());
    log_in("pw-two").unwrap().query("DELETE FROM app.changed WHERE client = 99").unwrap();
    inside.query("SELECT 1").unwrap();
    load.go_on();
    // No secret in what is told of it.
    let told = format!("{:?}", run(&mut operator, "CONFIG HISTORY"));
    assert!(!told.contains("pw-one") && !told.contains("pw-two"), "{told}");
    // A door more, and none any more.
    let socket = changing.stage.address.socket.with_file_name("more.sock");
    run(&mut operator, &format!("ADD LISTENER more address = 'unix:{}'", socket.display()));
    let door = Address { socket: socket.clone(), ..changing.stage.address.clone() };
    let mut client = door.connect().unwrap();
    client.query("SELECT 1").unwrap();
    run(&mut operator, "SET LISTENER more socket_mode = '0700'");
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "of the socket that is there");
    door.connect().unwrap();
    run(&mut operator, "REMOVE LISTENER more");
    assert!(door.connect().is_err() && !socket.exists());
    client.query("SELECT 1").unwrap();
    run(&mut operator, "REMOVE USER late");
    assert!(log_in("pw-two").is_err());
    inside.query("SELECT 1").unwrap();
    load.go_on();
    load.end();
}

/// Back to what ran at the start; and what the file has is what is read again.
fn check_history(operator: &mut Client) {
    let history = run(operator, "CONFIG HISTORY");
    assert_eq!(history.len(), 7, "{history:?}");
    assert!(history[3][3].as_deref().unwrap().starts_with("SET BACKEND"), "{history:?}");
    run(operator, "CONFIG ROLLBACK 0");
    let diff = run(operator, "CONFIG DIFF");
    assert!(diff.iter().any(|row| row[0].as_deref() == Some("routing.read_primary_percentage")), "{diff:?}");
    assert!(!run(operator, "CONFIG PLAN").is_empty());
    run(operator, "CONFIG APPLY");
    assert!(run(operator, "CONFIG PLAN").is_empty());
}

fn check_mistakes(changing: &Changing, operator: &mut Client) {
    let primary = &changing.stage.cluster.servers[0];
    // What is wrong changes nothing; a file that somebody else has changed is not written over.
    for (command, part) in [
        ("SET routing.read_primary_percentage = 101", "is out of range"),
        ("ADD BACKEND x role = replica", "address is missing"),
        ("REMOVE BACKEND nobody", "has no backend \"nobody\""),
        (&format!("REMOVE BACKEND '{}'", primary.name), "the cluster has no primary"),
        ("ADD USER u max_connections = 'many'", "max_connections"),
    ] {
        let error = operator.error(command).unwrap();
        assert!(error.message.contains(part), "{command}: {error}");
    }
    assert!(run(operator, "CONFIG PLAN").is_empty());
    std::fs::write(&changing.file, format!("{}\n# by hand\n", changing.text())).unwrap();
    run(operator, "SET pool.hold_ms = 0");
    assert!(
        operator.error("CONFIG SAVE").unwrap().message.contains("the file has changed since it was read")
    );
}

fn run(operator: &mut Client, command: &str) -> Vec<Vec<Option<String>>> {
    operator.rows(command).unwrap_or_else(|error| panic!("{command}: {error:#}"))
}

#[test]
fn the_proxy_and_a_backend_leave_and_come_back() {
    let changing = Changing::start(Flavor::MariaDb, ConfigFile::default());
    let (address, primary) = (&changing.stage.address, &changing.stage.cluster.servers[0].name);
    let mut operator = changing.operator();
    // Connections are made anew, and no client sees it.
    let load = Load::start(address, 4);
    load.go_on();
    for what in ["RECONNECT", &format!("RECONNECT BACKEND '{primary}'"), "RECONNECT USER app"] {
        let told = run(&mut operator, what);
        assert_ne!(told[0][1].as_deref(), Some("0"), "{what}: {told:?}");
        load.go_on();
    }
    load.end();
    // A backend: what is open on it has its time, and is ended then.
    let (mut inside, mut other) = (address.connect().unwrap(), address.connect().unwrap());
    inside.query("BEGIN").unwrap();
    inside.query("INSERT INTO app.changed (client) VALUES (50)").unwrap();
    let error = operator.error(&format!("SET BACKEND '{primary}' OFFLINE SOFT WAIT 1")).unwrap();
    assert!(error.message.contains("1 connections to it are still open after 1 s"), "{error}");
    other.query("SELECT 1 FROM answered_by").unwrap();
    operator.query(&format!("SET BACKEND '{primary}' OFFLINE HARD")).unwrap();
    assert!(inside.query("COMMIT").is_err());
    operator.query(&format!("SET BACKEND '{primary}' OFFLINE WAIT 20s")).unwrap();
    operator.query(&format!("SET BACKEND '{primary}' ONLINE")).unwrap();
    let left = other.rows("SELECT COUNT(*) FROM app.changed WHERE client = 50").unwrap();
    assert_eq!(left[0][0].as_deref(), Some("0"), "the transaction was rolled back");
    // The proxy: an open transaction comes to its end, then its session ends; nobody new comes in.
    let (mut inside, mut idle) = (address.connect().unwrap(), address.connect().unwrap());
    inside.query("BEGIN").unwrap();
    inside.query("INSERT INTO app.changed (client) VALUES (51)").unwrap();
    idle.query("SELECT 1").unwrap();
    operator.query("SET PROXY OFFLINE").unwrap();
    let refused = address.connect().unwrap_err();
    assert!(refused.to_string().contains("offline mode"), "{refused:#}");
    until(LIMIT, "the idle session to end", || Ok(idle.query("SELECT 1").is_err())).unwrap();
    inside.query("INSERT INTO app.changed (client) VALUES (51)").unwrap();
    inside.query("COMMIT").unwrap();
    until(LIMIT, "no client", || {
        let clients = run(&mut changing.operator(), "SHOW STATUS LIKE 'delphinus_clients'");
        Ok(clients[0][1].as_deref() == Some("0"))
    })
    .unwrap();
    operator.query("SET PROXY ONLINE").unwrap();
    let mut client = address.connect().unwrap();
    let kept = client.rows("SELECT COUNT(*) FROM app.changed WHERE client = 51").unwrap();
    assert_eq!(kept[0][0].as_deref(), Some("2"));
    // All statements, and all sessions, of a user.
    let mut sleeper = address.connect().unwrap();
    let asleep = thread::spawn(move || {
        (sleeper.query("SELECT SLEEP(60)").is_err(), sleeper.query("SELECT 1").is_ok())
    });
    let mut is_killed =
        || Ok(operator.rows("KILL QUERY USER app HOST localhost OLDER 1")?[0][0].as_deref() == Some("1"));
    until(LIMIT, "a statement to be killed", &mut is_killed).unwrap();
    let (was_ended, goes_on) = asleep.join().unwrap();
    assert!(goes_on, "the session stays; its statement: {was_ended}");
    client.query("SELECT 1").unwrap();
    assert!(run(&mut operator, "KILL USER app")[0][0].as_deref() >= Some("1"));
    assert!(client.query("SELECT 1").is_err());
    // By command for a host that tries it, too.
    run(&mut operator, "SET proxy.offline_exempt_networks = ['127.0.0.1']");
    operator.query("SET PROXY OFFLINE").unwrap();
    Client::connect(&Login::new(address).over_tcp(address)).unwrap();
    assert!(address.connect().is_err(), "by the Unix socket");
}

impl Changing {
    /// Waits until so many statements wait for RESUME.
    fn until_paused(&self, count: usize) {
        let mut operator = self.operator();
        let mut waiting =
            || Ok(operator.rows("SELECT 1 FROM sessions WHERE state = 'paused'")?.len() == count);
        until(LIMIT, &format!("{count} statements to wait"), &mut waiting).unwrap();
    }

    /// A client of the load's user in a thread of its own, which runs this.
    fn runs(&self, sql: &'static str) -> JoinHandle<anyhow::Result<delphinus_e2e::Answer>> {
        let mut client = self.stage.address.connect().unwrap();
        thread::spawn(move || client.query(sql))
    }
}

#[test]
fn a_pause_lets_transactions_end_and_has_everything_else_wait() {
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        let changing = Changing::start(flavor, ConfigFile::default());
        let (address, primary) = (&changing.stage.address, &changing.stage.cluster.servers[0]);
        let count = |client: u32| {
            primary.query(&format!("SELECT COUNT(*) FROM app.changed WHERE client = {client}")).unwrap()
        };
        let mut operator = changing.operator();
        let load = Load::start(address, 4);
        load.go_on();
        for _ in 0..3 {
            run(&mut operator, "PAUSE WAIT 20s");
            changing.until_paused(load.clients.len());
            let rounds = load.rounds.load(Ordering::Relaxed);
            let clusters =
                run(&mut operator, "SELECT paused_since, paused_statements, sessions FROM clusters");
            assert!(clusters[0][0].is_some() && clusters[0][1] == clusters[0][2], "{clusters:?}");
            assert_eq!(load.rounds.load(Ordering::Relaxed), rounds);
            operator.query("RESUME").unwrap();
            load.go_on();
        }
        load.end();
        // What is open goes on, to its end; then nothing does, prepared or not, and also for who has just come.
        let (mut inside, mut prepared) = (address.connect().unwrap(), address.connect().unwrap());
        let mut asks = address.connect().unwrap();
        asks.query("SELECT 1 FROM answered_by").unwrap();
        let statement = prepared.prepare("INSERT INTO app.changed (client) VALUES (72)").unwrap();
        prepared.execute(statement).unwrap();
        inside.query("BEGIN").unwrap();
        inside.query("INSERT INTO app.changed (client) VALUES (70)").unwrap();
        let left = run(&mut operator, "PAUSE CLUSTER main");
        assert_eq!(left, [["1", "0"].map(|text| Some(text.to_owned()))]);
        let late = operator.error("PAUSE WAIT 1").unwrap();
        assert!(late.message.contains("1 transactions or statements are still open after 1 s"), "{late}");
        inside.query("INSERT INTO app.changed (client) VALUES (70)").unwrap();
        inside.query("COMMIT").unwrap();
        run(&mut operator, "PAUSE WAIT 10");
        let inside = thread::spawn(move || inside.query("BEGIN"));
        let prepared = thread::spawn(move || prepared.execute(statement));
        // The primary is asked for what the session has read.
        let asks = thread::spawn(move || asks.value("SELECT @@delphinus.causality_token"));
        let others = ["INSERT INTO app.changed (client) VALUES (71)", "SELECT FOUND_ROWS()", "SELECT 1"];
        let others = others.map(|sql| changing.runs(sql));
        changing.until_paused(6);
        assert_eq!((count(70).trim(), count(71).trim(), count(72).trim()), ("2", "0", "1"));
        operator.query("RESUME").unwrap();
        inside.join().unwrap().unwrap();
        prepared.join().unwrap().unwrap();
        assert_ne!(asks.join().unwrap().unwrap(), "");
        let _ = others.map(|one| one.join().unwrap().unwrap());
        assert_eq!((count(71).trim(), count(72).trim()), ("1", "2"));
    }
}

#[test]
fn who_waits_in_a_pause_can_be_ended_and_one_user_alone_can_wait() {
    let mut changing = Changing::start(Flavor::MariaDb, ConfigFile::default());
    let (address, primary) = (changing.stage.address.clone(), &changing.stage.cluster.servers[0]);
    let mut operator = changing.operator();
    primary.query("CREATE USER late@'%' IDENTIFIED BY 'pw'; GRANT ALL ON app.* TO late@'%'").unwrap();
    changing.stage.wait_for_replicas("SELECT COUNT(*) FROM mysql.user WHERE user = 'late'").unwrap();
    run(&mut operator, "ADD USER late password = 'pw'");
    let late = Address { user: "late".into(), password: "pw".into(), ..address.clone() };
    // One user: the other works, and it goes on although it is removed meanwhile. A wait is not idleness.
    let mut one = late.connect().unwrap();
    operator.query("PAUSE USER late").unwrap();
    let one = thread::spawn(move || (one.query("SELECT 1 FROM answered_by").map(|_| ()), one));
    changing.until_paused(1);
    let shown = run(&mut operator, "SELECT paused_statements FROM users WHERE paused_since IS NOT NULL");
    assert_eq!(shown, [[Some("1".to_owned())]]);
    address.connect().unwrap().query("SELECT 1 FROM answered_by").unwrap();
    run(&mut operator, "REMOVE USER late");
    run(&mut operator, "SET proxy.wait_timeout_s = 1");
    thread::sleep(Duration::from_secs(3));
    changing.until_paused(1);
    let mut operator = changing.operator(); // The first one was idle for too long, too.
    let error = operator.error("RESUME CLUSTER main").unwrap();
    assert!(error.message.contains("no pause was begun with these words"), "{error}");
    operator.query("RESUME USER late").unwrap();
    one.join().unwrap().0.unwrap();
    // KILL QUERY, KILL, and a client that goes.
    run(&mut operator, "SET proxy.wait_timeout_s = 600");
    operator.query("PAUSE").unwrap();
    let mut client = address.connect().unwrap();
    let killed = thread::spawn(move || (client.error("SELECT 1 FROM answered_by").unwrap(), client));
    changing.until_paused(1);
    operator.query("KILL QUERY USER app").unwrap();
    let (error, mut client) = killed.join().unwrap();
    assert_eq!(error.code, 1317, "{error}");
    let killed = thread::spawn(move || client.query("SELECT 1 FROM answered_by").unwrap_err());
    changing.until_paused(1);
    operator.query("KILL USER app").unwrap();
    assert!(!killed.join().unwrap().is::<ServerError>(), "a killed session is told nothing");
    let mut goes = address.connect().unwrap();
    goes.send(3, b"INSERT INTO app.changed (client) VALUES (73)").unwrap();
    changing.until_paused(1);
    drop(goes);
    changing.until_paused(0);
    // Out of time, and no room to wait: an error, and the session goes on.
    run(&mut operator, "SET routing.pause_timeout_ms = 300");
    let mut client = address.connect().unwrap();
    let error = client.error("INSERT INTO app.changed (client) VALUES (73)").unwrap();
    assert!(
        (error.code, &*error.sqlstate) == (9102, "HY000") && error.message.contains("pause_timeout_ms = 300"),
        "{error}"
    );
    run(&mut operator, "SET routing.pause_timeout_ms = 60000");
    run(&mut operator, "SET routing.failover_wait_queue = 0");
    let error = client.error("INSERT INTO app.changed (client) VALUES (73)").unwrap();
    assert!(error.code == 9102 && error.message.contains("failover_wait_queue = 0"), "{error}");
    run(&mut operator, "SET routing.failover_wait_queue = 10");
    operator.query("RESUME").unwrap();
    let rows = client.rows("SELECT COUNT(*) FROM app.changed WHERE client = 73").unwrap();
    assert_eq!(rows[0][0].as_deref(), Some("0"), "none of them has run");
    // The proxy out of service, and its end: who waits is told, and nothing waits for a pause.
    operator.query("PAUSE").unwrap();
    for stops in [false, true] {
        let waits = changing.runs("SELECT 1 FROM answered_by");
        changing.until_paused(1);
        if stops {
            changing.stage.proxy().unwrap().stop(Duration::from_secs(10)).unwrap();
        } else {
            operator.query("SET PROXY OFFLINE").unwrap();
        }
        let error = waits.join().unwrap().unwrap_err();
        assert!(error.to_string().contains("1053"), "{error:#}");
        if !stops {
            operator.query("SET PROXY ONLINE").unwrap();
        }
    }
}
