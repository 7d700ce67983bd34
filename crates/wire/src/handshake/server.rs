//! The login machine of the proxy's client side. Owns the order of the packets and what is refused with which error;
//! knows no users (the caller looks them up) and does no slow work (the caller runs it off the worker thread).
//!
//! ```text
//! start -> greeting -> [SSLRequest -> TLS] -> login -> Lookup -> [AuthSwitch -> answer]
//!       -> [full authentication: [public key ->] password -> Compute | Verify] -> Done | Refuse
//! ```
//!
//! The caller sends the packets of each step before it reads on, gives what it has read beyond an SSLRequest to TLS
//! (never to this machine: bytes from before TLS must not pretend to come after it), and sends the final OK or ERR.

mod authenticate;
mod compute;
mod decoys;
mod outcome;

use std::sync::Arc;

use crate::auth::ed25519::LongNonce;
use crate::auth::{BackendSecret, Nonce, Password, Plugin, RsaKey};
use crate::capability::Capabilities;

use super::{ComChangeUser, Greeting, Login, Packet, SslRequest, TlsMode, Transport};
use authenticate::{Pending, Waiting};
pub use compute::{ComputeJob, ComputeResult};
pub use decoys::Decoys;
pub use outcome::{Established, LoginOutcome, Refusal, UserRecord, Verdict};

/// Largest payload of a login packet, in bytes: connection attributes may have 64 KiB.
pub const MAX_LOGIN_LEN: usize = 66 * 1024;
/// Largest payload of the packets after the login packet, in bytes.
pub const MAX_ANSWER_LEN: usize = 4 * 1024;

/// SERVER_STATUS_AUTOCOMMIT: what every server says in its greeting.
const STATUS: u16 = 2;

/// What the proxy is to one client.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// What is offered. `SSL` follows `tls`, and the flags that nothing works without are added.
    pub capabilities: Capabilities,
    /// As sent.
    pub server_version: String,
    /// Default collation: the low 8 bits of its id.
    pub collation: u8,
    /// Id of the connection, as KILL takes it.
    pub connection_id: u32,
    /// Fresh random bytes, no zero among them (and no `$`, which some servers avoid too).
    pub nonce: Nonce,
    /// Fresh random bytes for `client_ed25519`.
    pub long_nonce: LongNonce,
    /// The plugin of the greeting, and of users without one of their own: `Native` or `CachingSha2`.
    pub default_plugin: Plugin,
    /// Whether clients may or must use TLS.
    pub tls: TlsMode,
    /// What the client came over.
    pub transport: Transport,
    /// For full authentication without TLS. Without a key, such logins are refused.
    pub rsa_key: Option<Arc<RsaKey>>,
    /// The client's host as error messages name it.
    pub client_host: String,
}

/// What to do next.
#[derive(Debug)]
pub enum Step {
    /// Send the packet, read one, and give it to `receive`.
    Send(Packet, ServerLogin),
    /// Do the TLS handshake, read a packet, and give it to `receive`.
    StartTls(ServerLogin),
    /// Look the user up and go on with `UserQuery::answer`.
    Lookup(UserQuery),
    /// Run the job where it disturbs nobody and go on with `AwaitResult::resume`.
    Compute(ComputeJob, AwaitResult),
    /// Ask a backend whether the password is right and go on with `PasswordQuery::answer`.
    Verify(PasswordQuery),
    /// The client is who it says. Send `LoginOutcome::before_ok`, if any, and an OK packet.
    Done(Box<LoginOutcome>),
    /// Send the error and close the connection.
    Refuse(Refusal),
}

/// The machine, waiting for a packet of the client.
#[derive(Debug)]
pub struct ServerLogin {
    connection: Connection,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The greeting is sent.
    Greeted,
    /// The login packet is read.
    Authenticating(Box<Pending>, Waiting),
}

/// What stays the same through a login.
#[derive(Debug)]
struct Connection {
    settings: ServerSettings,
    /// Sequence id that the next packet has to have, in either direction.
    seq: u8,
    is_tls: bool,
    /// The login is a COM_CHANGE_USER.
    is_change: bool,
}

impl Connection {
    /// True if nobody else can read what the client sends.
    fn is_secure(&self) -> bool {
        self.is_tls || self.settings.transport == Transport::Unix
    }

    fn packet(&mut self, payload: Vec<u8>) -> Packet {
        let seq = self.seq;
        self.seq = seq.wrapping_add(1);
        Packet { seq, payload }
    }

    fn refuse(&self, refusal: Refusal) -> Step {
        Step::Refuse(Refusal { seq: self.seq, ..refusal })
    }
}

impl ServerLogin {
    /// Begins with the greeting.
    pub fn start(mut settings: ServerSettings) -> (Packet, Self) {
        settings.capabilities = offered(&settings);
        let greeting = Greeting {
            server_version: settings.server_version.clone(),
            connection_id: settings.connection_id,
            nonce: settings.nonce,
            capabilities: settings.capabilities,
            collation: settings.collation,
            status: STATUS,
            plugin: settings.default_plugin.name().to_owned(),
        };
        let mut connection = Connection { settings, seq: 0, is_tls: false, is_change: false };
        let packet = connection.packet(greeting.encode());
        (packet, Self { connection, state: State::Greeted })
    }

    /// Begins with a COM_CHANGE_USER (its sequence id is 0). `settings` are those of the connection's login, nonce
    /// included; `established` is what came out of it.
    pub fn change_user(settings: ServerSettings, established: Established, payload: &[u8]) -> Step {
        let connection = Connection { settings, seq: 1, is_tls: established.is_tls, is_change: true };
        if payload.len() > MAX_LOGIN_LEN {
            return connection.refuse(Refusal::unknown_command());
        }
        match ComChangeUser::parse(payload, established.capabilities) {
            Ok(command) => {
                let pending = Pending::from_command(command, established);
                Step::Lookup(UserQuery { connection, pending: Box::new(pending) })
            }
            Err(_) => connection.refuse(Refusal::unknown_command()),
        }
    }

    /// Largest payload that `receive` takes, in bytes. The caller need not read longer ones.
    pub fn max_payload_len(&self) -> usize {
        match self.state {
            State::Greeted => MAX_LOGIN_LEN,
            State::Authenticating(..) => MAX_ANSWER_LEN,
        }
    }

    /// Goes on with a packet of the client.
    pub fn receive(mut self, seq: u8, payload: &[u8]) -> Step {
        if seq != self.connection.seq {
            return self.connection.refuse(Refusal::out_of_order());
        }
        self.connection.seq = seq.wrapping_add(1);
        if payload.len() > self.max_payload_len() {
            return self.connection.refuse(Refusal::bad_handshake("packet too long"));
        }
        match self.state {
            State::Greeted => receive_login(self.connection, payload),
            State::Authenticating(pending, waiting) => pending.receive(self.connection, waiting, payload),
        }
    }
}

/// The flags that are sent: those that nothing works without, and `SSL` if TLS is to be had.
fn offered(settings: &ServerSettings) -> Capabilities {
    let always = Capabilities::PROTOCOL_41
        | Capabilities::SECURE_CONNECTION
        | Capabilities::TRANSACTIONS
        | Capabilities::PLUGIN_AUTH;
    let offered = settings.capabilities | always;
    match settings.tls {
        TlsMode::Disabled => offered.without(Capabilities::SSL),
        TlsMode::Optional | TlsMode::Required => offered | Capabilities::SSL,
    }
}

fn receive_login(mut connection: Connection, payload: &[u8]) -> Step {
    if SslRequest::parse(payload).is_some() {
        if connection.is_tls || connection.settings.tls == TlsMode::Disabled {
            return connection.refuse(Refusal::bad_handshake("SSLRequest where no TLS is offered"));
        }
        connection.is_tls = true;
        return Step::StartTls(ServerLogin { connection, state: State::Greeted });
    }
    if is_too_old(payload) {
        return connection.refuse(Refusal::unsupported_client());
    }
    let Ok(login) = Login::parse(payload) else {
        return connection.refuse(Refusal::bad_handshake("malformed login packet"));
    };
    if connection.settings.tls == TlsMode::Required && !connection.is_secure() {
        return connection.refuse(Refusal::insecure_transport());
    }
    let mut capabilities = login.capabilities & connection.settings.capabilities;
    if !connection.is_tls {
        capabilities = capabilities.without(Capabilities::SSL);
    }
    let pending = Pending::from_login(login, capabilities, connection.is_tls);
    Step::Lookup(UserQuery { connection, pending: Box::new(pending) })
}

/// True for a client that speaks the protocol of MySQL 4.0, or that of 4.1 without its passwords.
fn is_too_old(payload: &[u8]) -> bool {
    let needed = Capabilities::PROTOCOL_41 | Capabilities::SECURE_CONNECTION;
    payload.first_chunk().is_some_and(|&low| {
        let flags = Capabilities(u64::from(u16::from_le_bytes(low)));
        !flags.contains(needed)
    })
}

/// The machine, waiting for the caller to look a user up.
#[derive(Debug)]
pub struct UserQuery {
    connection: Connection,
    pending: Box<Pending>,
}

impl UserQuery {
    /// The user's name. What is not UTF-8 in it is replaced, so that it fits no listed name.
    pub fn user(&self) -> &str {
        &self.pending.user
    }

    /// The schema that the client names.
    pub fn schema(&self) -> Option<&[u8]> {
        self.pending.schema.as_deref()
    }

    /// Ends the login before anything is looked up.
    pub fn refuse(self, refusal: Refusal) -> Step {
        self.connection.refuse(refusal)
    }

    /// Goes on with what is known of the user. An unknown user is answered with what `Decoys` has for the name.
    pub fn answer(self, record: UserRecord) -> Step {
        self.pending.begin(self.connection, record)
    }
}

/// The machine, waiting for the result of a job.
#[derive(Debug)]
pub struct AwaitResult {
    connection: Connection,
    pending: Box<Pending>,
}

impl AwaitResult {
    /// Goes on with the job's result.
    pub fn resume(self, result: ComputeResult) -> Step {
        if self.pending.is_for_backend() {
            return self.pending.check_by_backend(self.connection, result.into_password());
        }
        self.pending.settle(self.connection, result.into_secret(), None)
    }
}

/// The machine, waiting for a backend's word on a password.
#[derive(Debug)]
pub struct PasswordQuery {
    connection: Connection,
    pending: Box<Pending>,
    password: Password,
}

impl PasswordQuery {
    /// The user's name.
    pub fn user(&self) -> &str {
        &self.pending.user
    }

    /// The schema that the client names.
    pub fn schema(&self) -> Option<&[u8]> {
        self.pending.schema.as_deref()
    }

    /// What was agreed with the client.
    pub fn capabilities(&self) -> Capabilities {
        self.pending.established.capabilities
    }

    /// The password that the client gave; empty for none.
    pub fn password(&self) -> &Password {
        &self.password
    }

    /// Goes on with the backend's word.
    pub fn answer(self, verdict: Verdict) -> Step {
        let Self { connection, pending, password } = self;
        match verdict {
            Verdict::Right => pending.settle(connection, Some(BackendSecret::Plain(password)), None),
            Verdict::Refused(error, reason) => {
                let host = &connection.settings.client_host;
                let refusal = Refusal::by_backend(&error, &pending.user, host, reason);
                connection.refuse(refusal)
            }
        }
    }
}

#[cfg(test)]
mod tests;
