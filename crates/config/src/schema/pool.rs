//! `[pool]`: connections to the backends.

use super::{is, unset};

section! {
    /// Connections to the backends, which the sessions share.
    pub struct Pool = "[pool]" at "pool" {
        /// Connections to each backend at the same time, over all workers and users. The server's own `max_connections` is the
        /// limit where it is smaller; the proxy leaves a twentieth of that, and at least 5, to others.
        max_connections: u32 = is(100), "connections", Hot, in 1..=100_000, aka "max_pool_size";
        /// The connections to each backend that only users with `connection_admin` may use.
        reserved_connections: Option<u32> = unset("2, or half of max_connections if that is less, where a user has connection_admin; else 0"), "connections", Hot, in 0..=1000;
        /// How long a connection waits, after a result, for the next command of its session before other sessions may have
        /// it. 0: it does not wait. When the pool is at its limit, other sessions get it at once.
        hold_ms: u64 = is(256), "ms", Hot, in 0..=60_000;
        /// How long a command waits for a backend connection; then the client gets an error.
        checkout_timeout_ms: u64 = is(10_000), "ms", Hot, in 1..=3_600_000;
        /// Time limit for a new connection, with TLS and login.
        connect_timeout_ms: u64 = is(3_000), "ms", Hot, in 1..=3_600_000;
        /// The proxy closes a connection that no session has used for this time. It closes it earlier where the server's
        /// `wait_timeout` is shorter.
        idle_timeout_s: u64 = is(300), "s", Hot, in 1..=31_536_000;
        /// The proxy closes a connection that is older than this as soon as it is free.
        max_lifetime_s: u64 = is(3_600), "s", Hot, in 1..=31_536_000, aka "max_alive_time_s";
        /// A client that logs in gets only connections that logged in within this time, so that it has the user's present
        /// rights. This is for changes of rights that do not pass through the proxy; those that do count for the next login at
        /// once. Each connection in use logs in once in this time. See docs/authentication.md.
        rights_max_age_ms: u64 = is(60_000), "ms", Hot, in 100..=86_400_000;
        /// The number of prepared statements that stay open on each connection. For one more, the proxy closes the one that
        /// was used least recently. This number times `max_connections` must stay below `max_prepared_stmt_count` of the
        /// servers (16382 by default), which other clients use too.
        statements_per_connection: u32 = is(100), "statements", Hot, in 1..=65_536;
        /// Names of the client's connection attributes, for example "program_name". The proxy sends these to the backends
        /// instead of its own. Only sessions with the same values share connections then.
        pass_connection_attributes: Vec<String> = is(vec![]), "", Hot;
    }
}
