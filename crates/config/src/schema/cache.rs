//! `[cache]`: room for answers that are kept.

use super::{is, unset};
use crate::word::CacheInvalidation;

section! {
    /// Memory for answers that the proxy keeps. It keeps an answer only where a rule (`cache_ttl_ms`), a hint or a setting of
    /// the session asks for it. See docs/cache.md.
    pub struct Cache = "[cache]" at "cache" {
        /// The most memory for all cached answers with their keys, over all workers. 0: the proxy keeps none. A change
        /// empties the cache.
        max_bytes: u64 = is(67_108_864), "bytes", Hot, in 0..=1_099_511_627_776;
        /// The proxy does not keep an answer that takes more than this with its key. At most a quarter of `max_bytes`.
        /// A change empties the cache.
        max_entry_bytes: u64 = is(1_048_576), "bytes", Hot, in 1024..=1_073_741_824;
        /// What ends an answer before its TTL. "none": nothing. "own_writes": a write through this process, by any client, of a
        /// table that the answer reads; also by a view, a trigger or a foreign key. The proxy does not keep an answer of a replica
        /// that may lack such a write. The monitor's user needs TRIGGER and SHOW VIEW on `*.*`: without them each write ends all
        /// answers. "stream": the same, and writes by anybody else on the primary, as the log of a `[[relay]]` tells them, which follows
        /// the cluster in this process. Each cluster needs one. See `stream_max_lag_ms`.
        invalidation: CacheInvalidation = is(CacheInvalidation::None), "", Restart;
        /// With `invalidation = "stream"`: an answer from the cache has all writes of its tables that the primary
        /// acknowledged longer ago than this, whoever wrote. While the proxy cannot be sure of that, it gives no answer
        /// from the cache and keeps none.
        stream_max_lag_ms: u64 = is(5_000), "ms", Hot, in 100..=3_600_000;
        /// When an answer has lived through this part of its TTL, the proxy asks for it anew, once, and gives the older one
        /// until the newer one is there. No client waits for that. 0: the proxy asks when the answer is too old, and the
        /// first client waits. See `rule.cache_soft_ttl_pct`.
        soft_ttl_pct: u32 = is(0), "%", Hot, in 0..=99, aka "query_cache_soft_ttl_pct";
        /// The proxy keeps answers without rows, too. See `rule.cache_empty_result`.
        empty_results: bool = is(true), "", Hot, aka "query_cache_stores_empty_result";
        /// The proxy keeps answers with warnings, too. Who gets one is told how many warnings there are; SHOW WARNINGS has none of
        /// them. See `rule.cache_warnings`.
        warnings: bool = is(false), "", Hot, aka "query_cache_handle_warnings";
        /// How long a statement waits for the answer to the same question of another session, before it is sent, too. 0: it does
        /// not wait.
        wait_ms: u64 = is(10_000), "ms", Hot, in 0..=600_000;
        /// The proxy gives no answer that is older than this, whatever its TTL. For this time a session may still get what
        /// its user may no longer read, after a change of rights that did not pass through the proxy. See
        /// docs/authentication.md.
        rights_max_age_ms: Option<u64> = unset("pool.rights_max_age_ms"), "ms", Hot, in 100..=86_400_000;
    }
}
