//! `delphinus doctor` about relays, on real servers: nothing where strong synchronisation is as docs/relay.md has it, and each thing that
//! is planted.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use delphinus_e2e::{Proxy, on_both_flavors, proxy_binary, until};
use delphinus_sandbox::{Cluster, ClusterSpec, Flavor, PortLease, Silent};
use serde_json::Value;

const LIMIT: Duration = Duration::from_mins(1);
/// It may follow the log, and nothing else.
const USER: &str = "follower";
const PASSWORD: &str = "followerpw";

/// What is run on the source, what is found, what mends it.
type Planted = (&'static str, &'static str, &'static str);

const ON_MYSQL: &[Planted] = &[
    (
        "SET GLOBAL rpl_semi_sync_source_timeout = 10000",
        "relay_semi_sync_timeout",
        "SET GLOBAL rpl_semi_sync_source_timeout = 4294967295",
    ),
    (
        "SET GLOBAL rpl_semi_sync_source_wait_no_replica = OFF",
        "relay_wait_no_replica",
        "SET GLOBAL rpl_semi_sync_source_wait_no_replica = ON",
    ),
    (
        "SET GLOBAL rpl_semi_sync_source_wait_point = AFTER_COMMIT",
        "relay_wait_point",
        "SET GLOBAL rpl_semi_sync_source_wait_point = AFTER_SYNC",
    ),
    (
        "SET GLOBAL rpl_semi_sync_source_wait_for_replica_count = 2",
        "relay_semi_sync_count",
        "SET GLOBAL rpl_semi_sync_source_wait_for_replica_count = 1",
    ),
    (
        "RESET PERSIST rpl_semi_sync_source_enabled",
        "relay_semi_sync_at_start",
        "SET PERSIST rpl_semi_sync_source_enabled = ON",
    ),
    (
        "SET GLOBAL rpl_semi_sync_source_enabled = OFF",
        "relay_semi_sync_off",
        "SET GLOBAL rpl_semi_sync_source_enabled = ON",
    ),
    ("SET GLOBAL gtid_mode = ON_PERMISSIVE", "relay_source_gtid", "SET GLOBAL gtid_mode = ON"),
];

const ON_MARIADB: &[Planted] = &[
    (
        "SET GLOBAL rpl_semi_sync_master_timeout = 10000",
        "relay_semi_sync_timeout",
        "SET GLOBAL rpl_semi_sync_master_timeout = 18446744073709551615",
    ),
    (
        "SET GLOBAL rpl_semi_sync_master_wait_no_slave = OFF",
        "relay_wait_no_replica",
        "SET GLOBAL rpl_semi_sync_master_wait_no_slave = ON",
    ),
    (
        "SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_COMMIT",
        "relay_wait_point",
        "SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_SYNC",
    ),
    (
        "SET GLOBAL rpl_semi_sync_master_enabled = OFF",
        "relay_semi_sync_off",
        // From here on it is on by hand.
        "",
    ),
    ("SET GLOBAL rpl_semi_sync_master_enabled = ON", "relay_semi_sync_at_start", ""),
];

const ON_BOTH: &[Planted] = &[
    ("SET GLOBAL sync_binlog = 0", "relay_source_sync_binlog", "SET GLOBAL sync_binlog = 1"),
    ("SET GLOBAL binlog_checksum = NONE", "relay_source_checksum", "SET GLOBAL binlog_checksum = CRC32"),
    (
        "REVOKE REPLICATION SLAVE ON *.* FROM follower@'%'",
        "relay_grants",
        "GRANT REPLICATION SLAVE ON *.* TO follower@'%'",
    ),
    (
        "ALTER USER follower@'%' IDENTIFIED BY 'another'",
        "relay_source_refused",
        "ALTER USER follower@'%' IDENTIFIED BY 'followerpw'",
    ),
];

/// Writes the file of a relay.
fn write(dir: &Path, name: &str, (source, server_id): (u16, u32), lines: &str) -> PathBuf {
    let path = dir.join(format!("{name}.toml"));
    let text = format!(
        "[[relay]]\nname = \"{name}\"\nfolder = \"{name}\"\nsource = \"127.0.0.1:{source}\"\nsource_user = \"{USER}\"\n\
         source_password = \"{PASSWORD}\"\nserver_id = {server_id}\n{lines}\n"
    );
    fs::write(&path, text).unwrap();
    path
}

fn start(config: &Path) -> Proxy {
    let arguments = ["relay".to_owned(), "--config".to_owned(), config.display().to_string()];
    Proxy::start_program(proxy_binary().unwrap(), arguments.to_vec(), config.with_extension("log")).unwrap()
}

/// Checks that have found something, and whether that is serious.
fn found(config: &Path) -> (Vec<String>, bool) {
    let mut command = Command::new(proxy_binary().unwrap());
    let done = command.args(["doctor", "--json", "--config"]).arg(config).output().unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    let errors = String::from_utf8_lossy(&done.stderr);
    let list: Vec<Value> =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}{errors}"));
    for one in &list {
        assert!(one["object"].as_str().unwrap().starts_with("relay r"), "{one}");
        assert!(["found", "why", "fix"].iter().all(|part| !one[part].as_str().unwrap().is_empty()), "{one}");
    }
    let names = list.iter().map(|one| one["check_name"].as_str().unwrap().to_owned());
    (names.collect(), done.status.code() == Some(3))
}

fn faults_of_relays_are_found(flavor: Flavor) {
    // MariaDB has no SET PERSIST: it is on from the start, and waits for nothing before the relay is there.
    let extra_cnf =
        if flavor.is_mysql() { vec![] } else { vec!["rpl_semi_sync_master_enabled=ON".to_owned()] };
    let spec = ClusterSpec { flavor, replicas: 0, extra_cnf, ..ClusterSpec::default() };
    let cluster = Cluster::start(&spec, &Silent).unwrap();
    let (source, dir) = (&cluster.servers[0], cluster.dir());
    source
        .query("CREATE USER follower@'%' IDENTIFIED BY 'followerpw'; GRANT REPLICATION SLAVE ON *.* TO follower@'%'")
        .unwrap();
    let config = write(dir, "r", (source.port, 900), "max_size_mb = 100");
    let relay = start(&config);
    let clients = || -> anyhow::Result<String> {
        let line = source.query("SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync_%_clients'")?;
        Ok(line.split_whitespace().last().unwrap_or_default().to_owned())
    };
    let strong = if flavor.is_mysql() {
        "SET PERSIST rpl_semi_sync_source_enabled = ON; SET GLOBAL rpl_semi_sync_source_timeout = 4294967295, \
         GLOBAL rpl_semi_sync_source_wait_no_replica = ON, GLOBAL sync_binlog = 1"
    } else {
        "SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_SYNC, GLOBAL sync_binlog = 1, \
         GLOBAL rpl_semi_sync_master_timeout = 18446744073709551615, GLOBAL rpl_semi_sync_master_wait_no_slave = ON"
    };
    source.query(strong).unwrap();
    until(LIMIT, "the relay to acknowledge", || Ok(clients()? == "1")).unwrap();
    assert_eq!(found(&config), (Vec::new(), false), "{}", relay.log());
    plant(flavor, &config, &|sql| source.query(sql).map(drop));
    // In the file.
    let base: Vec<_> = found(&config).0;
    for (id, lines, expected) in [
        (1, "max_size_mb = 9", "relay_server_id"),
        (900, "", "relay_keeps_all"),
        (
            900,
            "max_size_mb = 9\naddresses = [\"0.0.0.0:1\"]\ntls = \"disabled\"\n[[relay.user]]\nname = \"u\"\npassword = \"p\"",
            "relay_tls_off",
        ),
    ] {
        let names = found(&write(&dir.join("."), "r", (source.port, id), lines)).0;
        assert!(
            names.iter().any(|name| name == expected) && !base.iter().any(|name| name == expected),
            "{names:?}"
        );
    }
    let config = write(dir, "r", (source.port, 900), "max_size_mb = 100");
    a_relays_relay_is_asked_what_it_knows((&dir.join("."), source.port));
    // Another server acknowledges, too.
    let other = start(&write(dir, "other", (source.port, 901), ""));
    until(LIMIT, "two that acknowledge", || Ok(clients()? == "2")).unwrap();
    assert!(found(&config).0.contains(&"relay_other_ackers".to_owned()), "{}", other.log());
    drop(relay);
    drop(other);
    until(LIMIT, "the count to be seen", || {
        let (names, is_serious) = found(&config);
        Ok(is_serious && names.iter().any(|name| name == "relay_semi_sync_count"))
    })
    .unwrap();
}

/// A relay answers few questions: nothing is found, but a number that both have.
fn a_relays_relay_is_asked_what_it_knows((dir, source): (&Path, u16)) {
    let lease = PortLease::take().unwrap();
    let port = lease.port();
    let listens = format!(
        "semi_sync = false\naddresses = [\"127.0.0.1:{port}\"]\n[[relay.user]]\nname = \"{USER}\"\npassword = \"{PASSWORD}\""
    );
    let near = start(&write(dir, "near", (source, 902), &listens));
    until(LIMIT, "the near relay", || {
        Ok(found(&write(dir, "rfar", (port, 903), "max_size_mb = 100")).0.is_empty())
    })
    .unwrap_or_else(|error| panic!("{error}\n{}", near.log()));
    let names = found(&write(dir, "rfar", (port, 902), "max_size_mb = 100")).0;
    assert_eq!(names, ["relay_server_id"]);
}

fn plant(flavor: Flavor, config: &Path, run: &dyn Fn(&str) -> anyhow::Result<()>) {
    let own = if flavor.is_mysql() { ON_MYSQL } else { ON_MARIADB };
    for (plant, expected, mend) in ON_BOTH.iter().chain(own) {
        run(plant).unwrap_or_else(|error| panic!("{plant}: {error}"));
        let (names, is_serious) = found(config);
        assert!(names.iter().any(|name| name == expected), "{plant}: {names:?}");
        let serious = ["relay_grants", "relay_source_refused", "relay_source_gtid", "relay_semi_sync_count"]
            .contains(expected);
        assert_eq!(is_serious, serious, "{plant}: {names:?}");
        if mend.is_empty() {
            continue;
        }
        run(mend).unwrap_or_else(|error| panic!("{mend}: {error}"));
        until(LIMIT, mend, || Ok(found(config).0.is_empty())).unwrap();
    }
}

on_both_flavors!(faults_of_relays_are_found);
