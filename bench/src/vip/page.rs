//! The table in the terminal and in docs/ha.md.

use super::{VipReport, VipRow};
use crate::machine::Machine;
use crate::stats::Spread;

/// A table, and what was measured on what.
pub fn vip_table(report: &VipReport, machine: &Machine) -> String {
    let rows = report.rows.iter().map(line).collect::<Vec<_>>().concat();
    let VipReport { server, rounds, seconds, .. } = report;
    let Machine { processor, cores, day, revision, .. } = machine;
    format!(
        "{server}; {rounds} interleaved rounds of {seconds} s each; {cores} cores ({processor}), which sysbench, the server and the \
         proxy share; {day}, commit {revision}. *Lost* and *more* are medians of the rounds, each against *straight to the server* in the same \
         round; in brackets the least and the most. *Processors* is the time of all processes for one transaction: what others do on the \
         machine changes it less.\n\n\
         | threads | way | transactions/s | lost | processors | more |\n|--:|---|--:|--:|--:|--:|\n{rows}"
    )
}

fn line(row: &VipRow) -> String {
    let VipRow { threads, way, rate, loss, cost, more } = row;
    let per_cent = |of: &Spread| format!("{:.1} % ({:.1} to {:.1})", of.median, of.min, of.max);
    let (loss, more) = (per_cent(loss), per_cent(more));
    format!("| {threads} | {way} | {:.0} | {loss} | {:.0} µs | {more} |\n", rate.median, cost.median)
}
