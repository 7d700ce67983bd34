//! Who logs in, and what the client says that it can do.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use delphinus_wire::Capabilities;
use delphinus_wire::auth::{BackendSecret, Password};
use delphinus_wire::handshake::client::{
    ClientFailure, ClientLink, ClientLogin, ClientOutcome, ClientSettings, Step, Trust,
};
use delphinus_wire::handshake::{ConnectAttributes, TlsMode, Transport};

use crate::client::Client;
use crate::packets::Packets;

/// What every client of our time asks for.
const USUAL: Capabilities = Capabilities(
    Capabilities::MULTI_RESULTS.0
        | Capabilities::PS_MULTI_RESULTS.0
        | Capabilities::SESSION_TRACK.0
        | Capabilities::DEPRECATE_EOF.0,
);

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// How to log in. A value, so that many sessions can start from the same one.
#[derive(Debug, Clone)]
pub struct Login {
    socket: PathBuf,
    user: String,
    password: String,
    schema: Option<String>,
    capabilities: Capabilities,
    collation: u16,
    patience: Duration,
}

impl Login {
    /// To a Unix socket, as this user, without a schema, with `utf8mb4_general_ci`.
    pub fn new(socket: &Path, user: &str, password: &str) -> Self {
        Self {
            socket: socket.to_owned(),
            user: user.to_owned(),
            password: password.to_owned(),
            schema: None,
            capabilities: USUAL,
            collation: 45,
            patience: PATIENCE,
        }
    }

    /// As another user.
    #[must_use]
    pub fn user(mut self, user: &str, password: &str) -> Self {
        (self.user, self.password) = (user.to_owned(), password.to_owned());
        self
    }

    /// Starts in this schema.
    #[must_use]
    pub fn schema(mut self, schema: &str) -> Self {
        self.schema = Some(schema.to_owned());
        self
    }

    /// Asks for more.
    #[must_use]
    pub fn with(mut self, capabilities: Capabilities) -> Self {
        self.capabilities = self.capabilities | capabilities;
        self
    }

    /// Asks for less.
    #[must_use]
    pub fn without(mut self, capabilities: Capabilities) -> Self {
        self.capabilities = self.capabilities.without(capabilities);
        self
    }

    /// The collation's id in the login packet, up to 255.
    #[must_use]
    pub fn collation(mut self, id: u16) -> Self {
        self.collation = id;
        self
    }

    /// How long an answer may take; 60 s unless set.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Where it goes to.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Connects and logs in.
    pub fn connect(&self) -> Result<Client> {
        let stream = UnixStream::connect(&self.socket)
            .with_context(|| format!("cannot connect to {}", self.socket.display()))?;
        stream.set_read_timeout(Some(self.patience))?;
        stream.set_write_timeout(Some(self.patience))?;
        let mut packets = Packets::new(stream);
        let outcome = drive(&mut packets, Step::Read(ClientLogin::start(self.settings())))?;
        let greeting = outcome.greeting.context("a login without a greeting")?;
        let version = greeting.server_version.clone();
        Ok(Client::new(packets, outcome.link, greeting.connection_id, version))
    }

    /// Logs in once more, on an open connection.
    pub(crate) fn change_user(&self, packets: &mut Packets, link: ClientLink) -> Result<ClientLink> {
        packets.begin();
        let outcome = drive(packets, ClientLogin::change_user(self.settings(), link))?;
        Ok(outcome.link)
    }

    fn settings(&self) -> ClientSettings {
        let mut attributes = ConnectAttributes::default();
        attributes.push(b"program_name", b"delphinus-testkit");
        ClientSettings {
            capabilities: self.capabilities,
            collation: self.collation,
            max_packet_len: 1 << 24,
            user: self.user.clone(),
            secret: BackendSecret::Plain(Password::new(self.password.as_bytes())),
            schema: self.schema.clone().map(String::into_bytes),
            attributes,
            tls: TlsMode::Disabled,
            transport: Transport::Unix,
            zstd_level: 3,
            trust: Trust::default(),
        }
    }
}

fn drive(packets: &mut Packets, first: Step) -> Result<ClientOutcome> {
    let mut step = first;
    loop {
        step = match step {
            Step::Send(packet, next) => {
                packets.write(&packet.payload)?;
                read(packets, next)?
            }
            Step::Read(next) => read(packets, next)?,
            Step::StartTls(..) => bail!("this client has no TLS"),
            Step::Done(outcome) => return Ok(*outcome),
            Step::Failed(ClientFailure::Refused(error)) => return Err(crate::Failure::from(error).into()),
            Step::Failed(failure) => bail!("the login failed: {failure}"),
        };
    }
}

fn read(packets: &mut Packets, login: ClientLogin) -> Result<Step> {
    let (seq, payload) = packets.read_numbered()?;
    Ok(login.receive(seq, &payload))
}
