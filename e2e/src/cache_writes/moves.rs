//! The primary's role moves to another server again and again while sessions read and write, in order: no write that was acknowledged is
//! lost.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use delphinus_sandbox::{Flavor, REPL, Server};

use super::Past;
use crate::stage::{Stage, address_of};

/// Time between two moves.
const PACE: Duration = Duration::from_secs(6);
/// Time that a replica has to reach the primary, in seconds.
const PATIENCE_S: u32 = 20;

/// Moves it between the first two servers until `end`; the third one follows. How often it has moved.
pub(super) fn run(stage: &Stage, past: &Past, end: Instant) -> Result<u64> {
    let (flavor, servers) = (stage.cluster.flavor, &stage.cluster.servers);
    let mut moves = 0;
    let (mut now, mut next) = (0, 1);
    while Instant::now() + PACE < end {
        std::thread::sleep(PACE);
        let (old, new) = (&servers[now], &servers[next]);
        close(flavor, old)?;
        reach(flavor, old, new)?;
        open(flavor, new)?;
        past.moves_to(address_of(&stage.cluster, new.port, new.socket.clone()));
        if flavor == Flavor::MariaDb {
            old.query("SET GLOBAL gtid_slave_pos = @@global.gtid_binlog_pos")?;
        }
        for replica in [old, &servers[2]] {
            follow(flavor, replica, new)?;
        }
        (now, next) = (next, now);
        moves += 1;
    }
    Ok(moves)
}

/// It takes no more writes.
fn close(flavor: Flavor, server: &Server) -> Result<()> {
    let sql = if flavor.is_mysql() { "SET GLOBAL super_read_only = 1" } else { "SET GLOBAL read_only = 1" };
    server.query(sql).map(drop)
}

fn reach(flavor: Flavor, old: &Server, new: &Server) -> Result<()> {
    let sql = if flavor.is_mysql() {
        let all = old.query("SELECT REPLACE(@@gtid_executed, '\\n', '')")?;
        format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{}', {PATIENCE_S})", all.trim())
    } else {
        let all = old.query("SELECT @@gtid_binlog_pos")?;
        format!("SELECT MASTER_GTID_WAIT('{}', {PATIENCE_S})", all.trim())
    };
    let told = new.query(&sql)?;
    ensure!(told.trim() == "0", "the next primary does not reach the last one: {told}");
    Ok(())
}

fn open(flavor: Flavor, server: &Server) -> Result<()> {
    let sql = if flavor.is_mysql() {
        "STOP REPLICA; RESET REPLICA ALL; SET GLOBAL super_read_only = 0; SET GLOBAL read_only = 0"
    } else {
        "STOP SLAVE; RESET SLAVE ALL; SET GLOBAL read_only = 0"
    };
    server.query(sql).map(drop)
}

fn follow(flavor: Flavor, replica: &Server, primary: &Server) -> Result<()> {
    let (host, port, user, password) = (&primary.host, primary.port, REPL.user, REPL.password);
    let sql = if flavor.is_mysql() {
        format!(
            "STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_HOST='{host}', SOURCE_PORT={port}, SOURCE_USER='{user}', \
             SOURCE_PASSWORD='{password}', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1, SOURCE_CONNECT_RETRY=1; \
             START REPLICA"
        )
    } else {
        format!(
            "STOP SLAVE; CHANGE MASTER TO MASTER_HOST='{host}', MASTER_PORT={port}, MASTER_USER='{user}', \
             MASTER_PASSWORD='{password}', MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1; START SLAVE"
        )
    };
    replica.query(&sql).map(drop)
}
