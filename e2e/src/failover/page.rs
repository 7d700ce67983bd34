//! The table of docs/failover.md.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::fault::{Case, Fault, Through};
use super::run::LATE;
use super::trial::Trial;

const BEGIN: &str = "<!-- Written by `cargo xtask e2e failover --docs`: begin -->\n";
const END: &str = "<!-- end -->\n";

const HEAD: &str = "\
| what happens | runs | acknowledged | writes failed, by error | reads answered | reads failed | sessions ended | lost | doubled | stale | other harm | noticed after | servers need | beyond that | longest wait |
|---|--:|--:|---|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|
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

/// What all runs come to, and a table for each kind of servers and proxy with a row for each fault.
fn table(trials: &[Trial]) -> String {
    let mut groups: BTreeMap<Case, Vec<&Trial>> = BTreeMap::new();
    for trial in trials {
        groups.entry(trial.case).or_default().push(trial);
    }
    let mut text =
        sum(&trials.iter().filter(|one| one.case.through == Through::Delphinus).collect::<Vec<_>>());
    let mut section = None;
    for (Case { servers, through, fault }, runs) in groups {
        if section.replace((servers, through)) != Some((servers, through)) {
            let _ = write!(text, "\n### {servers}, through {through}\n\n{HEAD}");
        }
        let sum = |count: &dyn Fn(&Trial) -> usize| runs.iter().map(|run| count(run)).sum::<usize>();
        let span = |ms: &dyn Fn(&Trial) -> Option<f64>| {
            span(&runs.iter().filter_map(|run| ms(run)).collect::<Vec<_>>())
        };
        let _ = writeln!(
            text,
            "| {fault} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            runs.len(),
            sum(&|run| run.acknowledged),
            kinds(runs.iter().map(|run| &run.write_errors)),
            sum(&|run| run.reads),
            kinds(runs.iter().map(|run| &run.read_errors)),
            sum(&|run| run.disconnects),
            sum(&|run| run.verdict.lost.len()),
            sum(&|run| run.verdict.doubled.len()),
            sum(&|run| run.verdict.stale()),
            sum(&other_harm),
            span(&|run| run.noticed_ms),
            span(&|run| run.servers_ms),
            beyond(&runs),
            span(&|run| Some(run.longest_ms)),
        );
    }
    text
}

/// What all runs through Delphinus come to.
fn sum(runs: &[&Trial]) -> String {
    let cases: BTreeSet<Case> = runs.iter().map(|run| run.case).collect();
    let count = |count: &dyn Fn(&Trial) -> usize| runs.iter().map(|run| count(run)).sum::<usize>();
    let may_lose = |run: &Trial| run.case.servers.may_lose(run.case.fault);
    let lost = |run: &Trial| run.verdict.lost.len();
    let worst = |ms: &dyn Fn(&Trial) -> Option<f64>| {
        let worst = runs.iter().filter_map(|run| ms(run)).max_by(f64::total_cmp);
        worst.map_or_else(|| "–".to_owned(), |ms| format!("{:.2} s", ms / 1e3))
    };
    let is_dead = |run: &Trial| matches!(run.case.fault, Fault::Kill | Fault::Shutdown);
    let is_silent = |run: &Trial| {
        matches!(
            run.case.fault,
            Fault::Hang | Fault::Cut | Fault::CutForth | Fault::CutBack | Fault::Minority
        )
    };
    format!(
        "Delphinus, {} cases, {} runs, {} acknowledged writes, {} reads: {} writes lost ({} more with primaries that died or hung under \
         asynchronous replication), {} doubled, {} stale reads, {} times other harm. A dead primary was noticed after at most {}, one that was \
         silent after {}; where the role moved, the first write came at most {} after the new primary was able to take it.\n",
        cases.len(),
        runs.len(),
        count(&|run| run.acknowledged),
        count(&|run| run.reads),
        count(&|run| if may_lose(run) { 0 } else { lost(run) }),
        count(&|run| if may_lose(run) { lost(run) } else { 0 }),
        count(&|run| run.verdict.doubled.len()),
        count(&|run| run.verdict.stale()),
        count(&|run| other_harm(run) + run.ended_sessions()),
        worst(&|run| run.noticed_ms.filter(|_| is_dead(run))),
        worst(&|run| run.noticed_ms.filter(|_| is_silent(run))),
        worst(&|run| run.beyond_ms().filter(|_| run.case.fault.moves_the_role(run.case.servers))),
    )
}

/// Told as failed and there all the same, parts of transactions, seen and gone, times of two writers, and what else was found.
fn other_harm(run: &Trial) -> usize {
    let verdict = &run.verdict;
    verdict.denied.len()
        + verdict.torn.len()
        + verdict.gone.len()
        + verdict.two_writers.len()
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

/// What the proxy needed beyond the servers; it may not have come back at all.
fn beyond(runs: &[&Trial]) -> String {
    let is_missing = |run: &&&Trial| run.servers_ms.is_some() && run.proxy_ms.is_none();
    let all: Vec<_> = runs.iter().filter_map(|run| run.beyond_ms()).collect();
    match runs.iter().filter(is_missing).count() {
        0 => span(&all),
        _ if all.is_empty() => format!("more than {} s", LATE.as_secs()),
        some => format!("{}; {some} × more than {} s", span(&all), LATE.as_secs()),
    }
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
    use super::super::{Servers, Verdict};
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
        let rows: Vec<&str> = text.lines().skip(6).collect();
        assert_eq!(
            rows,
            [
                "| kill -9 | 2 | 200 | 4 × 1213 | 400 | 0 | 2 | 2 | 0 | 0 | 2 | – | 5.00 to 5.00 s | 0.10 to 0.25 s | 6.00 to \
                 6.00 s |",
                "| clean shutdown | 1 | 100 | 2 × 1213 | 200 | 0 | 1 | 1 | 0 | 0 | 1 | – | 5.00 s | 0.00 s | 6.00 s |",
            ]
        );
        assert!(
            text.starts_with(
                "Delphinus, 2 cases, 3 runs, 300 acknowledged writes, 600 reads: 3 writes lost (0 more"
            ),
            "{text}"
        );
        assert!(text.contains("6 times other harm") && text.contains("at most 0.25 s after"), "{text}");
        assert_eq!(text.matches("### MySQL 9.7 Group Replication, through Delphinus").count(), 1, "{text}");
        let columns = HEAD.lines().next().unwrap().matches('|').count();
        assert!(rows.iter().all(|line| line.matches('|').count() == columns), "{text}");
    }

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let page = format!("above\n{BEGIN}old\n{END}below\n");
        assert_eq!(replaced(&page, "new\n").unwrap(), format!("above\n{BEGIN}\nnew\n\n{END}below\n"));
        assert!(replaced("nothing", "new").is_err());
    }
}
