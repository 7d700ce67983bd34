//! Lag by the heartbeat: who writes it, where, and what is made of it when nothing else tells.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use delphinus_e2e::{Address, ConfigFile, Operators, Proxy, Stage, WHO, follow, promote, until};
use delphinus_sandbox::{Flavor, PortLease, Server};

const LIMIT: Duration = Duration::from_mins(1);

/// What servers may have set for everybody, and what would stop a read from ever seeing the next beat.
const NO_AUTOCOMMIT: &str = "init_connect=SET autocommit = IF(CURRENT_USER() LIKE 'monitor%', 0, 1)";

/// A proxy that goes by the heartbeat, and its operators' way in.
struct Watched {
    proxy: Proxy,
    address: Address,
    operators: Operators,
    _port: PortLease,
}

impl Watched {
    fn start(stage: &Stage, topology: Option<&'static str>, monitor: &[&str]) -> Self {
        let operators = Operators::default();
        let lines = [
            "interval_ms = 200",
            "lag_source = \"heartbeat\"",
            "heartbeat_interval_ms = 100",
            "lag_down_ms = 2000",
            "lag_recover_ms = 500",
        ];
        let monitor = lines.iter().chain(monitor).map(|line| (*line).to_owned()).collect();
        let config = ConfigFile { topology, monitor, ..ConfigFile::with_sections(&operators.section()) };
        let (proxy, address, port) = stage.another_proxy(&config).unwrap();
        Self { proxy, address, operators, _port: port }
    }

    /// State, reason and source of the lag of a backend.
    fn told(&self, server: &Server) -> (String, String, String) {
        let row = self.operators.backend(&self.address, &server.name).unwrap();
        (row.state, row.reason, row.lag_source)
    }

    fn until_told(&self, server: &Server, what: &str, is_it: impl Fn(&str, &str, &str) -> bool) {
        let holds = || {
            let (state, reason, source) = self.told(server);
            Ok(is_it(&state, &reason, &source))
        };
        until(LIMIT, what, holds)
            .unwrap_or_else(|error| panic!("{} {what}: {error:#}: {:?}", server.name, self.told(server)));
    }

    fn until_heartbeat_tells(&self, server: &Server) {
        self.until_told(server, "up, by the heartbeat", |state, reason, source| {
            (state, reason, source) == ("up", "", "heartbeat")
        });
    }

    fn until_logged(&self, text: &str) {
        until(LIMIT, text, || Ok(self.proxy.log().contains(text))).unwrap();
    }

    /// Waits until reads go to this server, or do not.
    fn until_read_from(&self, server: &Server, wanted: bool) {
        until(LIMIT, "reads", || {
            let mut seen = false;
            for _ in 0..10 {
                seen |= self.address.connect()?.value(WHO)? == server.server_id.to_string();
            }
            Ok(seen == wanted)
        })
        .unwrap();
    }
}

/// Servers without a proxy, whose monitor may not see how they replicate, but may write where others may not.
fn servers(flavor: Flavor, cnf: &[&str]) -> Stage {
    let mut stage = Stage::with_servers(flavor, cnf, &ConfigFile::default()).unwrap();
    stage.proxy = None;
    let (revoke, grant) = match flavor {
        Flavor::MariaDb => ("BINLOG MONITOR, SLAVE MONITOR", "READ_ONLY ADMIN"),
        Flavor::MySql | Flavor::Group => ("REPLICATION CLIENT", "CONNECTION_ADMIN"),
    };
    let sql = format!("REVOKE {revoke} ON *.* FROM monitor@'%'; GRANT {grant} ON *.* TO monitor@'%'");
    stage.cluster.servers[0].query(&sql).unwrap();
    for server in &stage.cluster.servers {
        let has_it = || {
            Ok(server
                .query("SHOW GRANTS FOR monitor@'%'")?
                .replace('_', " ")
                .contains(&grant.replace('_', " ")))
        };
        until(LIMIT, "the grants", has_it).unwrap();
    }
    stage
}

/// The SQL of docs/health.md, run on the primary as it stands there: rights, the right to make the table, the table.
fn run_documented(stage: &Stage, blocks: &[usize]) {
    let documented: Vec<_> = include_str!("../../docs/health.md").split("```sql\n").skip(1).collect();
    assert_eq!(documented.len(), 3);
    for block in blocks {
        let sql = documented[*block].split("```").next().unwrap();
        stage.cluster.servers[0].query(sql).unwrap();
    }
}

fn delay(flavor: Flavor, replica: &Server, seconds: u32) {
    let sql = match flavor {
        Flavor::MariaDb => format!("STOP SLAVE; CHANGE MASTER TO MASTER_DELAY={seconds}; START SLAVE"),
        Flavor::MySql | Flavor::Group => {
            format!("STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_DELAY={seconds}; START REPLICA")
        }
    };
    replica.query(&sql).unwrap();
}

fn position(flavor: Flavor, server: &Server) -> String {
    let variable = if flavor == Flavor::MariaDb { "gtid_current_pos" } else { "gtid_executed" };
    server.query(&format!("SELECT @@global.{variable}")).unwrap()
}

fn row(server: &Server, column: &str) -> String {
    server.query(&format!("SELECT {column} FROM delphinus.heartbeat")).unwrap().trim().to_owned()
}

/// On how many connections beats were written, by the server's own log.
fn writers(server: &Server) -> String {
    let sql = "SELECT COUNT(DISTINCT thread_id) FROM mysql.general_log WHERE command_type = 'Query' \
               AND CONVERT(argument USING utf8mb4) LIKE 'UPDATE `delphinus`%'";
    server.query(sql).unwrap().trim().to_owned()
}

/// A replica is late, and is out; the heartbeat stops, and it stays out although it has all that there is.
fn a_late_replica_is_out_until_it_is_known_not_to_be(flavor: Flavor, stage: &Stage, proxy: &Watched) {
    let [primary, late, other] = &stage.cluster.servers[..] else { panic!("three servers") };
    proxy.until_read_from(late, true);
    delay(flavor, late, 4);
    proxy.until_told(late, "late", |state, reason, source| {
        state == "lagging" && reason.contains("s behind the primary") && source == "heartbeat"
    });
    proxy.until_read_from(late, false);
    assert_eq!(proxy.told(other).0, "up");

    primary.query("SET GLOBAL read_only = 1").unwrap();
    let stopped_at = position(flavor, primary);
    until(LIMIT, "the late one to have all", || Ok(position(flavor, late) == stopped_at)).unwrap();
    for server in [late, other] {
        proxy.until_told(server, "known by nothing", |_, _, source| source.is_empty());
    }
    assert_eq!(proxy.told(late).0, "lagging", "nobody knows that it is not late");
    assert_eq!(proxy.told(other).0, "up", "nothing says that it is late");
    assert_eq!(position(flavor, primary), stopped_at, "a beat was written to a server that is read_only");

    primary.query("SET GLOBAL read_only = 0").unwrap();
    delay(flavor, late, 0);
    proxy.until_heartbeat_tells(late);
    proxy.until_read_from(late, true);
}

/// One of two writes; when it is killed, the other does, and no replica is out for that.
fn another_proxy_takes_over(stage: &Stage, first: Watched) {
    let [primary, replicas @ ..] = &stage.cluster.servers[..] else { panic!("three servers") };
    let second = Watched::start(stage, None, &[]);
    second.until_logged("another proxy writes the heartbeat");
    for replica in replicas {
        second.until_heartbeat_tells(replica);
    }
    let (before, writer) = (row(primary, "beat"), row(primary, "writer"));
    until(LIMIT, "beats", || Ok(row(primary, "beat") != before)).unwrap();
    assert_eq!(row(primary, "writer"), writer, "the first one goes on");
    assert_eq!(writers(primary), "1");
    drop(first);
    second.until_logged("this proxy writes the heartbeat");
    assert_ne!(row(primary, "writer"), writer);
    for replica in replicas {
        second.until_heartbeat_tells(replica);
    }
    assert!(!second.proxy.log().contains("backend gets no statements"), "{}", second.proxy.log());
    // One that ends leaves it to others.
    let Watched { mut proxy, .. } = second;
    proxy.stop(LIMIT).unwrap();
    assert_eq!((row(primary, "writer").as_str(), writers(primary).as_str()), ("", "2"));
}

fn lag_is_known_by_the_heartbeat_alone(flavor: Flavor, cnf: &[&str], makes_table: bool) {
    let monitor: &[&str] = if makes_table { &[] } else { &["heartbeat_create = false"] };
    let stage = servers(flavor, cnf);
    let [primary, replicas @ ..] = &stage.cluster.servers[..] else { panic!("three servers") };
    let first = Watched::start(&stage, None, monitor);
    let denied = "heartbeat: the heartbeat cannot be written: error 1142: ";
    first.until_told(primary, "denied", |state, reason, _| state == "up" && reason.starts_with(denied));
    first.until_logged("fault=\"heartbeat\"");
    for replica in replicas {
        first.until_told(replica, "unseen", |_, reason, _| reason.starts_with("replication_unseen"));
    }
    run_documented(&stage, &[0]);
    if makes_table {
        run_documented(&stage, &[1]);
    } else {
        first.until_told(primary, "missing", |_, reason, _| reason.contains("written: error 1049: "));
        run_documented(&stage, &[2]);
    }
    for replica in replicas {
        first.until_heartbeat_tells(replica);
    }
    first.until_told(primary, "sound", |_, reason, _| reason.is_empty());
    a_late_replica_is_out_until_it_is_known_not_to_be(flavor, &stage, &first);
    another_proxy_takes_over(&stage, first);
}

/// Replicas get the statements, and are read-only themselves.
#[test]
fn lag_is_known_by_the_heartbeat_alone_on_mariadb() {
    lag_is_known_by_the_heartbeat_alone(Flavor::MariaDb, &["binlog_format=STATEMENT", NO_AUTOCOMMIT], true);
}

#[test]
fn lag_is_known_by_the_heartbeat_alone_on_mysql() {
    lag_is_known_by_the_heartbeat_alone(Flavor::MySql, &["sql_require_primary_key=ON", NO_AUTOCOMMIT], false);
}

/// What a server has written itself, and not for another.
fn own_writes(server: &Server) -> Option<String> {
    let state = server.query("SELECT @@global.gtid_binlog_state").unwrap();
    let own = format!("0-{}-", server.server_id);
    state.trim().split(',').find(|position| position.starts_with(&own)).map(str::to_owned)
}

#[test]
fn the_heartbeat_is_written_where_the_primary_is() {
    let mut stage = servers(Flavor::MariaDb, &[]);
    run_documented(&stage, &[0, 1]);
    let proxy = Watched::start(&stage, Some("read_only"), &["heartbeat_create = false"]);
    let [old, next, other] = &stage.cluster.servers[..] else { panic!("three servers") };
    // Whether the table is made can change while it runs.
    proxy.until_told(old, "missing", |_, reason, _| reason.contains("written: error 1146: "));
    let mut operator = proxy.operators.connect(&proxy.address).unwrap();
    operator.query("SET monitor.heartbeat_create = true").unwrap();
    for replica in [next, other] {
        proxy.until_heartbeat_tells(replica);
    }

    // A planned switch. The monitor's user is one that read_only does not stop.
    old.query("SET GLOBAL read_only = 1").unwrap();
    let (written, at) = (own_writes(old), position(Flavor::MariaDb, old));
    until(LIMIT, "the next to have all", || Ok(position(Flavor::MariaDb, next) == at)).unwrap();
    old.query("SET GLOBAL gtid_slave_pos = @@global.gtid_binlog_pos").unwrap();
    promote(next).unwrap();
    follow(old, next).unwrap();
    follow(other, next).unwrap();
    until(LIMIT, "beats on the next primary", || Ok(own_writes(next).is_some())).unwrap();
    // That the old one follows is known by the beats of the next one, and by nothing else.
    for replica in [old, other] {
        proxy.until_heartbeat_tells(replica);
    }
    assert_eq!(own_writes(old), written, "the old primary was written to");

    // A dead primary.
    stage.cluster.servers[1].kill9();
    let [old, next, other] = &stage.cluster.servers[..] else { panic!("three servers") };
    proxy.until_told(next, "down", |state, _, _| state == "down");
    promote(other).unwrap();
    follow(old, other).unwrap();
    until(LIMIT, "beats on the last primary", || Ok(own_writes(other).is_some())).unwrap();
    proxy.until_heartbeat_tells(old);
    assert_eq!(own_writes(old), written);
}

/// A member that cannot apply is late, which its group does not say; and beats follow the election.
#[test]
fn members_of_a_group_are_judged_by_the_heartbeat() {
    let mut stage = servers(Flavor::Group, &["loose_group_replication_member_expel_timeout=0"]);
    run_documented(&stage, &[0, 1]);
    let proxy = Watched::start(&stage, Some("group_replication"), &[]);
    let [_, late, other] = &stage.cluster.servers[..] else { panic!("three servers") };
    let late_name = late.name.clone();
    for member in [late, other] {
        proxy.until_heartbeat_tells(member);
    }
    std::thread::scope(|scope| {
        scope.spawn(|| late.query("FLUSH TABLES WITH READ LOCK; SELECT SLEEP(5)").unwrap());
        proxy.until_told(late, "late", |state, reason, source| {
            state == "lagging" && reason.contains("s behind the primary") && source == "heartbeat"
        });
    });
    proxy.until_heartbeat_tells(late);
    assert_eq!(proxy.told(other).0, "up");

    stage.cluster.servers[0].kill9();
    let members = &stage.cluster.servers[1..];
    let role = |member: &Server| proxy.operators.backend(&proxy.address, &member.name).unwrap().role;
    until(LIMIT, "an election", || Ok(members.iter().any(|member| role(member) == "primary"))).unwrap();
    let (elected, left): (Vec<_>, Vec<_>) = members.iter().partition(|member| role(member) == "primary");
    let before = row(elected[0], "beat");
    until(LIMIT, "beats on the elected", || Ok(row(elected[0], "beat") != before)).unwrap();
    for member in left {
        proxy.until_heartbeat_tells(member);
    }
    let out = proxy.proxy.log();
    let out =
        out.lines().filter(|line| line.contains("backend gets no statements") && !line.contains(&late_name));
    assert_eq!(out.count(), 0, "somebody is out because the primary is down");
}
