//! The proxy logs in to a backend.

use delphinus_telemetry::{ErrorKind, Retry, Source};
use delphinus_wire::auth::BackendSecret;
use delphinus_wire::compression::{Algorithm, CompressedLink, Side};
use delphinus_wire::handshake::client::{
    ClientFailure, ClientLink, ClientLogin, ClientOutcome, ClientSettings, Step, Trust, Way,
};
use delphinus_wire::handshake::{ConnectAttributes, Greeting, Packet, TlsMode, Transport};
use delphinus_wire::response::{AGES_ATTRIBUTE, ErrPacket, Layer, VERSION_ATTRIBUTE};
use delphinus_wire::{Capabilities, HEADER_LEN, put_packet};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::buffer::Buffer;
use crate::error::{NetError, retry_after_refusal};
use crate::packet_io::PacketIo;
use crate::stream::Stream;
use crate::tls::ClientTls;

/// Who logs in, and how.
#[derive(Debug, Clone)]
pub struct BackendLogin {
    /// User name.
    pub user: String,
    /// What there is to log in with.
    pub secret: BackendSecret,
    /// Default schema.
    pub schema: Option<String>,
    /// What is wanted of the backend.
    pub capabilities: Capabilities,
    /// Id of the collation.
    pub collation: u8,
    /// TLS, and true if a backend without it is refused.
    pub tls: Option<(ClientTls, bool)>,
    /// The name that the certificate must carry.
    pub host: String,
    /// Connection attributes beside the proxy's own; of two with one name, these.
    pub attributes: ConnectAttributes,
    /// Level of zstd compression, if that is among the capabilities.
    pub zstd_level: u8,
    /// What is known of the backend. The way to it is seen at the connection.
    pub trust: Trust,
}

/// A connection that is logged in.
#[derive(Debug)]
pub struct LoggedIn {
    /// The socket, with TLS where that was agreed.
    pub stream: Stream,
    /// What the backend says about itself.
    pub greeting: Greeting,
    /// What was negotiated.
    pub capabilities: Capabilities,
    /// The backend's id for this connection.
    pub thread_id: u32,
    /// What a later COM_CHANGE_USER needs.
    pub link: ClientLink,
    /// What it is, if it is one of us.
    pub peer: Layer,
}

/// Why a login failed.
#[derive(Debug, Error)]
pub enum LoginError {
    /// The socket, TLS, or bytes that make no sense.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The backend said no.
    #[error("error {}: {}", .0.code, .0.text())]
    Refused(ErrPacket),
    /// What the proxy knows of the user, or is told to demand, does not fit what the backend wants.
    #[error("{0}")]
    Unsuitable(String),
}

impl LoginError {
    /// Its kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Net(error) => error.kind(Source::Backend),
            Self::Refused(_) | Self::Unsuitable(_) => ErrorKind::BackendUnreachable,
        }
    }

    /// Whether the login may be tried again.
    pub fn retry(&self) -> Retry {
        match self {
            Self::Net(error) => error.retry(),
            Self::Refused(refusal) => retry_after_refusal(refusal.code),
            Self::Unsuitable(_) => Retry::Never,
        }
    }
}

/// The largest packet of a login, in bytes.
const MAX_PACKET: usize = 64 * 1024;
/// What is told to backends: they send no larger packets.
const MAX_ALLOWED_PACKET: u32 = 1 << 30;

/// Logs in on a new connection.
pub async fn log_in(mut stream: Stream, login: &BackendLogin) -> Result<LoggedIn, LoginError> {
    let mut buffer = Buffer::default();
    let mut io = PacketIo::new(&mut stream, &mut buffer, 0);
    let machine = ClientLogin::start(settings(io.stream(), login));
    let outcome =
        drive(&mut io, Step::Read(machine), login.tls.as_ref().map(|(tls, _)| tls), &login.host).await?;
    let greeting = outcome.greeting.ok_or(NetError::Closed)?;
    if let Some(algorithm) = Algorithm::agreed(outcome.link.capabilities, login.zstd_level) {
        stream.start_compression(CompressedLink::new(algorithm, Side::Client), buffer.data());
    }
    let thread_id = greeting.connection_id;
    let capabilities = outcome.link.capabilities;
    let peer = Layer::of_server(&outcome.ok, capabilities);
    Ok(LoggedIn { stream, thread_id, capabilities, link: outcome.link, greeting, peer })
}

/// Starts over with COM_CHANGE_USER on an open connection.
pub async fn change_user(
    stream: &mut Stream,
    buffer: &mut Buffer,
    link: ClientLink,
    login: &BackendLogin,
) -> Result<ClientLink, LoginError> {
    let mut io = PacketIo::new(stream, buffer, 0);
    let first = ClientLogin::change_user(settings(io.stream(), login), link);
    Ok(drive(&mut io, first, None, &login.host).await?.link)
}

fn settings(stream: &Stream, login: &BackendLogin) -> ClientSettings {
    ClientSettings {
        capabilities: login.capabilities,
        collation: u16::from(login.collation),
        max_packet_len: MAX_ALLOWED_PACKET,
        user: login.user.clone(),
        secret: login.secret.clone(),
        schema: login.schema.clone().map(String::into_bytes),
        attributes: attributes(&login.attributes),
        tls: match login.tls {
            None => TlsMode::Disabled,
            Some((_, false)) => TlsMode::Optional,
            Some((_, true)) => TlsMode::Required,
        },
        transport: if stream.is_unix() { Transport::Unix } else { Transport::Tcp },
        zstd_level: login.zstd_level,
        trust: Trust { way: way(stream), ..login.trust.clone() },
    }
}

/// What the socket is connected to counts, not a name that may lead anywhere.
fn way(stream: &Stream) -> Way {
    let is_local = stream.is_unix()
        || stream.peer_address().is_some_and(|address| address.ip().to_canonical().is_loopback());
    if is_local { Way::Local } else { Way::Network }
}

/// What backends are told about the connection: what of the client was chosen to be, and the proxy's own.
fn attributes(clients: &ConnectAttributes) -> ConnectAttributes {
    let mut all = clients.clone();
    let pid = std::process::id().to_string();
    for (name, value) in [
        ("program_name", "delphinus"),
        ("_client_name", "delphinus"),
        ("_client_version", env!("CARGO_PKG_VERSION")),
        ("_pid", &pid),
        (VERSION_ATTRIBUTE, env!("CARGO_PKG_VERSION")),
        (AGES_ATTRIBUTE, "1"),
        ("_delphinus_pid", &pid),
    ] {
        if !clients.iter().any(|(taken, _)| taken == name.as_bytes()) {
            all.push(name.as_bytes(), value.as_bytes());
        }
    }
    all
}

async fn drive(
    io: &mut PacketIo<'_>,
    first: Step,
    tls: Option<&ClientTls>,
    host: &str,
) -> Result<ClientOutcome, LoginError> {
    let mut step = first;
    loop {
        step = match step {
            Step::Send(packet, next) => {
                send(io, &packet).await?;
                drop(Zeroizing::new(packet.payload));
                read(io, next).await?
            }
            Step::Read(next) => read(io, next).await?,
            Step::StartTls(packet, next) => {
                send(io, &packet).await?;
                let tls = tls.ok_or_else(|| LoginError::Unsuitable("TLS is not configured".to_owned()))?;
                let early = io.take_rest();
                io.stream().start_tls(tls.layer(host)?, &early).await?;
                next.started()
            }
            Step::Done(outcome) => return Ok(*outcome),
            Step::Failed(failure) => return Err(failed(failure)),
        };
    }
}

pub(super) async fn read(io: &mut PacketIo<'_>, machine: ClientLogin) -> Result<Step, LoginError> {
    let packet = io.read(MAX_PACKET).await?;
    Ok(machine.receive(packet.seq, &packet.payload))
}

pub(super) async fn send(io: &mut PacketIo<'_>, packet: &Packet) -> Result<(), LoginError> {
    // With room for all of it: growing would leave a copy behind, and it may be a password.
    let mut bytes = Zeroizing::new(Vec::with_capacity(packet.payload.len() + HEADER_LEN));
    put_packet(&mut bytes, packet.seq, &packet.payload);
    io.stream().write_bytes(&bytes).await.map_err(NetError::from)?;
    Ok(())
}

pub(super) fn failed(failure: ClientFailure) -> LoginError {
    match failure {
        ClientFailure::Refused(error) => LoginError::Refused(error),
        ClientFailure::Malformed(malformed) => LoginError::Net(malformed.into()),
        ClientFailure::Unexpected(what) => LoginError::Net(delphinus_wire::Malformed(what).into()),
        other => LoginError::Unsuitable(other.to_string()),
    }
}
