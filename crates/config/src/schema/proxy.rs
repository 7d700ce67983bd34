//! `[proxy]`: the process as a whole.

use std::path::PathBuf;

use super::{is, unset};
use crate::address::Network;
use crate::word::{AuthPlugin, Scheduling};

section! {
    /// The process as a whole: its threads, its limits, and what it says of itself to clients.
    pub struct Proxy = "[proxy]" at "proxy" {
        /// Data-plane threads. Each one has its own sessions and its own share of the backend connections. Fewer that are
        /// busy cost less for each query than many that are not: what several sessions have ready leaves in one system
        /// call. One core is left to the kernel, the control plane and whatever else runs there.
        /// Not while it runs: sessions belong to the thread that they began on.
        workers: Option<u32> = unset("the number of cores less one, at least 1"), "threads", Restart, in 1..=1024, aka "threads";
        /// Sends the small packets that many sessions have ready with one system call, which saves much of the time
        /// that a query costs. Where the kernel has no io_uring, or does not let the process use it, as in many
        /// containers, each packet is sent on its own.
        /// Not while it runs: a worker chooses when it begins.
        io_uring: bool = is(true), "", Restart;
        /// What a worker does when it has something to do while all processors are busy. `batch` (Linux' SCHED_BATCH): it
        /// waits for its turn, has more to do by then, and takes less time for each query; its share of the processors is the
        /// same. `normal`: it takes a processor from others at once, which may be better beside programs that never rest. Where
        /// another policy was chosen for the process at its start (systemd's `CPUSchedulingPolicy`), that stays.
        /// Not while it runs: a thread is set when it begins.
        scheduling: Scheduling = is(Scheduling::Batch), "", Restart;
        /// Client connections at the same time, over all listeners. One more is refused with error 1040.
        max_connections: u32 = is(10_000), "connections", Hot, in 1..=1_000_000;
        /// How many of `max_connections` only users with `connection_admin` may take.
        reserved_connections: Option<u32> = unset("5, or half of max_connections if that is less, where a user has connection_admin; else 0"), "connections", Hot, in 0..=1000;
        /// Client connections of each user at the same time who has no `max_connections` of its own in `[[user]]`. One
        /// more is refused with error 1203. It is not for users with `connection_admin`.
        max_user_connections: Option<u32> = unset("no limit"), "connections", Hot, in 1..=1_000_000;
        /// Client connections from each address at the same time; of IPv6, from each /64 network. One more is refused with
        /// error 1040. Clients of Unix sockets have no address; those behind a load balancer have their own only by the
        /// PROXY protocol. It is not for users with `connection_admin`.
        max_connections_per_address: Option<u32> = unset("no limit"), "connections", Hot, in 1..=1_000_000;
        /// Clients from these networks are let in although the proxy is set OFFLINE (`SET PROXY OFFLINE`): load balancers that
        /// look after it, or a host that operators try it from.
        offline_exempt_networks: Vec<Network> = is(vec![]), "", Hot;
        /// Time that a client has to finish its login, TLS included.
        connect_timeout_ms: u64 = is(10_000), "ms", Hot, in 1..=3_600_000;
        /// After SIGTERM: time that running commands and open transactions have to finish before
        /// their connections are closed.
        shutdown_timeout_ms: u64 = is(30_000), "ms", Hot, in 0..=3_600_000;
        /// Lets the system write core files of the proxy, and debuggers of its own system user look into it. They hold passwords.
        /// Not while it runs: what was forbidden at the start stays so.
        core_file: bool = is(false), "", Restart;
        /// Directory that keeps the certificate and the keys that the proxy makes for itself, so that
        /// they are the same after a restart. It is made if it does not exist. Relative paths start at
        /// the directory of the configuration file.
        /// Not while it runs: clients know the keys in it.
        data_dir: Option<PathBuf> = unset("they are made anew at each start and kept in memory"), "", Restart;
        /// Version in the greeting to clients, for example "8.4.5". Drivers choose features by it.
        server_version: Option<String> = unset("the version of the primary"), "", Hot;
        /// Id of the collation in the greeting to clients, for example 45 (utf8mb4_general_ci) or
        /// 255 (utf8mb4_0900_ai_ci).
        default_collation_id: Option<u8> = unset("the collation of the primary"), "", Hot, in 1..=255;
        /// Largest command that is accepted from a client. A larger one gets error 1153.
        max_allowed_packet: u64 = is(1_073_741_824), "bytes", Hot, in 1024..=1_073_741_824;
        /// Memory for what is kept beyond a command, or grows large: prepared statements, variables, long commands, the cache. Who
        /// reaches it is told, or keeps its connection, and is counted (`delphinus_memory_refused_total`). The process
        /// takes some more for itself, and about 16 KiB for each client. See docs/limits.md.
        memory_limit: Option<u64> = unset("a quarter of the machine's memory, or of the cgroup's limit"), "bytes", Hot, in 33_554_432..=17_592_186_044_416;
        /// A client that sends no command for so long is disconnected.
        wait_timeout_s: u64 = is(28_800), "s", Hot, in 1..=31_536_000;
        /// A statement whose client goes away is ended on its server (KILL QUERY), at most two seconds later, and its
        /// transaction is rolled back. A client that only ends its sending side counts as gone too. `false`: the
        /// statement runs to its end first.
        kill_abandoned_queries: bool = is(true), "", Hot;
        /// Prepared statements that one client may have at the same time. One more gets error 1461.
        max_prepared_stmt_count: u32 = is(16_382), "statements", Hot, in 0..=4_194_304;
        /// Authentication plugin in the greeting to clients. A client that starts with another one is
        /// asked to switch.
        default_authentication_plugin: Option<AuthPlugin> = unset("\"caching_sha2_password\" in front of MySQL, \"mysql_native_password\" in front of MariaDB"), "", Hot;
    }
}
