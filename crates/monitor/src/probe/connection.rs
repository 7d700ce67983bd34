//! The monitor's own connection to a backend: logged in without a schema, and with no capability that a probe
//! does not need.

use delphinus_net::{BackendLogin, Buffer, PacketIo, Place, Stream, log_in};
use delphinus_wire::Capabilities;
use delphinus_wire::auth::{BackendSecret, Password};
use delphinus_wire::command::Code;
use delphinus_wire::compression::Algorithm;
use delphinus_wire::handshake::ConnectAttributes;
use delphinus_wire::response::Layer;

use super::error::ProbeError;
use crate::settings::{BackendSpec, Settings};

/// What is asked for. Query attributes would only make packets longer; another Delphinus says in the session's state that it is one.
const WANTED: Capabilities = Capabilities(
    Capabilities::LONG_PASSWORD.0
        | Capabilities::LONG_FLAG.0
        | Capabilities::PROTOCOL_41.0
        | Capabilities::TRANSACTIONS.0
        | Capabilities::SECURE_CONNECTION.0
        | Capabilities::PLUGIN_AUTH.0
        | Capabilities::PLUGIN_AUTH_LENENC_DATA.0
        | Capabilities::DEPRECATE_EOF.0
        | Capabilities::SESSION_TRACK.0,
);

/// utf8mb4_general_ci, which every server has.
const COLLATION: u8 = 45;

/// A connection that is logged in.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: Stream,
    buffer: Buffer,
    agreed: Capabilities,
    offered: Capabilities,
    peer: Layer,
}

impl Connection {
    /// Logs in on a new connection, as the monitor's user.
    pub(crate) async fn log_in(
        stream: Stream,
        (spec, host): (&BackendSpec, &str),
        settings: &Settings,
    ) -> Result<Self, ProbeError> {
        let who = {
            let tuning = settings.tuning();
            (tuning.user.clone(), tuning.password.clone())
        };
        Self::log_in_as(stream, (&spec.place, host), who).await
    }

    /// The same as this user, with this password.
    pub(crate) async fn log_in_as(
        stream: Stream,
        (place, host): (&Place, &str),
        (user, password): (String, Password),
    ) -> Result<Self, ProbeError> {
        let reach = place.reach();
        let (compression, zstd_level) = Algorithm::asked_for(reach.compression);
        let login = BackendLogin {
            user,
            secret: BackendSecret::Plain(password),
            schema: None,
            capabilities: WANTED | compression,
            collation: COLLATION,
            tls: reach.tls.clone(),
            host: host.to_owned(),
            attributes: ConnectAttributes::default(),
            zstd_level,
            trust: reach.trust.clone(),
        };
        let login = log_in(stream, &login).await?;
        Ok(Self {
            stream: login.stream,
            buffer: Buffer::default(),
            agreed: login.capabilities,
            offered: login.greeting.capabilities,
            peer: login.peer,
        })
    }

    /// What both sides agreed on.
    pub(crate) fn agreed(&self) -> Capabilities {
        self.agreed
    }

    /// What the backend said it can do.
    pub(crate) fn offered(&self) -> Capabilities {
        self.offered
    }

    /// True if the backend is another Delphinus.
    pub(crate) fn is_delphinus(&self) -> bool {
        self.peer != Layer::None
    }

    /// Starts a command.
    pub(crate) fn packets(&mut self) -> PacketIo<'_> {
        PacketIo::new(&mut self.stream, &mut self.buffer, 0)
    }

    /// Waits until something arrives, or the end: nothing is expected now.
    pub(crate) async fn closed(&mut self) {
        // What was read completely may still look as if there were more. An error is the end, too.
        while self.stream.readable().await.is_ok() && self.stream.is_quiet() {}
    }

    /// Says goodbye and waits until the server has closed: what is still unread when a socket is closed makes
    /// the kernel reset the connection, and the server may then never read the goodbye.
    pub(crate) async fn quit(mut self) {
        if self.packets().write(&[Code::Quit as u8]).await.is_ok() {
            let mut buffer = Buffer::default();
            let mut is_open = true;
            while is_open {
                let (result, read) = self.stream.read(buffer).await;
                is_open = result.is_ok_and(|n| n > 0);
                buffer = read;
                buffer.clear();
            }
        }
        self.stream.close().await;
    }
}
