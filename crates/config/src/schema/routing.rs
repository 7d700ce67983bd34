//! `[routing]`: where statements go, beside what they say themselves.

use super::{is, unset};
use crate::word::{Consistency, LostTransactionError, ReadBalance};

section! {
    /// Where reads go. Writes, locking reads and transactions that may write go to the primary whatever is set here.
    /// See docs/routing.md.
    pub struct Routing = "[routing]" at "routing" {
        /// Reads go to the primary, too, unless a hint or a rule asks for a replica, or the primary is not there.
        primary_preferred: bool = is(false), "", Hot, aka "master_preferred";
        /// Share of the reads that the primary takes, compared with all replicas together. 0: none, as long as there
        /// is a replica; 100: all. Counted for each worker, evenly: with 25, every fourth read.
        read_primary_percentage: u8 = is(0), "%", Hot, in 0..=100, aka "read_master_percentage";
        /// Which replica takes the next read. "round_robin": in turn. "weighted": in turn, in proportion to `weight`.
        /// "least_connections": the one with the fewest connections in use. "least_latency": the one that answers
        /// soonest, times its connections in use (peak EWMA). The last two count for each worker, and divide by `weight`.
        read_balance: ReadBalance = is(ReadBalance::Weighted), "", Hot;
        /// After a replica has come back, its share grows to what it should be in this time. 0: it is there at once.
        slow_start_ms: u64 = is(0), "ms", Hot, in 0..=3_600_000;
        /// Transactions that cannot write (START TRANSACTION READ ONLY; any, after SET SESSION TRANSACTION READ ONLY, which JDBC's
        /// setReadOnly sends) run on one replica, if one is there that is `read_only` and their first statement is a plain read.
        /// Later, what only a primary can do in them ends them with error 1213, to be tried again (see docs/routing.md).
        replica_read_only_transactions: bool = is(true), "", Hot;
        /// How old what a read on a replica finds may be. "eventual": as old as the replica is. "session": a session finds
        /// what it has written, and never less than it has read before. "global": all that was committed, so that reads go to
        /// the primary.
        consistency: Option<Consistency> = unset("\"session\" where the primary tells GTIDs, else \"eventual\""), "", Hot;
        /// So long a read waits on a replica for what its session has to find, when no replica is known to have it; then it
        /// goes to the primary. 0: it goes there at once.
        consistency_timeout_ms: u64 = is(100), "ms", Hot, in 0..=60_000, aka "causal_reads_timeout";
        /// So long a statement for the primary waits while there is none, or it cannot be reached; then it is error 9102.
        /// Sessions stay connected. 0: it does not wait.
        failover_wait_ms: u64 = is(10_000), "ms", Hot, in 0..=600_000;
        /// So many statements wait for a primary, or while operators have paused the cluster, at the same time; one more is error
        /// 9102 at once.
        failover_wait_queue: u32 = is(10_000), "statements", Hot, in 0..=10_000_000;
        /// So long a statement waits while operators have paused its cluster or its user (PAUSE on the admin listener); then it is
        /// error 9102, and has not run. Sessions stay connected.
        pause_timeout_ms: u64 = is(120_000), "ms", Hot, in 0..=86_400_000;
        /// The error of a transaction whose backend was lost before it could be committed. "deadlock": 1213 (40001), which
        /// programs know to try again. "lost_connection": 9103. The session goes on in both cases.
        lost_transaction_error: LostTransactionError = is(LostTransactionError::Deadlock), "", Hot;
        /// A hint that is not known or cannot be obeyed is an error (1105). `false`: it is ignored and counted, and the
        /// first one of each session is logged.
        strict_hints: bool = is(false), "", Hot;
        /// Users may ask with EXPLAIN ROUTE where their statements go, and have them traced in the log
        /// (SET @@delphinus.trace = 1). The answers name backends, rules and what replicas have executed.
        explain_route: bool = is(false), "", Hot;
    }
}
