//! What a virtual IP costs: sysbench's oltp_read_write straight to a server, straight again, by its virtual IP, and through proxies, each
//! on a machine of its own (a network namespace). Rounds are interleaved. It needs root.
//!
//! Owns the order and the ratios. It knows Delphinus and MySQL Router as programs.

mod ground;
mod page;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use delphinus_sandbox::Flavor;

use crate::meter::ended_children_ns;
use crate::stats::{Spread, float};
use crate::sysbench::{Load, Place};
use ground::Ground;
pub use page::vip_table;

/// Threads of sysbench.
const THREADS: [usize; 3] = [16, 32, 64];

/// A way to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The server's own address.
    Direct,
    /// The same once more: what differs is noise.
    DirectAgain,
    /// Its virtual IP, which an agent holds.
    Vip,
    /// Delphinus on another machine.
    Delphinus,
    /// MySQL Router's port for reads and writes, on another machine.
    Router,
}

impl Way {
    const ALL: [Self; 5] = [Self::Direct, Self::Vip, Self::Delphinus, Self::Router, Self::DirectAgain];
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Direct => "straight to the server",
            Self::DirectAgain => "the same once more (the noise)",
            Self::Vip => "by its virtual IP (`delphinus agent`)",
            Self::Delphinus => "through Delphinus",
            Self::Router => "through MySQL Router",
        })
    }
}

/// What to measure.
#[derive(Debug, Clone)]
pub struct VipOptions {
    /// The binary to measure.
    pub delphinus: PathBuf,
    /// Which server. MySQL Router takes part with MySQL.
    pub flavor: Flavor,
    /// How often each way is measured.
    pub rounds: usize,
    /// For how long, in whole seconds.
    pub measure: Duration,
}

/// One way with one number of threads.
#[derive(Debug, Clone)]
pub struct VipRow {
    /// Threads of sysbench.
    pub threads: usize,
    /// The way.
    pub way: Way,
    /// Transactions a second.
    pub rate: Spread,
    /// What is lost against the server's own address in the same round, in per cent; below zero it was faster.
    pub loss: Spread,
    /// Processor time of all processes for one transaction, in microseconds.
    pub cost: Spread,
    /// How much more that is than by the server's own address in the same round, in per cent.
    pub more: Spread,
}

/// What was found.
#[derive(Debug)]
pub struct VipReport {
    /// All figures.
    pub rows: Vec<VipRow>,
    /// The server's version.
    pub server: String,
    /// Rounds of each figure.
    pub rounds: usize,
    /// Seconds of each measurement.
    pub seconds: u64,
}

impl VipReport {
    /// True if the virtual IP costs at most 1 per cent, or no more than the server's own address differs from itself.
    pub fn is_free(&self) -> bool {
        THREADS.iter().all(|threads| {
            let loss = |way| {
                self.rows.iter().find(|row| row.way == way && row.threads == *threads).map(|row| row.loss)
            };
            let (Some(vip), Some(noise)) = (loss(Way::Vip), loss(Way::DirectAgain)) else { return false };
            vip.median <= noise.median.abs().max(1.0)
        })
    }
}

/// Starts everything, measures, and stops everything.
pub fn run_vip(options: &VipOptions) -> Result<VipReport> {
    let ground = Ground::prepare(options)?;
    let seconds = options.measure.as_secs().max(1);
    let ways: Vec<Way> = Way::ALL.into_iter().filter(|way| ground.place(*way).is_some()).collect();
    let mut rows = Vec::new();
    for threads in THREADS {
        let mut found = vec![Vec::new(); ways.len()];
        for round in 0..options.rounds {
            for step in 0..ways.len() {
                // Each round begins with another one: what a neighbour of this machine does is done to all.
                let at = (step + round) % ways.len();
                let Some(place) = ground.place(ways[at]) else { continue };
                let one = measure(&ground, place, threads, seconds)?;
                eprintln!(
                    "  {threads} threads, round {}, {}: {:.0} transactions/s, {:.0} us of processors each",
                    round + 1,
                    ways[at],
                    one.rate,
                    one.cost
                );
                found[at].push(one);
            }
        }
        rows.extend(
            ways.iter().enumerate().filter_map(|(at, way)| row((threads, *way), &found[at], &found[0])),
        );
    }
    Ok(VipReport { rows, server: ground.version()?, rounds: options.rounds, seconds })
}

/// One measurement: transactions a second, and microseconds of all processors for each.
#[derive(Debug, Clone, Copy)]
struct One {
    rate: f64,
    cost: f64,
}

fn measure(ground: &Ground, place: &Place, threads: usize, seconds: u64) -> Result<One> {
    let used = || Ok::<u64, anyhow::Error>(ground.used_ns()? + ended_children_ns()?);
    let before = used()?;
    let counted = ground.sysbench.measure(place, Load { threads, seconds, rate: 0 })?;
    let cost = float(used()?.saturating_sub(before)) / 1e3 / counted.transactions;
    Ok(One { rate: counted.rate, cost })
}

/// Against the first way, round by round: what the machine did in one round it did to both.
fn row((threads, way): (usize, Way), own: &[One], direct: &[One]) -> Option<VipRow> {
    let per_cent = |of: fn(&One, &One) -> f64| {
        Spread::of(own.iter().zip(direct).map(|(own, direct)| Some(of(own, direct) * 100.0)))
    };
    Some(VipRow {
        threads,
        way,
        rate: Spread::of(own.iter().map(|one| Some(one.rate)))?,
        loss: per_cent(|own, direct| 1.0 - own.rate / direct.rate)?,
        cost: Spread::of(own.iter().map(|one| Some(one.cost)))?,
        more: per_cent(|own, direct| own.cost / direct.cost - 1.0)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(vip: [f64; 3], again: [f64; 3]) -> VipReport {
        let direct = [100.0, 50.0, 200.0];
        let rows = THREADS.iter().flat_map(|threads| {
            let row = |way, rates: &[f64]| row((*threads, way), &ones(rates), &ones(&direct)).unwrap();
            [row(Way::Direct, &direct), row(Way::Vip, &vip), row(Way::DirectAgain, &again)]
        });
        VipReport { rows: rows.collect(), server: String::new(), rounds: 3, seconds: 1 }
    }

    fn ones(rates: &[f64]) -> Vec<One> {
        rates.iter().map(|rate| One { rate: *rate, cost: 1000.0 / rate }).collect()
    }

    #[test]
    fn losses_are_those_of_a_round() {
        let found = row((16, Way::Vip), &ones(&[90.0, 50.0, 198.0]), &ones(&[100.0, 50.0, 200.0])).unwrap();
        assert!((found.more.max - 11.1).abs() < 0.1, "{found:?}");
        assert!((found.loss.median - 1.0).abs() < 1e-9 && (found.loss.max - 10.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn one_per_cent_or_the_noise_is_free() {
        let same = [100.0, 50.0, 200.0];
        assert!(report([99.5, 49.6, 199.0], same).is_free());
        assert!(!report([95.0, 47.0, 190.0], same).is_free());
        assert!(report([95.0, 47.5, 190.0], [94.0, 47.0, 188.0]).is_free());
        assert!(!report([95.0, 47.5, 190.0], [94.0, 50.0, 200.0]).is_free());
    }
}
