//! `[cache]`: room for answers that are kept.

use super::is;

section! {
    /// Room for answers that are kept, for statements of which a rule (`cache_ttl_ms`), a hint or a setting of the session says
    /// so. Nothing is kept of others. See docs/cache.md.
    pub struct Cache = "[cache]" at "cache" {
        /// What all answers that are kept may take together, with their keys, over all workers. 0: none are kept.
        max_bytes: u64 = is(67_108_864), "bytes", Restart, in 0..=1_099_511_627_776;
        /// An answer that takes more than this, with its key, is not kept. At most a quarter of `max_bytes`.
        max_entry_bytes: u64 = is(1_048_576), "bytes", Restart, in 1024..=1_073_741_824;
    }
}
