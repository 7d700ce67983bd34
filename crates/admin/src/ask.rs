//! The client of `delphinus ctl`: logs in, runs a command once or again and again, and brings its rows.

use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use delphinus_config::is_this_machine;
use delphinus_net::tls::{ClientTls, Verify};
use delphinus_net::{
    Address, BackendLogin, Buffer, LoginError, NetError, PacketIo, Stream, dial, log_in, rt,
};
use delphinus_wire::auth::{BackendSecret, Password};
use delphinus_wire::command::Code;
use delphinus_wire::handshake::ConnectAttributes;
use delphinus_wire::handshake::client::{CertificateTrust, Trust};
use delphinus_wire::response::{self, Column, ColumnKind, ErrPacket};
use delphinus_wire::{Capabilities, Malformed, Reader};
use thiserror::Error;

/// How long each step of a login may take.
const LIMIT: Duration = Duration::from_secs(10);
/// The largest row, in bytes.
const MAX_ROW: usize = 1 << 24;
/// The connect attribute by which the listener knows `delphinus ctl`, and its value.
pub(crate) const PROGRAM: (&[u8], &[u8]) = (b"program_name", b"delphinus ctl");
/// Payloads of an EOF packet are shorter.
const EOF_LEN: usize = 9;

/// Where an admin listener is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// IP address and port.
    Tcp(SocketAddr),
    /// Path of a Unix socket.
    Unix(PathBuf),
}

/// A command for an admin listener.
pub struct Question {
    login: Login,
    text: String,
}

/// Where a line leads, and as whom.
struct Login {
    address: Address,
    user: String,
    password: Password,
    /// Authorities that have to have signed the listener's certificate, and whether it has to carry the address's name, too.
    ca: Option<(PathBuf, Verify)>,
}

impl Question {
    /// The command `text` of this operator for the listener at `place`.
    pub fn new(place: Place, user: String, password: &[u8], text: String) -> Self {
        let address = match place {
            Place::Tcp(address) => Address::Tcp(address.ip().to_string(), address.port()),
            Place::Unix(path) => Address::Unix(path),
        };
        Self { login: Login { address, user, password: Password::new(password), ca: None }, text }
    }

    /// The same, where the listener has to show a certificate signed by these authorities, PEM. Operators give IP addresses, which few
    /// certificates carry.
    #[must_use]
    pub fn trusting(self, ca: Option<PathBuf>) -> Self {
        Self { login: Login { ca: ca.map(|ca| (ca, Verify::Authority)), ..self.login }, ..self }
    }
}

/// With authorities, TLS is demanded and checked. Without them it is taken where it is offered on this machine, where
/// nobody can stand between; elsewhere a certificate that nobody checks would make a password public.
fn tls(login: &Login) -> Result<Option<(ClientTls, bool)>, NetError> {
    Ok(match (&login.address, &login.ca) {
        (Address::Tcp(..), Some((ca, verify))) => Some((ClientTls::new(verify, Some(ca))?, true)),
        (Address::Tcp(host, _), None) if is_this_machine(host) => {
            Some((ClientTls::new(&Verify::Nothing, None)?, false))
        }
        (Address::Unix(_), _) | (Address::Tcp(..), None) => None,
    })
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// It is done.
    Done,
    /// Columns, each with true if it holds numbers, and rows.
    Rows(Vec<(String, bool)>, Vec<Vec<Option<String>>>),
}

/// Why there is none.
#[derive(Debug, Error)]
pub enum AskError {
    /// The runtime cannot be started.
    #[error("{0}")]
    Runtime(#[from] std::io::Error),
    /// Nobody listens, or the connection broke.
    #[error("{0}")]
    Net(#[from] NetError),
    /// The login failed.
    #[error("login: {0}")]
    Login(#[from] LoginError),
    /// The admin listener says no: the number and the text.
    #[error("error {0}: {1}")]
    Refused(u16, String),
}

impl From<Malformed> for AskError {
    fn from(error: Malformed) -> Self {
        Self::Net(error.into())
    }
}

/// Runs a command; blocks. The answer may take `limit`: a command may have to wait for something.
pub fn ask(question: &Question, limit: Option<Duration>) -> Result<Asked, AskError> {
    let mut answer = None;
    watch(question, limit, Duration::ZERO, |asked| {
        answer = Some(asked);
        ControlFlow::Break(())
    })?;
    Ok(answer.expect("invariant: one has come, or there is an error"))
}

/// Runs a command again and again on one connection, with a pause after each answer, until `told` has seen enough; blocks.
pub fn watch(
    question: &Question,
    limit: Option<Duration>,
    pause: Duration,
    mut told: impl FnMut(Asked) -> ControlFlow<()>,
) -> Result<(), AskError> {
    rt::block_on(async move {
        let mut line =
            rt::timeout(LIMIT, Line::enter(&question.login)).await.unwrap_or(Err(timed_out(LIMIT)))?;
        let done = loop {
            let asked = line.ask(&question.text);
            let asked = match limit {
                Some(limit) => rt::timeout(limit, asked).await.unwrap_or(Err(timed_out(limit))),
                None => asked.await,
            };
            match asked.map(&mut told) {
                Ok(ControlFlow::Continue(())) => rt::sleep(pause).await,
                Ok(ControlFlow::Break(())) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        line.end().await;
        done
    })?
}

fn timed_out(limit: Duration) -> AskError {
    NetError::TimedOut(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)).into()
}

async fn enter(login: &Login) -> Result<Stream, AskError> {
    let stream = dial(&login.address, None, LIMIT).await?;
    let tls = tls(login)?;
    let is_checked = tls.as_ref().is_some_and(|(tls, _)| tls.is_checked());
    let certificate = if is_checked { CertificateTrust::Checked } else { CertificateTrust::Nothing };
    let mut attributes = ConnectAttributes::default();
    attributes.push(PROGRAM.0, PROGRAM.1);
    let login = BackendLogin {
        user: login.user.clone(),
        secret: BackendSecret::Plain(login.password.clone()),
        schema: None,
        capabilities: Capabilities::PROTOCOL_41
            | Capabilities::SECURE_CONNECTION
            | Capabilities::LONG_PASSWORD
            | Capabilities::TRANSACTIONS
            | Capabilities::PLUGIN_AUTH
            | Capabilities::PLUGIN_AUTH_LENENC_DATA
            | Capabilities::CONNECT_ATTRS,
        collation: 45,
        tls,
        host: login.address.host().to_owned(),
        attributes,
        zstd_level: 0,
        trust: Trust { certificate, ..Trust::default() },
    };
    Ok(log_in(stream, &login).await?.stream)
}

/// A connection to an admin listener, for one command after the other.
pub struct Line {
    stream: Stream,
    buffer: Buffer,
}

impl Line {
    /// Logs in. With authorities, PEM, the listener's certificate has to come from one of these and to carry the address's name: another
    /// one of the same authority gets no password. Whoever asks sets a limit.
    pub async fn open(
        address: Address,
        user: &str,
        password: &[u8],
        ca: Option<&Path>,
    ) -> Result<Self, AskError> {
        let ca = ca.map(|ca| (ca.to_owned(), Verify::Identity));
        Self::enter(&Login { address, user: user.to_owned(), password: Password::new(password), ca }).await
    }

    async fn enter(login: &Login) -> Result<Self, AskError> {
        Ok(Self { stream: enter(login).await?, buffer: Buffer::default() })
    }

    /// Runs a command. The line is of no use after any other error than that the listener has said no, or where nobody has waited for
    /// the answer.
    pub async fn ask(&mut self, text: &str) -> Result<Asked, AskError> {
        let mut io = PacketIo::new(&mut self.stream, &mut self.buffer, 0);
        io.write(&[&[Code::Query as u8], text.as_bytes()].concat()).await?;
        read_answer(&mut io).await
    }

    async fn end(mut self) {
        let _ = PacketIo::new(&mut self.stream, &mut self.buffer, 0).write(&[Code::Quit as u8]).await;
        let _ = rt::timeout(Duration::from_secs(1), self.stream.finish()).await;
    }
}

async fn read_answer(io: &mut PacketIo<'_>) -> Result<Asked, AskError> {
    let first = io.read(MAX_ROW).await?.payload;
    match first.first() {
        Some(&response::OK) => return Ok(Asked::Done),
        Some(&response::ERR) => {
            let error = ErrPacket::parse(&first)?;
            return Err(AskError::Refused(error.code, error.text().into_owned()));
        }
        _ => {}
    }
    let count = Reader::new(&first).lenenc_int()?;
    let mut columns = Vec::new();
    for _ in 0..count {
        let column = Column::parse(&io.read(MAX_ROW).await?.payload)?;
        let is_number = matches!(column.value_kind(), ColumnKind::Integer | ColumnKind::Real);
        columns.push((String::from_utf8_lossy(&column.name).into_owned(), is_number));
    }
    io.read(MAX_ROW).await?; // the EOF after them
    let mut rows = Vec::new();
    loop {
        let payload = io.read(MAX_ROW).await?.payload;
        match payload.first() {
            Some(&response::EOF) if payload.len() < EOF_LEN => return Ok(Asked::Rows(columns, rows)),
            Some(&response::ERR) => {
                let error = ErrPacket::parse(&payload)?;
                return Err(AskError::Refused(error.code, error.text().into_owned()));
            }
            _ => {}
        }
        let mut reader = Reader::new(&payload);
        let mut row = Vec::with_capacity(columns.len());
        for _ in &columns {
            row.push(reader.text_value()?.map(|value| String::from_utf8_lossy(value).into_owned()));
        }
        rows.push(row);
    }
}

#[cfg(test)]
mod tests;
