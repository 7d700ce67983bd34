//! `[[limit]]`: how much clients may do.

use super::{is, unset};
use crate::address::Network;
use crate::word::LimitPer;

section! {
    /// One section for each limit on what clients may do. A limit is about the clients that fit all of its conditions; without
    /// a condition, about every client. `per` says whether they count together. If several limits fit, all of them hold. See
    /// docs/client-limits.md.
    pub(crate) struct LimitSection = "[[limit]]" at "limit" {
        /// Name in errors, logs and counts. Unique.
        name: Option<String> = unset("limit and its number"), "", Hot;
        /// Condition: the client's user is one of these.
        user: Vec<String> = is(vec![]), "", Hot, aka "username";
        /// Condition: the current schema is one of these.
        schema: Vec<String> = is(vec![]), "", Hot, aka "schemaname";
        /// Condition: the client's address is in one of these networks. Clients of Unix sockets are in none.
        client: Vec<Network> = is(vec![]), "", Hot, aka "client_addr";
        /// Condition: the digest of the statement is one of these, 16 hexadecimal digits.
        digest: Vec<String> = is(vec![]), "", Hot;
        /// Condition: the session is in one of these clusters. Where there are several.
        cluster: Vec<String> = is(vec![]), "", Hot;
        /// What has a count of its own. "all": all that fit count together. "user", "schema", "client" or "digest": each of
        /// these has its own count.
        per: LimitPer = is(LimitPer::All), "", Hot;
        /// Statements in a second: texts, and executions of prepared statements. One more waits in the queue.
        statements_per_second: Option<u32> = unset("no limit"), "statements/s", Hot, in 1..=10_000_000, aka "max_questions_per_second";
        /// The number of statements that may come at once after a pause.
        burst: Option<u32> = unset("as many as in a second"), "statements", Hot, in 1..=10_000_000;
        /// Statements that run at the same time. One more waits in the queue.
        concurrency: Option<u32> = unset("no limit"), "statements", Hot, in 1..=1_000_000;
        /// The number of statements that may wait at the same time; one more gets error 1226 at once. A statement in a
        /// transaction counts, but the proxy never lets it wait and never refuses it: it holds locks that others may wait
        /// for.
        queue: u32 = is(1_000), "statements", Hot, in 0..=1_000_000;
        /// The longest time that a statement waits; then it gets error 1226.
        queue_timeout_ms: u64 = is(10_000), "ms", Hot, in 0..=600_000;
        /// The proxy ends a larger result with error 1226, and ends its statement (KILL QUERY). Rows that a cursor fetches do
        /// not count.
        max_rows: Option<u64> = unset("no limit"), "rows", Hot, in 1..=1_000_000_000_000;
        /// The same for the bytes of all results of a statement, before compression.
        max_bytes: Option<u64> = unset("no limit"), "bytes", Hot, in 1..=1_000_000_000_000_000;
        /// The proxy ends a statement (KILL QUERY) that has run for this time. The time of a hint or a rule is stronger.
        timeout_ms: Option<u64> = unset("no limit"), "ms", Hot, in 1..=86_400_000;
        /// The proxy ends a session that has done nothing for this time while its transaction is open, and the server rolls
        /// the transaction back. It cannot be combined with the conditions `schema` and `digest`.
        idle_in_transaction_timeout_s: Option<u64> = unset("as wait_timeout"), "s", Hot, in 1..=31_536_000;
    }
}
