//! A connection to the source: logged in as a replica does, asked by the text protocol.

use delphinus_net::{Announce, BackendLogin, Buffer, NetError, PacketIo, Stream, dial, log_in, rt};
use delphinus_wire::auth::BackendSecret;
use delphinus_wire::command::Code;
use delphinus_wire::compression::Algorithm;
use delphinus_wire::handshake::ConnectAttributes;
use delphinus_wire::response::{EOF, ERR, ErrPacket, OK};
use delphinus_wire::{Capabilities, Malformed, Reader};

use super::SourceError;
use crate::settings::{Settings, Target};

const WANTED: Capabilities = Capabilities(
    Capabilities::LONG_PASSWORD.0
        | Capabilities::LONG_FLAG.0
        | Capabilities::PROTOCOL_41.0
        | Capabilities::TRANSACTIONS.0
        | Capabilities::SECURE_CONNECTION.0
        | Capabilities::CONNECT_ATTRS.0
        | Capabilities::PLUGIN_AUTH.0
        | Capabilities::PLUGIN_AUTH_LENENC_DATA.0
        | Capabilities::DEPRECATE_EOF.0,
);
/// utf8mb4_general_ci, which every server has.
const COLLATION: u8 = 45;
/// The longest answer, and the longest packet of one, in bytes: sets of GTIDs may be long.
const LONGEST: usize = 64 << 20;
/// Most rows of an answer.
const MOST_ROWS: usize = 1000;

/// A connection to the source.
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    pub(crate) buffer: Buffer,
    ends_without_eof: bool,
    /// What the server says of itself in its greeting.
    pub(crate) version: String,
}

/// A row of an answer; `None` is NULL.
pub(crate) type Row = Vec<Option<String>>;

impl Connection {
    /// Connects and logs in.
    pub(crate) async fn open(target: &Target, settings: &Settings) -> Result<Self, SourceError> {
        let limit = settings.limit;
        let announce = target.reach.proxy_protocol.map(|version| Announce { version, client: None });
        let stream = dial(&target.address, announce, limit).await?;
        let mut attributes = ConnectAttributes::default();
        attributes.push(b"_client_role", b"binary_log_listener");
        attributes.push(b"_delphinus_relay", settings.name.as_bytes());
        let (compression, zstd_level) = Algorithm::asked_for(target.reach.compression);
        let login = BackendLogin {
            user: settings.user.clone(),
            secret: BackendSecret::Plain(settings.password.clone()),
            schema: None,
            capabilities: WANTED | compression,
            collation: COLLATION,
            tls: target.reach.tls.clone(),
            host: target.host.clone(),
            attributes,
            zstd_level,
            trust: target.reach.trust.clone(),
        };
        let late = || NetError::TimedOut(limit.as_millis() as u64);
        let login = rt::timeout(limit, log_in(stream, &login)).await.ok_or_else(late)??;
        Ok(Self {
            stream: login.stream,
            buffer: Buffer::default(),
            ends_without_eof: login.capabilities.contains(Capabilities::DEPRECATE_EOF),
            version: login.greeting.server_version.clone(),
        })
    }

    fn packets(&mut self) -> PacketIo<'_> {
        PacketIo::new(&mut self.stream, &mut self.buffer, 0)
    }

    /// Sends a command that is answered by a stream, or by nothing.
    pub(crate) async fn send(&mut self, payload: &[u8]) -> Result<(), SourceError> {
        Ok(self.packets().write(payload).await?)
    }

    /// Sends a command that is answered by OK.
    pub(crate) async fn command(&mut self, payload: &[u8]) -> Result<(), SourceError> {
        let mut io = self.packets();
        io.write(payload).await?;
        match read(&mut io).await?.first() {
            Some(&OK) => Ok(()),
            _ => Err(Malformed("rows where none were asked for").into()),
        }
    }

    /// Runs a statement without rows.
    pub(crate) async fn execute(&mut self, sql: &str) -> Result<(), SourceError> {
        self.command(&query(sql)).await
    }

    /// Runs a statement and gives its rows.
    pub(crate) async fn ask(&mut self, sql: &str) -> Result<Vec<Row>, SourceError> {
        let ends_without_eof = self.ends_without_eof;
        let mut io = self.packets();
        io.write(&query(sql)).await?;
        let first = read(&mut io).await?;
        let columns = Reader::new(&first).lenenc_int()?;
        if columns == 0 || columns > 256 {
            return Err(Malformed("no result set").into());
        }
        for _ in 0..columns {
            read(&mut io).await?;
        }
        if !ends_without_eof {
            read(&mut io).await?;
        }
        let (mut rows, mut bytes) = (Vec::new(), 0);
        loop {
            let payload = read(&mut io).await?;
            bytes += payload.len();
            if payload.first() == Some(&EOF) {
                return Ok(rows);
            }
            if rows.len() == MOST_ROWS || bytes > LONGEST {
                return Err(Malformed("very long answer").into());
            }
            let mut reader = Reader::new(&payload);
            let value = |_| {
                reader.text_value().map(|text| text.map(|text| String::from_utf8_lossy(text).into_owned()))
            };
            rows.push((0..columns).map(value).collect::<Result<Row, _>>()?);
        }
    }

    /// The values of the only row of an answer; NULL is the empty text.
    pub(crate) async fn row(&mut self, sql: &str) -> Result<Vec<String>, SourceError> {
        let mut rows = self.ask(sql).await?;
        let row = rows.pop().ok_or(Malformed("no row"))?;
        Ok(row.into_iter().map(Option::unwrap_or_default).collect())
    }
}

fn query(sql: &str) -> Vec<u8> {
    let mut command = vec![Code::Query as u8];
    command.extend_from_slice(sql.as_bytes());
    command
}

async fn read(io: &mut PacketIo<'_>) -> Result<Vec<u8>, SourceError> {
    let payload = io.read(LONGEST).await?.payload;
    match payload.first() {
        Some(&ERR) => Err(SourceError::Answer(ErrPacket::parse(&payload)?)),
        _ => Ok(payload),
    }
}
