//! The reference page of what `SHOW STATUS` shows.

use std::fmt::Write;

use delphinus_memory::Owner;
use delphinus_state::PinReason;
use delphinus_telemetry::{CLUSTER, CounterSet, Sample};

use super::{OWNER, Of, gauges};

const HEAD: &str = "# Numbers of SHOW STATUS

<!-- Made by `cargo xtask docs`. Change the text in crates/telemetry/src/counters.rs and crates/admin/src/command/status.rs. -->

`SHOW STATUS` on the [admin listener](../admin.md) has one row for each of these and each value of their labels, as in
`delphinus_routed_total{cluster=\"main\",target=\"replica\"}`. What has the label `cluster` is counted for each [cluster](../clusters.md) by itself, and has that
label where there is only one, too; the rest is about the process, or about clients that have no cluster yet. Numbers are over all workers.
";

/// The reference page as Markdown.
pub fn reference() -> String {
    let mut page = HEAD.to_owned();
    page += "\n## Current values\n\n| name | labels | |\n|---|---|---|\n";
    for gauge in gauges() {
        let owners = format!("{OWNER} ({})", Owner::ALL.map(Owner::as_str).join(", "));
        let labels = if matches!(gauge.of, Of::Owner(_)) { &[owners.as_str()][..] } else { gauge.labels() };
        row(&mut page, gauge.name, labels, gauge.help);
    }
    page += "\n## Counters since the start\n\n| name | labels | |\n|---|---|---|\n";
    let samples = CounterSet::new(1, ["any".into()], PinReason::LABELS).snapshot();
    for family in samples.chunk_by(|one, next| one.name == next.name) {
        let labels = labels(family);
        let labels: Vec<_> = labels.iter().map(String::as_str).collect();
        row(&mut page, family[0].name, &labels, family[0].help);
    }
    page
}

/// The labels of samples of one name, with the values that are known.
fn labels(family: &[Sample]) -> Vec<String> {
    let cluster = family[0].cluster.is_some().then(|| CLUSTER.to_owned());
    let values: Vec<_> = family.iter().filter_map(|sample| Some(sample.label?.1)).collect();
    let own = family[0].label.map(|(label, _)| format!("{label} ({})", values.join(", ")));
    cluster.into_iter().chain(own).collect()
}

fn row(page: &mut String, name: &str, labels: &[&str], help: &str) {
    let _ = writeln!(page, "| `{name}` | {} | {help} |", labels.join("; "));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_there_once_with_its_labels() {
        let page = reference();
        let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| `")).collect();
        let mut names: Vec<_> = rows.iter().filter_map(|row| row.split('`').nth(1)).collect();
        let counted = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), counted);
        let has = |row: &str| assert!(rows.iter().any(|one| one.starts_with(row)), "{row}\n{page}");
        has("| `delphinus_uptime_seconds` |  |");
        has("| `delphinus_sessions` | cluster |");
        has("| `delphinus_backend_up` | cluster; backend |");
        has("| `delphinus_logins_total` | result (ok, denied, broken, evicted) |");
        has("| `delphinus_routed_total` | cluster; target (primary, replica, local) |");
        has("| `delphinus_pool_waits_total` | cluster |");
    }
}
