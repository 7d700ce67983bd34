//! `SHOW CACHE` and `CLEAR CACHE`.

use super::{Call, usage_of};
use crate::answer::{Answer, Refused};
use crate::table::{Table, text};

/// What the counters of the cache begin with.
const PREFIX: &str = "delphinus_cache_";

/// How much is kept, and what came of it.
pub(super) fn show(call: &Call<'_>) -> Table {
    let parts = &call.console.parts;
    let now =
        gauges(call).map(|(name, value, help)| vec![text(&name[PREFIX.len()..]), text(value), text(help)]);
    let counted = parts.counters.snapshot().into_iter().filter(|sample| sample.name.starts_with(PREFIX));
    let counted = counted.map(|sample| {
        let name = sample.name.trim_end_matches("_total");
        let what = sample.label.map(|(_, value)| format!("{}_{value}", &name[PREFIX.len()..]));
        vec![
            text(what.unwrap_or_else(|| name[PREFIX.len()..].to_owned())),
            text(sample.value),
            text(sample.help),
        ]
    });
    Table::new(["item", "#value", "help"]).with(now).with(counted)
}

/// How much is kept at the moment.
pub(super) fn gauges(call: &Call<'_>) -> [(&'static str, u64, &'static str); 4] {
    let cache = call.console.parts.cache.as_deref();
    let limits = cache.map(delphinus_cache::Cache::limits);
    [
        (
            "delphinus_cache_max_bytes",
            limits.map_or(0, |limits| limits.max_bytes),
            "What answers that are kept may take; 0: the cache is off.",
        ),
        (
            "delphinus_cache_max_entry_bytes",
            limits.map_or(0, |limits| limits.max_entry_bytes),
            "What one of them may take.",
        ),
        (
            "delphinus_cache_bytes",
            cache.map_or(0, delphinus_cache::Cache::bytes),
            "What they take, those that are too old and have not been asked for again included.",
        ),
        ("delphinus_cache_answers", cache.map_or(0, |cache| cache.len() as u64), "How many there are."),
    ]
}

pub(super) fn clear(call: &Call<'_>) -> Result<Answer, Refused> {
    if !call.words.is_empty() {
        return Err(usage_of("CLEAR CACHE"));
    }
    if let Some(cache) = &call.console.parts.cache {
        let answers = cache.clear();
        let caller = call.caller;
        tracing::info!(admin.user = %caller.user, client.host = %caller.host, answers, "CLEAR CACHE");
    }
    Ok(Answer::Done)
}
