//! The three servers: semi-synchronous, and read-only when they start again, as docs/switchover.md wants them.

use std::fs::OpenOptions;
use std::io::Write;
use std::time::Duration;

use anyhow::{Context, Result};

use super::FIRST_SERVER;
use crate::cluster::{Cluster, ClusterSpec};
use crate::flavor::Flavor;
use crate::network::Network;
use crate::progress::{Progress, step, wait_until};

/// How long replicas may take to acknowledge for the first time.
const LIMIT: Duration = Duration::from_mins(1);

/// How semi-sync is switched on, and the lines for the option files.
struct SemiSync {
    on_replica: &'static str,
    on_primary: &'static str,
    lines: &'static str,
}

const MARIADB: SemiSync = SemiSync {
    on_replica: "SET GLOBAL rpl_semi_sync_slave_enabled = 1; STOP SLAVE IO_THREAD; START SLAVE IO_THREAD",
    on_primary: "SET GLOBAL rpl_semi_sync_master_timeout = 60000, rpl_semi_sync_master_wait_point = 'AFTER_SYNC', \
                 rpl_semi_sync_master_enabled = 1",
    // With the last line a primary that was killed drops what nobody has acknowledged, and can follow the new one.
    lines: "read_only=ON\nrpl_semi_sync_slave_enabled=ON\nrpl_semi_sync_master_timeout=60000\n\
            rpl_semi_sync_master_wait_point=AFTER_SYNC\ninit_rpl_role=SLAVE\n",
};
const MYSQL: SemiSync = SemiSync {
    on_replica: "SET GLOBAL rpl_semi_sync_replica_enabled = 1; STOP REPLICA IO_THREAD; START REPLICA IO_THREAD",
    on_primary: "SET GLOBAL rpl_semi_sync_source_timeout = 60000, GLOBAL rpl_semi_sync_source_wait_point = 'AFTER_SYNC', \
                 GLOBAL rpl_semi_sync_source_enabled = 1",
    lines: "super_read_only=ON\nrpl_semi_sync_replica_enabled=ON\nrpl_semi_sync_source_timeout=60000\n\
            rpl_semi_sync_source_wait_point=AFTER_SYNC\n",
};

/// Starts them, each on its machine.
pub(super) fn start(flavor: Flavor, network: &Network, progress: &dyn Progress) -> Result<Cluster> {
    let is_group = flavor == Flavor::Group;
    let line = "loose_group_replication_member_expel_timeout=0".to_owned();
    let spec = ClusterSpec {
        flavor,
        machines: (FIRST_SERVER..FIRST_SERVER + 3).map(|index| network.machine(index)).collect(),
        extra_cnf: is_group.then_some(line).into_iter().collect(),
        ..ClusterSpec::default()
    };
    let cluster = Cluster::start(&spec, progress)?;
    if is_group {
        add_lines(&cluster, "loose_group_replication_start_on_boot=ON\n")?;
    } else {
        let how = if flavor.is_mysql() { MYSQL } else { MARIADB };
        add_lines(&cluster, how.lines)?;
        step(progress, "switching semi-sync on", || switch_on(&cluster, &how, progress))?;
    }
    Ok(cluster)
}

/// What counts when a server starts again.
fn add_lines(cluster: &Cluster, lines: &str) -> Result<()> {
    for server in &cluster.servers {
        let file = cluster.dir().join(&server.name).join("my.cnf");
        OpenOptions::new().append(true).open(file)?.write_all(lines.as_bytes())?;
    }
    Ok(())
}

fn switch_on(cluster: &Cluster, how: &SemiSync, progress: &dyn Progress) -> Result<()> {
    let (primary, replicas) = cluster.servers.split_first().context("a cluster has at least one server")?;
    for replica in replicas {
        replica.query(how.on_replica)?;
    }
    primary.query(how.on_primary)?;
    wait_until(progress, LIMIT, "replicas that acknowledge", || {
        let said = primary.query("SHOW GLOBAL STATUS LIKE 'Rpl_semi_sync_%_clients'")?;
        Ok(said.ends_with(&format!("\t{}", replicas.len())))
    })
}
