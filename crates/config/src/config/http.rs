//! Where programs ask over HTTP, and who they are.

use std::fmt;

use super::TlsIdentity;
use crate::address::ListenAddress;
use crate::clients::Clients;
use crate::secret::Secret;
use crate::value::SocketMode;
use crate::word::{AdminRole, ClientTls};

/// Where programs ask over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Http {
    /// Where to listen; not empty.
    pub addresses: Vec<ListenAddress>,
    /// Permissions of Unix sockets.
    pub socket_mode: SocketMode,
    /// TLS on TCP.
    pub tls: ClientTls,
    /// Certificate and key; `None`: the proxy makes them.
    pub tls_identity: Option<TlsIdentity>,
    /// Which clients may come in; empty: all.
    pub allow: Vec<Clients>,
    /// Which may not.
    pub deny: Vec<Clients>,
    /// Operators may log in with their passwords.
    pub basic_auth: bool,
    /// Metrics are for everybody.
    pub metrics_without_login: bool,
    /// Connections at the same time.
    pub max_connections: u32,
    /// The largest body of a request, bytes.
    pub max_body_bytes: u64,
    /// How long requests may take to come, and answers to be taken, milliseconds.
    pub timeout_ms: u64,
    /// Who may log in without a password.
    pub tokens: Vec<HttpToken>,
}

/// A token.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpToken {
    /// Unique name.
    pub name: String,
    /// What the token is compared with.
    pub secret: TokenSecret,
    /// What it may do.
    pub role: AdminRole,
}

/// What a token is compared with.
#[derive(Clone, PartialEq, Eq)]
pub enum TokenSecret {
    /// The token itself.
    Token(Secret),
    /// Its SHA-256.
    Sha256([u8; 32]),
}

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Token(_) => "Token(hidden)",
            Self::Sha256(_) => "Sha256(hidden)",
        })
    }
}
