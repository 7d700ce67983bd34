//! What the login of a session has settled, and its statements ask for. What a change of the user needs beside it, the session has.

use std::net::IpAddr;
use std::sync::Arc;

use delphinus_clients::ListenerSettings;
use delphinus_wire::response::Layer;

/// What the login settled for as long as the connection lives.
pub(crate) struct LoginFacts {
    pub(crate) listener: Arc<ListenerSettings>,
    /// `None` on a Unix socket.
    pub(crate) client_ip: Option<IpAddr>,
    /// What the client is, if it is one of us.
    pub(crate) peer: Layer,
}
