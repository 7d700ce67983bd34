//! The login machine of the proxy's backend side, also used by the monitor. Owns the order of the packets and which
//! secret serves which plugin; whether the backend's certificate is the right one is the TLS layer's affair.
//!
//! ```text
//! greeting -> [SSLRequest -> TLS] -> login -> [AuthSwitch -> answer] -> [full authentication] -> Done | Failed
//! ```

mod answer;
mod failure;
mod trust;

use crate::auth::ed25519::LongNonce;
use crate::auth::{BackendSecret, Nonce, Plugin};
use crate::capability::Capabilities;
use crate::response;

use super::exchange::{FAST_AUTH_OK, FULL_AUTH_NEEDED};
use super::{
    AuthMoreData, AuthSwitchRequest, ComChangeUser, ConnectAttributes, Greeting, Login, Packet, TlsMode,
    Transport,
};
use answer::Answer;
pub use failure::ClientFailure;
pub use trust::{CertificateTrust, KeyTrust, NamedBy, Trust, Way};

/// Sent where a collation's id does not fit into one byte: `utf8mb4_general_ci`, which every server knows.
const FALLBACK_COLLATION: u16 = 45;

/// Who logs in to one backend, and how.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// What is wanted of the backend, MariaDB's flags included. `SSL`, `CONNECT_WITH_DB` and `CONNECT_ATTRS` follow the
    /// other settings, and the flags that nothing works without are added.
    pub capabilities: Capabilities,
    /// Id of the collation.
    pub collation: u16,
    /// The largest packet that is taken, in bytes.
    pub max_packet_len: u32,
    /// User name.
    pub user: String,
    /// What there is to log in with.
    pub secret: BackendSecret,
    /// Default schema.
    pub schema: Option<Vec<u8>>,
    /// What to tell about the proxy.
    pub attributes: ConnectAttributes,
    /// Whether to use TLS.
    pub tls: TlsMode,
    /// What the backend is reached over.
    pub transport: Transport,
    /// Level of zstd compression, 1 to 22.
    pub zstd_level: u8,
    /// What is known of the backend: it decides what it is told of the password.
    pub trust: Trust,
}

/// What a login settles for a connection, and what a COM_CHANGE_USER on it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientLink {
    /// What both sides can do.
    pub capabilities: Capabilities,
    /// Id of the collation that was asked for in the login packet: the settings', or `utf8mb4_general_ci` if that one
    /// has no place in a login packet.
    pub collation: u16,
    /// The nonce that the last answer was made with.
    pub nonce: Nonce,
    /// The plugin that the last answer was made with.
    pub plugin: Plugin,
    /// True inside TLS.
    pub is_tls: bool,
}

/// A login that succeeded.
#[derive(Debug)]
pub struct ClientOutcome {
    /// What the backend says about itself; `None` after a COM_CHANGE_USER.
    pub greeting: Option<Greeting>,
    /// What was negotiated.
    pub link: ClientLink,
    /// Payload of the OK packet.
    pub ok: Vec<u8>,
}

/// What to do next.
#[derive(Debug)]
pub enum Step {
    /// Send the packet, read one, and give it to `receive`.
    Send(Packet, ClientLogin),
    /// Read a packet and give it to `receive`.
    Read(ClientLogin),
    /// Send the packet, do the TLS handshake, and go on with `AwaitTls::started`.
    StartTls(Packet, AwaitTls),
    /// Logged in.
    Done(Box<ClientOutcome>),
    /// Not logged in: close the connection.
    Failed(ClientFailure),
}

/// The machine, waiting for a packet of the backend.
#[derive(Debug)]
pub struct ClientLogin {
    settings: ClientSettings,
    /// Sequence id that the next packet has to have, in either direction.
    seq: u8,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The backend speaks first.
    Connected,
    /// An answer is sent.
    Authenticating(Box<Exchange>, Waiting),
}

/// A login after the greeting.
#[derive(Debug)]
struct Exchange {
    greeting: Option<Greeting>,
    link: ClientLink,
    /// The backend has asked for another plugin; it may do so once.
    is_switched: bool,
}

/// What may come next, other than an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    /// OK, a switch of the plugin, or the plugin's own data.
    Reply,
    /// The backend's public key.
    PublicKey,
    /// OK.
    Verdict,
}

impl ClientLogin {
    /// Begins with the backend's greeting, which is the first packet to read.
    pub fn start(settings: ClientSettings) -> Self {
        Self { settings, seq: 0, state: State::Connected }
    }

    /// Begins with a COM_CHANGE_USER on an open connection. Of the settings, `user`, `secret`, `schema`, `collation`,
    /// `attributes`, `transport` and `trust` count.
    pub fn change_user(settings: ClientSettings, link: ClientLink) -> Step {
        if let Err(failure) = check_names(&settings) {
            return Step::Failed(failure);
        }
        // A nonce of ed25519 serves for one answer: the server switches to a new one.
        let is_usable = settings.secret.fits(link.plugin) && link.plugin != Plugin::Ed25519;
        let plugin = if is_usable { link.plugin } else { own_plugin(&settings.secret) };
        let login = Self { settings, seq: 0, state: State::Connected };
        let link = ClientLink { plugin, collation: login.settings.collation, ..link };
        let Answer { payload, waiting } = match answer::first(&login.settings, &link) {
            Ok(answer) => answer,
            Err(failure) => return Step::Failed(failure),
        };
        let command = ComChangeUser {
            user: login.settings.user.clone().into_bytes(),
            answer: payload,
            schema: login.settings.schema.clone().unwrap_or_default(),
            collation: Some(link.collation),
            plugin: Some(plugin.name().into()),
            attributes: login.settings.attributes.clone(),
        };
        let exchange = Exchange { greeting: None, link, is_switched: false };
        login.send(command.encode(link.capabilities), Box::new(exchange), waiting)
    }

    /// Goes on with a packet of the backend.
    pub fn receive(mut self, seq: u8, payload: &[u8]) -> Step {
        if payload.first() == Some(&response::ERR) {
            // Whatever its sequence id is: a server that is full or shuts down does not always count.
            return match response::ErrPacket::parse(payload) {
                Ok(err) => Step::Failed(ClientFailure::Refused(err)),
                Err(malformed) => Step::Failed(malformed.into()),
            };
        }
        if seq != self.seq {
            return Step::Failed(ClientFailure::Unexpected("a packet out of order"));
        }
        self.seq = seq.wrapping_add(1);
        match std::mem::replace(&mut self.state, State::Connected) {
            State::Connected => self.receive_greeting(payload),
            State::Authenticating(exchange, waiting) => self.receive_reply(exchange, waiting, payload),
        }
    }

    fn receive_greeting(mut self, payload: &[u8]) -> Step {
        let greeting = match check_names(&self.settings).and_then(|()| Ok(Greeting::parse(payload)?)) {
            Ok(greeting) => greeting,
            Err(failure) => return Step::Failed(failure),
        };
        let can_tls = greeting.capabilities.contains(Capabilities::SSL);
        let is_tls =
            self.settings.transport == Transport::Tcp && self.settings.tls != TlsMode::Disabled && can_tls;
        if self.settings.tls == TlsMode::Required && self.settings.transport == Transport::Tcp && !can_tls {
            return Step::Failed(ClientFailure::TlsUnavailable);
        }
        let link = ClientLink {
            capabilities: wanted(&self.settings, is_tls)
                & (greeting.capabilities | Capabilities::CONNECT_WITH_DB),
            collation: login_collation(self.settings.collation),
            nonce: greeting.nonce,
            plugin: first_plugin(&self.settings.secret, &greeting),
            is_tls,
        };
        let exchange = Box::new(Exchange { greeting: Some(greeting), link, is_switched: false });
        if !is_tls {
            return self.log_in(exchange);
        }
        let packet = self.packet(self.login_packet(&link, Vec::new()).ssl_request().encode());
        Step::StartTls(packet, AwaitTls { login: self, exchange })
    }

    fn log_in(self, exchange: Box<Exchange>) -> Step {
        let host = self.settings.trust.check_host(exchange.link.is_tls);
        match host.and_then(|()| answer::first(&self.settings, &exchange.link)) {
            Ok(Answer { payload, waiting }) => {
                let login = self.login_packet(&exchange.link, payload).encode();
                self.send(login, exchange, waiting)
            }
            Err(failure) => Step::Failed(failure),
        }
    }

    fn login_packet(&self, link: &ClientLink, answer: Vec<u8>) -> Login {
        Login {
            capabilities: link.capabilities,
            max_packet_len: self.settings.max_packet_len,
            collation: link.collation,
            user: self.settings.user.clone().into_bytes(),
            answer,
            schema: self.settings.schema.clone(),
            plugin: Some(link.plugin.name().into()),
            attributes: self.settings.attributes.clone(),
            zstd_level: self.settings.zstd_level,
        }
    }

    fn receive_reply(self, exchange: Box<Exchange>, waiting: Waiting, payload: &[u8]) -> Step {
        match (payload.first(), waiting) {
            (Some(&response::OK), Waiting::Reply | Waiting::Verdict) => {
                let Exchange { greeting, link, .. } = *exchange;
                Step::Done(Box::new(ClientOutcome { greeting, link, ok: payload.to_vec() }))
            }
            (Some(0xfe), Waiting::Reply | Waiting::PublicKey) if !exchange.is_switched => {
                self.switch(exchange, payload)
            }
            (Some(1), Waiting::Reply | Waiting::PublicKey) => self.receive_data(exchange, waiting, payload),
            _ => Step::Failed(ClientFailure::Unexpected("a packet that has no place here")),
        }
    }

    fn switch(self, mut exchange: Box<Exchange>, payload: &[u8]) -> Step {
        let request = match AuthSwitchRequest::parse(payload) {
            Ok(request) => request,
            Err(malformed) => return Step::Failed(malformed.into()),
        };
        let Some(plugin) = Plugin::from_name(&request.plugin) else {
            let plugin = String::from_utf8_lossy(&request.plugin).into_owned();
            return Step::Failed(ClientFailure::UnknownPlugin { user: self.settings.user, plugin });
        };
        exchange.link.plugin = plugin;
        exchange.is_switched = true;
        if let (Plugin::Ed25519, Some(nonce)) = (plugin, request.long_nonce()) {
            return self.sign(exchange, &nonce);
        }
        if let Some(nonce) = request.nonce() {
            exchange.link.nonce = nonce;
        } else if plugin != Plugin::Clear {
            return Step::Failed(ClientFailure::Unexpected("a switch of the plugin without a nonce"));
        }
        match answer::first(&self.settings, &exchange.link) {
            Ok(Answer { payload, waiting }) => self.send(payload, exchange, waiting),
            Err(failure) => Step::Failed(failure),
        }
    }

    fn sign(self, exchange: Box<Exchange>, nonce: &LongNonce) -> Step {
        match answer::signed(&self.settings, &exchange.link, nonce) {
            Ok(Answer { payload, waiting }) => self.send(payload, exchange, waiting),
            Err(failure) => Step::Failed(failure),
        }
    }

    fn receive_data(mut self, exchange: Box<Exchange>, waiting: Waiting, payload: &[u8]) -> Step {
        let data = match AuthMoreData::parse(payload) {
            Ok(AuthMoreData(data)) => data,
            Err(malformed) => return Step::Failed(malformed.into()),
        };
        let next = match (waiting, exchange.link.plugin, data) {
            (Waiting::PublicKey, _, pem) => answer::encrypted(&self.settings, &exchange.link, pem),
            (Waiting::Reply, Plugin::CachingSha2, [FAST_AUTH_OK]) => {
                self.state = State::Authenticating(exchange, Waiting::Verdict);
                return Step::Read(self);
            }
            (Waiting::Reply, Plugin::CachingSha2, [FULL_AUTH_NEEDED]) => {
                answer::full(&self.settings, &exchange.link)
            }
            _ => Err(ClientFailure::Unexpected("data that the plugin does not know")),
        };
        match next {
            Ok(Answer { payload, waiting }) => self.send(payload, exchange, waiting),
            Err(failure) => Step::Failed(failure),
        }
    }

    fn packet(&mut self, payload: Vec<u8>) -> Packet {
        let seq = self.seq;
        self.seq = seq.wrapping_add(1);
        Packet { seq, payload }
    }

    fn send(mut self, payload: Vec<u8>, exchange: Box<Exchange>, waiting: Waiting) -> Step {
        let packet = self.packet(payload);
        self.state = State::Authenticating(exchange, waiting);
        Step::Send(packet, self)
    }
}

/// The machine, waiting for the TLS handshake.
#[derive(Debug)]
pub struct AwaitTls {
    login: ClientLogin,
    exchange: Box<Exchange>,
}

impl AwaitTls {
    /// Goes on inside TLS.
    pub fn started(self) -> Step {
        self.login.log_in(self.exchange)
    }
}

/// A NUL would end a name early, and the backend would take the rest for something else.
fn check_names(settings: &ClientSettings) -> Result<(), ClientFailure> {
    let has_nul = |name: &[u8]| name.contains(&0);
    if has_nul(settings.user.as_bytes()) || settings.schema.as_deref().is_some_and(has_nul) {
        return Err(ClientFailure::NulInName);
    }
    Ok(())
}

fn wanted(settings: &ClientSettings, is_tls: bool) -> Capabilities {
    let mut wanted = settings.capabilities
        | Capabilities::LONG_PASSWORD
        | Capabilities::LONG_FLAG
        | Capabilities::PROTOCOL_41
        | Capabilities::TRANSACTIONS
        | Capabilities::SECURE_CONNECTION
        | Capabilities::PLUGIN_AUTH
        | Capabilities::PLUGIN_AUTH_LENENC_DATA;
    for (flag, is_wanted) in [
        (Capabilities::SSL, is_tls),
        (Capabilities::CONNECT_WITH_DB, settings.schema.is_some()),
        (Capabilities::CONNECT_ATTRS, !settings.attributes.is_empty()),
    ] {
        wanted = if is_wanted { wanted | flag } else { wanted.without(flag) };
    }
    wanted
}

/// Servers read one byte of a collation's id.
fn login_collation(id: u16) -> u16 {
    if id <= 0xff { id } else { FALLBACK_COLLATION }
}

/// The plugin that the secret is meant for.
fn own_plugin(secret: &BackendSecret) -> Plugin {
    match secret {
        BackendSecret::Plain(_) | BackendSecret::NativeSha1(_) => Plugin::Native,
        BackendSecret::Sha2Stage1(_) => Plugin::CachingSha2,
    }
}

/// The greeting's plugin, if the secret serves it. The password in clear is never the first thing to send.
fn first_plugin(secret: &BackendSecret, greeting: &Greeting) -> Plugin {
    if !greeting.capabilities.contains(Capabilities::PLUGIN_AUTH) {
        return Plugin::Native;
    }
    match Plugin::from_name(greeting.plugin.as_bytes()) {
        // Nor is a signature: the greeting's nonce is too short for it.
        Some(plugin) if !matches!(plugin, Plugin::Clear | Plugin::Ed25519) && secret.fits(plugin) => plugin,
        _ => own_plugin(secret),
    }
}

#[cfg(test)]
mod tests;
