//! `[[relay]]` and `[[relay.user]]`: replication relays.

use std::path::PathBuf;

use super::{is, required, unset};
use crate::address::{BackendAddress, ListenAddress};
use crate::secret::Secret;
use crate::value::Fingerprint;
use crate::word::{BackendTls, ClientTls, Compression};

section! {
    /// One section for each replication relay: it takes the binary log of a server as a replica does, writes it to disk, acknowledges it
    /// (semi-synchronous replication), and serves replicas from its files. See docs/relay.md. A file with relays needs no cluster, no
    /// listener and no user.
    pub(crate) struct RelaySection = "[[relay]]" at "relay" with "user" {
        /// Name in logs, tables and commands. Unique.
        name: String = required(), "", Restart;
        /// Its folder. No other process may use it. Relative paths start at the directory of the configuration file.
        folder: PathBuf = required(), "", Restart;
        /// The server that it replicates from: `db1.example:3306`, `[fd00::1]:3306` or `unix:/run/mysqld/mysqld.sock`.
        source: Option<BackendAddress> = unset("the primary of `cluster`"), "", Restart;
        /// The cluster whose primary it follows. Not together with `source`. How the primary is reached is what its
        /// [[cluster.backend]] says.
        cluster: Option<String> = unset("the first cluster, where there is no `source`"), "", Restart;
        /// User with which it logs in there. It needs REPLICATION SLAVE (MySQL: REPLICATION SLAVE and nothing else).
        source_user: String = required(), "", Restart;
        /// Its password as it is.
        source_password: Option<Secret> = unset("another password option"), "", Restart;
        /// Environment variable that holds the password.
        source_password_env: Option<String> = unset("another password option"), "", Restart;
        /// File that holds the password and nothing else; one line end after it is dropped.
        source_password_file: Option<PathBuf> = unset("another password option"), "", Restart;
        /// TLS to `source`: see `cluster.backend.tls`.
        source_tls: BackendTls = is(BackendTls::Preferred), "", Restart;
        /// Certificates of authorities, PEM, for "verify_ca" and "verify_identity".
        source_tls_ca: Option<PathBuf> = unset("none"), "", Restart;
        /// See `cluster.backend.tls_fingerprints`.
        source_tls_fingerprints: Vec<Fingerprint> = is(vec![]), "", Restart;
        /// See `cluster.backend.get_server_public_key`.
        source_get_server_public_key: bool = is(false), "", Restart;
        /// See `cluster.backend.trust_server_certificate`.
        source_trust_server_certificate: bool = is(false), "", Restart;
        /// Servers beside `source` that `RELAY TURN` may have it follow: all that can become the primary, as the proxies have their addresses
        /// that move the role. It sends its password there. Where `source_tls` is "verify_ca" or "verify_identity", or there are
        /// fingerprints, a server proves who it is, and none need be named. A relay with `cluster` goes to the backends of that.
        may_follow: Vec<BackendAddress> = is(vec![]), "", Restart;
        /// Compression of the connection to `source`, for a long line. A source that does not know it is followed without. MariaDB knows
        /// only "zlib"; another relay knows both.
        source_compression: Compression = is(Compression::Uncompressed), "", Restart;
        /// Its number among all servers that replicate from one another. Unique there.
        server_id: u32 = required(), "", Restart, in 1..=4_294_967_295;
        /// Its uuid, as MySQL's `server_uuid`.
        uuid: Option<String> = unset("made on first start, and kept in `folder`"), "", Restart;
        /// It acknowledges what is on its disk, where the source has semi-synchronous replication.
        semi_sync: bool = is(true), "", Restart;
        /// Without files it begins with the oldest log file that the source has. false: with the one that the source is writing.
        from_oldest_file: bool = is(true), "", Restart;
        /// How often an idle source sends a heartbeat. After three of these intervals and `timeout_ms` without a word the
        /// relay reconnects.
        heartbeat_ms: u64 = is(10_000), "ms", Restart, in 100..=3_600_000;
        /// Between attempts to connect.
        retry_ms: u64 = is(1_000), "ms", Restart, in 10..=3_600_000;
        /// How long connecting, logging in and each question may take.
        timeout_ms: u64 = is(10_000), "ms", Restart, in 100..=3_600_000;
        /// It begins to receive by itself. false: only after `RELAY START`.
        start: bool = is(true), "", Restart;
        /// A closed file is removed when its last byte is older than this, as by MySQL's `binlog_expire_logs_seconds`. 0: age alone
        /// removes none. See docs/relay.md for what holds a file back.
        expire_logs_s: u64 = is(0), "s", Restart, in 0..=4_294_967_295;
        /// The oldest files are removed while all of them together are larger. 0: size alone removes none.
        max_size_mb: u64 = is(0), "MiB", Restart, in 0..=1_073_741_824;
        /// A closed file is removed as soon as this number of replicas has it and no replica that is waited for lacks it.
        /// 0: that alone removes none.
        purge_after_replicas: u32 = is(0), "replicas", Restart, in 0..=10_000;
        /// No file is removed that a replica lacks which was connected within this time. Replicas that are connected are always
        /// waited for. Only `RELAY PURGE` waits for none.
        keep_for_replicas_s: u64 = is(86_400), "s", Restart, in 0..=31_536_000;
        /// A replica counts as having a file when it was sent all of it this long ago, or has reconnected behind it. It may
        /// throw its relay log away when it restarts, and asks then again for what it has not applied.
        replica_margin_s: u64 = is(3_600), "s", Restart, in 0..=31_536_000;
        /// A program and its first arguments, for example `["/usr/local/bin/keep-binlog", "--to", "vault"]`. It is run without a
        /// shell for each closed file, oldest first, with the file's path as last argument. A file that it has not taken (exit
        /// status 0) stays.
        archive_command: Vec<String> = is(vec![]), "", Restart;
        /// The relay kills a program of `archive_command` after this time, and counts it as failed. It is tried again,
        /// after 1 s to 5 minutes.
        archive_timeout_s: u64 = is(600), "s", Restart, in 1..=86_400;
        /// Where replicas connect, for example `["0.0.0.0:3306"]`. Empty: none can.
        addresses: Vec<ListenAddress> = is(vec![]), "", Restart;
        /// Where servers reach it, for example `10.0.0.7:3306`: for [cluster.failover] `relays`.
        report_address: Option<BackendAddress> = unset("the first of `addresses` that has an IP address of its own"), "", Restart;
        /// TLS with replicas on TCP. "optional" lets the replica decide. "required" refuses a login without TLS.
        tls: ClientTls = is(ClientTls::Optional), "", Restart;
        /// Certificate chain, PEM. Needs tls_key.
        tls_cert: Option<PathBuf> = unset("the proxy makes a certificate for itself"), "", Restart;
        /// Private key of tls_cert, PEM.
        tls_key: Option<PathBuf> = unset("the proxy makes a key for itself"), "", Restart;
        /// What replicas may ask for. Without "uncompressed" the relay refuses a replica that asks for no compression.
        compression_algorithms: Vec<Compression> = is(vec![Compression::Zlib, Compression::Zstd, Compression::Uncompressed]), "", Restart;
        /// Connections of replicas at the same time.
        max_connections: u32 = is(100), "connections", Restart, in 1..=10_000;
        /// Threads that serve replicas.
        threads: u32 = is(1), "", Restart, in 1..=64;
    }
}

section! {
    /// One section for each user that replicas log in as, below its `[[relay]]`. It may follow the log and nothing else. Each needs exactly
    /// one of the password options.
    pub(crate) struct RelayUserSection = "[[relay.user]]" at "relay.user" {
        /// Name that the replica gives. Unique in its relay.
        name: String = required(), "", Restart;
        /// Password as it is. It must not be empty.
        password: Option<Secret> = unset("another password option"), "", Restart;
        /// Environment variable that holds the password.
        password_env: Option<String> = unset("another password option"), "", Restart;
        /// File that holds the password and nothing else; one line end after it is dropped.
        password_file: Option<PathBuf> = unset("another password option"), "", Restart;
        /// Stored hash, as mysql.user has it: see `user.password_hash`.
        password_hash: Option<Secret> = unset("another password option"), "", Restart;
    }
}
