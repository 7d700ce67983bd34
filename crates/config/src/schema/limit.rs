//! `[[limit]]`: how much clients may do.

use super::{is, unset};
use crate::address::Network;
use crate::word::LimitPer;

section! {
    /// One for each limit: how much clients may do, all that fit together or each of a kind by itself (`per`). Of the conditions that
    /// are written all have to fit; without any, every client does. All limits that fit hold. See docs/client-limits.md.
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
        /// What is counted by itself. "all": all that fit are counted together. "user", "schema", "client", "digest": each of these has
        /// its own count.
        per: LimitPer = is(LimitPer::All), "", Hot;
        /// Statements in a second: texts and executions of prepared statements. One more waits in the queue.
        statements_per_second: Option<u32> = unset("no limit"), "statements/s", Hot, in 1..=10_000_000, aka "max_questions_per_second";
        /// After a rest, so many statements may come at once.
        burst: Option<u32> = unset("as many as in a second"), "statements", Hot, in 1..=10_000_000;
        /// Statements that run at the same time. One more waits in the queue.
        concurrency: Option<u32> = unset("no limit"), "statements", Hot, in 1..=1_000_000;
        /// So many statements wait at the same time; one more is error 1226 at once. Statements in a transaction count, but never wait
        /// and are never refused: they hold locks that others may wait for.
        queue: u32 = is(1_000), "statements", Hot, in 0..=1_000_000;
        /// So long a statement waits; then it is error 1226.
        queue_timeout_ms: u64 = is(10_000), "ms", Hot, in 0..=600_000;
        /// A result with more rows ends with error 1226, and its statement is ended (KILL QUERY). Rows that a cursor fetches do not count.
        max_rows: Option<u64> = unset("no limit"), "rows", Hot, in 1..=1_000_000_000_000;
        /// The same for the bytes of all results of a statement, before compression.
        max_bytes: Option<u64> = unset("no limit"), "bytes", Hot, in 1..=1_000_000_000_000_000;
        /// A statement is ended (KILL QUERY) when it has run for so long. A hint and a rule say it for fewer statements, and are
        /// stronger.
        timeout_ms: Option<u64> = unset("no limit"), "ms", Hot, in 1..=86_400_000;
        /// A session that does nothing for so long while its transaction is open is ended, and the transaction rolled back. The
        /// conditions `schema` and `digest` do not go with it.
        idle_in_transaction_timeout_s: Option<u64> = unset("as wait_timeout"), "s", Hot, in 1..=31_536_000;
    }
}
