//! Real clusters of each flavor: they replicate, take faults, and do not meet one another.

use std::collections::HashSet;

use crate::support::{eventually, is_gone, log_in};
use delphinus_sandbox::{
    ADMIN, APP, APP2, Account, Cluster, ClusterSpec, DATABASE, ED25519, Flavor, MONITOR, NOPW, REPL, ROOT,
    Role, Server, Silent, TLS_ONLY, ensure_packages,
};

fn start(flavor: Flavor) -> Cluster {
    Cluster::start(&ClusterSpec { flavor, ..ClusterSpec::default() }, &Silent).unwrap()
}

fn write(server: &Server, note: &str) {
    server.query("CREATE TABLE IF NOT EXISTS sbtest.notes (note VARCHAR(40) PRIMARY KEY)").unwrap();
    server.query(&format!("INSERT INTO sbtest.notes VALUES ('{note}')")).unwrap();
}

fn wait_for(server: &Server, note: &str) {
    let sql = format!("SELECT note FROM sbtest.notes WHERE note = '{note}'");
    eventually(&format!("{note} on {}", server.name), || server.query(&sql).is_ok_and(|rows| rows == note));
}

/// What holds for every flavor.
fn check_basics(cluster: &Cluster) {
    let (primary, replicas) = cluster.servers.split_first().unwrap();
    assert_eq!(replicas.len(), 2);
    assert_eq!(primary.role, Role::Primary);
    write(primary, "first");
    for replica in replicas {
        assert_eq!(replica.role, Role::Replica);
        wait_for(replica, "first");
        let refused = log_in(cluster, replica, APP, "INSERT INTO visits (server_id) VALUES (0)");
        assert!(refused.unwrap_err().contains("read-only"), "a replica takes writes");
    }
    for server in &cluster.servers {
        let answer = format!("{}\t{}\t{}", server.server_id, server.port, server.role.name());
        assert_eq!(log_in(cluster, server, APP, "SELECT * FROM answered_by").unwrap(), answer);
        assert_eq!(log_in(cluster, server, NOPW, "SELECT COUNT(*) FROM customers").unwrap(), "200");
        for account in [APP, APP2, ADMIN, MONITOR, REPL, ROOT] {
            assert_eq!(
                log_in(cluster, server, account, "SELECT SUBSTRING_INDEX(USER(), '@', 1)").unwrap(),
                account.user
            );
        }
        let wrong = Account { password: "wrong", ..APP };
        assert!(log_in(cluster, server, wrong, "SELECT 1").unwrap_err().contains("Access denied"));
        assert!(server.datadir.starts_with(cluster.dir()));
    }
}

/// A replica that was killed, and one that was stopped, catch up after their return; a paused one waits.
/// One after the other: a group that loses two of three members at once blocks.
fn check_faults(cluster: &mut Cluster) {
    let [primary, killed, stopped] = cluster.servers.as_mut_slice() else { panic!("three servers") };
    let first_pid = killed.pid;
    killed.kill9();
    assert!(!killed.is_running() && is_gone(first_pid));
    assert!(killed.query("SELECT 1").is_err());
    write(primary, "while one is dead");
    wait_for(stopped, "while one is dead");
    killed.start_again().unwrap();
    assert_ne!(killed.pid, first_pid);
    wait_for(killed, "while one is dead");

    stopped.stop_graceful().unwrap();
    assert!(!stopped.is_running());
    write(primary, "while one is away");
    stopped.start_again().unwrap();
    wait_for(stopped, "while one is away");

    stopped.pause().unwrap();
    eventually("the process to stand still", || state(stopped.pid) == 'T');
    assert!(stopped.is_running());
    write(primary, "while it stands still");
    wait_for(killed, "while it stands still");
    stopped.resume().unwrap();
    wait_for(stopped, "while it stands still");
}

/// The state of a process as the kernel has it: R, S, T...
fn state(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, after_name) = stat.rsplit_once(") ").unwrap();
    after_name.chars().next().unwrap()
}

#[test]
fn mariadb_replicates_and_takes_faults() {
    ensure_packages(&["mariadb-server"]).unwrap(); // The ed25519 plugin is in this one.
    let mut cluster = start(Flavor::MariaDb);
    check_basics(&cluster);
    let sql = "SELECT plugin FROM mysql.user WHERE user = 'ed'";
    assert_eq!(cluster.servers[1].query(sql).unwrap(), "ed25519");
    assert_eq!(log_in(&cluster, &cluster.servers[1], ED25519, "SELECT 1").unwrap(), "1");
    let sql =
        "SELECT DISTINCT plugin FROM mysql.user WHERE user IN ('app', 'app2', 'nopw', 'monitor', 'admin')";
    assert_eq!(cluster.servers[0].query(sql).unwrap(), "mysql_native_password");
    check_faults(&mut cluster);
}

#[test]
fn mysql_replicates_and_takes_faults() {
    let mut cluster = start(Flavor::MySql);
    check_basics(&cluster);
    let sql =
        "SELECT DISTINCT plugin FROM mysql.user WHERE user IN ('app', 'app2', 'nopw', 'monitor', 'admin')";
    assert_eq!(cluster.servers[0].query(sql).unwrap(), "caching_sha2_password");
    let tls = "SELECT VARIABLE_VALUE <> '' FROM performance_schema.session_status WHERE VARIABLE_NAME = 'Ssl_cipher'";
    assert_eq!(log_in(&cluster, &cluster.servers[0], TLS_ONLY, tls).unwrap(), "1");
    check_faults(&mut cluster);
}

#[test]
fn a_group_replicates_and_takes_faults() {
    // The group lets go of a dead member in 6 s instead of 22 s.
    let extra_cnf = vec!["loose_group_replication_member_expel_timeout=0".to_owned()];
    let spec = ClusterSpec { flavor: Flavor::Group, extra_cnf, ..ClusterSpec::default() };
    let mut cluster = Cluster::start(&spec, &Silent).unwrap();
    check_basics(&cluster);
    for member in &cluster.servers {
        let sql = "SELECT MEMBER_PORT FROM performance_schema.replication_group_members WHERE MEMBER_ROLE = 'PRIMARY'";
        assert_eq!(member.query(sql).unwrap(), cluster.servers[0].port.to_string());
    }
    check_faults(&mut cluster);
}

#[test]
fn clusters_side_by_side_share_nothing() {
    let (one, two) = std::thread::scope(|scope| {
        let one = scope.spawn(|| start(Flavor::MariaDb));
        let two = scope.spawn(|| start(Flavor::MariaDb));
        (one.join().unwrap(), two.join().unwrap())
    });
    assert_ne!(one.dir(), two.dir());
    let ports: HashSet<u16> = one.servers.iter().chain(&two.servers).map(|server| server.port).collect();
    assert_eq!(ports.len(), 6);
    write(&one.servers[0], "one");
    write(&two.servers[0], "two");
    wait_for(&one.servers[1], "one");
    wait_for(&two.servers[1], "two");
    assert_eq!(one.servers[0].query("SELECT note FROM sbtest.notes").unwrap(), "one");
    one.stop();
    write(&two.servers[0], "still there");
    wait_for(&two.servers[2], "still there");
}

#[test]
fn the_callers_options_win() {
    let spec = ClusterSpec {
        replicas: 0,
        extra_cnf: vec!["performance_schema=ON".to_owned(), "wait_timeout=77".to_owned()],
        max_connections: 33,
        ..ClusterSpec::default()
    };
    let cluster = Cluster::start(&spec, &Silent).unwrap();
    let values =
        cluster.servers[0].query("SELECT @@performance_schema, @@global.wait_timeout, @@max_connections");
    assert_eq!(values.unwrap(), "1\t77\t33");
    assert_eq!(cluster.database, DATABASE);
    assert_eq!(cluster.backends_json()[0]["port"], cluster.servers[0].port);
}

#[test]
fn an_option_that_the_server_refuses_shows_in_the_error() {
    let spec =
        ClusterSpec { replicas: 0, extra_cnf: vec!["no_such_option=1".to_owned()], ..ClusterSpec::default() };
    let error = format!("{:#}", Cluster::start(&spec, &Silent).unwrap_err());
    assert!(error.contains("no_such_option") || error.contains("no-such-option"), "{error}");
}
