//! Servers of which none acknowledges, and a relay in the proxy's process that does, waited for without end. One replica is behind the
//! primary, the other one behind the relay.

use std::time::Duration;

use anyhow::{Context, Result};
use delphinus_sandbox::{Cluster, PortLease, REPL};

use super::Part;
use super::scene::{LIMIT, LOCAL, Scene};
use crate::config_file::ConfigFile;
use crate::etcd::Etcd;
use crate::failover::Servers;
use crate::failover_account::{failover_account, failover_section};
use crate::operators::Operators;
use crate::poll::until;
use crate::stage::start_proxy;

/// Replicas come to the relay within this time.
const FOLLOWS: Duration = Duration::from_secs(30);

/// Starts all of it, with more lines of `[cluster.failover]`.
pub(super) fn set(part: Part, servers: Servers, more: &[&str]) -> Result<Scene> {
    let cluster = servers.without_semi_sync().start(Vec::new()).context("the servers do not start")?;
    cluster.servers[0].query(&failover_account(servers.flavor()))?;
    let (lease, operators) = (PortLease::take()?, Operators::default());
    let etcd = if part == Part::RelayKilled { Some(Etcd::start()?) } else { None };
    let port = lease.port();
    let relay = format!(
        "[[relay]]\nname = \"main\"\nfolder = \"{}\"\nsource_user = \"{user}\"\nsource_password = \"{password}\"\nserver_id = 999\n\
         addresses = [\"127.0.0.1:{port}\"]\nheartbeat_ms = 1000\nretry_ms = 200\n\
         [[relay.user]]\nname = \"{user}\"\npassword = \"{password}\"\n",
        cluster.dir().join("relay").display(),
        user = REPL.user,
        password = REPL.password,
    );
    let lines: Vec<&str> = more.iter().copied().chain(["relays = [\"main\"]"]).collect();
    let mut sections = vec![failover_section(&lines), operators.section(), relay];
    sections.push(match &etcd {
        None => LOCAL.to_owned(),
        Some(Etcd { endpoint, .. }) => {
            format!("[lease]\nstore = \"etcd\"\nendpoints = [\"{endpoint}\"]\nmember = \"one\"\nttl_s = 3\n")
        }
    });
    let config = ConfigFile {
        topology: Some(servers.topology()),
        monitor: vec!["interval_ms = 1000".to_owned()],
        sections,
        ..ConfigFile::default()
    };
    let proxy = start_proxy(&cluster, &config)?;
    let bare = Scene::from_parts(proxy, cluster, operators);
    let scene = Scene { _etcd: etcd, relay_port: Some(lease), ..bare };
    let acknowledges = || Ok(scene.operator()?.value("SELECT acknowledging FROM relays")? == "1");
    until(LIMIT, "the relay to acknowledge", acknowledges)
        .with_context(|| format!("the proxy's log:\n{}", scene.proxy.log()))?;
    let primary = &scene.cluster.servers[0];
    primary.query(wait_for_ever(servers))?;
    until(FOLLOWS, "the primary to know the relay", || {
        let clients = primary.query("SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync_%_clients'")?;
        Ok(clients.trim().ends_with("\t1"))
    })?;
    let behind = &scene.cluster.servers[2];
    let sql = if servers.is_mariadb() {
        format!("STOP SLAVE; CHANGE MASTER TO MASTER_PORT={port}, MASTER_USE_GTID=slave_pos; START SLAVE")
    } else {
        format!(
            "STOP REPLICA; SET GLOBAL replica_parallel_workers = 4; \
             CHANGE REPLICATION SOURCE TO SOURCE_PORT={port}; START REPLICA"
        )
    };
    behind.query(&sql)?;
    until(FOLLOWS, "a replica behind the relay", || {
        Ok(scene.operator()?.value("SELECT COUNT(*) FROM relay_replicas")? == "1")
    })?;
    Ok(scene)
}

/// What MySQL's replica behind the relay says if its four workers are given transactions in an order that their logical timestamps do not
/// have (MY-010411). These begin anew with each file, and with another primary.
pub(super) fn out_of_order(cluster: &Cluster) -> Option<String> {
    let log = cluster.servers[2].error_log();
    let said = log.lines().find(|line| line.contains("MY-010411"))?;
    Some(format!("the replica behind the relay: {said}"))
}

/// A commit waits for the relay, with no end, before others see it.
fn wait_for_ever(servers: Servers) -> &'static str {
    if servers.is_mariadb() {
        "SET GLOBAL rpl_semi_sync_master_timeout = 18446744073709551615; \
         SET GLOBAL rpl_semi_sync_master_wait_no_slave = ON; \
         SET GLOBAL rpl_semi_sync_master_wait_point = 'AFTER_SYNC'; \
         SET GLOBAL rpl_semi_sync_master_enabled = 1"
    } else {
        "SET GLOBAL rpl_semi_sync_source_timeout = 4294967295; \
         SET GLOBAL rpl_semi_sync_source_wait_no_replica = ON; \
         SET GLOBAL rpl_semi_sync_source_wait_point = 'AFTER_SYNC'; \
         SET GLOBAL rpl_semi_sync_source_enabled = 1"
    }
}
