//! `[monitor]`: how the proxy finds out which backends can be used.

use std::path::PathBuf;

use super::{is, required, unset};
use crate::secret::Secret;
use crate::word::{Discovery, LagSource};

section! {
    /// How the proxy finds out which backends it can use. Exactly one of the password options is needed.
    pub(crate) struct MonitorSection = "[monitor]" at "monitor" {
        /// User of the probes on all backends. It needs the right to see replication (MySQL: REPLICATION CLIENT, MariaDB: SLAVE
        /// MONITOR). With `topology = "group_replication"` it must be able to read `performance_schema`.
        user: String = required(), "", Hot;
        /// Password as it is. "" is a user without a password.
        password: Option<Secret> = unset("another password option"), "", Hot;
        /// Environment variable that holds the password.
        password_env: Option<String> = unset("another password option"), "", Hot;
        /// File that holds the password and nothing else; one line end after it is dropped. Relative paths
        /// start at the directory of the configuration file.
        password_file: Option<PathBuf> = unset("another password option"), "", Hot;
        /// How often the proxy looks up the names of backends, give or take a tenth. 0: it looks up a name for each new
        /// connection, and finds a server that has taken another's place only when connections end.
        dns_interval_ms: u64 = is(5_000), "ms", Hot, in 0..=3_600_000;
        /// How often the proxy reads the stored routines, triggers and views of the primary. It reads them because no
        /// server reports all that they do to their session. The monitor's user needs the right to read them (MySQL:
        /// SHOW_ROUTINE, MariaDB: SELECT on `mysql.proc`). Without the right, a session that runs one keeps its connection.
        /// The proxy knows changes that pass through it at once. 0: it reads nothing, and loses an advisory lock that a
        /// routine takes; where writes end kept answers (`cache.invalidation`), 0 stands for 60000. A change needs a
        /// restart: sessions rely on what was read.
        stored_code_interval_ms: u64 = is(60_000), "ms", Restart, in 0..=86_400_000;
        /// Time between two probes of a backend.
        interval_ms: u64 = is(1_000), "ms", Hot, in 10..=3_600_000;
        /// Time limit for a probe, with connect and login. A longer one has failed.
        timeout_ms: u64 = is(1_000), "ms", Hot, in 10..=3_600_000;
        /// A backend is down after this number of failed probes one after another.
        fall: u32 = is(2), "probes", Hot, in 1..=100;
        /// A backend is up again after this number of successful probes one after another.
        rise: u32 = is(2), "probes", Hot, in 1..=100;
        /// While no primary can be used, time between two probes of a backend that may be the next one.
        failover_interval_ms: u64 = is(100), "ms", Hot, in 10..=3_600_000;
        /// A replica that is further behind the primary gets no reads. 0: the monitor does not look at replication, and its
        /// user needs no rights for that. If it was 0 at the start, a heartbeat begins with the next start.
        lag_down_ms: u64 = is(10_000), "ms", Hot, in 0..=86_400_000, aka "slave_delay_down";
        /// A replica that was too far behind gets reads again when it is not further behind than this. Never more than
        /// `lag_down_ms`. With `lag_source = "replication"` servers tell whole seconds only.
        lag_recover_ms: u64 = is(1_000), "ms", Hot, in 0..=86_400_000, aka "slave_delay_recover";
        /// How the monitor learns how far a replica is behind. `replication`: by SHOW REPLICA STATUS, in whole seconds.
        /// `performance_schema`: by the time at which the primary committed what the replica applies, in milliseconds; it needs
        /// MySQL 8.0.1 with GTIDs, clocks that agree, and the right to read `performance_schema`. `heartbeat`: by a row that a
        /// proxy changes on the primary, in milliseconds. A server that cannot tell in the chosen way is asked by SHOW REPLICA
        /// STATUS. A change needs a restart: the writer of the heartbeat is chosen at the start.
        lag_source: LagSource = is(LagSource::Replication), "", Restart;
        /// Schema and table of the heartbeat's row. All proxies of a cluster need the same one. A change needs a restart: the
        /// writer of the heartbeat is chosen at the start.
        heartbeat_table: String = is("delphinus.heartbeat".to_owned()), "", Restart;
        /// Time between two changes of the heartbeat's row. The lag is known to this precision, and each change is a write on
        /// the primary. A change of the option needs a restart: the writer of the heartbeat is chosen at the start.
        heartbeat_interval_ms: u64 = is(500), "ms", Restart, in 50..=60_000;
        /// The proxy creates the heartbeat's table and its schema where they are missing. The monitor's user needs the right.
        heartbeat_create: bool = is(true), "", Hot;
        /// A replica that comes back and is gone again within this time flaps. The next time it comes back, it gets no reads
        /// for a while.
        flap_window_ms: u64 = is(60_000), "ms", Hot, in 0..=86_400_000;
        /// A replica that flaps gets no reads for this time at first, and twice as long each further time. 0: it gets reads
        /// at once.
        flap_backoff_ms: u64 = is(2_000), "ms", Hot, in 0..=3_600_000;
        /// The longest time that such a replica gets no reads.
        flap_backoff_max_ms: u64 = is(60_000), "ms", Hot, in 0..=86_400_000;
        /// The monitor sets a former primary read-only if it still takes writes: `SET GLOBAL super_read_only = 1` (MariaDB:
        /// `read_only`). The monitor's user needs the right. With or without this option, such a server gets no statement.
        fence: bool = is(false), "", Hot;
        /// Which servers become backends although the file does not list them. "group": the members of the group, for `topology
        /// = "group_replication"`. "replicas": the replicas that the primary names (`SHOW REPLICAS`), for the other topologies;
        /// they get reads and never writes. "auto": "group" with group replication, else "off". "off": none. A server that was
        /// found has the options of the first `[[cluster.backend]]` of its cluster. See docs/health.md. A change needs a
        /// restart: the places for them are made at the start.
        discovery: Discovery = is(Discovery::Auto), "", Restart;
        /// With `discovery = "replicas"`, how often the monitor asks the primary for its replicas.
        discovery_interval_ms: u64 = is(10_000), "ms", Hot, in 100..=3_600_000;
        /// Servers that can be found in one cluster from start to end. A server that has left keeps its place. A change needs a
        /// restart: the places are made at the start.
        max_discovered: u32 = is(16), "servers", Restart, in 1..=256;
        /// The proxy forgets a backend that was found when the cluster has been without it for this time.
        discovery_forget_ms: u64 = is(300_000), "ms", Hot, in 0..=86_400_000;
    }
}
