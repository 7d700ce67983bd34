//! `[digests]`: what is counted of statements.

use super::is;

section! {
    /// What statements cost is counted by digest (their text without literals), user, schema and backend. See docs/see.md.
    pub struct Digests = "[digests]" at "digests" {
        /// Statements are counted by digest. If not, all statements of a user, schema and backend have one row.
        enabled: bool = is(true), "", Hot;
        /// The most memory for the counts and the texts together. Statements for which there is no room are counted in rows
        /// without a digest. The room is a part of `memory_limit`.
        max_bytes: u64 = is(16_777_216), "bytes", Hot, in 1_048_576..=1_099_511_627_776;
        /// Texts are cut to this length. The digest is that of the whole text.
        max_length: u32 = is(1024), "bytes", Hot, in 64..=65_536;
    }
}
