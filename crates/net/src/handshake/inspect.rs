//! What a backend shows of itself to anybody: its certificate, and its RSA key. No password is at risk: the one that is
//! offered is random.

use delphinus_wire::Capabilities;
use delphinus_wire::auth::{BackendSecret, Fingerprint, Password};
use delphinus_wire::handshake::client::{ClientFailure, ClientLogin, ClientSettings, Step, Trust, Way};
use delphinus_wire::handshake::{ConnectAttributes, TlsMode, Transport};

use super::backend::{LoginError, failed, read, send};
use crate::buffer::Buffer;
use crate::nonce::fresh_bytes;
use crate::packet_io::PacketIo;
use crate::stream::Stream;
use crate::tls::{ClientTls, Verify};

/// The fingerprint of a backend's certificate; `None`: it offers no TLS.
pub async fn inspect_certificate(stream: &mut Stream, host: &str) -> Result<Option<Fingerprint>, LoginError> {
    let mut buffer = Buffer::default();
    let mut io = PacketIo::new(stream, &mut buffer, 0);
    let machine = ClientLogin::start(settings("", TlsMode::Optional)?);
    match read(&mut io, machine).await? {
        Step::StartTls(packet, _) => {
            send(&mut io, &packet).await?;
            let early = io.take_rest();
            let tls = ClientTls::new(&Verify::Nothing, None)?;
            io.stream().start_tls(tls.layer(host)?, &early).await?;
            Ok(io.stream().certificate())
        }
        Step::Failed(failure) => Err(failed(failure)),
        _ => Ok(None),
    }
}

/// The fingerprint of the RSA key that a backend shows to `user` without TLS, or why it shows none.
pub async fn inspect_key(stream: &mut Stream, user: &str) -> Result<Fingerprint, LoginError> {
    let mut buffer = Buffer::default();
    let mut io = PacketIo::new(stream, &mut buffer, 0);
    let machine = ClientLogin::start(settings(user, TlsMode::Disabled)?);
    let mut step = read(&mut io, machine).await?;
    loop {
        step = match step {
            Step::Send(packet, next) => {
                send(&mut io, &packet).await?;
                read(&mut io, next).await?
            }
            Step::Read(next) => read(&mut io, next).await?,
            // The machine sends nothing by a key that nobody knows.
            Step::Failed(ClientFailure::UnknownKey { fingerprint, .. }) => return Ok(fingerprint),
            Step::Failed(failure) => return Err(failed(failure)),
            Step::StartTls(..) | Step::Done(_) => {
                return Err(LoginError::Unsuitable("the backend takes any password".to_owned()));
            }
        };
    }
}

fn settings(user: &str, tls: TlsMode) -> Result<ClientSettings, LoginError> {
    let random: [u8; 24] = fresh_bytes()?;
    Ok(ClientSettings {
        capabilities: Capabilities::default(),
        collation: 45,
        max_packet_len: 1 << 24,
        user: user.to_owned(),
        secret: BackendSecret::Plain(Password::new(random)),
        schema: None,
        attributes: ConnectAttributes::default(),
        tls,
        transport: Transport::Tcp,
        zstd_level: 0,
        trust: Trust { way: Way::Network, ..Trust::default() },
    })
}
