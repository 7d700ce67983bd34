//! The percentiles of `digests`, beside those of a client that measures each statement.
//!
//! The client is our own, and its statements take from 40 to 440 ms. `sysbench --percentile` tells one percentile of a histogram of its
//! own, of which a bucket is wide itself; and of statements of 100 µs, what lies outside of the proxy (the way from the client and back, its
//! thread waiting for a processor on a machine that does other things as well) is more than 5 percent.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use delphinus_sandbox::Flavor;

use super::{Ground, Row, float};
use crate::stage::Address;

pub(super) const MEASURES: &[&str] =
    &["p50, against the client's", "p95, against the client's", "p99, against the client's", P999];

const P999: &str = "p99.9, against the client's";
/// Of fewer statements two or three would say what p99.9 is.
const ENOUGH: usize = 9_000;

const CLIENTS: u64 = 16;
/// How far the two may be apart, in percent.
const MOST: f64 = 5.0;

pub(super) fn run(flavor: Flavor, is_quick: bool) -> Result<Vec<Row>> {
    check(flavor, if is_quick { 100 } else { 600 })
}

/// With so many statements of each client.
pub(super) fn check(flavor: Flavor, statements: u64) -> Result<Vec<Row>> {
    let mut ground = Ground::start(flavor, &[], |_| String::new())?;
    let mut times = thread::scope(|scope| {
        let address = &ground.stage.address;
        let clients: Vec<_> =
            (0..CLIENTS).map(|number| scope.spawn(move || work(address, number, statements))).collect();
        let mut all = Vec::new();
        for client in clients {
            all.extend(client.join().expect("invariant: clients do not panic")?);
        }
        anyhow::Ok(all)
    })?;
    times.sort_unstable();
    let told = |ground: &mut Ground, column: &str| {
        ground.number(&format!("SELECT {column} FROM digests WHERE digest_text = 'DO SLEEP(?)'"))
    };
    let mut rows = Vec::new();
    let columns = [("p50_us", 500), ("p95_us", 950), ("p99_us", 990), ("p999_us", 999)];
    for (what, (column, per_mille)) in MEASURES.iter().zip(columns) {
        if *what == P999 && times.len() < ENOUGH {
            continue;
        }
        let by_client = percentile(&times, per_mille).context("no times")?.as_secs_f64() * 1e6;
        let by_proxy = float(told(&mut ground, column)?);
        let apart = (by_proxy / by_client - 1.0) * 100.0;
        rows.push(Row {
            what,
            flavor,
            found: format!("{apart:+.1} % ({:.2} ms, {:.2} ms)", by_proxy / 1000.0, by_client / 1000.0),
            bound: format!("± {MOST} %"),
            is_right: apart.abs() <= MOST,
        });
    }
    Ok(rows)
}

/// One client; how long each of its statements took.
fn work(address: &Address, number: u64, statements: u64) -> Result<Vec<Duration>> {
    let mut client = address.connect()?;
    let mut times = Vec::new();
    let mut random = number + 1;
    for _ in 0..statements {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // Most are short, a few are long.
        let part = f64::from((random >> 33) as u32) / f64::from(1_u32 << 31);
        let millis = 40.0 + 400.0 * part.powi(6);
        let sql = format!("DO SLEEP({:.4})", millis / 1000.0);
        let began = Instant::now();
        client.query(&sql)?;
        times.push(began.elapsed());
    }
    Ok(times)
}

/// Of sorted times, the one that so many per mille do not exceed.
fn percentile(times: &[Duration], per_mille: usize) -> Option<Duration> {
    times.get((times.len() * per_mille).div_ceil(1000).max(1) - 1).copied()
}
