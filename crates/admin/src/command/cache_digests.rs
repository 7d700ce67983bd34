//! The table `cache_digests`, and `CACHE FLUSH`.

use std::collections::HashMap;

use delphinus_cache::{Counts, Event, Kept, Tally};
use delphinus_sql::Digest;
use delphinus_tables::{Cell, Column, Table};

use super::{Call, usage_of};
use crate::answer::{Answer, Refused};
use crate::console::Console;
use crate::source::{Cells, Provider, Source};
use crate::table::{number, text};
use crate::users::AdminRole;

pub(crate) static CACHE_DIGESTS: Source = Source {
    table: Table {
        name: "cache_digests",
        help: "What the cache has done since the start, by rule and digest; those that saved the most time first. \
         1,024 of them have a row of their own, and one row has all others.",
        columns: &[
            Column::text("cluster", "The cluster."),
            Column::text("rule", "The rule that asks for caching; NULL: a hint, or a setting of a session."),
            Column::text("schema", "The schema that the sessions were in."),
            Column::text(
                "digest",
                "The hash of the text without literals; NULL: of all for which there was no room, or which have none.",
            ),
            Column::text("digest_text", "The text without literals; NULL where it was not kept."),
            Column::integer("answers", "", "Answers in the cache."),
            Column::integer("bytes", "bytes", "The memory of these answers."),
            Column::integer("hits", "", "Statements that were answered from the cache."),
            Column::integer(
                "misses",
                "",
                "Statements that were not: there was no answer, or it had expired.",
            ),
            Column::integer("stale", "", "Of the hits, those by an answer past its soft TTL."),
            Column::integer(
                "coalesced",
                "",
                "Of the misses, those that waited for another session's answer to the same question.",
            ),
            Column::integer(
                "behind",
                "",
                "Of the misses, those with an answer that may lack the session's own writes.",
            ),
            Column::integer("inserts", "", "Answers that were kept."),
            Column::integer(
                "unfit",
                "",
                "Answers that were not kept: errors, answers with warnings, too large ones, those with more than rows, \
                 unproved ones (they may lack a write of a table), and outdated ones of another Delphinus.",
            ),
            Column::integer("evictions", "", "Answers that made room for others."),
            Column::integer("expiries", "", "Answers that were removed because they had expired."),
            Column::integer(
                "invalidations",
                "",
                "Answers that were removed because of a write or CACHE FLUSH.",
            ),
            Column::integer("refreshes", "", "Answers that were refreshed past their soft TTL."),
            Column::integer("failed_refreshes", "", "Refreshes that failed."),
            Column::integer(
                "saved_us",
                "us",
                "The time of backends that was saved: for each hit, the time that the backend took for the answer.",
            ),
        ],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Now(rows),
};

fn rows(console: &Console) -> Cells {
    let Some(cache) = &console.parts.cache else { return Vec::new() };
    let names: HashMap<_, _> = console.clusters().map(|(id, cluster)| (id, cluster.name.clone())).collect();
    let mut all = cache.tallies.all();
    all.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.saved_us));
    let optional = |name: Option<&str>| name.map_or(Cell::Null, text);
    let row = |(group, counts): &(delphinus_cache::Group, Counts)| {
        let digest_text = group.digest.and_then(|digest| console.parts.statistics.text(Digest(digest)));
        let of = |event| number(counts.of(event));
        vec![
            optional(names.get(&group.cluster).map(|name| &**name)),
            optional(group.rule.as_deref()),
            optional(group.schema.as_deref()),
            group.digest.map_or(Cell::Null, |digest| text(Digest(digest))),
            optional(digest_text.as_deref()),
            number(counts.answers),
            number(counts.bytes),
            number(counts.hits),
            of(Event::Miss),
            number(counts.stale),
            of(Event::Coalesced),
            of(Event::Behind),
            of(Event::Insert),
            of(Event::Unfit),
            of(Event::Eviction),
            of(Event::Expiry),
            of(Event::Invalidation),
            of(Event::Refresh),
            of(Event::FailedRefresh),
            number(counts.saved_us),
        ]
    };
    all.iter().map(row).collect()
}

/// What is to be forgotten.
enum Doomed {
    Everything,
    Schema(String),
    Table(Option<String>, String),
    Digest(u64),
    Rule(String),
}

impl Doomed {
    fn read(call: &Call<'_>) -> Option<Self> {
        let words: Vec<&str> = call.words.iter().map(|word| word.text.as_str()).collect();
        let [what, name] = words[..] else { return words.is_empty().then_some(Self::Everything) };
        Some(match what.to_ascii_uppercase().as_str() {
            "SCHEMA" => Self::Schema(name.to_owned()),
            "TABLE" => match name.split_once('.') {
                Some((schema, table)) => Self::Table(Some(schema.to_owned()), table.to_owned()),
                None => Self::Table(None, name.to_owned()),
            },
            "DIGEST" => {
                let digest = (name.len() == 16).then(|| u64::from_str_radix(name, 16).ok()).flatten()?;
                Self::Digest(digest)
            }
            "RULE" => Self::Rule(name.to_owned()),
            _ => return None,
        })
    }

    fn has(&self, tally: &Tally) -> bool {
        let group = &tally.group;
        match self {
            Self::Everything => true,
            Self::Schema(schema) => tally.may_name_schema(schema),
            Self::Table(schema, table) => tally.may_name_table(schema.as_deref(), table),
            // Those without one may be any.
            Self::Digest(digest) => group.digest.is_none_or(|own| own == *digest),
            Self::Rule(rule) => {
                let is_rest = group.rule.is_none() && group.digest.is_none();
                is_rest || group.rule.as_deref() == Some(rule)
            }
        }
    }
}

pub(super) fn flush(call: &Call<'_>) -> Result<Answer, Refused> {
    let doomed = Doomed::read(call).ok_or_else(|| usage_of("CACHE FLUSH"))?;
    if let Some(cache) = &call.console.parts.cache {
        let answers = match &doomed {
            Doomed::Everything => cache.clear(),
            some => cache.forget(|kept: &Kept| some.has(&kept.tally)),
        };
        let caller = call.caller;
        let what = call.rest.trim();
        tracing::info!(admin.user = %caller.user, client.host = %caller.host, what, answers, "CACHE FLUSH");
    }
    Ok(Answer::Done)
}
