//! Where clients come in: what a listener says of them, and a client on its way to its worker.

use std::sync::Arc;

use delphinus_net::tls::ServerTls;
use delphinus_net::{Network, Peer};
use delphinus_topology::ClusterId;
use delphinus_wire::Capabilities;
use delphinus_wire::handshake::TlsMode;

use crate::addresses::Addresses;
use crate::registry::Connected;

/// Which backends the clients of a listener get to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ListenerMode {
    /// Reads to replicas, the rest to the primary.
    #[default]
    Split,
    /// The primary only.
    ReadWrite,
    /// Replicas only; what writes is refused.
    ReadOnly,
}

/// One listener, as far as its clients notice.
#[derive(Debug, Clone)]
pub struct ListenerSettings {
    /// Its name in logs.
    pub name: Arc<str>,
    /// Whether clients may or must use TLS.
    pub tls_mode: TlsMode,
    /// With which certificate.
    pub tls: Option<ServerTls>,
    /// Which compression clients may ask for: `COMPRESS` (zlib), `ZSTD_COMPRESSION`, both or none.
    pub compression: Capabilities,
    /// Clients that ask for none of it are refused.
    pub must_compress: bool,
    /// Load balancers, which have to tell by the PROXY protocol whom they connect for.
    pub balancers: Vec<Network>,
    /// From where clients may come.
    pub from: Addresses,
    /// Which backends its clients get to.
    pub mode: ListenerMode,
    /// Which cluster they get to, if that is not up to user and schema.
    pub cluster: Option<ClusterId>,
}

/// A client on its way from the acceptor to its worker.
#[derive(Debug)]
pub struct Arrival {
    /// The socket.
    pub peer: Peer,
    /// Where it came in.
    pub listener: Arc<ListenerSettings>,
    /// Its place among all clients.
    pub connected: Connected,
}
