//! The relay is killed again and again under small transactions, and once in the middle of a very large one.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use delphinus_sandbox::{Flavor, Server};

use super::ground::{Ground, RelayProcess};
use super::{Length, load, strong};
use crate::poll::until;

/// Between two kills.
const PAUSE: Duration = Duration::from_secs(2);
/// Bytes of the large transaction.
const LARGE: usize = 1 << 30;
/// The same in the short form.
const QUICK_LARGE: usize = 200 << 20;
/// Bytes of one of its rows.
const ROW: usize = 4 << 20;
/// How long the large one may take: several servers write it several times.
const LIMIT: Duration = Duration::from_mins(15);

/// Clients whose commits wait for the relay, without end, while that is killed each two seconds.
pub(super) fn check(flavor: Flavor, length: Length) -> Result<Vec<String>> {
    let rounds = length.rounds(if length.is_quick { 8 } else { 30 });
    let mut ground = Ground::start(flavor, 1, &[])?;
    strong::set(&mut ground)?;
    let load = strong::Load::start(&ground, 8)?;
    let mut acknowledged = 0;
    for _ in 0..rounds {
        std::thread::sleep(PAUSE);
        ground.relay.kill_and_start_again()?;
        // Something was committed since the last kill.
        let before = acknowledged;
        until(Duration::from_secs(30), "commits to go on", || {
            acknowledged = load.done();
            Ok(acknowledged > before)
        })?;
    }
    let ids = load.end()?;
    strong::never_gave_up(&ground)?;
    ground.catch_up()?;
    let tables = ground.same_data(&["acked"])?;
    strong::are_there(&ids, ground.replicas()[0])?;
    Ok(vec![format!(
        "{rounds} kills of the relay, one each 2 s: {} acknowledged commits are on the replica, {tables} tables and {} files equal, \
         no commit has gone on without the relay",
        ids.len(),
        ground.same_files()?
    )])
}

/// A transaction that is far larger than any buffer, and the relay killed while it comes in.
pub(super) fn large(flavor: Flavor, length: Length) -> Result<Vec<String>> {
    let bytes = if length.is_quick { QUICK_LARGE } else { LARGE };
    // Each server has it several times as it is.
    let cnf = if flavor.is_mysql() { ["log_replica_updates=OFF"] } else { ["log_slave_updates=OFF"] };
    let mut ground = Ground::start(flavor, 1, &cnf)?;
    load::prepare(ground.primary())?;
    ground.catch_up()?;
    let began = Instant::now();
    let before = in_files(&ground)?;
    let writing = write(ground.primary(), bytes);
    until(LIMIT, "half of the transaction to be in the relay's files", || {
        ensure!(
            !writing.is_finished() || in_files(&ground)? > before,
            "it was written too fast, or not at all"
        );
        Ok(in_files(&ground)? > before + bytes as u64 / 2)
    })?;
    let most = ground.relay.process.resident_kib()?;
    let half = in_files(&ground)? - before;
    ground.relay.kill_and_start_again()?;
    ensure!(half < bytes as u64, "the relay had all of it before it was killed");
    until(LIMIT, "the relay to cut off what is not whole", || {
        Ok(ground.relay.process.log().contains("has cut an incomplete end off"))
    })?;
    writing.join().map_err(|_| anyhow::anyhow!("the writing thread has panicked"))??;
    catch_up(&ground)?;
    let tables = ground.same_data(&["kinds"])?;
    ensure!(most < 200_000, "the relay has grown to {most} KiB");
    Ok(vec![format!(
        "a transaction of {} MB, the relay killed after {} MB of it: {tables} tables and {} files equal after {} s; the relay had {} MB \
         of memory",
        bytes >> 20,
        half >> 20,
        ground.same_files()?,
        began.elapsed().as_secs(),
        most >> 10,
    )])
}

/// Bytes in all files of the relay, with what is not visible yet.
fn in_files(ground: &Ground) -> Result<u64> {
    let mut sum = 0;
    for folder in ground.relay.folders()? {
        for file in RelayProcess::files(&folder)? {
            sum += fs::metadata(file)?.len();
        }
    }
    Ok(sum)
}

/// Writes in one transaction, on a thread of its own.
fn write(primary: &Server, bytes: usize) -> std::thread::JoinHandle<Result<()>> {
    let address = strong::address(primary, "kinds");
    std::thread::spawn(move || {
        let mut client = address.connect()?;
        client.query("BEGIN")?;
        for _ in 0..bytes / ROW {
            client.query(&format!("INSERT INTO big (b) VALUES (REPEAT('g', {ROW}))"))?;
        }
        client.query("COMMIT").context("the large transaction")?;
        Ok(())
    })
}

/// A replica may need minutes for it.
fn catch_up(ground: &Ground) -> Result<()> {
    let sql = "SELECT COUNT(*) FROM kinds.big";
    let all = ground.primary().query(sql)?;
    until(LIMIT, "the replicas to have the large transaction", || {
        for replica in ground.replicas() {
            ground.runs(replica)?;
            if replica.query(sql)? != all {
                return Ok(false);
            }
        }
        Ok(true)
    })?;
    ground.catch_up()
}
