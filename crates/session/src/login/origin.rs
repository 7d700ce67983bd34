//! Where a client comes from: the other end of its connection, or what a load balancer says by the PROXY protocol.

use std::net::IpAddr;
use std::time::Duration;

use delphinus_clients::ListenerSettings;
use delphinus_net::{Buffer, NetError, Stream, read_proxy_header};
use delphinus_wire::Capabilities;
use delphinus_wire::proxy_header::{ProxyOrigin, version_of};

use super::greeting::refuse;
use crate::client_error::{ClientError, ProxyError};

/// Where a client comes from.
pub(super) struct Origin {
    /// As errors and logs have it: an IP address, or `localhost`.
    pub(super) host: String,
    /// `None` on a Unix socket.
    pub(super) ip: Option<IpAddr>,
    /// At the other end of a Unix socket.
    pub(super) system_user: Option<u32>,
}

/// A load balancer sends its header with the connection; at most this is waited for it, in milliseconds.
const HEADER_LIMIT_MS: u64 = 3000;

impl Origin {
    /// The origin of a connection from `self`, which may be a load balancer. One that breaks the protocol is told, and
    /// this fails.
    pub(super) async fn resolve(
        self,
        stream: &mut Stream,
        buffer: &mut Buffer,
        (listener, login_limit_ms): (&ListenerSettings, u64),
    ) -> Result<Self, NetError> {
        let is_balancer =
            self.ip.is_some_and(|ip| listener.balancers.iter().any(|network| network.contains(ip)));
        if !is_balancer {
            return Ok(self);
        }
        // Less than the login may take, so that there is time to say what is missing.
        let limit = Duration::from_millis(HEADER_LIMIT_MS.min(login_limit_ms / 2 + 1));
        match read_proxy_header(stream, buffer, limit).await {
            Ok(ProxyOrigin::Own) => Ok(self),
            Ok(ProxyOrigin::Unix) => Ok(Self { host: "localhost".to_owned(), ip: None, system_user: None }),
            Ok(ProxyOrigin::Ip { source, .. }) => {
                let ip = source.ip();
                Ok(Self { host: ip.to_string(), ip: Some(ip), system_user: None })
            }
            Err(error) => {
                if matches!(error, NetError::TimedOut(_) | NetError::Malformed(_)) {
                    let what = "proxy_protocol_networks requires a valid PROXY protocol header from";
                    // Before the greeting there is no SQLSTATE in errors.
                    tell(stream, (what, &self.host), 0, Capabilities::default()).await;
                }
                Err(error)
            }
        }
    }
}

/// Tells a client whose login broke off why, if it began with a header that nobody may send here.
pub(super) async fn refuse_header(stream: &mut Stream, buffer: &Buffer, host: &str) {
    if version_of(buffer.data()).is_some() {
        // The client behind it has been greeted and waits for the packet after its login.
        let what = "there is a PROXY protocol header, but proxy_protocol_networks does not list";
        tell(stream, (what, host), 2, Capabilities::PROTOCOL_41).await;
    }
}

async fn tell(stream: &mut Stream, (what, host): (&'static str, &str), seq: u8, capabilities: Capabilities) {
    tracing::info!(client.host = %host, "login refused: {what} this host");
    let error = ClientError::from(&ProxyError::ProxyHeader(what, host.to_owned()));
    refuse(stream, &error, seq, capabilities).await;
}
