//! `[proxy]`: the process as a whole.

use std::path::PathBuf;

use super::{is, unset};
use crate::address::Network;
use crate::word::{AuthPlugin, Scheduling};

section! {
    /// The process as a whole: its threads, its limits, and what it says of itself to clients.
    pub struct Proxy = "[proxy]" at "proxy" {
        /// Data-plane threads. Each has its own sessions and its own share of the backend connections. A few busy threads cost
        /// less for each query than many idle ones: one system call sends what several sessions have ready. Leave one core to
        /// the kernel, the control plane and other programs. A change needs a restart: a session stays on its thread.
        workers: Option<u32> = unset("the number of cores less one, at least 1"), "threads", Restart, in 1..=1024, aka "threads";
        /// A worker sends the small packets of many sessions with one system call. That saves much of the time of a query.
        /// Where the kernel has no io_uring, or forbids it as in many containers, the worker sends each packet on its own. A
        /// change needs a restart: a worker chooses at its start.
        io_uring: bool = is(true), "", Restart;
        /// What a worker does when all processors are busy. `batch` (Linux' SCHED_BATCH): it waits for its turn, has more to do
        /// by then, and takes less time for each query. Its share of the processors is the same. `normal`: it takes a processor
        /// from others at once, which may be better beside programs that never rest. A policy that was chosen for the process
        /// at its start (systemd's `CPUSchedulingPolicy`) stays. A change needs a restart: a worker sets it at its start.
        scheduling: Scheduling = is(Scheduling::Batch), "", Restart;
        /// Client connections at the same time, over all listeners. One more gets error 1040.
        max_connections: u32 = is(10_000), "connections", Hot, in 1..=1_000_000;
        /// The part of `max_connections` that only users with `connection_admin` may use.
        reserved_connections: Option<u32> = unset("5, or half of max_connections if that is less, where a user has connection_admin; else 0"), "connections", Hot, in 0..=1000;
        /// Connections at the same time of each user that has no `max_connections` in `[[user]]`. One more gets error 1203.
        /// Users with `connection_admin` have no such limit.
        max_user_connections: Option<u32> = unset("no limit"), "connections", Hot, in 1..=1_000_000;
        /// Client connections at the same time from each address; for IPv6, from each /64 network. One more gets error 1040.
        /// Clients of Unix sockets have no address. Clients behind a load balancer have their own only by the PROXY protocol.
        /// Users with `connection_admin` have no such limit.
        max_connections_per_address: Option<u32> = unset("no limit"), "connections", Hot, in 1..=1_000_000;
        /// Clients from these networks can connect while the proxy is OFFLINE (`SET PROXY OFFLINE`). Such are load balancers
        /// that check the proxy, or a host for tests.
        offline_exempt_networks: Vec<Network> = is(vec![]), "", Hot;
        /// Time limit for a client's login, with TLS, and for its COM_CHANGE_USER.
        connect_timeout_ms: u64 = is(10_000), "ms", Hot, in 1..=3_600_000;
        /// After SIGTERM, running commands and open transactions have this time to end; then the proxy closes their
        /// connections.
        shutdown_timeout_ms: u64 = is(30_000), "ms", Hot, in 0..=3_600_000;
        /// The system may write core files of the proxy, and debuggers of its own system user may look into it. Core files hold
        /// passwords. A change needs a restart: what was forbidden at the start stays so.
        core_file: bool = is(false), "", Restart;
        /// Directory for what has to be the same after a restart: the certificate and the keys that the proxy makes for itself,
        /// and the changes that `CONFIG HISTORY` shows (`config-history`, at most 64 and 8 MiB; only the proxy's system user can
        /// read them). The proxy creates it if it does not exist. Each proxy needs one of its own. Relative paths start at the
        /// directory of the configuration file. A change needs a restart: clients know the keys in it.
        data_dir: Option<PathBuf> = unset("they are made anew at each start and kept in memory"), "", Restart;
        /// The proxy reads the configuration file again by itself when it has changed, or a file with a password, a certificate
        /// or a key that it names. It looks once a second, and waits until nothing has changed for a second. A file with a
        /// mistake changes nothing, and the log says what is wrong. Changes by command that are not saved hold it back, because
        /// it would undo them. `false`: only SIGHUP and `RELOAD CONFIG` read the file, so that `CONFIG PLAN` can show first what
        /// will happen.
        auto_reload: bool = is(false), "", Hot;
        /// Version in the greeting to clients, for example "8.4.5". Drivers choose features by it.
        server_version: Option<String> = unset("the version of the primary"), "", Hot;
        /// Id of the collation in the greeting to clients, for example 45 (utf8mb4_general_ci) or
        /// 255 (utf8mb4_0900_ai_ci).
        default_collation_id: Option<u8> = unset("the collation of the primary"), "", Hot, in 1..=255;
        /// The largest command that the proxy takes from a client. A larger one gets error 1153.
        max_allowed_packet: u64 = is(1_073_741_824), "bytes", Hot, in 1024..=1_073_741_824;
        /// Memory for what the proxy keeps beyond a command, or what grows large: prepared statements, variables, long
        /// commands, the cache. When it is full, a command gets an error, or its session keeps its connection;
        /// `delphinus_memory_refused_total` counts that. The process takes some more for itself, and about 16 KiB for each
        /// client. See docs/limits.md.
        memory_limit: Option<u64> = unset("a quarter of the machine's memory, or of the cgroup's limit"), "bytes", Hot, in 33_554_432..=17_592_186_044_416;
        /// The proxy disconnects a client that has sent no command for this time.
        wait_timeout_s: u64 = is(28_800), "s", Hot, in 1..=31_536_000;
        /// When a client goes away, the proxy ends its statement on the server (KILL QUERY) within two seconds, and the
        /// transaction is rolled back. A client that only closes its sending side counts as gone. `false`: the statement runs
        /// to its end first.
        kill_abandoned_queries: bool = is(true), "", Hot;
        /// Prepared statements of one client at the same time. One more gets error 1461.
        max_prepared_stmt_count: u32 = is(16_382), "statements", Hot, in 0..=4_194_304;
        /// Authentication plugin in the greeting to clients. The proxy asks a client that starts with another one to switch.
        default_authentication_plugin: Option<AuthPlugin> = unset("\"caching_sha2_password\" in front of MySQL, \"mysql_native_password\" in front of MariaDB"), "", Hot;
    }
}
