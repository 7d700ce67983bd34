//! The monitor against real servers: what it learns, and what they count against it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use delphinus_monitor::Settings;
use delphinus_net::tls::{ClientTls, Verify};
use delphinus_net::{Address, Reach, rt};
use delphinus_sandbox::{Cluster, ClusterSpec, Flavor, Server, Silent};
use delphinus_topology::{self as topology, Snapshot};
use delphinus_wire::Capabilities;
use delphinus_wire::auth::Password;

use crate::stage::{LIMIT, Log, Stage, play, settings};

/// A cluster whose slow operations do not hold up the monitor.
#[derive(Clone)]
struct Shared(Arc<Mutex<Cluster>>);

impl Shared {
    async fn run<T: Send + 'static>(&self, job: impl FnOnce(&mut Cluster) -> T + Send + 'static) -> T {
        let cluster = self.0.clone();
        rt::compute(move || job(&mut cluster.lock().unwrap())).await.expect("the job does not panic")
    }

    async fn query(&self, index: usize, sql: &'static str) -> String {
        self.run(move |cluster| cluster.servers[index].query(sql).unwrap().trim().to_owned()).await
    }

    /// Waits until so many connections of monitors are listed: a server closes one before it takes it off its list.
    async fn until_connected(&self, index: usize, count: &str) {
        let connected = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'monitor'";
        let listed = async {
            while self.query(index, connected).await != count {
                rt::sleep(Duration::from_millis(20)).await;
            }
        };
        rt::timeout(LIMIT, listed).await.unwrap_or_else(|| panic!("server {index} never lists {count}"));
    }

    /// What a server counts as Aborted_clients and Aborted_connects.
    async fn aborted(&self, index: usize) -> String {
        self.query(index, "SHOW GLOBAL STATUS LIKE 'Aborted_c%'").await
    }
}

async fn start(flavor: Flavor) -> (Shared, Settings) {
    let spec = ClusterSpec { flavor, replicas: 1, ..ClusterSpec::default() };
    let cluster = rt::compute(move || Cluster::start(&spec, &Silent)).await.unwrap().unwrap();
    let address = |server: &Server| Address::Tcp(server.host.clone(), server.port);
    let mut settings = settings(cluster.servers.iter().map(address).collect());
    settings.tune(|tuning| {
        tuning.user.clone_from(&cluster.monitor_user);
        tuning.password = Password::new(cluster.monitor_password.clone());
        tuning.timeout = Duration::from_millis(500);
    });
    (Shared(Arc::new(Mutex::new(cluster))), settings)
}

async fn watch(settings: &Settings, log: &Log) -> Stage {
    let mut stage = Stage::new(settings.clone(), log.clone());
    stage.until("all up", |snapshot| snapshot.backends.iter().all(topology::Backend::is_up)).await;
    stage
}

async fn check_facts(snapshot: &Snapshot, cluster: &Shared, flavor: topology::Flavor) {
    let facts = snapshot.facts.clone().expect("facts");
    assert_eq!(facts.version, cluster.query(0, "SELECT @@version").await);
    assert_eq!(facts.flavor, flavor);
    let id = "SELECT id FROM information_schema.collations WHERE collation_name = @@global.collation_server";
    assert_eq!(facts.default_collation.to_string(), cluster.query(0, id).await);
    let count = facts.collations.iter().filter(|collation| collation.is_confirmed).count();
    assert!(count >= 250, "{count}");
    for (name, charset) in [("utf8mb4_general_ci", "utf8mb4"), ("latin1_swedish_ci", "latin1")] {
        let found = facts.collations.by_name(name).expect(name);
        assert!(found.is_confirmed && &*found.charset == charset && found.id > 0);
    }
    assert!(facts.collations.default_of("utf8mb4").is_some_and(|collation| collation.is_confirmed));
    let common = snapshot.common_capabilities();
    assert!(common.contains(Capabilities::SESSION_TRACK | Capabilities::DEPRECATE_EOF));
    assert_eq!(common.contains(Capabilities::MARIADB_STMT_BULK), flavor == topology::Flavor::MariaDb);
}

async fn no_trace_is_left(flavor: Flavor, tls: Option<(ClientTls, bool)>, log: Log) {
    let (cluster, mut settings) = start(flavor).await;
    for spec in &mut settings.backends {
        spec.place.reach_by(Reach { tls: tls.clone(), ..Reach::default() });
    }
    let family = if flavor.is_mysql() { topology::Flavor::MySql } else { topology::Flavor::MariaDb };
    let before = [cluster.aborted(0).await, cluster.aborted(1).await];
    let mut stage = watch(&settings, &log).await;
    check_facts(&stage.reader.load(), &cluster, family).await;

    cluster.run(|cluster| cluster.servers[1].pause().unwrap()).await;
    stage.until_health(1, "down").await;
    cluster.run(|cluster| cluster.servers[1].resume().unwrap()).await;
    stage.until_health(1, "up").await;

    cluster.query(0, "SET GLOBAL read_only = 1").await;
    stage.until("read_only", |snapshot| snapshot.backends[0].fault.is_some()).await;
    cluster.query(0, "SET GLOBAL read_only = 0").await;
    stage.until("writable", |snapshot| snapshot.backends[0].fault.is_none()).await;
    // A primary that answers late, on a busy machine, is told as down and up beside that.
    let faults = ["backend has a fault", "the fault of a backend is over"].map(|words| log.count(words));
    assert_eq!(faults, [1, 1], "{:?}", log.lines());

    cluster.until_connected(0, "1").await;
    stage.stop().await;
    for (index, before) in before.iter().enumerate() {
        cluster.until_connected(index, "0").await;
        assert_eq!(*before, cluster.aborted(index).await, "server {index}");
    }
}

async fn a_crash_and_a_wrong_password_are_told_apart(flavor: Flavor, log: Log) {
    let (cluster, mut settings) = start(flavor).await;
    let mut stage = watch(&settings, &log).await;
    cluster.run(|cluster| cluster.servers[1].kill9()).await;
    let reason = crate::stage::reason(&stage.until_health(1, "down").await);
    assert!(reason.contains("refused"), "{reason}");
    assert!(stage.reader.load().primary().is_some_and(topology::Backend::is_up));
    cluster.run(|cluster| cluster.servers[1].start_again().unwrap()).await;
    stage.until_health(1, "up").await;
    stage.stop().await;

    settings.tune(|tuning| tuning.password = Password::new("wrong"));
    let mut stage = watch(&settings, &log).await;
    stage.until("denied", |s| s.backends.iter().all(|backend| backend.fault.is_some())).await;
    assert_eq!(
        (log.count("fault=\"denied\""), log.count("error 1045: Access denied")),
        (2, 2),
        "{:?}",
        log.lines()
    );
    stage.stop().await;
}

#[test]
fn mariadb_sees_no_aborted_connection() {
    play(|log| no_trace_is_left(Flavor::MariaDb, None, log));
}

#[test]
fn mysql_sees_no_aborted_connection() {
    play(|log| no_trace_is_left(Flavor::MySql, None, log));
}

#[test]
fn mysql_sees_no_aborted_connection_with_tls() {
    let tls = ClientTls::new(&Verify::Nothing, None).unwrap();
    play(|log| no_trace_is_left(Flavor::MySql, Some((tls, true)), log));
}

#[test]
fn mariadb_that_crashes_is_down_and_a_wrong_password_is_not() {
    play(|log| a_crash_and_a_wrong_password_are_told_apart(Flavor::MariaDb, log));
}

#[test]
fn mysql_that_crashes_is_down_and_a_wrong_password_is_not() {
    play(|log| a_crash_and_a_wrong_password_are_told_apart(Flavor::MySql, log));
}
