//! The table `cache`.

use delphinus_cache::Cache;
use delphinus_tables::{Column, Table};
use delphinus_telemetry::Sample;

use super::status::{Gauge, Now, Of};
use crate::console::Console;
use crate::source::{Cells, Provider, Source};
use crate::table::{number, text};
use crate::users::AdminRole;

/// What the numbers of the cache begin with.
const PREFIX: &str = "delphinus_cache_";

/// How much is kept at the moment.
pub(super) const GAUGES: &[Gauge] = &[
    Gauge {
        name: "delphinus_cache_max_bytes",
        help: "The most memory for cached answers; 0: the cache is off.",
        of: Of::Process(|now| of_cache(now, |cache| cache.limits().max_bytes)),
    },
    Gauge {
        name: "delphinus_cache_max_entry_bytes",
        help: "The most memory for one answer.",
        of: Of::Process(|now| of_cache(now, |cache| cache.limits().max_entry_bytes)),
    },
    Gauge {
        name: "delphinus_cache_bytes",
        help: "The memory of the cached answers, with those that have expired and were not asked for again.",
        of: Of::Process(|now| of_cache(now, Cache::bytes)),
    },
    Gauge {
        name: "delphinus_cache_answers",
        help: "The number of cached answers.",
        of: Of::Process(|now| of_cache(now, |cache| cache.len() as u64)),
    },
];

fn of_cache(now: &Now<'_>, read: fn(&Cache) -> u64) -> u64 {
    now.console.parts.cache.as_deref().map_or(0, read)
}

pub(crate) static CACHE: Source = Source {
    table: Table {
        name: "cache",
        help: "The cached answers, and the results of lookups, over all clusters and workers.",
        columns: &[
            Column::text("item", "What the number is."),
            Column::integer("value", "", "The number; its unit is in the item's name."),
            Column::text("help", "The item explained."),
        ],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Now(rows),
};

fn rows(console: &Console) -> Cells {
    let now = Now::of(console);
    let now = GAUGES.iter().flat_map(|gauge| {
        let row = |(name, value): (String, u64)| vec![text(item(&name)), number(value), text(gauge.help)];
        gauge.read(&now).into_iter().map(row).collect::<Vec<_>>()
    });
    let mut sums: Vec<Sample> = Vec::new();
    for sample in console.parts.counters.snapshot() {
        let is_same = |sum: &&mut Sample| (sum.name, sum.label) == (sample.name, sample.label);
        match sums.iter_mut().find(is_same) {
            Some(sum) => sum.value += sample.value,
            None if sample.name.starts_with(PREFIX) => sums.push(sample),
            None => {}
        }
    }
    let counted = sums.iter().map(|sum| {
        let name = item(sum.name.trim_end_matches("_total"));
        let what = sum.label.map_or_else(|| name.to_owned(), |(_, value)| format!("{name}_{value}"));
        vec![text(what), number(sum.value), text(sum.help)]
    });
    now.chain(counted).collect()
}

/// The name of a number here.
fn item(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}
