//! Login, as machines without I/O: payloads in, payloads and requests out. Both sides are here: `server` is what the
//! proxy is to its clients, `client` is what it is to its backends. Sockets, TLS, time limits and randomness are the
//! caller's.
//!
//! | packet | file |
//! |---|---|
//! | Protocol::HandshakeV10 | `greeting` |
//! | Protocol::HandshakeResponse41, Protocol::SSLRequest | `login` |
//! | connection attributes inside both login packets | `attributes` |
//! | Protocol::AuthSwitchRequest, Protocol::AuthMoreData | `exchange` |
//! | COM_CHANGE_USER | `change_user` |

mod attributes;
mod change_user;
pub mod client;
mod exchange;
mod greeting;
mod login;
pub mod server;

pub use attributes::ConnectAttributes;
pub use change_user::ComChangeUser;
pub use exchange::{AuthMoreData, AuthSwitchRequest};
pub use greeting::Greeting;
pub use login::{Login, SslRequest};

/// A packet to send. Logins have no packet of 16 MiB, so the payload always fits into one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// Sequence id.
    pub seq: u8,
    /// Payload, without the header.
    pub payload: Vec<u8>,
}

/// Whether a side takes part in TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsMode {
    /// Never.
    Disabled,
    /// If the other side wants or can.
    #[default]
    Optional,
    /// A login without TLS fails, unless the transport is a Unix socket.
    Required,
}

/// What a connection runs over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Transport {
    /// TCP: nothing is secret without TLS.
    #[default]
    Tcp,
    /// A Unix socket: as good as TLS, because nobody but the two ends and root can listen.
    Unix,
}

#[cfg(test)]
mod tests;
