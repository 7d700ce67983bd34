//! A client logs in to the proxy.

use std::pin::Pin;

use delphinus_memory::{Account, Owner, Permit};
use delphinus_wire::handshake::Packet;
use delphinus_wire::handshake::server::{
    Established, LoginOutcome, PasswordQuery, Refusal, ServerLogin, ServerSettings, Step, UserQuery,
    UserRecord,
};
use delphinus_wire::put_packet;
use zeroize::Zeroizing;

use crate::buffer::Buffer;
use crate::error::NetError;
use crate::packet_io::PacketIo;
use crate::rt;
use crate::stream::Stream;
use crate::tls::ServerTls;

/// What a client sends in its login takes no room of the account up to so many bytes.
const SHORT: usize = 2 * 1024;

/// The word of a backend, on its way.
pub type Verifying<'a> = Pin<Box<dyn Future<Output = Step> + 'a>>;

/// A wait before a user's password is looked at.
pub type Pausing<'a> = Pin<Box<dyn Future<Output = Result<(), Refusal>> + 'a>>;

/// What a login needs of its surroundings.
pub struct LoginServices<'a> {
    /// Room for what clients send before it is known who they are.
    pub memory: &'a Account,
    /// For clients that ask for TLS.
    pub tls: Option<&'a ServerTls>,
    /// Whether the user has to wait first, because logins from there have failed.
    pub pause: &'a dyn Fn(&UserQuery) -> Option<Pausing<'a>>,
    /// What is known of a user; a decoy for one that is not listed.
    pub lookup: &'a dyn Fn(&UserQuery) -> UserRecord,
    /// Asks a backend whether a password is right.
    pub verify: &'a dyn Fn(PasswordQuery) -> Verifying<'a>,
}

/// How a login ended without success.
#[derive(Debug)]
pub enum LoginEnd {
    /// The client is refused; the error has not been sent yet.
    Refused(Refusal),
    /// The connection broke, or the client went away.
    Broken(NetError),
}

impl<E: Into<NetError>> From<E> for LoginEnd {
    fn from(error: E) -> Self {
        Self::Broken(error.into())
    }
}

/// Greets a new client and finds out who it is. The OK packet is still to be sent.
pub async fn serve_login(
    stream: &mut Stream,
    buffer: &mut Buffer,
    settings: ServerSettings,
    services: &LoginServices<'_>,
) -> Result<LoginOutcome, LoginEnd> {
    let (greeting, machine) = ServerLogin::start(settings);
    let wiped = Wiped(buffer);
    let mut io = PacketIo::new(stream, wiped.0, 0);
    drive(&mut io, Step::Send(greeting, machine), services).await
}

/// Lets a client become another user: `payload` is that of its COM_CHANGE_USER.
pub async fn serve_change_user(
    stream: &mut Stream,
    buffer: &mut Buffer,
    (settings, established): (ServerSettings, Established),
    payload: &[u8],
    services: &LoginServices<'_>,
) -> Result<LoginOutcome, LoginEnd> {
    let first = ServerLogin::change_user(settings, established, payload);
    let wiped = Wiped(buffer);
    let mut io = PacketIo::new(stream, wiped.0, 0);
    drive(&mut io, first, services).await
}

/// A buffer that keeps no password, however the login ends: also one that takes too long, or has to make way.
struct Wiped<'a>(&'a mut Buffer);

impl Drop for Wiped<'_> {
    fn drop(&mut self) {
        self.0.wipe();
    }
}

async fn drive(
    io: &mut PacketIo<'_>,
    first: Step,
    services: &LoginServices<'_>,
) -> Result<LoginOutcome, LoginEnd> {
    let mut step = first;
    let mut room = services.memory.open(Owner::Buffers);
    loop {
        step = match step {
            Step::Send(packet, next) => {
                send(io, &packet).await?;
                read(io, next, &mut room).await?
            }
            Step::StartTls(next) => {
                let tls = services.tls.ok_or_else(|| NetError::Tls("not configured".to_owned()))?;
                // A client may send its first TLS record in the same segment as its request.
                let early = io.take_rest();
                let mut layer = tls.layer()?;
                layer.limit_to(services.memory);
                // Boxed, so that clients that say nothing do not carry the room of a TLS handshake.
                Box::pin(io.stream().start_tls(layer, &early)).await?;
                read(io, next, &mut room).await?
            }
            Step::Lookup(query) => {
                if let Some(pause) = (services.pause)(&query)
                    && let Err(refusal) = pause.await
                {
                    step = query.refuse(refusal);
                    continue;
                }
                let record = (services.lookup)(&query);
                query.answer(record)
            }
            Step::Compute(job, waiting) => {
                let result = rt::compute(move || job.run()).await.ok_or(NetError::Closed)?;
                waiting.resume(result)
            }
            Step::Verify(query) => (services.verify)(query).await,
            Step::Done(outcome) => return Ok(*outcome),
            Step::Refuse(refusal) => return Err(LoginEnd::Refused(refusal)),
        };
    }
}

async fn read(io: &mut PacketIo<'_>, machine: ServerLogin, room: &mut Permit) -> Result<Step, LoginEnd> {
    // Without a buffer while nothing comes: a connection that never logs in costs little.
    io.wait().await?;
    let packet = io
        // It is in the buffer, which may have grown to twice as much, and in the payload.
        .read_within(machine.max_payload_len(), |len| len <= SHORT || room.grow_to(3 * len))
        .await?;
    // It may be a password.
    let payload = Zeroizing::new(packet.payload);
    Ok(machine.receive(packet.seq, &payload))
}

async fn send(io: &mut PacketIo<'_>, packet: &Packet) -> Result<(), LoginEnd> {
    let mut bytes = Vec::new();
    put_packet(&mut bytes, packet.seq, &packet.payload);
    io.stream().write_bytes(&bytes).await?;
    Ok(())
}
