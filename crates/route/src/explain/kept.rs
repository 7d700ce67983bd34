//! Whether the answer to a statement may be kept, and come from where answers are kept. Says what the session decides in
//! `session/src/steer/cache.rs`; nothing where nobody asks for it.

use delphinus_sql::{CacheWish, Consistency, Hints, Statement};

use super::Asker;
use crate::rules::Rule;

/// The words for it; `None` where neither hint, setting nor rule asks.
pub(super) fn kept(
    statement: &Statement,
    (asked, rule): (&Hints, Option<&Rule>),
    level: Consistency,
    asker: &Asker<'_>,
) -> Option<String> {
    let ttl_ms = match asked.cache.as_ref().or(asker.own.cache.as_ref()) {
        Some(CacheWish::TtlMs(ttl_ms)) => u128::from(*ttl_ms),
        Some(CacheWish::Never) => 0,
        None => rule?.then.cache_ttl?.as_millis(),
    };
    let is_bound =
        asker.in_transaction || asker.autocommit_off || asker.held.is_some() || asker.pinned.is_some();
    Some(match ttl_ms {
        0 => "no".to_owned(),
        _ if !statement.is_repeatable() => "no: only deterministic reads are cached".to_owned(),
        _ if level == Consistency::Global => {
            "no: with consistency = \"global\" every answer comes from a server".to_owned()
        }
        _ if is_bound => "no: the session is pinned or in a transaction".to_owned(),
        ttl_ms => format!("for {ttl_ms} ms"),
    })
}
