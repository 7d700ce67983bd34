//! The table `cache_streams`: what others write, as relays tell it to the cache.

use std::time::Duration;

use delphinus_tables::{self as tables, Cell, Column};

use crate::source::{Provider, Source};
use crate::table::{number, text};
use crate::users::AdminRole;

/// How far one cluster's stream of writes is.
#[derive(Debug, Clone, Default)]
pub struct CacheStreamRow {
    /// The cluster.
    pub cluster: String,
    /// The relay whose log it reads.
    pub relay: String,
    /// following, behind or broken.
    pub state: &'static str,
    /// All writes that were acknowledged before so long ago are noted; `None`: there is a gap.
    pub lag: Option<Duration>,
    /// With a longer lag nothing is given from the cache.
    pub max_lag: Duration,
    /// Transactions that were noted, or were there when it began.
    pub executed: String,
    /// How many were noted since the start.
    pub noted: u64,
    /// Of those, the ones that the primary has not shown yet.
    pub unseen: u64,
    /// How often it has begun without a gap.
    pub eras: u64,
    /// Why there is a gap, or what is wrong.
    pub error: Option<String>,
}

pub(crate) static CACHE_STREAMS: Source = Source {
    table: tables::Table {
        name: "cache_streams",
        help: "The writes on a primary that do not pass through this proxy, as the cache reads them from a relay's \
         log (cache.invalidation = \"stream\").",
        columns: &[
            Column::text("cluster", "The cluster."),
            Column::text("relay", "The relay whose log it reads."),
            Column::text(
                "state",
                "following; behind: more than max_lag_ms; broken: there is a gap. The cache answers only while it \
                 is following.",
            ),
            Column::integer(
                "lag_ms",
                "ms",
                "How far the cache is behind: it knows all writes that were acknowledged before that; NULL: there \
                 is a gap.",
            ),
            Column::integer("max_lag_ms", "ms", "cache.stream_max_lag_ms."),
            Column::text(
                "gtid_noted",
                "Transactions that the cache knows, or that were there when the stream began.",
            ),
            Column::integer("transactions", "", "Transactions that the cache has read since the start."),
            Column::integer(
                "unseen",
                "",
                "Of those, the ones that other sessions on the primary cannot see yet.",
            ),
            Column::integer(
                "eras",
                "",
                "How often the stream has begun anew after a gap, the first time included.",
            ),
            Column::text("error", "Why there is a gap, or what is wrong; NULL: all is well."),
        ],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Now(|console| console.parts.proxy.cache_streams().into_iter().map(row).collect()),
};

fn row(stream: CacheStreamRow) -> Vec<Cell> {
    let millis = |time: Duration| number(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    vec![
        text(stream.cluster),
        text(stream.relay),
        text(stream.state),
        stream.lag.map(millis).into(),
        millis(stream.max_lag),
        text(stream.executed),
        number(stream.noted),
        number(stream.unseen),
        number(stream.eras),
        stream.error.map(text).into(),
    ]
}
