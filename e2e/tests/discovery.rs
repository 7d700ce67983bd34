//! Backends that the configuration does not name, on real servers: who is found, followed, and let go.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use delphinus_e2e::{Address, BackendRow, ConfigFile, Operators, Stage, WHO, until, writer};
use delphinus_sandbox::{Flavor, Server};

const LIMIT: Duration = Duration::from_mins(1);

/// Servers of which only the first is configured, and the operators' way in.
struct Scene {
    stage: Stage,
    operators: Operators,
}

impl Scene {
    fn start(flavor: Flavor, topology: Option<&'static str>, cnf: &[&str], monitor: &[&str]) -> Self {
        let operators = Operators::default();
        let sections = format!("[routing]\nfailover_wait_ms = 300\n{}", operators.section());
        let monitor = ["interval_ms = 200"].iter().chain(monitor).map(|line| (*line).to_owned()).collect();
        let seeds = Some(1);
        let config = ConfigFile::with_sections(&sections);
        let config = ConfigFile { topology, monitor, seeds, ..config };
        let stage = Stage::with_servers(flavor, cnf, &config).unwrap();
        Self { stage, operators }
    }

    fn servers(&self) -> &[Server] {
        &self.stage.cluster.servers
    }

    /// The name that a server has as a backend.
    fn name(&self, at: usize) -> String {
        let server = &self.servers()[at];
        if at == 0 { server.name.clone() } else { format!("{}:{}", server.host, server.port) }
    }

    fn straight_to(&self, at: usize) -> Address {
        let server = &self.servers()[at];
        Address { socket: server.socket.clone(), port: server.port, ..self.stage.address.clone() }
    }

    fn backends(&self) -> Vec<BackendRow> {
        self.operators.backends(&self.stage.address).unwrap()
    }

    fn backend(&self, at: usize) -> BackendRow {
        self.operators.backend(&self.stage.address, &self.name(at)).unwrap()
    }

    /// Waits until these servers, and no others, are backends and up.
    fn until_up(&self, servers: &[usize]) {
        let wanted: BTreeSet<_> = servers.iter().map(|at| self.name(*at)).collect();
        until(LIMIT, &format!("{wanted:?} to be up"), || {
            let all = self.backends();
            let up = all.iter().filter(|one| one.state == "up").map(|one| one.name.clone());
            Ok(all.len() == wanted.len() && up.collect::<BTreeSet<_>>() == wanted)
        })
        .unwrap();
    }

    /// Waits until a write runs on this server.
    fn until_writer(&self, server: usize) {
        let wanted = self.servers()[server].server_id;
        until(LIMIT, &format!("writes on {wanted}"), || {
            Ok(writer(&mut self.stage.address.connect()?).is_ok_and(|ran_on| ran_on == wanted))
        })
        .unwrap();
    }

    /// Waits until these servers, and no others, answer reads.
    fn until_read(&self, servers: &[usize]) {
        let wanted: BTreeSet<_> =
            servers.iter().map(|at| self.servers()[*at].server_id.to_string()).collect();
        until(LIMIT, &format!("reads on {wanted:?}"), || {
            let mut client = self.stage.address.connect()?;
            let answered = (0..20).map(|_| client.value(WHO));
            Ok(answered.collect::<anyhow::Result<BTreeSet<_>>>()? == wanted)
        })
        .unwrap();
    }

    fn log(&mut self) -> String {
        self.stage.proxy().unwrap().log()
    }
}

#[test]
fn a_group_is_followed_with_one_seed() {
    let mut scene = Scene::start(
        Flavor::Group,
        Some("group_replication"),
        &["loose_group_replication_member_expel_timeout=0"],
        &["discovery_forget_ms = 1000", "lag_down_ms = 1000", "lag_recover_ms = 500"],
    );
    scene.until_up(&[0, 1, 2]);
    let seed = scene.servers()[0].name.clone();
    for BackendRow { name, origin, .. } in scene.backends() {
        let wanted = if name == seed { "configured".to_owned() } else { format!("found, named by {seed}") };
        assert_eq!(origin, wanted, "{name}");
    }
    scene.until_writer(0);
    scene.until_read(&[1, 2]);
    // One that is ONLINE and applies nothing, because somebody holds a lock.
    let mut locking = scene.straight_to(2).connect().unwrap();
    locking.query("LOCK TABLES app.written READ").unwrap();
    let sql = "INSERT INTO app.written (server) VALUES (1)";
    scene.straight_to(0).connect().unwrap().query(sql).unwrap();
    let name = scene.name(2);
    until(LIMIT, "the member to be late", || {
        Ok(scene.backends().iter().any(|one| one.name == name && one.state == "lagging"))
    })
    .unwrap();
    scene.until_read(&[1]);
    locking.quit().unwrap();
    scene.until_read(&[1, 2]);
    // A member leaves, and joins again.
    scene.servers()[2].query("STOP GROUP_REPLICATION").unwrap();
    scene.until_up(&[0, 1]);
    scene.until_read(&[1]);
    assert!(scene.log().contains("it has left the group"));
    scene.servers()[2].query("START GROUP_REPLICATION").unwrap();
    scene.until_up(&[0, 1, 2]);
    scene.until_read(&[1, 2]);
    // The seed dies: one that was found takes the writes, the other one the reads.
    let mut client = scene.stage.address.connect().unwrap();
    client.value(WHO).unwrap();
    scene.stage.cluster.servers[0].kill9();
    let is_primary =
        |server: &Server| server.query("SELECT @@super_read_only").is_ok_and(|row| row.trim() == "0");
    let mut elected = None;
    until(LIMIT, "an election", || {
        assert!(client.rows(WHO).is_ok(), "reads go on");
        elected = (1..3).find(|at| is_primary(&scene.servers()[*at]));
        Ok(elected.is_some())
    })
    .unwrap();
    let elected = elected.unwrap();
    scene.until_writer(elected);
    scene.until_read(&[3 - elected]);
    assert!(scene.backends().iter().any(|one| one.name == seed && one.state == "down"));
    assert_eq!(writer(&mut client).unwrap(), scene.servers()[elected].server_id, "the session lives on");
    // It stays whatever happens, and is one backend when it is back.
    scene.stage.cluster.servers[0].start_again().unwrap();
    scene.until_up(&[0, 1, 2]);
    scene.until_writer(elected);
}

/// What differs between the families.
struct Words {
    stop: &'static str,
    start: &'static str,
    make_writable: &'static str,
    make_read_only: &'static str,
    /// The right that the documentation names.
    grant: &'static str,
}

const MARIADB: Words = Words {
    stop: "STOP SLAVE",
    start: "START SLAVE",
    make_writable: "SET GLOBAL read_only = 0",
    make_read_only: "SET GLOBAL read_only = 1",
    grant: "GRANT REPLICATION MASTER ADMIN ON *.* TO monitor@'%'",
};

const MYSQL: Words = Words {
    stop: "STOP REPLICA",
    start: "START REPLICA",
    make_writable: "SET GLOBAL super_read_only = 0, GLOBAL read_only = 0",
    make_read_only: "SET GLOBAL super_read_only = 1",
    grant: "GRANT REPLICATION SLAVE ON *.* TO monitor@'%'",
};

/// Only the primary is configured; its replicas come and go, and it dies.
fn replicas_of_the_primary_are_followed(mut scene: Scene, words: &Words) {
    // The right to see them is missing.
    until(LIMIT, "the fault", || Ok(scene.backend(0).reason.contains("replicas_unseen"))).unwrap();
    assert!(scene.log().contains("the replicas cannot be seen: error 1227"), "{}", scene.log());
    scene.until_up(&[0]);
    scene.servers()[2].query(words.stop).unwrap();
    scene.servers()[0].query(words.grant).unwrap();
    scene.until_up(&[0, 1]);
    scene.until_read(&[1]);
    assert_eq!(scene.backend(1).origin, format!("found, named by {}", scene.name(0)));
    until(LIMIT, "the fault to go", || Ok(scene.backend(0).reason.is_empty())).unwrap();

    // A new one comes; one that stops goes, and comes again; one that dies, too.
    scene.servers()[2].query(words.start).unwrap();
    scene.until_up(&[0, 1, 2]);
    scene.until_read(&[1, 2]);
    scene.until_writer(0);
    scene.servers()[2].query(words.stop).unwrap();
    scene.until_read(&[1]);
    scene.until_up(&[0, 1]);
    assert!(scene.log().contains("it no longer replicates from the primary"));
    scene.servers()[2].query(words.start).unwrap();
    scene.until_up(&[0, 1, 2]);
    scene.stage.cluster.servers[2].kill9();
    scene.until_up(&[0, 1]);
    scene.stage.cluster.servers[2].start_again().unwrap();
    scene.until_up(&[0, 1, 2]);

    // One that takes writes is neither a second primary nor read from.
    scene.servers()[2].query(words.make_writable).unwrap();
    scene.until_read(&[1]);
    assert!(scene.backend(2).reason.contains("it takes writes"), "{:?}", scene.backend(2));
    scene.until_writer(0);
    scene.servers()[2].query(words.make_read_only).unwrap();
    scene.until_read(&[1, 2]);

    // The primary dies: nobody goes with it, for longer than it takes otherwise.
    scene.stage.cluster.servers[0].kill9();
    until(LIMIT, "the primary's death to be seen", || Ok(scene.backend(0).state == "down")).unwrap();
    let (dead, mut seen) = (Instant::now(), BTreeSet::new());
    while dead.elapsed() < FORGET * 3 {
        seen.insert(scene.stage.address.connect().unwrap().value(WHO).unwrap());
    }
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert_eq!((scene.backend(1).state, scene.backend(2).state), ("up".to_owned(), "up".to_owned()));
    scene.stage.cluster.servers[0].start_again().unwrap();
    scene.until_up(&[0, 1, 2]);
    scene.until_writer(0);
}

/// `discovery_forget_ms` below.
const FORGET: Duration = Duration::from_secs(1);

const REPLICAS: &[&str] =
    &["discovery = \"replicas\"", "discovery_interval_ms = 200", "discovery_forget_ms = 1000"];

/// Without `report_host`: the primary's list of processes tells where they are.
#[test]
fn replicas_that_do_not_say_where_they_are_are_followed_on_mariadb() {
    let scene = Scene::start(Flavor::MariaDb, Some("read_only"), &["report_host="], REPLICAS);
    replicas_of_the_primary_are_followed(scene, &MARIADB);
}

#[test]
fn replicas_of_the_primary_are_followed_on_mysql() {
    let scene = Scene::start(Flavor::MySql, None, &[], REPLICAS);
    replicas_of_the_primary_are_followed(scene, &MYSQL);
}
