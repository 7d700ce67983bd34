//! The percentiles of `digests`, beside those of a client that measures each statement.
//!
//! The client is our own, and its statements take from 2 to 60 ms. `sysbench --percentile` tells one percentile of a histogram of its
//! own, of which a bucket is wider than 5 percent; and of statements of 100 µs, what lies outside of the proxy (the way from the client
//! and back, its thread waiting for a processor) is more than that.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use delphinus_sandbox::Flavor;

use super::{Ground, Row};
use crate::stage::Address;

pub(super) const MEASURES: &[&str] =
    &["p50, against the client's", "p90, against the client's", "p99, against the client's"];

const CLIENTS: u64 = 4;
/// How far the two may be apart, in percent.
const MOST: f64 = 5.0;

pub(super) fn run(flavor: Flavor, is_quick: bool) -> Result<Vec<Row>> {
    check(flavor, if is_quick { 500 } else { 2_500 })
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
    for (what, (column, part)) in MEASURES.iter().zip([("p50_us", 0.5), ("p90_us", 0.9), ("p99_us", 0.99)]) {
        let by_client = percentile(&times, part).context("no times")?.as_secs_f64() * 1e6;
        let by_proxy = told(&mut ground, column)? as f64;
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
        let part = (random >> 33) as f64 / f64::from(1_u32 << 31);
        let millis = 2.0 + 58.0 * part.powi(6);
        let sql = format!("DO SLEEP({:.4})", millis / 1000.0);
        let began = Instant::now();
        client.query(&sql)?;
        times.push(began.elapsed());
    }
    Ok(times)
}

/// Of sorted times.
fn percentile(times: &[Duration], part: f64) -> Option<Duration> {
    let rank = (times.len() as f64 * part).ceil() as usize;
    times.get(rank.max(1) - 1).copied()
}
