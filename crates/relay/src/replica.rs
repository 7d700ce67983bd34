//! The outgoing half: any number of replicas connect to a relay as to a primary, and are sent the log.
//!
//! | question | file |
//! |---|---|
//! | where replicas connect, threads, places | `listen` |
//! | login, commands, until a replica asks for the log | `conversation` |
//! | compression, for replicas that ask for it | `compression` |
//! | the statements of that conversation | `statement` |
//! | what a relay says of itself | `facts` |
//! | what a replica has asked for | `asked` |
//! | in which file it begins | `place`, `start` |
//! | which groups it needs | `filter` |
//! | bytes of a file to packets | `course`, `frame` |
//! | events that are made for a connection | `made` |
//! | reading and sending, waiting, heartbeats | `dump` |
//! | why it cannot be served | `fatal` |
//! | who is connected, and how far | `registry` |
//!
//! Readers take no lock that the writer takes: see `log`. Only a MariaDB replica with a place in a domain that the log does not have looks
//! at what the log has, each time that it has grown. A replica has a task of its own on one of a few threads, and two buffers
//! only while there is something to send.

mod asked;
mod compression;
mod conversation;
mod course;
mod dump;
mod facts;
mod fatal;
mod filter;
mod frame;
mod listen;
mod made;
mod place;
mod registry;
mod short;
mod start;
mod statement;

pub(crate) use compression::name as compression_name;
pub use facts::VERSION_COMMENT;
pub use listen::{Door, Serving, serve};
pub use registry::{Registry, ReplicaRow};

/// A user of a relay: all of them may follow the log, and nothing else (REPLICATION SLAVE).
#[derive(Debug, Clone)]
pub struct ReplicaUser {
    /// The name to log in with.
    pub name: String,
    /// What the password is compared with; never `Backend`.
    pub credential: delphinus_wire::auth::Credential,
}

/// What a relay is to its replicas.
#[derive(Debug, Clone)]
pub struct Identity {
    /// `server_id`. Another one than those of the source and of all replicas.
    pub server_id: u32,
    /// `server_uuid`, with hyphens.
    pub uuid: String,
}
