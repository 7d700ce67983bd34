//! Roles that move and replicas that fall behind, on real servers: who gets writes and reads, and what clients are told.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use delphinus_e2e::{Address, Client, ConfigFile, ServerError, Stage, until};
use delphinus_sandbox::{Flavor, PortLease, Server};

const LIMIT: Duration = Duration::from_mins(1);

/// A plain read that says which server answered.
const WHO: &str = "SELECT server_id FROM app.answered_by";

/// The operators' way in.
struct Admin {
    address: Address,
    _port: PortLease,
}

impl Admin {
    fn operator(&self) -> Client {
        self.address.connect().unwrap()
    }
}

fn start(flavor: Flavor, config: &ConfigFile) -> (Stage, Admin) {
    // A group lets a member go that does not answer, as soon as it suspects it.
    let cnf: &[&str] = if flavor == Flavor::Group {
        &["loose_group_replication_member_expel_timeout=0"]
    } else {
        &["general_log=OFF"]
    };
    let lease = PortLease::take().unwrap();
    let socket = std::env::temp_dir().join(format!("delphinus-health-{}", lease.port()));
    let section = format!(
        "[admin]\naddresses = [\"127.0.0.1:{}\", \"unix:{}\"]\n[[admin.user]]\nname = \"ops\"\npassword = \"pw\"\n\
         role = \"operate\"\n",
        lease.port(),
        socket.display()
    );
    let mut config = config.clone();
    config.sections.push(section);
    let stage = Stage::with_servers(flavor, cnf, &config).unwrap();
    let (user, password, database) = ("ops".to_owned(), "pw".to_owned(), String::new());
    let address = Address { socket, port: lease.port(), user, password, database, ..stage.address.clone() };
    (stage, Admin { address, _port: lease })
}

/// The defaults but for the interval of the tests.
fn roles_by(topology: &'static str, monitor: &[&str]) -> ConfigFile {
    let monitor = ["interval_ms = 200"].iter().chain(monitor).map(|line| (*line).to_owned()).collect();
    // What waits for a primary is another test's matter.
    let routing = ConfigFile::with_sections("[routing]\nfailover_wait_ms = 300");
    ConfigFile { topology: Some(topology), monitor, ..routing }
}

/// Who takes a write that says so itself.
fn writer(client: &mut Client) -> anyhow::Result<u32> {
    client.query(
        "CREATE TABLE IF NOT EXISTS app.written (at INT NOT NULL AUTO_INCREMENT PRIMARY KEY, server INT)",
    )?;
    client.query("BEGIN")?;
    let outcome = client
        .query("INSERT INTO app.written (server) VALUES (@@server_id)")
        .and_then(|_| client.value("SELECT @@server_id"));
    client.query("ROLLBACK")?;
    Ok(outcome?.parse()?)
}

fn until_writer(stage: &Stage, server: u32) {
    until(LIMIT, &format!("writes to server {server}"), || {
        let mut client = stage.address.connect()?;
        Ok(writer(&mut client).inspect_err(assert_proper).is_ok_and(|found| found == server))
    })
    .unwrap();
}

/// What a client may see meanwhile: an error packet, never a closed socket.
fn assert_proper(error: &anyhow::Error) {
    assert!(error.downcast_ref::<ServerError>().is_some(), "not an error packet: {error:#}");
}

/// State and reason of a backend.
fn state(admin: &Admin, name: &str) -> (String, String) {
    let rows = admin.operator().rows(&format!("SHOW BACKENDS LIKE '{name}'")).unwrap();
    (rows[0][3].clone().unwrap_or_default(), rows[0][5].clone().unwrap_or_default())
}

fn until_state(admin: &Admin, name: &str, wanted: &str) -> String {
    let found = until(LIMIT, &format!("{name} to be {wanted}"), || Ok(state(admin, name).0 == wanted));
    found.unwrap_or_else(|error| panic!("{error:#}: {:?}", state(admin, name)));
    state(admin, name).1
}

/// What a failover tool does on `MariaDB`.
fn follow(replica: &Server, primary: &Server) {
    let sql = format!(
        "STOP SLAVE; SET GLOBAL read_only = 1; CHANGE MASTER TO MASTER_HOST='{}', MASTER_PORT={}, MASTER_USER='repl', \
         MASTER_PASSWORD='replpw', MASTER_USE_GTID=slave_pos; START SLAVE",
        primary.host, primary.port
    );
    replica.query(&sql).unwrap();
}

fn promote(server: &Server) {
    server.query("STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = 0").unwrap();
}

/// The slave position of one that was the primary is behind its own writes.
fn demote(server: &Server) {
    server.query("SET GLOBAL read_only = 1").unwrap();
    server.query("SET GLOBAL gtid_slave_pos = @@global.gtid_binlog_pos").unwrap();
}

#[test]
fn writes_follow_whoever_moves_the_roles() {
    let (mut stage, admin) = start(Flavor::MariaDb, &roles_by("read_only", &[]));
    let ids: Vec<_> = stage.cluster.servers.iter().map(|server| server.server_id).collect();
    let names: Vec<_> = stage.cluster.servers.iter().map(|server| server.name.clone()).collect();
    until_writer(&stage, ids[0]);
    // One session lives through all of it.
    let mut client = stage.address.connect().unwrap();

    // A planned switch.
    demote(&stage.cluster.servers[0]);
    promote(&stage.cluster.servers[1]);
    let began = Instant::now();
    until_writer(&stage, ids[1]);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    follow(&stage.cluster.servers[0], &stage.cluster.servers[1]);
    follow(&stage.cluster.servers[2], &stage.cluster.servers[1]);
    until_state(&admin, &names[0], "up");
    assert_eq!(writer(&mut client).unwrap(), ids[1]);

    // A dead primary, whose place another takes; when it comes back it still believes that it is the primary.
    stage.cluster.servers[1].kill9();
    until_state(&admin, &names[1], "down");
    assert_eq!(client.rows(WHO).unwrap().len(), 1, "reads go on");
    promote(&stage.cluster.servers[0]);
    follow(&stage.cluster.servers[2], &stage.cluster.servers[0]);
    until_writer(&stage, ids[0]);
    std::fs::OpenOptions::new()
        .append(true)
        .open(stage.cluster.dir().join(&names[1]).join("my.cnf"))
        .and_then(|mut file| std::io::Write::write_all(&mut file, b"read_only=OFF\n"))
        .unwrap();
    stage.cluster.servers[1].start_again().unwrap();
    let reason = until_state(&admin, &names[1], "fenced");
    assert!(reason.contains(&format!("{} is the primary now", names[0])), "{reason}");
    for _ in 0..50 {
        let mut client = stage.address.connect().unwrap();
        assert_eq!(writer(&mut client).unwrap(), ids[0]);
        assert_ne!(client.value(WHO).unwrap(), ids[1].to_string(), "a fenced backend is read from");
    }
    // It is taken in again as a replica.
    demote(&stage.cluster.servers[1]);
    follow(&stage.cluster.servers[1], &stage.cluster.servers[0]);
    until_state(&admin, &names[1], "up");
}

#[test]
fn two_writable_backends_stop_the_writes_until_it_is_clear() {
    let (stage, admin) = start(Flavor::MariaDb, &roles_by("read_only", &[]));
    let ids: Vec<_> = stage.cluster.servers.iter().map(|server| server.server_id).collect();
    until_writer(&stage, ids[0]);
    let mut client = stage.address.connect().unwrap();
    stage.cluster.servers[2].query("SET GLOBAL read_only = 0").unwrap();
    until(LIMIT, "writes to stop", || match client.query("INSERT INTO app.written (server) VALUES (1)") {
        Ok(_) => Ok(false),
        Err(error) => {
            let told = error.downcast_ref::<ServerError>().unwrap();
            let names = format!("{}, {}", stage.cluster.servers[0].name, stage.cluster.servers[2].name);
            Ok(told.message.contains(&format!("more than one backend takes writes: {names}")))
        }
    })
    .unwrap();
    assert!(client.value(WHO).is_ok(), "reads go on");
    assert!(stage.proxy.as_ref().unwrap().log().contains("two writers"));
    // An operator says which one is wrong.
    let name = stage.cluster.servers[2].name.clone();
    admin.operator().query(&format!("SET BACKEND {name} OFFLINE")).unwrap();
    until_writer(&stage, ids[0]);
    // Or it is put right.
    stage.cluster.servers[2].query("SET GLOBAL read_only = 1").unwrap();
    admin.operator().query(&format!("SET BACKEND {name} ONLINE")).unwrap();
    until_state(&admin, &name, "up");
    until_writer(&stage, ids[0]);
}

#[test]
fn a_replica_that_stops_or_is_late_is_not_read_from() {
    for (flavor, stop, start_sql) in [
        (Flavor::MariaDb, "STOP SLAVE SQL_THREAD", "START SLAVE"),
        (Flavor::MySql, "STOP REPLICA", "START REPLICA"),
    ] {
        let config = ConfigFile {
            monitor: ["interval_ms = 200", "lag_down_ms = 2000"].map(str::to_owned).to_vec(),
            ..ConfigFile::default()
        };
        let (stage, admin) = start(flavor, &config);
        let replica = &stage.cluster.servers[1];
        let reads = |wanted: bool| {
            until(LIMIT, "reads", || {
                let mut seen = false;
                for _ in 0..10 {
                    seen |= stage.address.connect()?.value(WHO)? == replica.server_id.to_string();
                }
                Ok(seen == wanted)
            })
            .unwrap();
        };
        until_state(&admin, &replica.name, "up");
        replica.query(stop).unwrap();
        let reason = until_state(&admin, &replica.name, "lagging");
        assert!(reason.contains("its replication has stopped"), "{reason}");
        reads(false);
        replica.query(start_sql).unwrap();
        until_state(&admin, &replica.name, "up");
        reads(true);

        // Late: a lock on the replica holds the change up, while the threads run.
        let sql = "CREATE TABLE app.late (a INT PRIMARY KEY); INSERT INTO app.late VALUES (1)";
        stage.cluster.servers[0].query(sql).unwrap();
        until(LIMIT, "the table", || {
            Ok(replica.query("SELECT a FROM app.late").is_ok_and(|row| !row.is_empty()))
        })
        .unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                replica.query("LOCK TABLES app.late READ; SELECT SLEEP(6); UNLOCK TABLES").unwrap()
            });
            until(LIMIT, "the lock", || {
                let held = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User sleep'";
                Ok(replica.query(held)?.trim() == "1")
            })
            .unwrap();
            stage.cluster.servers[0].query("INSERT INTO app.late VALUES (2)").unwrap();
            let reason = until_state(&admin, &replica.name, "lagging");
            assert!(reason.contains("s behind the primary"), "{reason}");
            reads(false);
        });
        until_state(&admin, &replica.name, "up");
        reads(true);
    }
}

#[test]
fn writes_follow_the_election_of_a_group() {
    let (mut stage, admin) = start(Flavor::Group, &roles_by("group_replication", &[]));
    let ids: Vec<_> = stage.cluster.servers.iter().map(|server| server.server_id).collect();
    until_writer(&stage, ids[0]);
    let mut client = stage.address.connect().unwrap();
    let straight = |stage: &Stage| {
        let is_writable =
            |server: &&Server| server.query("SELECT @@super_read_only").is_ok_and(|row| row.trim() == "0");
        stage.cluster.servers[1..].iter().find(is_writable).map(|server| server.server_id)
    };
    stage.cluster.servers[0].kill9();
    let name = stage.cluster.servers[0].name.clone();
    until_state(&admin, &name, "down");
    let mut elected = None;
    until(LIMIT, "an election", || {
        assert!(client.rows(WHO).is_ok(), "reads go on");
        elected = straight(&stage);
        Ok(elected.is_some())
    })
    .unwrap();
    let began = Instant::now();
    until_writer(&stage, elected.unwrap());
    let behind = began.elapsed();
    assert!(behind < Duration::from_secs(5), "{behind:?} after the election");
    assert_eq!(writer(&mut client).unwrap(), elected.unwrap(), "the session lives on");
    // The old one is a member again, and a replica.
    stage.cluster.servers[0].start_again().unwrap();
    until_state(&admin, &name, "up");
    assert_eq!(writer(&mut client).unwrap(), elected.unwrap());
    // Without the majority there are no writes.
    for server in &mut stage.cluster.servers {
        if Some(server.server_id) != elected {
            server.kill9();
        }
    }
    // Before it is noticed the server itself lets writes wait, for as long as it takes.
    let log = |stage: &Stage| stage.proxy.as_ref().unwrap().log();
    until(LIMIT, "the loss to be noticed", || Ok(log(&stage).contains("ONLINE with the majority"))).unwrap();
    let error = writer(&mut client).unwrap_err();
    assert_proper(&error);
    assert!(error.to_string().contains("majority"), "{error:#}");
    assert!(client.rows(WHO).is_ok(), "reads go on");
}
