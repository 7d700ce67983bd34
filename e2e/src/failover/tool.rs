//! The outside tool that moves the primary's role where servers do not do so by themselves.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use delphinus_sandbox::{REPL, Server};

use super::servers::Servers;

/// Nothing takes longer on servers that work.
const LIMIT: Duration = Duration::from_mins(1);

/// A planned switch to the second server, in the order of docs/health.md.
pub(crate) fn switch(servers: Servers, all: &[Server]) -> Result<()> {
    let (old, next, other) = (&all[0], &all[1], &all[2]);
    servers.set_read_only(old, true)?;
    let executed =
        if servers.is_mariadb() { "@@gtid_binlog_pos" } else { "REPLACE(@@gtid_executed, '\\n', '')" };
    let position = old.query(&format!("SELECT {executed}"))?;
    wait_for(servers, next, &position)?;
    leave(servers, next)?;
    if servers.is_mariadb() {
        old.query("SET GLOBAL gtid_slave_pos = @@global.gtid_binlog_pos")?;
    }
    follow(servers, old, next)?;
    follow(servers, other, next)?;
    // Last: with semi-sync, MariaDB was seen to wait for ever for the replica of a write that came before the replicas did.
    open(next)
}

/// The one of two replicas that has received most takes the place. The primary is not asked: it may be dead.
pub(crate) fn fail_over(servers: Servers, replicas: &[Server]) -> Result<()> {
    let [first, second] = replicas else { bail!("{} replicas, not two", replicas.len()) };
    let replicas = [first, second];
    // Both at once: a replica may take seconds to let go of a source that does not answer.
    let received = std::thread::scope(|scope| {
        let threads = replicas.map(|replica| scope.spawn(move || stop_receiving(servers, replica)));
        let joined = threads.into_iter().map(|thread| thread.join().ok().context("a thread panicked")?);
        joined.collect::<Result<Vec<_>>>()
    })?;
    let is_second_ahead = if servers.is_mariadb() {
        sequence(&received[1])? > sequence(&received[0])?
    } else {
        let sql = format!("SELECT GTID_SUBSET('{}', '{}')", received[1], received[0]);
        replicas[0].query(&sql)?.trim() == "0"
    };
    let (next, other) = if is_second_ahead { (1, 0) } else { (0, 1) };
    wait_for(servers, replicas[next], &received[next])?;
    promote(servers, replicas[next])?;
    follow(servers, replicas[other], replicas[next])
}

/// From now on it gets no more from a primary that may still be alive; gives what it has got.
fn stop_receiving(servers: Servers, replica: &Server) -> Result<String> {
    replica.query(if servers.is_mariadb() { "STOP SLAVE IO_THREAD" } else { "STOP REPLICA IO_THREAD" })?;
    received_by(servers, replica)
}

fn received_by(servers: Servers, replica: &Server) -> Result<String> {
    if servers.is_mariadb() {
        let status = replica.query_vertical("SHOW SLAVE STATUS")?;
        let position = status.lines().find_map(|line| line.trim().strip_prefix("Gtid_IO_Pos:"));
        return Ok(position.context("no Gtid_IO_Pos")?.trim().to_owned());
    }
    let received = "SELECT REPLACE(RECEIVED_TRANSACTION_SET, '\\n', '') FROM \
        performance_schema.replication_connection_status";
    Ok(replica.query(received)?.trim().to_owned())
}

fn sequence(position: &str) -> Result<u64> {
    Ok(position.rsplit('-').next().context("an empty position")?.parse()?)
}

fn wait_for(servers: Servers, replica: &Server, position: &str) -> Result<()> {
    let position = position.trim();
    let function = if servers.is_mariadb() { "MASTER_GTID_WAIT" } else { "WAIT_FOR_EXECUTED_GTID_SET" };
    let told = replica.query(&format!("SELECT {function}('{position}', {})", LIMIT.as_secs()))?;
    if told.trim() != "0" {
        bail!("{} does not reach {position}: {told}", replica.name);
    }
    Ok(())
}

fn promote(servers: Servers, next: &Server) -> Result<()> {
    leave(servers, next)?;
    open(next)
}

/// It follows no server any more.
fn leave(servers: Servers, next: &Server) -> Result<()> {
    let leave =
        if servers.is_mariadb() { "STOP SLAVE; RESET SLAVE ALL" } else { "STOP REPLICA; RESET REPLICA ALL" };
    next.query(&format!("{leave}; {}", servers.semi_sync_source())).map(drop)
}

fn open(next: &Server) -> Result<()> {
    next.query("SET GLOBAL read_only = 0").map(drop)
}

fn follow(servers: Servers, replica: &Server, primary: &Server) -> Result<()> {
    let Server { host, port, .. } = primary;
    let (user, password) = (REPL.user, REPL.password);
    let sql = if servers.is_mariadb() {
        format!(
            "STOP SLAVE; CHANGE MASTER TO MASTER_HOST='{host}', MASTER_PORT={port}, MASTER_USER='{user}', \
             MASTER_PASSWORD='{password}', MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1, \
             MASTER_HEARTBEAT_PERIOD=1; START SLAVE"
        )
    } else {
        format!(
            "STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_HOST='{host}', SOURCE_PORT={port}, \
             SOURCE_USER='{user}', SOURCE_PASSWORD='{password}', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1, \
             SOURCE_CONNECT_RETRY=1, SOURCE_RETRY_COUNT=86400, SOURCE_HEARTBEAT_PERIOD=1; START REPLICA"
        )
    };
    replica.query(&sql).map(drop)
}

/// A replica runs what it gets so many seconds later.
pub(crate) fn delay(servers: Servers, replica: &Server, seconds: u32) -> Result<()> {
    let sql = if servers.is_mariadb() {
        format!("STOP SLAVE; CHANGE MASTER TO MASTER_DELAY={seconds}; START SLAVE")
    } else {
        format!(
            "STOP REPLICA SQL_THREAD; CHANGE REPLICATION SOURCE TO SOURCE_DELAY={seconds}; START REPLICA SQL_THREAD"
        )
    };
    replica.query(&sql).map(drop)
}
