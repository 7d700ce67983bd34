//! Strong synchronisation: commits wait for the relay without end. Clients that write down what was acknowledged to them, and a primary
//! that is killed under them.

use std::collections::HashSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use delphinus_sandbox::{Flavor, ROOT, Server};

use super::Length;
use super::ground::Ground;
use crate::poll::until;
use crate::stage::Address;

const LIMIT: Duration = Duration::from_mins(2);

/// Of the primary's option file: as docs/relay.md has it, from its start on, and read-only until somebody has looked.
fn options(is_mysql: bool) -> &'static str {
    if is_mysql {
        "rpl_semi_sync_source_enabled=ON\nrpl_semi_sync_source_timeout=4294967295\n\
         rpl_semi_sync_source_wait_no_replica=ON\nrpl_semi_sync_source_wait_point=AFTER_SYNC\nsuper_read_only=ON\n"
    } else {
        "rpl_semi_sync_master_enabled=ON\nrpl_semi_sync_master_timeout=18446744073709551615\n\
         rpl_semi_sync_master_wait_no_slave=ON\nrpl_semi_sync_master_wait_point=AFTER_SYNC\nread_only=ON\n"
    }
}

/// Has the primary start like that from now on, and makes the table `acked.t`.
pub(super) fn set(ground: &mut Ground) -> Result<()> {
    set_for(ground, 1, "")
}

/// The same where so many relays acknowledge; more lines.
pub(super) fn set_for(ground: &mut Ground, relays: usize, more: &str) -> Result<()> {
    ground
        .primary()
        .query("CREATE DATABASE acked; CREATE TABLE acked.t (id BIGINT PRIMARY KEY, t VARCHAR(100))")?;
    ground.catch_up()?;
    let own = ground.primary().datadir.parent().context("a server has a folder")?.join("my.cnf");
    let text = fs::read_to_string(&own)? + "\n[mysqld]\n" + options(ground.is_mysql()) + more;
    fs::write(own, text)?;
    ground.cluster.servers[0].stop_graceful()?;
    ground.cluster.servers[0].start_again()?;
    opens(ground, relays)
}

/// The primary has just started, and is read-only: opens it when so many relays acknowledge, and have its whole log.
pub(super) fn opens(ground: &Ground, relays: usize) -> Result<()> {
    let primary = ground.primary();
    ensure!(primary.query("SELECT @@global.read_only")? == "1", "the old primary has come back writable");
    let clients =
        if ground.is_mysql() { "Rpl_semi_sync_source_clients" } else { "Rpl_semi_sync_master_clients" };
    until(LIMIT, "the relay to acknowledge again", || {
        let known = primary.query(&format!("SHOW GLOBAL STATUS LIKE '{clients}'"))?;
        Ok(known.ends_with(&format!("\t{relays}")))
    })?;
    // What it had written and nobody has acknowledged: behind the relay it is now, too.
    ground.catch_up()?;
    let open = if ground.is_mysql() {
        "SET GLOBAL super_read_only = OFF; SET GLOBAL read_only = OFF"
    } else {
        "SET GLOBAL read_only = OFF"
    };
    primary.query(open).map(drop)
}

/// Fails if a commit did not wait.
pub(super) fn never_gave_up(ground: &Ground) -> Result<()> {
    let name = if ground.is_mysql() { "Rpl_semi_sync_source_no_tx" } else { "Rpl_semi_sync_master_no_tx" };
    let line = ground.primary().query(&format!("SHOW GLOBAL STATUS LIKE '{name}'"))?;
    ensure!(line.ends_with("\t0"), "commits have not waited for the relay: {line}");
    Ok(())
}

/// Fails if one of these is not on the server.
pub(super) fn are_there(ids: &[u64], server: &Server) -> Result<()> {
    let there: HashSet<u64> =
        server.query("SELECT id FROM acked.t")?.lines().filter_map(|id| id.parse().ok()).collect();
    let lost: Vec<_> = ids.iter().filter(|id| !there.contains(id)).collect();
    ensure!(lost.is_empty(), "{} of {} acknowledged commits are lost: {lost:?}", lost.len(), ids.len());
    Ok(())
}

/// How root reaches a server.
pub(super) fn address(server: &Server, database: &str) -> Address {
    Address {
        host: server.host.clone(),
        port: server.port,
        socket: server.socket.clone(),
        user: ROOT.user.to_owned(),
        password: ROOT.password.to_owned(),
        database: database.to_owned(),
    }
}

/// Clients that write a row in each transaction.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Vec<u64>>>,
}

impl Load {
    pub(super) fn start(ground: &Ground, clients: u64) -> Result<Self> {
        let primary = ground.primary();
        let last = primary.query("SELECT COALESCE(MAX(id), 0) FROM acked.t")?.parse::<u64>()?;
        // A range of its own for each client, behind what was there.
        let first = (last >> 40) + 1;
        let (stop, done) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let one = |client: u64| {
            let (stop, done) = (stop.clone(), done.clone());
            let first = (first << 40) + (client << 30);
            let mut client = address(primary, "acked").connect()?;
            Ok(std::thread::spawn(move || {
                let mut ids = Vec::new();
                for id in first.. {
                    let sql = format!("INSERT INTO t VALUES ({id}, 'row {id}')");
                    if stop.load(Ordering::Relaxed) || client.query(&sql).is_err() {
                        break;
                    }
                    ids.push(id);
                    done.fetch_add(1, Ordering::Relaxed);
                }
                ids
            }))
        };
        let threads = (0..clients).map(one).collect::<Result<_>>()?;
        Ok(Self { stop, done, threads })
    }

    /// How many commits were acknowledged.
    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Ends; what was acknowledged.
    pub(super) fn end(self) -> Result<Vec<u64>> {
        self.stop.store(true, Ordering::Relaxed);
        let mut ids = Vec::new();
        for thread in self.threads {
            ids.extend(thread.join().map_err(|_| anyhow!("a client has panicked"))?);
        }
        Ok(ids)
    }
}

/// The primary is killed under load, again and again. What its clients were told is on the relay, and so on a replica behind it, while
/// the primary is dead; it comes back read-only and has nothing that the relay has not.
pub(super) fn check(flavor: Flavor, length: Length) -> Result<Vec<String>> {
    let rounds = length.rounds(if length.is_quick { 5 } else { 50 });
    let mut ground = Ground::start(flavor, 1, &[])?;
    set(&mut ground)?;
    let (mut all, mut unacknowledged) = (Vec::new(), 0);
    for round in 0..rounds {
        let load = Load::start(&ground, 6)?;
        until(LIMIT, "commits", || Ok(load.done() > 0))?;
        // From a kill among the first commits to one under way for a second.
        std::thread::sleep(Duration::from_millis(u64::from(round) * 389 % 1000));
        if round % 3 == 1 {
            ground.primary().query("FLUSH BINARY LOGS")?;
        }
        never_gave_up(&ground)?;
        ground.cluster.servers[0].kill9();
        all.extend(load.end()?);
        let replica = ground.replicas()[0];
        // The primary is dead: it is from the relay.
        until(
            LIMIT,
            "the replica to have all that was acknowledged",
            || Ok(are_there(&all, replica).is_ok()),
        )
        .and_then(|()| are_there(&all, replica))
        .with_context(|| format!("round {round}\n{}", ground.relay.process.log()))?;
        ground.cluster.servers[0].start_again()?;
        opens(&ground, 1)?;
        let rows: usize = ground.primary().query("SELECT COUNT(*) FROM acked.t")?.parse()?;
        unacknowledged = rows - all.len();
    }
    ground.catch_up()?;
    let tables = ground.same_data(&["acked"])?;
    Ok(vec![format!(
        "{rounds} kills of the primary under load: {} acknowledged commits were on the relay and its replica while it was dead; it came \
         back read-only with {unacknowledged} commits that no client was told of; {tables} tables and {} files equal",
        all.len(),
        ground.same_files()?
    )])
}

/// Two rounds of it.
pub fn check_kills_briefly(flavor: Flavor) -> Result<Vec<String>> {
    check(flavor, Length { is_quick: true, rounds: Some(2) })
}
