//! `[monitor]`: how the proxy finds out which backends can be used.

use std::path::PathBuf;

use super::{is, required, unset};
use crate::secret::Secret;
use crate::word::{Discovery, LagSource};

section! {
    /// How the proxy finds out which backends can be used. Exactly one of the password options is needed.
    pub(crate) struct MonitorSection = "[monitor]" at "monitor" {
        /// User of the probes on all backends. It needs the right to see replication (MySQL: REPLICATION CLIENT, MariaDB: SLAVE
        /// MONITOR), and with `topology = "group_replication"` to read `performance_schema`.
        user: String = required(), "", Hot;
        /// Password as it is. "" is a user without a password.
        password: Option<Secret> = unset("another password option"), "", Hot;
        /// Environment variable that holds the password.
        password_env: Option<String> = unset("another password option"), "", Hot;
        /// File that holds the password and nothing else; one line end after it is dropped. Relative paths
        /// start at the directory of the configuration file.
        password_file: Option<PathBuf> = unset("another password option"), "", Hot;
        /// Time between two looks at where the names of backends lead, one tenth more or less. 0: a name is looked up for each new
        /// connection, and a server that has taken the place of another is found only when connections end.
        dns_interval_ms: u64 = is(5_000), "ms", Hot, in 0..=3_600_000;
        /// Time between two readings of stored routines, triggers and views on the primary: some of what they do to their session is
        /// reported by no server. The monitor's user needs the right to read them (MySQL: SHOW_ROUTINE, MariaDB: SELECT on
        /// `mysql.proc`): without it, a session that runs one keeps its connection. What changes through the proxy is read
        /// soon, and known at once. 0: they are not read, and an advisory lock that one takes is lost.
        /// Not while it runs: sessions rely on what was read.
        stored_code_interval_ms: u64 = is(60_000), "ms", Restart, in 0..=86_400_000;
        /// Time between two probes of a backend.
        interval_ms: u64 = is(1_000), "ms", Hot, in 10..=3_600_000;
        /// Time that a probe may take, connect and login included. A longer one has failed.
        timeout_ms: u64 = is(1_000), "ms", Hot, in 10..=3_600_000;
        /// Probes that have to fail one after another until a backend is down.
        fall: u32 = is(2), "probes", Hot, in 1..=100;
        /// Probes that have to succeed one after another until a backend is up again.
        rise: u32 = is(2), "probes", Hot, in 1..=100;
        /// Time between two probes of a backend that may be the next primary, while there is none that can be used.
        failover_interval_ms: u64 = is(100), "ms", Hot, in 10..=3_600_000;
        /// A replica that is further behind the primary gets no reads. 0: nobody looks at how replication goes, and the
        /// monitor's user needs no rights for that. A heartbeat that nobody looked at begins with the next start.
        lag_down_ms: u64 = is(10_000), "ms", Hot, in 0..=86_400_000, aka "slave_delay_down";
        /// A replica that was too far behind gets reads again when it is not further behind than this; never more than
        /// `lag_down_ms`. Without `lag_source` servers know whole seconds only.
        lag_recover_ms: u64 = is(1_000), "ms", Hot, in 0..=86_400_000, aka "slave_delay_recover";
        /// What is asked how far a replica is behind: `replication`: SHOW REPLICA STATUS, in whole seconds; `performance_schema`: when
        /// what it applies was committed on the primary, in milliseconds, for MySQL from 8.0.1 on with GTIDs and clocks that agree.
        /// The monitor's user has to be allowed to read `performance_schema`. `heartbeat`: which changes of a row it has that a proxy
        /// writes on the primary, in milliseconds, whatever the server says of itself. Who cannot tell that way is asked by
        /// SHOW REPLICA STATUS.
        /// Not while it runs: the writer of the heartbeat is chosen with it at the start.
        lag_source: LagSource = is(LagSource::Replication), "", Restart;
        /// Schema and table of the heartbeat's row. The same for all proxies of the cluster.
        /// Not while it runs: the writer of the heartbeat is chosen with it at the start.
        heartbeat_table: String = is("delphinus.heartbeat".to_owned()), "", Restart;
        /// Time between two changes of the heartbeat's row. So exact is the lag, and so many writes it costs.
        /// Not while it runs: the writer of the heartbeat is chosen with it at the start.
        heartbeat_interval_ms: u64 = is(500), "ms", Restart, in 50..=60_000;
        /// Whether the heartbeat's table, and its schema, is made where there is none. The monitor's user needs the right.
        /// Not while it runs: the writer of the heartbeat is chosen with it at the start.
        heartbeat_create: bool = is(true), "", Restart;
        /// A replica that comes back and is gone again within this time flaps, and is kept out of reads for a while when it
        /// comes back the next time.
        flap_window_ms: u64 = is(60_000), "ms", Hot, in 0..=86_400_000;
        /// How long a replica that flaps is kept out the first time; each further time twice as long. 0: it never is.
        flap_backoff_ms: u64 = is(2_000), "ms", Hot, in 0..=3_600_000;
        /// Longest time that it is kept out.
        flap_backoff_max_ms: u64 = is(60_000), "ms", Hot, in 0..=86_400_000;
        /// Whether a backend that has lost its place as the primary, and takes writes all the same, is set read-only:
        /// `SET GLOBAL super_read_only = 1` (MariaDB: `read_only`), for which the monitor's user needs the right. It gets no
        /// statement in any case.
        fence: bool = is(false), "", Hot;
        /// Which servers become backends although the file does not list them. "group": the members of the group, for
        /// `topology = "group_replication"`. "replicas": the replicas of the primary, by its own word (`SHOW REPLICAS`), for the other
        /// topologies; they are read from, and never written to. "auto": the members with that topology, none with the others. "off":
        /// none. What is found is used like the first `[[cluster.backend]]` of its cluster: TLS, weight, groups, limits. See
        /// docs/health.md.
        /// Not while it runs: the places of what is found are made at the start.
        discovery: Discovery = is(Discovery::Auto), "", Restart;
        /// Time between two questions to the primary who replicates from it, with `discovery = "replicas"`.
        discovery_interval_ms: u64 = is(10_000), "ms", Hot, in 100..=3_600_000;
        /// Servers that can be found in one cluster from start to end; each keeps its place also when it has left.
        /// Not while it runs: the places are made at the start.
        max_discovered: u32 = is(16), "servers", Restart, in 1..=256;
        /// A backend that was found goes when the cluster has been without it for this time.
        discovery_forget_ms: u64 = is(300_000), "ms", Hot, in 0..=86_400_000;
    }
}
