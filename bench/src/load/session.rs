//! A connection before the load begins, blocking: log in, prepare, run a statement.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use delphinus_wire::auth::{BackendSecret, Password};
use delphinus_wire::command::Code;
use delphinus_wire::handshake::client::{ClientLogin, ClientSettings, Step, Trust};
use delphinus_wire::handshake::{ConnectAttributes, TlsMode, Transport};
use delphinus_wire::response::{self, ErrPacket, PrepareOk};
use delphinus_wire::{Capabilities, HEADER_LEN, parse_header, put_packet};
use socket2::{Domain, Socket, Type};

use super::finder::{Answer, Finder};

/// What drivers of our time ask for.
const CAPABILITIES: Capabilities = Capabilities(
    Capabilities::MULTI_RESULTS.0
        | Capabilities::PS_MULTI_RESULTS.0
        | Capabilities::SESSION_TRACK.0
        | Capabilities::DEPRECATE_EOF.0,
);

/// How long an answer may take before the load begins.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where the load goes, and as whom.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    /// On loopback.
    pub address: SocketAddr,
    /// User name.
    pub user: String,
    /// Password.
    pub password: String,
    /// Default schema.
    pub schema: String,
    /// The address that connections come from; `None` leaves it to the kernel. One address has some 28,000 ports.
    pub source: Option<Ipv4Addr>,
}

/// A logged-in connection.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) stream: TcpStream,
    pub(crate) capabilities: Capabilities,
}

impl Session {
    /// Connects and logs in, without TLS.
    pub(crate) fn open(target: &Target) -> Result<Self> {
        let stream = connect(target).with_context(|| format!("cannot connect to {}", target.address))?;
        let mut session = Self { stream, capabilities: CAPABILITIES };
        let mut step = Step::Read(ClientLogin::start(settings(target)));
        loop {
            step = match step {
                Step::Send(packet, next) => {
                    session.send(packet.seq, &packet.payload)?;
                    session.receive(next)?
                }
                Step::Read(next) => session.receive(next)?,
                Step::StartTls(..) => bail!("the load has no TLS"),
                Step::Done(outcome) => {
                    session.capabilities = outcome.link.capabilities;
                    return Ok(session);
                }
                Step::Failed(failure) => bail!("login of {} at {}: {failure}", target.user, target.address),
            };
        }
    }

    /// Runs a text.
    pub(crate) fn query(&mut self, sql: &str) -> Result<Answer> {
        self.command(&[&[Code::Query as u8], sql.as_bytes()].concat())
            .with_context(|| format!("statement: {}", shortened(sql)))
    }

    /// Sends a command whose answer is an OK packet or results, and reads that.
    pub(crate) fn command(&mut self, payload: &[u8]) -> Result<Answer> {
        self.answer_to(payload, |_| {})
    }

    /// The bytes that a text is answered by.
    pub(crate) fn bytes_of(&mut self, sql: &str) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.answer_to(&[&[Code::Query as u8], sql.as_bytes()].concat(), |more| {
            bytes.extend_from_slice(more);
        })?;
        Ok(bytes)
    }

    fn answer_to(&mut self, payload: &[u8], mut pass: impl FnMut(&[u8])) -> Result<Answer> {
        self.send(0, payload)?;
        let mut finder = Finder::new(self.capabilities);
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let count = self.stream.read(&mut buffer).context("cannot read an answer")?;
            ensure!(count > 0, "the connection was closed");
            pass(&buffer[..count]);
            if let Some(answer) = finder.feed(&buffer[..count])? {
                return Ok(answer);
            }
        }
    }

    /// Prepares a statement; gives its id.
    pub(crate) fn prepare(&mut self, sql: &str) -> Result<u32> {
        self.send(0, &[&[Code::StmtPrepare as u8], sql.as_bytes()].concat())?;
        let (_, first) = self.packet()?;
        if first.first() == Some(&response::ERR) {
            let error = ErrPacket::parse(&first)?;
            return Err(anyhow!("cannot prepare {sql}: error {}: {}", error.code, error.text()));
        }
        let ok =
            PrepareOk::parse(&first)?.with_context(|| format!("the server has prepared nothing: {sql}"))?;
        let has_eof = !self.capabilities.contains(Capabilities::DEPRECATE_EOF);
        for count in [ok.params, ok.columns] {
            let eof = u16::from(has_eof && count > 0);
            for _ in 0..count + eof {
                self.packet()?;
            }
        }
        Ok(ok.id.0)
    }

    /// Says good-bye; does not wait for the other side.
    pub(crate) fn quit(mut self) {
        // It may be gone already, which is what is wanted.
        let _ = self.send(0, &[Code::Quit as u8]);
    }

    pub(crate) fn send(&mut self, seq: u8, payload: &[u8]) -> Result<()> {
        let mut bytes = Vec::with_capacity(payload.len() + HEADER_LEN);
        put_packet(&mut bytes, seq, payload);
        self.stream.write_all(&bytes).context("cannot send")
    }

    fn receive(&mut self, login: ClientLogin) -> Result<Step> {
        let (seq, payload) = self.packet()?;
        Ok(login.receive(seq, &payload))
    }

    /// A short packet: everything before the load fits into one.
    fn packet(&mut self) -> Result<(u8, Vec<u8>)> {
        let mut header = [0; HEADER_LEN];
        self.stream.read_exact(&mut header).context("cannot read a packet")?;
        let frame = parse_header(&header).context("no header")?;
        let mut payload = vec![0; frame.len];
        self.stream.read_exact(&mut payload).context("cannot read a payload")?;
        Ok((frame.seq, payload))
    }
}

fn connect(target: &Target) -> Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    if let Some(source) = target.source {
        socket.bind(&SocketAddr::from((source, 0)).into())?;
    }
    socket.connect(&target.address.into())?;
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn settings(target: &Target) -> ClientSettings {
    let mut attributes = ConnectAttributes::default();
    attributes.push(b"program_name", b"delphinus-bench");
    ClientSettings {
        capabilities: CAPABILITIES,
        collation: 45,
        max_packet_len: 1 << 24,
        user: target.user.clone(),
        secret: BackendSecret::Plain(Password::new(target.password.as_bytes())),
        schema: Some(target.schema.clone().into_bytes()),
        attributes,
        tls: TlsMode::Disabled,
        transport: Transport::Tcp,
        zstd_level: 3,
        trust: Trust::default(),
    }
}

fn shortened(sql: &str) -> String {
    sql.chars().take(80).collect()
}
