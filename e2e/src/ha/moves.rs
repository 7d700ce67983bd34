//! `SWITCHOVER`, round and round, under the clients and sysbench.

use std::time::Duration;

use anyhow::{Context, Result};

use super::Row;
use super::scene::{LIMIT, Period, Scene};
use crate::change::sysbench::Sysbench;
use crate::failover::workload::{self, Ground};
use crate::poll::{eventually, until};

/// Clients work for so long between two moves.
const CALM: Duration = Duration::from_millis(700);

pub(super) fn run(mut row: Row) -> Result<Row> {
    while row.left() > 0 && row.is_good() {
        row = some(row)?;
        row.say_progress();
    }
    Ok(row)
}

/// As many as are done with the same servers.
fn some(mut row: Row) -> Result<Row> {
    let scene = Scene::of(row.part, row.servers, &[])?;
    eventually(LIMIT, "the tables", || workload::prepare(&scene.address).map(Some))?;
    Sysbench::prepare(&scene.address)?;
    let sysbench = Sysbench::start(&scene.address, "oltp_read_write", &["--db-ps-mode=disable"])?;
    let ground = Ground::new(scene.address.clone());
    let (record, (periods, took)) = workload::run(&ground, false, || rounds(&scene, &ground, row.left()))?;
    let said = sysbench.end()?;
    row.work[1] += usize::try_from(said.transactions / 100)?;
    row.until_writes.extend(took);
    for (what, count) in [("retried", said.retried / 100), ("reconnected", said.reconnects / 100)] {
        // sysbench begins a transaction again after a deadlock of its own making, too.
        if count > 0 && what == "reconnected" {
            row.wrongs.push(format!("sysbench has {what} {count} times"));
        }
    }
    row.wrongs.extend(said.fatal);
    let judged = scene.judge(&mut row, &record, &periods);
    judged.with_context(|| format!("the proxy's log:\n{}", scene.proxy.log()))?;
    if !row.is_good() {
        eprintln!("{row:?}\n{:?}\nthe proxy's log:\n{}", record.words, scene.proxy.log());
    }
    Ok(row)
}

/// Each server gets the role in its turn.
fn rounds(scene: &Scene, ground: &Ground, count: usize) -> Result<(Vec<Period>, Vec<Duration>)> {
    let (mut periods, mut took) = (Vec::new(), Vec::new());
    let mut now = 0;
    let mut from_us = 0;
    for _ in 0..count {
        std::thread::sleep(CALM);
        let begun_us = ground.now_us();
        periods.push(Period { from_us, to_us: begun_us, server: scene.cluster.servers[now].server_id });
        now = (now + 1) % scene.cluster.servers.len();
        let to = &scene.cluster.servers[now].name;
        let line = scene.operator()?.rows(&format!("SWITCHOVER TO {to}"))?;
        let done_us = ground.now_us();
        until(LIMIT, "a write", || Ok(ground.is_acknowledged_after(done_us)))?;
        let whole = Duration::from_micros(ground.now_us() - begun_us);
        if took.iter().all(|known| *known < whole) {
            // Where the longest one so far has spent its time.
            eprintln!("{whole:?}");
            for row in line {
                let row: Vec<_> = row.iter().map(|cell| cell.as_deref().unwrap_or("-")).collect();
                eprintln!("  {}", row.join("  "));
            }
        }
        took.push(whole);
        from_us = done_us;
    }
    std::thread::sleep(CALM);
    periods.push(Period { from_us, to_us: ground.now_us(), server: scene.cluster.servers[now].server_id });
    Ok((periods, took))
}
