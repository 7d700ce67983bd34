//! `[pool]`: connections to the backends.

use super::{is, unset};

section! {
    /// Connections to the backends, which the sessions share.
    pub struct Pool = "[pool]" at "pool" {
        /// Connections to each backend at the same time, over all workers and users. Where a server's own
        /// `max_connections`, less a twentieth of it and at least 5 for others, is smaller, that is the limit.
        max_connections: u32 = is(100), "connections", Hot, in 1..=100_000, aka "max_pool_size";
        /// How many of the connections to each backend only users with `connection_admin` may take.
        reserved_connections: Option<u32> = unset("2, or half of max_connections if that is less, where a user has connection_admin; else 0"), "connections", Hot, in 0..=1000;
        /// After a result the connection waits so long for the next command of its session before others
        /// may have it. 0: not at all. Others get it at once when the pool is at its limit.
        hold_ms: u64 = is(256), "ms", Hot, in 0..=60_000;
        /// Time that a command waits for a backend connection before the client gets an error.
        checkout_timeout_ms: u64 = is(10_000), "ms", Hot, in 1..=3_600_000;
        /// Time that a new connection may take, TLS and login included.
        connect_timeout_ms: u64 = is(3_000), "ms", Hot, in 1..=3_600_000;
        /// A connection that nobody used for so long is closed; sooner, where the `wait_timeout` of the server is shorter.
        idle_timeout_s: u64 = is(300), "s", Hot, in 1..=31_536_000;
        /// A connection that is older than this is closed as soon as it is free.
        max_lifetime_s: u64 = is(3_600), "s", Hot, in 1..=31_536_000, aka "max_alive_time_s";
        /// A client that logs in gets only connections that were authenticated in the last so many milliseconds, so that it has the
        /// rights that the servers give it: for changes that do not pass through this proxy. Those that do hold for the next login at
        /// once. Each connection that is used costs one login at its backend in that time. See docs/authentication.md.
        rights_max_age_ms: u64 = is(60_000), "ms", Hot, in 100..=86_400_000;
        /// Prepared statements kept open on each connection; the one used least recently is closed first.
        /// Times `max_connections` it has to stay below the `max_prepared_stmt_count` of the servers (16382 by
        /// default), which other clients use too.
        statements_per_connection: u32 = is(100), "statements", Hot, in 1..=65_536;
        /// Names of connection attributes of the client, for example "program_name", that are passed on to the
        /// backends in place of the proxy's own. Connections are then shared only between sessions with the same
        /// values of these.
        pass_connection_attributes: Vec<String> = is(vec![]), "", Hot;
    }
}
