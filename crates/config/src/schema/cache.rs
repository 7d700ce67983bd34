//! `[cache]`: room for answers that are kept.

use super::is;

section! {
    /// Memory for answers that the proxy keeps. It keeps an answer only where a rule (`cache_ttl_ms`), a hint or a setting of
    /// the session asks for it. See docs/cache.md.
    pub struct Cache = "[cache]" at "cache" {
        /// All kept answers with their keys take at most so much, over all workers. 0: the proxy keeps none. A change
        /// empties the cache.
        max_bytes: u64 = is(67_108_864), "bytes", Hot, in 0..=1_099_511_627_776;
        /// The proxy does not keep an answer that takes more than this with its key. At most a quarter of `max_bytes`.
        /// A change empties the cache.
        max_entry_bytes: u64 = is(1_048_576), "bytes", Hot, in 1024..=1_073_741_824;
    }
}
