//! The options whose value is one of a few words.

use std::fmt;

use toml::de::DeValue;

use crate::document::nearest;
use crate::value::{Value, Wrong, wrong_type};

/// Declares an enum whose values are words in the file. An older word of a value is taken, too, and not told.
macro_rules! words {
    ($($(#[doc = $about:literal])+ $name:ident { $(
        $(#[doc = $doc:literal])+ $variant:ident = $word:literal $(| $older:literal)?
    ),+ $(,)? })+) => {$(
        $(#[doc = $about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[doc = $doc])+ $variant),+ }

        impl $name {
            /// All of them, in the order of the reference.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word in the file.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl Value for $name {
            fn kind() -> String {
                one_of(&[$($word),+])
            }
            fn literal(&self) -> String {
                format!("\"{}\"", self.as_str())
            }
            fn read(raw: &DeValue<'_>) -> Result<Self, Wrong> {
                match raw.as_str() {
                    $(Some($word $(| $older)?) => Ok(Self::$variant),)+
                    Some(other) => Err(unknown_word(other, &[$($word),+])),
                    None => Err(wrong_type(raw)),
                }
            }
        }
    )+};
}

words! {
    /// What a failover does when something acknowledged may be lost.
    OnLoss {
        /// It promotes no server.
        Refuse = "refuse",
        /// It promotes whoever has received most.
        Proceed = "proceed",
    }
    /// What becomes of what a process holds when it loses the lease store.
    OnStoreLoss {
        /// It is given up in time.
        Release = "release",
        /// It stays as long as all other members promise to take nothing over.
        Failsafe = "failsafe",
    }
    /// In which store processes agree who has what.
    LeaseStore {
        /// An etcd cluster.
        Etcd = "etcd",
        /// The servers themselves: rows in their group.
        Group = "group",
        /// This process decides alone.
        Local = "local",
    }
    /// Where a virtual IP has to be.
    VipRole {
        /// Where a proxy can serve a query.
        Proxy = "proxy",
        /// On the host of the primary.
        Primary = "primary",
        /// On the host of a replica.
        Replica = "replica",
    }
    /// Where a replica's virtual IP goes if its replica is lost.
    VipFloating {
        /// To the primary.
        ToPrimary = "to_primary" | "TO_PRIMARY",
        /// To another replica.
        ToAnotherReplica = "to_another_replica" | "TO_ANOTHER_SECONDARY",
    }
    /// What happens to the sessions on a virtual IP that moves.
    KillOnMove {
        /// Nothing.
        None = "none",
        /// They end between transactions; the rest is cut.
        Transactions = "transactions",
        /// They are cut at once.
        All = "all",
    }
    /// How entries of the slow log are written.
    SlowLogFormat {
        /// As MySQL writes its slow log.
        Mysql = "mysql",
        /// One JSON object for each line.
        Json = "json",
    }
    /// Which statements the log of all statements has.
    SqlLogMode {
        /// Those of clients.
        Client = "client",
        /// What backends are asked.
        Backend = "backend",
        /// Both.
        All = "all",
    }
    /// How entries of the log of all statements are written.
    SqlLogFormat {
        /// A line of `key=value`.
        Text = "text",
        /// One JSON object for each line.
        Json = "json",
    }
    /// How entries come into a log of statements.
    LogFlush {
        /// What has come meanwhile, at once.
        Batch = "batch",
        /// Each by itself.
        Line = "line",
        /// Each by itself, and on the disk before the next.
        Fsync = "fsync",
    }
    /// Whether clients may, must or cannot use TLS.
    ClientTls {
        /// TLS is not offered.
        Disabled = "disabled",
        /// TLS is offered; the client decides.
        Optional = "optional",
        /// A client without TLS is refused.
        Required = "required",
    }
    /// Whether connections to a backend use TLS, and what is checked.
    BackendTls {
        /// Never.
        Disabled = "disabled",
        /// Where the backend offers it; the certificate is not checked.
        Preferred = "preferred",
        /// Always; the certificate is not checked.
        Required = "required",
        /// Always; the certificate has to be signed by `tls_ca`.
        VerifyCa = "verify_ca",
        /// Always; the certificate has to be signed by `tls_ca` and to name the backend's host.
        VerifyIdentity = "verify_identity",
    }
    /// What packets are compressed with, if at all.
    Compression {
        /// Not compressed.
        Uncompressed = "uncompressed",
        /// Deflate, known to every client and server.
        Zlib = "zlib",
        /// Zstandard, known to MySQL.
        Zstd = "zstd",
    }
    /// Which form of the PROXY protocol's header is sent.
    ProxyProtocol {
        /// A line of text.
        V1 = "v1",
        /// Binary.
        V2 = "v2",
    }
    /// What a backend is in a static topology.
    Role {
        /// Takes writes, and reads where no replica can.
        Primary = "primary",
        /// Takes reads.
        Replica = "replica",
    }
    /// Which backends the clients of a listener get to.
    ListenerMode {
        /// Reads to replicas, the rest to the primary.
        Split = "split",
        /// The primary only.
        ReadWrite = "read_write",
        /// Replicas only; what writes is refused.
        ReadOnly = "read_only",
    }
    /// What a filter may be about.
    FilterStatement {
        /// UPDATE and DELETE of all rows.
        WriteWithoutWhere = "write_without_where",
        /// SLEEP() and BENCHMARK().
        Sleep = "sleep",
        /// Several statements in one text.
        MultiStatements = "multi_statements",
        /// LOAD DATA and LOAD XML.
        LoadData = "load_data",
        /// INTO OUTFILE and INTO DUMPFILE.
        IntoOutfile = "into_outfile",
        /// Changes of the schema.
        Ddl = "ddl",
        /// SET GLOBAL and SET PERSIST.
        SetGlobal = "set_global",
        /// Changes of accounts and rights.
        Account = "account",
    }
    /// What a filter does.
    FilterAction {
        /// Nothing: for users who may do what others may not.
        Off = "off",
        /// The statement runs, and is logged.
        Log = "log",
        /// The statement is refused.
        Reject = "reject",
    }
    /// What a filter does with statements that may do anything.
    Unseen {
        /// They run.
        Allow = "allow",
        /// They run, and are logged.
        Log = "log",
        /// They are refused.
        Reject = "reject",
    }
    /// What a limit counts by itself.
    LimitPer {
        /// All that fit together.
        All = "all",
        /// Each user.
        User = "user",
        /// Each schema.
        Schema = "schema",
        /// Each address of clients.
        Client = "client",
        /// Each digest.
        Digest = "digest",
    }
    /// How old what a read finds may be.
    Consistency {
        /// As old as the replica is.
        Eventual = "eventual",
        /// Not older than what its session has written and read.
        Session = "session",
        /// Not older than anything committed before.
        Global = "global",
    }
    /// Which servers become backends although the file does not name them.
    Discovery {
        /// Those that the topology can name.
        Auto = "auto",
        /// None.
        Off = "off",
        /// The members of the group.
        Group = "group",
        /// The replicas of the primary.
        Replicas = "replicas",
    }
    /// What is asked how far a replica is behind.
    LagSource {
        /// SHOW REPLICA STATUS.
        Replication = "replication",
        /// `performance_schema`.
        PerformanceSchema = "performance_schema",
        /// A row that a proxy writes on the primary.
        Heartbeat = "heartbeat",
    }
    /// What is told of a transaction that was lost with its backend.
    LostTransactionError {
        /// 1213, SQLSTATE 40001.
        Deadlock = "deadlock",
        /// 9103.
        LostConnection = "lost_connection",
    }
    /// Which replica takes the next read.
    ReadBalance {
        /// In turn.
        RoundRobin = "round_robin",
        /// In turn, in proportion to the weights.
        Weighted = "weighted",
        /// The one with the fewest connections in use.
        LeastConnections = "least_connections",
        /// The one that answers soonest.
        LeastLatency = "least_latency",
        /// The same one for the same text.
        Hash = "hash",
    }
    /// What ends answers that are kept, beside their TTL.
    CacheInvalidation {
        /// Nothing.
        None = "none",
        /// Writes through this process.
        OwnWrites = "own_writes",
        /// All writes of the primary.
        Stream = "stream",
    }
    /// Where a rule sends reads.
    RuleTarget {
        /// To the primary.
        Primary = "primary",
        /// To a replica.
        Replica = "replica",
    }
    /// A kind of statement that a rule is about.
    RuleClass {
        /// All that may run on a replica.
        Read = "read",
        /// All else.
        Write = "write",
        /// SELECT.
        Select = "select",
        /// INSERT.
        Insert = "insert",
        /// REPLACE.
        Replace = "replace",
        /// UPDATE.
        Update = "update",
        /// DELETE.
        Delete = "delete",
        /// LOAD DATA.
        LoadData = "load_data",
        /// CALL.
        Call = "call",
        /// SET.
        Set = "set",
        /// SHOW.
        Show = "show",
        /// EXPLAIN.
        Explain = "explain",
        /// CREATE TABLE.
        CreateTable = "create_table",
        /// DROP TABLE.
        DropTable = "drop_table",
        /// ALTER TABLE.
        AlterTable = "alter_table",
        /// Other changes of the schema, TRUNCATE among them.
        OtherDdl = "other_ddl",
        /// LOCK TABLES.
        LockTables = "lock_tables",
        /// FLUSH.
        Flush = "flush",
        /// KILL.
        Kill = "kill",
        /// Users, roles and their rights.
        Account = "account",
        /// Several statements in one text.
        Multi = "multi",
        /// Not recognised.
        Unknown = "unknown",
    }
    /// How the proxy learns which backend has which role.
    TopologyKind {
        /// The roles in the file.
        Static = "static",
        /// Whoever is not read-only.
        ReadOnly = "read_only",
        /// Whom the group has elected.
        GroupReplication = "group_replication",
    }
    /// Which family of servers the backends belong to.
    Flavor {
        /// As the primary says in its greeting.
        Auto = "auto",
        /// MySQL, Percona Server.
        Mysql = "mysql",
        /// MariaDB.
        Mariadb = "mariadb",
    }
    /// The authentication plugin that the proxy offers to clients first.
    AuthPlugin {
        /// Double SHA-1, known to every client.
        MysqlNativePassword = "mysql_native_password",
        /// Salted SHA-256, the default of MySQL 8 and 9.
        CachingSha2Password = "caching_sha2_password",
    }
    /// How the kernel schedules the workers.
    Scheduling {
        /// They wait for their turn, and do more in one go.
        Batch = "batch",
        /// They take a processor from others at once.
        Normal = "normal",
    }
    /// Who may log in.
    AuthSource {
        /// The users of the file.
        Listed = "listed",
        /// All users of the primary.
        Backend = "backend",
    }
    /// Where a listed user's password is checked, if not by the proxy.
    UserAuth {
        /// By a login to the primary.
        Backend = "backend",
    }
    /// The authentication plugin of one user.
    UserPlugin {
        /// Double SHA-1.
        MysqlNativePassword = "mysql_native_password",
        /// Salted SHA-256.
        CachingSha2Password = "caching_sha2_password",
        /// MariaDB's signatures.
        ClientEd25519 = "client_ed25519",
    }
    /// What an operator may do.
    AdminRole {
        /// Look.
        Viewer = "viewer" | "read",
        /// And what has to be done day by day: backends out of use and back, KILL.
        Operator = "operator",
        /// And change the configuration.
        Admin = "admin" | "operate",
    }
    /// How a log line is written.
    LogFormat {
        /// For people: time, level, target, message, fields.
        Text = "text",
        /// For machines: one JSON object for each line.
        Json = "json",
    }
    /// Which log lines are written: this level and the ones before it.
    LogLevel {
        /// Something needs an operator.
        Error = "error",
        /// Something is wrong, the proxy copes.
        Warn = "warn",
        /// Starts, stops and changes of state.
        Info = "info",
        /// What each session does.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
}

/// What other programs call it.
const SYNONYMS: &[(&str, &str)] = &[
    ("master", "primary"),
    ("source", "primary"),
    ("writer", "primary"),
    ("slave", "replica"),
    ("secondary", "replica"),
    ("reader", "replica"),
    ("warning", "warn"),
    ("off", "disabled"),
    ("none", "disabled"),
    ("percona", "mysql"),
    ("ed25519", "client_ed25519"),
    ("server", "backend"),
    ("rw", "read_write"),
    ("ro", "read_only"),
];

fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    match quoted.as_slice() {
        [only] => only.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
        [] => String::new(),
    }
}

fn unknown_word(written: &str, words: &[&str]) -> Wrong {
    let synonym = SYNONYMS.iter().find(|(foreign, _)| *foreign == written).map(|(_, word)| *word);
    let meant =
        synonym.filter(|word| words.contains(word)).or_else(|| nearest(written, words.iter().copied()));
    let instead = meant.map(|word| format!("write \"{word}\" (known: {})", one_of(words)));
    Wrong { what: format!("= {written:?} is not known"), instead }
}
