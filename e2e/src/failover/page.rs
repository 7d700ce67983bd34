//! The table of docs/failover.md.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::fault::Case;
use super::trial::Trial;

const BEGIN: &str = "<!-- Written by `cargo xtask e2e failover --docs`: begin -->\n";
const END: &str = "<!-- end -->\n";

const HEAD: &str = "\
| servers | through | what happens | runs | acknowledged | writes failed, by error | reads answered | reads failed | lost | doubled | stale | other harm | noticed after | servers need | beyond that | longest wait |
|---|---|---|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|
";

/// Puts the table of these runs between the markers of the page.
pub fn write_table(file: &Path, trials: &[Trial]) -> Result<()> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    fs::write(file, replaced(&text, &table(trials))?)?;
    Ok(())
}

fn replaced(text: &str, table: &str) -> Result<String> {
    let (before, rest) = text.split_once(BEGIN).context("the page has no mark for the table")?;
    let (_, after) = rest.split_once(END).context("the page has no mark for the table's end")?;
    Ok(format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

/// A row for each case.
fn table(trials: &[Trial]) -> String {
    let mut groups: BTreeMap<_, Vec<&Trial>> = BTreeMap::new();
    for trial in trials {
        groups.entry(trial.case).or_default().push(trial);
    }
    let mut text = HEAD.to_owned();
    for (Case { servers, through, fault }, runs) in groups {
        let sum = |count: &dyn Fn(&Trial) -> usize| runs.iter().map(|run| count(run)).sum::<usize>();
        let span = |ms: &dyn Fn(&Trial) -> Option<f64>| {
            span(&runs.iter().filter_map(|run| ms(run)).collect::<Vec<_>>())
        };
        let _ = writeln!(
            text,
            "| {servers} | {through} | {fault} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            runs.len(),
            sum(&|run| run.acknowledged),
            kinds(runs.iter().map(|run| &run.write_errors)),
            sum(&|run| run.reads),
            kinds(runs.iter().map(|run| &run.read_errors)),
            sum(&|run| run.verdict.lost.len()),
            sum(&|run| run.verdict.doubled.len()),
            sum(&|run| run.verdict.stale()),
            sum(&other_harm),
            span(&|run| run.noticed_ms),
            span(&|run| run.servers_ms),
            span(&|run| run.beyond_ms()),
            span(&|run| Some(run.longest_ms)),
        );
    }
    text
}

/// Told as failed and there all the same, parts of transactions, seen and gone, times of two writers, sessions that ended
/// without need, and what else was found.
fn other_harm(run: &Trial) -> usize {
    let verdict = &run.verdict;
    verdict.denied.len()
        + verdict.torn.len()
        + verdict.gone.len()
        + verdict.two_writers.len()
        + run.ended_sessions()
        + run.wrongs.len()
}

fn kinds<'a>(of_runs: impl Iterator<Item = &'a BTreeMap<String, usize>>) -> String {
    let mut all: BTreeMap<&str, usize> = BTreeMap::new();
    for (kind, count) in of_runs.flatten() {
        *all.entry(kind).or_default() += count;
    }
    if all.is_empty() {
        return "0".to_owned();
    }
    all.iter().map(|(kind, count)| format!("{count} × {kind}")).collect::<Vec<_>>().join(", ")
}

/// The least and the most, in tenths of seconds below which times of a busy machine mean nothing.
fn span(ms: &[f64]) -> String {
    let least = ms.iter().copied().fold(f64::INFINITY, f64::min) / 1e3;
    let most = ms.iter().copied().fold(f64::NEG_INFINITY, f64::max) / 1e3;
    match ms.len() {
        0 => "–".to_owned(),
        1 => format!("{most:.2} s"),
        _ => format!("{least:.2} to {most:.2} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Fault, Servers, Through, Verdict};
    use super::*;

    fn trial(fault: Fault, beyond_ms: f64) -> Trial {
        Trial {
            case: Case { servers: Servers::Group, through: Through::Delphinus, fault },
            acknowledged: 100,
            reads: 200,
            write_errors: [("1213".to_owned(), 2)].into(),
            read_errors: BTreeMap::new(),
            disconnects: 1,
            words: Vec::new(),
            lost_late: 0,
            verdict: Verdict { lost: vec![7], torn: vec![8], ..Verdict::default() },
            wrongs: Vec::new(),
            servers_ms: Some(5000.0),
            proxy_ms: Some(5000.0 + beyond_ms),
            noticed_ms: None,
            longest_ms: 6000.0,
            took_s: 1.0,
        }
    }

    #[test]
    fn runs_of_a_kind_share_a_row() {
        let trials = [trial(Fault::Kill, 100.0), trial(Fault::Shutdown, 0.0), trial(Fault::Kill, 250.0)];
        let text = table(&trials);
        let rows: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(
            rows,
            [
                "| MySQL 9.7 Group Replication | Delphinus | kill -9 | 2 | 200 | 4 × 1213 | 400 | 0 | 2 | 0 | 0 | 4 | – | 5.00 to 5.00 s | \
                 0.10 to 0.25 s | 6.00 to 6.00 s |",
                "| MySQL 9.7 Group Replication | Delphinus | clean shutdown | 1 | 100 | 2 × 1213 | 200 | 0 | 1 | 0 | 0 | 2 | – | 5.00 s | \
                 0.00 s | 6.00 s |",
            ]
        );
        let columns = text.lines().next().unwrap().matches('|').count();
        assert!(text.lines().all(|line| line.matches('|').count() == columns), "{text}");
    }

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let page = format!("above\n{BEGIN}old\n{END}below\n");
        assert_eq!(replaced(&page, "new\n").unwrap(), format!("above\n{BEGIN}\nnew\n\n{END}below\n"));
        assert!(replaced("nothing", "new").is_err());
    }
}
