//! Replication relays, as the rest of the product sees them.

use std::path::PathBuf;
use std::time::Duration;

use super::{Backend, Credential, TlsIdentity};
use crate::address::{BackendAddress, ListenAddress};
use crate::secret::Secret;
use crate::word::{ClientTls, Compression};

/// A replication relay.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "independent options, each looked at by itself")]
pub struct Relay {
    /// Unique name.
    pub name: String,
    /// Its folder; unique.
    pub folder: PathBuf,
    /// The server that it replicates from.
    pub source: RelaySource,
    /// Servers that it may be turned to beside its source, if it has one of its own.
    pub may_follow: Vec<BackendAddress>,
    /// As whom it logs in there.
    pub user: String,
    /// The user's password.
    pub password: Secret,
    /// Its number, at least 1.
    pub server_id: u32,
    /// Its uuid; `None`: it makes one.
    pub uuid: Option<u128>,
    /// It acknowledges.
    pub semi_sync: bool,
    /// Without files it begins with the oldest.
    pub from_oldest_file: bool,
    /// How often an idle source says so.
    pub heartbeat: Duration,
    /// Between attempts.
    pub retry: Duration,
    /// For each step.
    pub timeout: Duration,
    /// It begins by itself.
    pub start: bool,
    /// How long its files stay.
    pub keep: RelayKeep,
    /// Where replicas connect; may be empty.
    pub addresses: Vec<ListenAddress>,
    /// Where servers reach it; `None`: that is not known.
    pub reported: Option<(String, u16)>,
    /// TLS with replicas on TCP.
    pub tls: ClientTls,
    /// Certificate and key; `None`: the proxy makes them.
    pub tls_identity: Option<TlsIdentity>,
    /// What replicas may ask for.
    pub compression_algorithms: Vec<Compression>,
    /// Connections of replicas at the same time.
    pub max_connections: u32,
    /// Threads that serve them.
    pub threads: u32,
    /// As whom replicas log in; not empty where there are addresses.
    pub users: Vec<RelayUser>,
}

/// How long the files of a relay stay.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelayKeep {
    /// A closed file goes when it is older.
    pub max_age: Option<Duration>,
    /// The oldest go while all have more bytes.
    pub max_bytes: Option<u64>,
    /// A file goes once so many replicas have it.
    pub after_replicas: Option<u32>,
    /// So long a replica is waited for that is gone.
    pub remember: Duration,
    /// So long after it was sent a replica has a file.
    pub margin: Duration,
    /// What takes closed files.
    pub archive: Option<RelayArchive>,
}

/// The program that takes closed files.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelayArchive {
    /// Where it is.
    pub program: PathBuf,
    /// Its first arguments.
    pub arguments: Vec<String>,
    /// It is killed after so long.
    pub timeout: Duration,
}

/// The server that a relay replicates from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RelaySource {
    /// This one.
    Server(Backend),
    /// The primary of the cluster with this index.
    Cluster(usize),
}

/// As whom replicas log in.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RelayUser {
    /// The name.
    pub name: String,
    /// What the password is compared with.
    pub credential: Credential,
}
