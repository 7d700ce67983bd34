//! Makes servers a cluster, and waits until it really is one.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::accounts::REPL;
use crate::flavor::Flavor;
use crate::progress::{Progress, Silent, wait_until};
use crate::server::Server;

/// How long replication may take to come up.
const LIMIT: Duration = Duration::from_mins(2);

/// Connects the servers; the first is the primary.
pub(crate) fn connect(flavor: Flavor, servers: &[Server], progress: &dyn Progress) -> Result<()> {
    let (primary, replicas) = servers.split_first().context("a cluster has at least one server")?;
    match flavor {
        Flavor::MariaDb => each(replicas, |replica| follow_mariadb(replica, primary)),
        Flavor::MySql => each(replicas, |replica| follow_mysql(replica, primary)),
        Flavor::Group => form_group(primary, replicas, progress),
    }?;
    each(replicas, |replica| catch_up(flavor, primary, replica))
}

/// Has all replicas of a cluster, whose first server is the primary, follow a relay at this port, over TLS, and waits until they have
/// caught up through it.
pub(crate) fn follow_relay(flavor: Flavor, servers: &[Server], port: u16) -> Result<()> {
    let (primary, replicas) = servers.split_first().context("a cluster has at least one server")?;
    each(replicas, |replica| {
        if flavor == Flavor::MariaDb {
            replica
                .query(&format!("STOP SLAVE; CHANGE MASTER TO MASTER_PORT={port}, MASTER_SSL=1; START SLAVE"))
        } else {
            replica.query(&format!(
                "STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_PORT={port}, SOURCE_SSL=1; START REPLICA"
            ))
        }
        .map(drop)
    })?;
    each(replicas, |replica| catch_up(flavor, primary, replica))
}

/// Lets a member that was started again join its group, and waits until it is ONLINE.
pub(crate) fn rejoin(member: &Server, limit: Duration) -> Result<()> {
    let what = format!("{} to join its group", member.name);
    wait_until(&Silent, limit, &what, || {
        // The group may still hold the member's former self and refuse; it lets go of it in time.
        Ok(member.query("START GROUP_REPLICATION").is_ok())
    })?;
    wait_until(&Silent, limit, &what, || Ok(member_state(member)? == "ONLINE"))
}

fn each(servers: &[Server], work: impl Fn(&Server) -> Result<()> + Sync) -> Result<()> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = servers.iter().map(|server| scope.spawn(|| work(server))).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("invariant: no panic in a set-up thread"))
    })
}

fn follow_mariadb(replica: &Server, primary: &Server) -> Result<()> {
    replica.query(&format!(
        "CHANGE MASTER TO MASTER_HOST='{}', MASTER_PORT={}, MASTER_USER='{}', MASTER_PASSWORD='{}', \
         MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1, MASTER_HEARTBEAT_PERIOD=1; START SLAVE",
        primary.host, primary.port, REPL.user, REPL.password
    ))?;
    Ok(())
}

fn follow_mysql(replica: &Server, primary: &Server) -> Result<()> {
    replica.query(&format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST='{}', SOURCE_PORT={}, SOURCE_USER='{}', SOURCE_PASSWORD='{}', \
         SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1, SOURCE_CONNECT_RETRY=1, SOURCE_RETRY_COUNT=86400, \
         SOURCE_HEARTBEAT_PERIOD=1; START REPLICA",
        primary.host, primary.port, REPL.user, REPL.password
    ))?;
    Ok(())
}

fn form_group(primary: &Server, others: &[Server], progress: &dyn Progress) -> Result<()> {
    let channel = format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_USER='{}', SOURCE_PASSWORD='{}' FOR CHANNEL 'group_replication_recovery'",
        REPL.user, REPL.password
    );
    primary.query(&format!(
        "{channel}; SET GLOBAL group_replication_bootstrap_group=ON; START GROUP_REPLICATION; \
         SET GLOBAL group_replication_bootstrap_group=OFF"
    ))?;
    wait_until(progress, LIMIT, "the group's primary to accept writes", || {
        Ok(primary.query("SELECT @@super_read_only")? == "0")
    })?;
    each(others, |member| member.query(&format!("{channel}; START GROUP_REPLICATION")).map(drop))?;
    let expected = (others.len() + 1).to_string();
    for member in std::iter::once(primary).chain(others) {
        // Every member has to see all of them, not only itself.
        wait_until(progress, LIMIT, &format!("{} to see the whole group", member.name), || {
            Ok(member.query(
                "SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE MEMBER_STATE='ONLINE'",
            )? == expected)
        })?;
    }
    Ok(())
}

fn member_state(member: &Server) -> Result<String> {
    member.query(
        "SELECT MEMBER_STATE FROM performance_schema.replication_group_members WHERE MEMBER_ID=@@server_uuid",
    )
}

/// Sends one statement that changes nothing through the binary log and waits until the replica has it:
/// proof that replication runs and is not behind.
fn catch_up(flavor: Flavor, primary: &Server, replica: &Server) -> Result<()> {
    primary.query("CREATE DATABASE IF NOT EXISTS sbtest")?;
    let seconds = LIMIT.as_secs();
    let outcome = if flavor == Flavor::MariaDb {
        let gtid = primary.query("SELECT @@gtid_binlog_pos")?;
        replica.query(&format!("SELECT MASTER_GTID_WAIT('{gtid}', {seconds})"))?
    } else {
        let gtids = primary.query("SELECT REPLACE(@@gtid_executed, '\\n', '')")?;
        replica.query(&format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{gtids}', {seconds})"))?
    };
    ensure!(outcome == "0", "{} does not catch up: {outcome}\n{}", replica.name, replica.error_log());
    Ok(())
}
