//! What an operator sets for sessions. Who follows a change of it, and when, is in `worker` and `session`.

use std::sync::Arc;
use std::time::Duration;

use delphinus_clients::Limits;
use delphinus_route::{CacheTerms, Filters, Policy, Rules};
use delphinus_sql::Consistency;
use delphinus_wire::auth::Plugin;

use crate::client_error::Lost;

/// What an operator sets for sessions.
#[derive(Debug, Clone)]
pub struct Settings {
    /// A login must be finished in this time, in milliseconds.
    pub connect_timeout_ms: u64,
    /// A client that sends nothing for so long is disconnected, in seconds.
    pub wait_timeout_s: u64,
    /// A client that has begun a command, or does not take its result, has so long to go on, in seconds.
    pub net_timeout_s: u64,
    /// The largest command, in bytes.
    pub max_allowed_packet: u64,
    /// What clients are told; the primary's if `None`.
    pub server_version: Option<String>,
    /// What clients are told; the primary's if `None`.
    pub default_collation: Option<u8>,
    /// What clients are offered first; the flavour's own if `None`.
    pub default_plugin: Option<Plugin>,
    /// Prepared statements of one client.
    pub max_prepared_statements: usize,
    /// What a client leaves running when it goes is ended on the server.
    pub kills_abandoned: bool,
    /// What becomes of statements when there is no primary.
    pub failover: Failover,
    /// Where statements go, beside what the statements themselves say.
    pub routing: Routing,
    /// How reads are spread.
    pub balance: Policy,
}

/// What an operator sets about failovers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Failover {
    /// How long a statement waits for a primary; zero: not at all.
    pub wait: Duration,
    /// So many statements wait at the same time, for a primary or for the end of a pause.
    pub queue: u32,
    /// How long a statement waits while operators have paused its cluster or user.
    pub pause: Duration,
    /// A lost transaction is told by the error of a lost connection, and not by that of a deadlock.
    pub lost_transaction_is_lost_connection: bool,
    /// Another backend can become the primary: a statement that is refused because the server takes no writes runs there.
    pub roles_move: bool,
}

impl Failover {
    /// What is told of a transaction that is to be tried again.
    pub(crate) fn lost_transaction(self, how: String) -> Lost {
        let as_deadlock = !self.lost_transaction_is_lost_connection;
        Lost::Transaction { how, as_deadlock }
    }
}

/// What an operator sets about routing.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent options, each looked at by itself")]
pub struct Routing {
    /// The operator's rules.
    pub rules: Arc<Rules>,
    /// The operator's filters.
    pub filters: Arc<Filters>,
    /// The operator's limits.
    pub limits: Arc<Limits>,
    /// How old what reads find may be; `None`: what a session knows it finds, where the primary tells GTIDs.
    pub consistency: Option<Consistency>,
    /// Which answers are kept where no rule says it.
    pub cache: CacheTerms,
    /// How long a statement waits for the same question of another session to be answered, before it asks, too.
    pub cache_wait: Duration,
    /// No answer that is kept is given when it is older.
    pub cache_longest: Duration,
    /// How long a read waits on a replica for what its session has to find.
    pub consistency_timeout: Duration,
    /// A hint that cannot be obeyed is an error.
    pub strict_hints: bool,
    /// Users may ask EXPLAIN ROUTE, unless it is said otherwise for one.
    pub explain_route: bool,
    /// Transactions that cannot write may run on replicas.
    pub replica_read_only_transactions: bool,
}
