//! Roles that move and replicas that fall behind, on real servers: who gets writes and reads, and what clients are told.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use delphinus_e2e::{
    Address, BackendRow, Client, ConfigFile, Operators, ServerError, Stage, WHO, demote, follow, promote,
    until, writer,
};
use delphinus_sandbox::{Flavor, Server};

const LIMIT: Duration = Duration::from_mins(1);

/// The operators' way in.
struct Admin {
    operators: Operators,
    like: Address,
}

impl Admin {
    fn operator(&self) -> Client {
        self.operators.connect(&self.like).unwrap()
    }

    fn backend(&self, name: &str) -> BackendRow {
        self.operators.backend(&self.like, name).unwrap()
    }
}

fn start(flavor: Flavor, config: &ConfigFile) -> (Stage, Admin) {
    // A group lets a member go that does not answer, as soon as it suspects it.
    let cnf: &[&str] = if flavor == Flavor::Group {
        &["loose_group_replication_member_expel_timeout=0"]
    } else {
        &["general_log=OFF"]
    };
    let operators = Operators::default();
    let mut config = config.clone();
    config.sections.push(operators.section());
    let stage = Stage::with_servers(flavor, cnf, &config).unwrap();
    let like = stage.address.clone();
    (stage, Admin { operators, like })
}

/// The defaults but for the interval of the tests.
fn roles_by(topology: &'static str, monitor: &[&str]) -> ConfigFile {
    let monitor = ["interval_ms = 200"].iter().chain(monitor).map(|line| (*line).to_owned()).collect();
    // What waits for a primary is another test's matter.
    let routing = ConfigFile::with_sections("[routing]\nfailover_wait_ms = 300");
    ConfigFile { topology: Some(topology), monitor, ..routing }
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

/// Waits until it is in this state; why it is.
fn until_state(admin: &Admin, name: &str, wanted: &str) -> String {
    let found = until(LIMIT, &format!("{name} to be {wanted}"), || Ok(admin.backend(name).state == wanted));
    found.unwrap_or_else(|error| panic!("{error:#}: {:?}", admin.backend(name)));
    admin.backend(name).reason
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
    demote(&stage.cluster.servers[0]).unwrap();
    promote(&stage.cluster.servers[1]).unwrap();
    let began = Instant::now();
    until_writer(&stage, ids[1]);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    follow(&stage.cluster.servers[0], &stage.cluster.servers[1]).unwrap();
    follow(&stage.cluster.servers[2], &stage.cluster.servers[1]).unwrap();
    until_state(&admin, &names[0], "up");
    assert_eq!(writer(&mut client).unwrap(), ids[1]);

    // A dead primary, whose place another takes; when it comes back it still believes that it is the primary.
    stage.cluster.servers[1].kill9();
    until_state(&admin, &names[1], "down");
    assert_eq!(client.rows(WHO).unwrap().len(), 1, "reads go on");
    promote(&stage.cluster.servers[0]).unwrap();
    follow(&stage.cluster.servers[2], &stage.cluster.servers[0]).unwrap();
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
    demote(&stage.cluster.servers[1]).unwrap();
    follow(&stage.cluster.servers[1], &stage.cluster.servers[0]).unwrap();
    until_state(&admin, &names[1], "up");

    // One that follows no server any more has no lag to tell.
    stage.cluster.servers[2].query("STOP SLAVE; RESET SLAVE ALL").unwrap();
    until(LIMIT, "it to be left out", || {
        let row = admin.backend(&names[2]);
        Ok((&*row.state, &*row.reason) == ("lagging", "it replicates from no server"))
    })
    .unwrap();
    for _ in 0..50 {
        let found = stage.address.connect().unwrap().value(WHO).unwrap();
        assert_ne!(found, ids[2].to_string(), "a server that stands still is read from");
    }
    follow(&stage.cluster.servers[2], &stage.cluster.servers[0]).unwrap();
    until_state(&admin, &names[2], "up");
}

#[test]
fn two_writable_backends_stop_the_writes_until_it_is_clear() {
    let (stage, admin) = start(Flavor::MariaDb, &roles_by("read_only", &[]));
    let ids: Vec<_> = stage.cluster.servers.iter().map(|server| server.server_id).collect();
    until_writer(&stage, ids[0]);
    let mut client = stage.address.connect().unwrap();
    // One that follows no server may have been promoted.
    stage.cluster.servers[2].query("STOP SLAVE; SET GLOBAL read_only = 0").unwrap();
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
    stage.cluster.servers[2].query("SET GLOBAL read_only = 1; START SLAVE").unwrap();
    admin.operator().query(&format!("SET BACKEND {name} ONLINE")).unwrap();
    until_state(&admin, &name, "up");
    until_writer(&stage, ids[0]);
}

/// What the backends have executed tells which of two is right.
#[test]
fn of_two_writable_backends_the_one_that_has_more_may_be_right() {
    let (stage, admin) = start(Flavor::MariaDb, &roles_by("read_only", &[]));
    let ids: Vec<_> = stage.cluster.servers.iter().map(|server| server.server_id).collect();
    let [old, next, replica] = &stage.cluster.servers[..] else { panic!("three servers") };
    until_writer(&stage, ids[0]);
    let mut client = stage.address.connect().unwrap();
    client.query("CREATE TABLE app.held (a INT PRIMARY KEY)").unwrap();
    until(LIMIT, "the table", || Ok(replica.query("SELECT a FROM app.held").is_ok())).unwrap();

    // A replica is made writable by mistake, while it is behind and goes on to replicate.
    std::thread::scope(|scope| {
        let lock = "LOCK TABLES app.held READ; SELECT SLEEP(20); UNLOCK TABLES";
        scope.spawn(|| replica.query(lock));
        let sleepers = "SELECT id FROM information_schema.processlist WHERE state = 'User sleep'";
        until(LIMIT, "the lock", || Ok(!replica.query(sleepers)?.trim().is_empty())).unwrap();
        client.query("INSERT INTO app.held VALUES (1)").unwrap();
        replica.query("SET GLOBAL read_only = 0").unwrap();
        let reason = until_state(&admin, &replica.name, "fenced");
        assert!(reason.contains(&format!("{} is the primary now", old.name)), "{reason}");
        until_writer(&stage, ids[0]);
        let sleeper = replica.query(sleepers).unwrap();
        replica.query(&format!("KILL {}", sleeper.trim())).unwrap();
    });
    replica.query("SET GLOBAL read_only = 1").unwrap();
    until_state(&admin, &replica.name, "up");

    // Another is promoted, and nobody tells the old primary.
    let position = |server: &Server| server.query("SELECT @@gtid_current_pos").unwrap();
    until(LIMIT, "replicas to be even", || Ok(position(next) == position(old))).unwrap();
    // The proxy has to have seen it: a probe after this begins one interval later at most.
    let probes = |server: &Server| -> u64 {
        server
            .query("SHOW GLOBAL STATUS LIKE 'Com_select'")
            .unwrap()
            .trim()
            .rsplit('\t')
            .next()
            .unwrap()
            .parse()
            .unwrap()
    };
    let before = probes(next);
    until(LIMIT, "probes", || Ok(probes(next) > before + 3)).unwrap();
    promote(next).unwrap();
    next.query("INSERT INTO app.held VALUES (2)").unwrap();
    until_writer(&stage, ids[1]);
    let reason = until_state(&admin, &old.name, "fenced");
    assert!(reason.contains(&format!("{} is the primary now", next.name)), "{reason}");
    let held = "SELECT GROUP_CONCAT(a ORDER BY a) FROM app.held";
    assert_eq!(next.query(held).unwrap().trim(), "1,2", "nothing is lost");
}

/// Transactions of three statements, one after the other; gives their number. Nothing may fail.
fn transact(stage: &Stage, number: u32, is_over: &AtomicBool) -> u32 {
    let mut client = stage.address.connect().unwrap();
    let mut done = 0;
    while !is_over.load(Ordering::Relaxed) {
        client.query("BEGIN").unwrap();
        for half in 0..2 {
            let id = number * 1_000_000 + done * 2 + half;
            client.query(&format!("INSERT INTO app.switched VALUES ({id}, @@server_id)")).unwrap();
        }
        client.query("COMMIT").unwrap();
        done += 1;
    }
    done
}

/// The order of docs/health.md for a switch that costs nothing.
#[test]
fn a_switch_behind_a_drained_primary_costs_no_statement_and_no_transaction() {
    let mut config = roles_by("read_only", &[]);
    config.sections = ConfigFile::with_sections("[routing]\nfailover_wait_ms = 60000").sections;
    let (stage, admin) = start(Flavor::MariaDb, &config);
    let [old, next, other] = &stage.cluster.servers[..] else { panic!("three servers") };
    until_writer(&stage, old.server_id);
    let mut client = stage.address.connect().unwrap();
    client.query("CREATE TABLE app.switched (id INT PRIMARY KEY, server INT)").unwrap();
    let is_over = AtomicBool::new(false);
    let taken = |server: &Server| -> u32 {
        let sql = format!("SELECT COUNT(*) FROM app.switched WHERE server = {}", server.server_id);
        next.query(&sql).unwrap().trim().parse().unwrap()
    };
    let done: u32 = std::thread::scope(|scope| {
        let running: Vec<_> = (0..6)
            .map(|number| {
                let (stage, is_over) = (&stage, &is_over);
                scope.spawn(move || transact(stage, number, is_over))
            })
            .collect();
        until(LIMIT, "transactions", || Ok(taken(old) > 20)).unwrap();
        let mut operator = admin.operator();
        operator.query(&format!("SET BACKEND {} OFFLINE", old.name)).unwrap();
        until_state(&admin, &old.name, "maintenance");
        demote(old).unwrap();
        let position = |server: &Server| server.query("SELECT @@gtid_current_pos").unwrap();
        until(LIMIT, "the replica to have everything", || Ok(position(old) == position(next))).unwrap();
        promote(next).unwrap();
        follow(old, next).unwrap();
        follow(other, next).unwrap();
        operator.query(&format!("SET BACKEND {} ONLINE", old.name)).unwrap();
        until(LIMIT, "transactions on the next primary", || Ok(taken(next) > 20)).unwrap();
        is_over.store(true, Ordering::Relaxed);
        running.into_iter().map(|one| one.join().unwrap()).sum()
    });
    assert_eq!(taken(old) + taken(next), done * 2);
}

#[test]
fn a_replica_that_stops_or_is_late_is_not_read_from() {
    for (flavor, stop, start_sql) in [
        (Flavor::MariaDb, "STOP SLAVE SQL_THREAD", "START SLAVE"),
        (Flavor::MySql, "STOP REPLICA", "START REPLICA"),
    ] {
        let lag_source = if flavor == Flavor::MySql { "performance_schema" } else { "replication" };
        let lag_source = format!("lag_source = \"{lag_source}\"");
        let monitor = vec!["interval_ms = 200".to_owned(), "lag_down_ms = 2000".to_owned(), lag_source];
        let config = ConfigFile { monitor, ..ConfigFile::default() };
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
            // It may be told that its sleep was ended.
            scope.spawn(|| replica.query("LOCK TABLES app.late READ; SELECT SLEEP(60)"));
            let mut sleeper = String::new();
            until(LIMIT, "the lock", || {
                let held = "SELECT id FROM information_schema.processlist WHERE state = 'User sleep'";
                replica.query(held)?.trim().clone_into(&mut sleeper);
                Ok(!sleeper.is_empty())
            })
            .unwrap();
            stage.cluster.servers[0].query("INSERT INTO app.late VALUES (2)").unwrap();
            let reason = until_state(&admin, &replica.name, "lagging");
            assert!(reason.contains("s behind the primary"), "{reason}");
            reads(false);
            if flavor == Flavor::MySql {
                until(LIMIT, "milliseconds", || {
                    Ok(admin.backend(&replica.name).lag_ms.parse::<u64>().is_ok_and(|lag| lag % 1000 != 0))
                })
                .unwrap();
            }
            // How late is too late can be changed meanwhile.
            reload(&stage, &admin, ("lag_down_ms = 2000", "lag_down_ms = 3600000\nlag_recover_ms = 3600000"));
            until_state(&admin, &replica.name, "up");
            let row = admin.backend(&replica.name);
            assert!(row.lag_ms.parse::<u64>().is_ok_and(|lag| lag >= 2000), "{row:?}");
            reads(true);
            reload(&stage, &admin, ("lag_down_ms = 3600000\nlag_recover_ms = 3600000", "lag_down_ms = 2000"));
            until_state(&admin, &replica.name, "lagging");
            // And whether it counts at all: one that is out by then comes back.
            reload(&stage, &admin, ("lag_down_ms = 2000", "lag_down_ms = 0"));
            until_state(&admin, &replica.name, "up");
            reads(true);
            reload(&stage, &admin, ("lag_down_ms = 0", "lag_down_ms = 2000"));
            until_state(&admin, &replica.name, "lagging");
            replica.query(&format!("KILL QUERY {sleeper}")).unwrap();
        });
        until_state(&admin, &replica.name, "up");
        reads(true);
    }
}

/// Changes the proxy's file and has it read again.
fn reload(stage: &Stage, admin: &Admin, (from, to): (&str, &str)) {
    let path = stage.address.socket.with_file_name("delphinus.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{text}");
    std::fs::write(&path, text.replace(from, to)).unwrap();
    let changed = admin.operator().rows("RELOAD CONFIG").unwrap();
    assert!(changed.iter().all(|row| row[3].as_deref() == Some("applied")), "{changed:?}");
    assert!(!changed.is_empty());
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
        client.rows(WHO).expect("reads go on");
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
