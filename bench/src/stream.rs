//! What a replication relay costs and brings: commits that wait for a copy, by who has the copy and how far away it is; what replicas
//! cost the primary; how much later its events reach them. The primary and the copies are on machines of their own (network namespaces)
//! with a wire of a known delay between them. It needs root.
//!
//! Owns the order and the ratios. It knows Delphinus, `mysqlbinlog` and a stock replica as programs.

mod arrivals;
mod copies;
mod ground;
mod page;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::stats::{Spread, float};
use crate::sysbench::Load;
use copies::Copies;
use ground::{Ground, RelayHere};
pub use page::stream_table;

/// Round trips from the primary to the copy, in microseconds.
const ROUND_TRIPS_US: [u64; 4] = [0, 1_000, 2_500, 5_000];
/// Threads of sysbench.
const THREADS: [usize; 2] = [1, 64];
/// Replicas behind the primary, or behind the relay.
const REPLICAS: [usize; 3] = [1, 5, 10];
/// The round trip and the threads by which the relay is judged.
const JUDGED: (u64, usize) = (2_500, 64);

/// Who has to have a transaction before its client hears of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acker {
    /// The primary alone.
    None,
    /// A stock replica that syncs its relay log now and then, as it does by itself.
    Stock,
    /// A stock replica with `sync_relay_log = 1`: what it has acknowledged is on its disk, as with the relay.
    StockSynced,
    /// `delphinus relay`.
    Relay,
    /// The same behind a source that sends nothing before the last event is acknowledged.
    RelayOneByOne,
}

impl Acker {
    const ALL: [Self; 5] = [Self::StockSynced, Self::Relay, Self::RelayOneByOne, Self::Stock, Self::None];
}

impl fmt::Display for Acker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "no copy",
            Self::Stock => "a replica, not synced",
            Self::StockSynced => "a replica, `sync_relay_log = 1`",
            Self::Relay => "`delphinus relay`",
            Self::RelayOneByOne => "the same, events sent one by one",
        })
    }
}

/// What to measure.
#[derive(Debug, Clone)]
pub struct StreamOptions {
    /// The binary to measure.
    pub delphinus: PathBuf,
    /// How often each figure is taken.
    pub rounds: usize,
    /// For how long, in whole seconds.
    pub measure: Duration,
}

/// Commits with one copy at one distance.
#[derive(Debug, Clone)]
pub struct CommitRow {
    /// Microseconds.
    pub round_trip_us: u64,
    /// Threads of sysbench.
    pub threads: usize,
    /// Who acknowledges.
    pub acker: Acker,
    /// Transactions a second.
    pub rate: Spread,
    /// How many times the rate of a replica that makes the same promise, in the same round.
    pub to_synced: Spread,
    /// How many times the rate of a replica that does not sync, in the same round.
    pub to_plain: Spread,
}

/// What replicas cost.
#[derive(Debug, Clone)]
pub struct FanRow {
    /// How many there are.
    pub replicas: usize,
    /// They are behind the relay, which is the primary's only one.
    pub is_relayed: bool,
    /// The primary's processor time for one transaction, in microseconds.
    pub primary: Spread,
    /// How many times that of one direct replica, in the same round.
    pub to_one: Spread,
    /// The relay's processor time for one MB to one replica, in microseconds.
    pub relay: Option<Spread>,
}

/// How much later events reach a replica behind the relay than one at the primary, in microseconds.
#[derive(Debug, Clone, Copy)]
pub struct Later {
    /// The median.
    pub p50: f64,
    /// Of one in a hundred.
    pub p99: f64,
    /// Transactions that were looked at.
    pub count: usize,
}

/// What was found.
#[derive(Debug)]
pub struct StreamReport {
    /// Commits that wait.
    pub commits: Vec<CommitRow>,
    /// Many replicas.
    pub fans: Vec<FanRow>,
    /// One replica of each.
    pub later: Later,
    /// The server's version.
    pub server: String,
    /// Rounds of each figure.
    pub rounds: usize,
    /// Seconds of each measurement.
    pub seconds: u64,
}

impl StreamReport {
    /// What has not been reached, a line each.
    pub fn missed(&self) -> Vec<String> {
        let mut missed = Vec::new();
        let mut least = |what: String, found: Option<f64>, wanted: f64| {
            if found.is_none_or(|found| found < wanted) {
                missed.push(format!("{what}: {found:.2?}, at least {wanted}"));
            }
        };
        let relay = self
            .commits
            .iter()
            .find(|row| (row.round_trip_us, row.threads, row.acker) == (JUDGED.0, JUDGED.1, Acker::Relay));
        least("commits against a synced replica".into(), relay.map(|row| row.to_synced.median), 1.15);
        least(
            "commits against a replica that does not sync".into(),
            relay.map(|row| row.to_plain.median),
            0.95,
        );
        let mut most = |what: String, found: Option<f64>, wanted: f64| {
            if found.is_none_or(|found| found > wanted) {
                missed.push(format!("{what}: {found:.2?}, at most {wanted}"));
            }
        };
        let many = self.fans.iter().find(|row| row.is_relayed && row.replicas == REPLICAS[2]);
        most(
            "the primary's cost of 10 replicas behind the relay".into(),
            many.map(|row| row.to_one.median),
            1.05,
        );
        most("how much later events arrive, p99, µs".into(), Some(self.later.p99), 2_000.0);
        missed
    }
}

/// Starts everything, measures, and stops everything.
pub fn run_stream(options: &StreamOptions) -> Result<StreamReport> {
    let ground = Ground::prepare(options)?;
    let seconds = options.measure.as_secs().max(1);
    let later = later(&ground, seconds).context("two readers of the log")?;
    let fans = fan_rows(&ground, options.rounds, seconds)?;
    let mut commits = Vec::new();
    for round_trip_us in ROUND_TRIPS_US {
        for threads in THREADS {
            commits.extend(commit_rows(&ground, options.rounds, (round_trip_us, threads, seconds))?);
        }
    }
    Ok(StreamReport { commits, fans, later, server: ground.version()?, rounds: options.rounds, seconds })
}

fn commit_rows(
    ground: &Ground,
    rounds: usize,
    (round_trip_us, threads, seconds): (u64, usize, u64),
) -> Result<Vec<CommitRow>> {
    let mut rates = vec![Vec::new(); Acker::ALL.len()];
    for round in 0..rounds {
        for step in 0..Acker::ALL.len() {
            // Each round begins with another one: what a neighbour of this machine does is done to all.
            let at = (step + round) % Acker::ALL.len();
            let acker = Acker::ALL[at];
            let counted = ground
                .commits(acker, round_trip_us, Load { threads, seconds, rate: 0 })
                .with_context(|| format!("{acker}, {round_trip_us} µs, {threads} threads"))?;
            eprintln!(
                "  {round_trip_us} µs, {threads} threads, round {}, {acker}: {:.0} transactions/s",
                round + 1,
                counted.rate
            );
            rates[at].push(counted.rate);
        }
    }
    let of = |acker: Acker| &rates[Acker::ALL.iter().position(|one| *one == acker).unwrap_or_default()];
    let row = |acker: Acker| {
        let against =
            |other: Acker| Spread::of(of(acker).iter().zip(of(other)).map(|(own, other)| Some(own / other)));
        Some(CommitRow {
            round_trip_us,
            threads,
            acker,
            rate: Spread::of(of(acker).iter().copied().map(Some))?,
            to_synced: against(Acker::StockSynced)?,
            to_plain: against(Acker::Stock)?,
        })
    };
    Ok(Acker::ALL.into_iter().filter_map(row).collect())
}

/// One measurement of processors.
#[derive(Debug, Clone, Copy)]
struct Used {
    /// Microseconds for a transaction.
    primary: f64,
    /// Microseconds for one MB and one replica.
    relay: Option<f64>,
}

fn fan_rows(ground: &Ground, rounds: usize, seconds: u64) -> Result<Vec<FanRow>> {
    let ways: Vec<(usize, bool)> =
        [false, true].into_iter().flat_map(|is_relayed| REPLICAS.map(|count| (count, is_relayed))).collect();
    let mut found = vec![Vec::new(); ways.len()];
    for round in 0..rounds {
        for step in 0..ways.len() {
            let at = (step + round) % ways.len();
            let used =
                used(ground, ways[at], seconds).with_context(|| format!("replicas: {:?}", ways[at]))?;
            eprintln!("  {} replicas, relayed: {}, round {}: {used:.1?}", ways[at].0, ways[at].1, round + 1);
            found[at].push(used);
        }
    }
    let row = |(at, (replicas, is_relayed)): (usize, &(usize, bool))| {
        let own: &[Used] = &found[at];
        Some(FanRow {
            replicas: *replicas,
            is_relayed: *is_relayed,
            primary: Spread::of(own.iter().map(|used| Some(used.primary)))?,
            to_one: Spread::of(own.iter().zip(&found[0]).map(|(own, one)| Some(own.primary / one.primary)))?,
            relay: Spread::of(own.iter().map(|used| used.relay)),
        })
    };
    Ok(ways.iter().enumerate().filter_map(row).collect())
}

fn used(ground: &Ground, (count, is_relayed): (usize, bool), seconds: u64) -> Result<Used> {
    ground.begin_anew()?;
    let relay = is_relayed.then(|| ground.relay()).transpose()?;
    let copies = Copies::start(ground, count, relay.as_ref())?;
    let look = || {
        Ok::<_, anyhow::Error>((ground.primary_ns()?, relay.as_ref().map(RelayHere::used_ns).transpose()?))
    };
    let (before, bytes) = (look()?, ground.log_bytes()?);
    let counted = ground.sysbench.measure(&ground.primary(), Load { threads: 8, seconds, rate: 300 })?;
    copies.have_all(ground.log_bytes()?)?;
    let (after, bytes) = (look()?, ground.log_bytes()? - bytes);
    let microseconds = |now: u64, then: u64| float(now.saturating_sub(then)) / 1e3;
    let of_relay =
        |(now, then): (u64, u64)| microseconds(now, then) / (float(bytes) / 1e6) / float(count as u64);
    Ok(Used {
        primary: microseconds(after.0, before.0) / counted.transactions,
        relay: after.1.zip(before.1).map(of_relay),
    })
}

fn later(ground: &Ground, seconds: u64) -> Result<Later> {
    ground.begin_anew()?;
    let relay = ground.relay()?;
    let [at_primary, behind] = [ground.direct_target(), ground.relayed_target()];
    let site = ground.site_namespace()?;
    let at_primary = arrivals::Reader::start(&site, &at_primary, 71).context("the primary")?;
    let readers = [at_primary, arrivals::Reader::start(&site, &behind, 72).context("the relay")?];
    ground.sysbench.measure(&ground.primary(), Load { threads: 8, seconds, rate: 200 })?;
    let found = arrivals::later(readers)?;
    drop(relay);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(value: f64) -> Spread {
        Spread { median: value, min: value, max: value }
    }

    #[test]
    fn what_is_missed_is_told() {
        let commit = CommitRow {
            round_trip_us: JUDGED.0,
            threads: JUDGED.1,
            acker: Acker::Relay,
            rate: spread(1.0),
            to_synced: spread(1.2),
            to_plain: spread(0.96),
        };
        let fan =
            FanRow { replicas: 10, is_relayed: true, primary: spread(1.0), to_one: spread(1.0), relay: None };
        let mut report = StreamReport {
            commits: vec![commit],
            fans: vec![fan],
            later: Later { p50: 100.0, p99: 900.0, count: 10 },
            server: String::new(),
            rounds: 1,
            seconds: 1,
        };
        assert_eq!(report.missed(), Vec::<String>::new());
        report.commits[0].to_synced = spread(1.1);
        report.fans[0].to_one = spread(1.2);
        report.later.p99 = 2_100.0;
        assert_eq!(report.missed().len(), 3, "{:?}", report.missed());
        report.commits.clear();
        assert_eq!(report.missed().len(), 4, "what was not measured is missed");
    }
}
