//! `[routing]`: where statements go, beside what they say themselves.

use super::{is, unset};
use crate::word::{Consistency, LostTransactionError, ReadBalance};

section! {
    /// Where reads go. Writes, locking reads and transactions that may write always go to the primary. See docs/routing.md.
    pub struct Routing = "[routing]" at "routing" {
        /// Reads go to the primary, too, unless a hint or a rule asks for a replica. Where there is no primary, they go to
        /// replicas.
        primary_preferred: bool = is(false), "", Hot, aka "master_preferred";
        /// The primary takes this share of the reads, and the replicas the rest. 0: it takes none while a replica can be used.
        /// 100: it takes all. Each worker spreads evenly: with 25 it sends each fourth read to the primary.
        read_primary_percentage: u8 = is(0), "%", Hot, in 0..=100, aka "read_master_percentage";
        /// Which replica takes the next read. "round_robin": each in turn. "weighted": in turn, in proportion to `weight`.
        /// "least_connections": the one with the fewest connections in use. "least_latency": the one with the smallest product
        /// of response time (peak EWMA) and connections in use. These two count for each worker, and divide by `weight`. "hash":
        /// the same one for the same text with the same values, in proportion to `weight`, so that each of several caches keeps
        /// its part. A replica that comes or goes moves only its own texts.
        read_balance: ReadBalance = is(ReadBalance::Weighted), "", Hot;
        /// A replica that has come back gets a share that grows to its full size in this time. 0: it gets its full share at
        /// once. So does it with `read_balance = "hash"`.
        slow_start_ms: u64 = is(0), "ms", Hot, in 0..=3_600_000;
        /// A transaction that cannot write runs on one replica that is `read_only`, if its first statement is a plain read.
        /// Such are START TRANSACTION READ ONLY, and any after SET SESSION TRANSACTION READ ONLY (JDBC's setReadOnly). A later
        /// statement that needs the primary ends the transaction with error 1213, and the client tries it again. See
        /// docs/routing.md.
        replica_read_only_transactions: bool = is(true), "", Hot;
        /// How old the data of a read on a replica may be. "eventual": as old as the replica is. "session": a session sees what
        /// it has written, and never older data than it has read before. "global": everything that was committed; all reads go
        /// to the primary.
        consistency: Option<Consistency> = unset("\"session\" where the primary tells GTIDs, else \"eventual\""), "", Hot;
        /// How long a read waits on a replica for the writes that its session must see, when no replica is known to have
        /// them. Then it goes to the primary. 0: it goes there at once.
        consistency_timeout_ms: u64 = is(100), "ms", Hot, in 0..=60_000, aka "causal_reads_timeout";
        /// How long a statement that needs the primary waits while there is none, or while it cannot be reached. Then it
        /// gets error 9102. Sessions stay connected. 0: it does not wait.
        failover_wait_ms: u64 = is(10_000), "ms", Hot, in 0..=600_000;
        /// The number of statements that may wait at the same time for a primary, or for the end of a PAUSE. One more gets
        /// error 9102 at once.
        failover_wait_queue: u32 = is(10_000), "statements", Hot, in 0..=10_000_000;
        /// How long a statement waits while operators have paused its cluster or its user (PAUSE on the admin listener).
        /// Then it gets error 9102, and has not run. Sessions stay connected.
        pause_timeout_ms: u64 = is(120_000), "ms", Hot, in 0..=86_400_000;
        /// The error of a transaction whose backend was lost before its commit. "deadlock": 1213 (40001), which programs know
        /// to try again. "lost_connection": 9103. The session goes on in both cases.
        lost_transaction_error: LostTransactionError = is(LostTransactionError::Deadlock), "", Hot;
        /// A hint that is unknown, or that the proxy cannot obey, is error 1105. `false`: the proxy ignores and counts it, and
        /// logs the first one of each session.
        strict_hints: bool = is(false), "", Hot;
        /// Users may ask with EXPLAIN ROUTE where their statements go, and have them traced in the log (SET @@delphinus.trace =
        /// 1). The answers name backends, rules and the GTIDs of replicas.
        explain_route: bool = is(false), "", Hot;
    }
}
