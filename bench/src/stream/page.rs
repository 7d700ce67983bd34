//! The tables in the terminal and in docs/relay.md.

use super::{CommitRow, FanRow, StreamReport};
use crate::machine::Machine;
use crate::stats::Spread;

/// Three tables, and what was measured on what.
pub fn stream_table(report: &StreamReport, machine: &Machine) -> String {
    let commits = report.commits.iter().map(commit).collect::<Vec<_>>().concat();
    let fans = report.fans.iter().map(fan).collect::<Vec<_>>().concat();
    let StreamReport { server, rounds, seconds, later, .. } = report;
    let Machine { processor, cores, day, revision, .. } = machine;
    format!(
        "{server}; {rounds} interleaved rounds of {seconds} s each; {cores} cores ({processor}), which sysbench, the servers and the relay \
         share; {day}, commit {revision}. Figures are medians; ratios are taken within a round, in brackets the least and the most.\n\n\
         Commits of sysbench's oltp_write_only with semi-sync (AFTER_SYNC, one copy), by the round trip to the copy:\n\n\
         | round trip | threads | copy | transactions/s | to a synced replica | to one that does not sync |\n|--:|--:|---|--:|--:|--:|\n{commits}\n\
         What replicas cost the primary, at 300 transactions a second (each is a `mysqlbinlog` that writes the log to a file):\n\n\
         | replicas | follow | primary, for one transaction | to one direct replica | relay, for one MB and replica |\n|--:|---|--:|--:|--:|\n{fans}\n\
         A transaction reaches a replica behind the relay {:.0} µs later than one at the primary (median; p99 {:.0} µs; {} transactions).\n",
        later.p50, later.p99, later.count
    )
}

fn times(of: &Spread) -> String {
    format!("{:.2} ({:.2} to {:.2})", of.median, of.min, of.max)
}

fn commit(row: &CommitRow) -> String {
    let CommitRow { round_trip_us, threads, acker, rate, to_synced, to_plain } = row;
    let (trip, synced, plain) = (
        format!("{}.{} ms", round_trip_us / 1000, round_trip_us % 1000 / 100),
        times(to_synced),
        times(to_plain),
    );
    format!("| {trip} | {threads} | {acker} | {:.0} | {synced} | {plain} |\n", rate.median)
}

fn fan(row: &FanRow) -> String {
    let FanRow { replicas, is_relayed, primary, to_one, relay } = row;
    let follow = if *is_relayed { "the relay" } else { "the primary" };
    let relay = relay.as_ref().map_or_else(|| "-".to_owned(), |relay| format!("{:.0} µs", relay.median));
    format!("| {replicas} | {follow} | {:.0} µs | {} | {relay} |\n", primary.median, times(to_one))
}
