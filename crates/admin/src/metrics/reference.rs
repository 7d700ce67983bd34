//! The reference page of `/metrics`.

use std::fmt::Write;

use delphinus_state::PinReason;
use delphinus_telemetry::{CounterSet, Metric};

use super::OWN;
use super::status::{counted, kind};
use crate::command::status::gauges;

const HEAD: &str = "# Metrics

<!-- Made by `cargo xtask docs`. Change the text in crates/telemetry/src/counters.rs, crates/admin/src/command/status.rs, crates/admin/src/metrics/* and crates/http/src/counts.rs. -->

`GET /metrics` of the [HTTP door](../http.md) has these, in Prometheus' text format. Times are in seconds, sizes in bytes. Labels have as many
values as there are clusters, backends, rules, filters, limits, virtual IPs and relays; nothing that clients send becomes a label. Replicas of a
relay have their host and `server_id`, 100 of each relay; those beyond are one, `(rest)`.

What [SHOW STATUS](status.md) has is here under the same name, but for times: `.._microseconds_total` there is `.._seconds_total` here.
`delphinus_statement*` are the numbers of the table `statements_by_backend`; their backend is `(proxy)` for answers that no backend gave, and
`(removed)` for what was counted of backends that the configuration, or the cluster, does not have any more.

| name | type | labels | |
|---|---|---|---|
";

/// The page as Markdown; `more` are those that the door itself counts.
pub fn reference<'a>(more: impl IntoIterator<Item = &'a Metric>) -> String {
    let mut page = HEAD.to_owned();
    for gauge in gauges() {
        let metric = Metric::new(kind(gauge.name), gauge.name, gauge.labels(), gauge.help);
        row(&mut page, &metric);
    }
    let samples = CounterSet::new(1, ["any".into()], PinReason::LABELS).snapshot();
    for family in samples.chunk_by(|one, next| one.name == next.name) {
        row(&mut page, &counted(family).0);
    }
    let own = OWN.iter().flat_map(|list| list.iter().map(|one| &one.metric));
    own.chain(more).for_each(|metric| row(&mut page, metric));
    page
}

fn row(page: &mut String, metric: &Metric) {
    let (name, kind, labels) = (&metric.name, metric.kind.as_str(), metric.labels.join(", "));
    let _ = writeln!(page, "| `{name}` | {kind} | {labels} | {} |", metric.help);
}
