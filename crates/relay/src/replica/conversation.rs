//! One connection: login, commands, and the log once it is asked for.
//!
//! Owns: the order of these, and when a connection that says nothing ends. What is answered is decided in `statement`; how the log is
//! sent, in `dump`.

use std::sync::Arc;
use std::time::Duration;

use delphinus_clients::{LoginAttempt, LoginPlace, Visitor};
use delphinus_memory::{Owner, Permit};
use delphinus_net::tls::ServerTls;
use delphinus_net::{Buffer, LoginEnd, LoginServices, NetError, PacketIo, Peer, Stream, rt, serve_login};
use delphinus_session::ClientError;
use delphinus_wire::auth::{Plugin, server_proof};
use delphinus_wire::binlog::dump::{COM_BINLOG_DUMP, COM_BINLOG_DUMP_GTID, COM_REGISTER_SLAVE, Register};
use delphinus_wire::error_code::{
    ER_MALFORMED_PACKET, ER_SERVER_SHUTDOWN, ER_SOURCE_FATAL_ERROR_READING_BINLOG, ER_UNKNOWN_COM_ERROR,
};
use delphinus_wire::handshake::Transport;
use delphinus_wire::handshake::server::{LoginOutcome, PasswordQuery, ServerSettings, Step, Verdict};
use delphinus_wire::response::{EOF, ErrPacket, OkPacket, Status};
use delphinus_wire::{Capabilities, Command, begin_packet, end_packet, put_packet};

use super::asked::{self, Asked};
use super::compression;
use super::dump::{self, End, Ground};
use super::facts::{self, Own};
use super::fatal::Fatal;
use super::listen::Shared;
use super::registry::Who;
use super::statement::{self, Answer, Refused, Variables};
use crate::log::Flavor;

/// What replicas may agree on: what a server offers them, without what only data need. Compression is up to the door.
const OFFERED: Capabilities = Capabilities::of(&[
    Capabilities::LONG_PASSWORD,
    Capabilities::FOUND_ROWS,
    Capabilities::LONG_FLAG,
    Capabilities::CONNECT_WITH_DB,
    Capabilities::NO_SCHEMA,
    Capabilities::ODBC,
    Capabilities::LOCAL_FILES,
    Capabilities::PROTOCOL_41,
    Capabilities::INTERACTIVE,
    Capabilities::IGNORE_SIGPIPE,
    Capabilities::TRANSACTIONS,
    Capabilities::RESERVED,
    Capabilities::SECURE_CONNECTION,
    Capabilities::MULTI_RESULTS,
    Capabilities::PLUGIN_AUTH,
    Capabilities::CONNECT_ATTRS,
    Capabilities::PLUGIN_AUTH_LENENC_DATA,
    Capabilities::DEPRECATE_EOF,
]);

/// utf8mb4_general_ci.
const COLLATION: u8 = 45;
/// The largest command, in bytes: a request has the set of all that a replica has.
const MAX_COMMAND: usize = 16 << 20;
/// How long a connection waits for the first file of the log.
const FIRST_FILE: Duration = Duration::from_secs(5);
/// Commands of up to so many bytes are not counted.
const UNCOUNTED: usize = 16 << 10;
/// How long a login may take.
const LOGIN_LIMIT: Duration = Duration::from_secs(10);
/// How long a command that has begun, or an answer that is not taken, may last.
const NET_TIMEOUT: Duration = Duration::from_mins(1);
/// A connection that asks nothing for so long ends.
const WAIT_TIMEOUT: Duration = Duration::from_mins(10);
const UNKNOWN: [u8; 5] = *b"08S01";
const GENERAL: [u8; 5] = *b"HY000";

/// Serves a connection from the first byte to the last.
pub(super) async fn run(shared: Arc<Shared>, ground: std::rc::Rc<Ground>, peer: Peer) {
    let (host, visitor) = (peer.host(), Visitor::of(peer.ip, peer.system_user));
    let Ok(mut stream) = peer.into_stream() else { return };
    if !has_log(&ground).await {
        tracing::info!(relay = %shared.name, client.host = %host, "a replica has to reconnect: there is no log of \
         the source yet");
        let error = ClientError::new(ER_SERVER_SHUTDOWN, GENERAL, Fatal::Empty.to_string());
        let mut out = Vec::new();
        // Before the greeting there is no SQLSTATE in errors.
        error.put(&mut out, 0, Capabilities::default());
        let _ = write(&mut stream, &out).await;
        let _ = rt::timeout(Duration::from_secs(1), stream.finish()).await;
        return;
    }
    let mut buffer = Buffer::default();
    let login = Box::pin(log_in(&shared, (&mut stream, &mut buffer), (&host, visitor)));
    match rt::timeout(LOGIN_LIMIT, login).await {
        Some(Ok(login)) => {
            let (variables, kept) = (Variables::default(), shared.memory.open(Owner::Relay));
            let mut conversation = Conversation { shared: &shared, ground: &ground, login, variables, kept };
            if let Err(error) = conversation.serve(&mut stream, &mut buffer).await {
                tracing::debug!(relay = %shared.name, client.host = %host, %error, "a replica's connection is lost");
            }
        }
        Some(Err(error)) => {
            tracing::debug!(relay = %shared.name, client.host = %host, %error, "a replica's login is not finished");
        }
        None => tracing::debug!(relay = %shared.name, client.host = %host, "a replica's login took too long"),
    }
    let _ = rt::timeout(Duration::from_secs(1), stream.finish()).await;
}

/// Waits for the first file of a relay that has none. The greeting tells the version of its server: a MariaDB replica that is told
/// another one forgets about GTIDs.
async fn has_log(ground: &Ground) -> bool {
    let appears = async {
        while ground.log.end().is_none() {
            ground.grown.notified().await;
        }
    };
    rt::timeout(FIRST_FILE, appears).await.is_some()
}

/// A connection that is logged in.
struct LoggedIn {
    id: u32,
    who: Who,
    capabilities: Capabilities,
}

/// A login has its place as long as the connection has one.
struct Kept;

impl LoginPlace for Kept {
    fn rest(&self) {}

    fn resume(&self) -> bool {
        true
    }
}

async fn log_in(
    shared: &Shared,
    (stream, buffer): (&mut Stream, &mut Buffer),
    (host, visitor): (&str, Visitor),
) -> Result<LoggedIn, NetError> {
    let settings = server_settings(shared, stream, host)?;
    let (id, nonce) = (settings.connection_id, settings.nonce);
    let attempt = LoginAttempt::new(&shared.failed_logins, &Kept, (visitor, host), LOGIN_LIMIT);
    let services = LoginServices {
        memory: &shared.memory,
        tls: shared.door.tls.as_ref(),
        pause: &|query| attempt.pause(query.user()),
        lookup: &|query| shared.record(query.user()),
        verify: &|query| Box::pin(async { no_backend(query) }),
    };
    let end = serve_login(stream, buffer, settings, &services).await;
    if let Err(end) = &end {
        attempt.failed(end).await;
    }
    match end {
        Ok(outcome) => {
            attempt.succeeded();
            let connection = outcome.connection;
            if let Some(error) = compression::refusal(&connection).filter(|_| shared.door.must_compress) {
                tracing::warn!(relay = %shared.name, client.host = %host, "a replica's login is refused: it does not compress");
                let mut out = Vec::new();
                if let Some(packet) = outcome.before_ok {
                    put_packet(&mut out, packet.seq, &packet.payload);
                }
                error.put(&mut out, outcome.next_seq, connection.capabilities);
                // A client that is gone cannot be told.
                let _ = stream.write_bytes(&out).await;
                return Err(NetError::Closed);
            }
            let certificate =
                shared.door.tls.as_ref().filter(|_| stream.is_tls()).map(ServerTls::fingerprint);
            let proof = certificate
                .and_then(|fingerprint| server_proof(outcome.plugin, &outcome.secret, &nonce, fingerprint));
            let user = outcome.user.clone();
            stream.write_bytes(&last_of_login(outcome, proof.as_deref().unwrap_or_default())).await?;
            compression::begin(stream, buffer, &connection, &shared.memory);
            let compression = compression::name(stream);
            let who =
                Who { user, host: host.to_owned(), is_tls: stream.is_tls(), compression, ..Who::default() };
            Ok(LoggedIn { id, who, capabilities: connection.capabilities })
        }
        Err(LoginEnd::Broken(error)) => Err(error),
        Err(LoginEnd::Refused(refusal)) => {
            tracing::warn!(
                relay = %shared.name, client.host = %host, code = refusal.code, reason = refusal.reason,
                "a replica's login is refused"
            );
            let mut out = Vec::new();
            let error = ClientError::new(refusal.code, refusal.state, refusal.message);
            error.put(&mut out, refusal.seq, Capabilities::PROTOCOL_41);
            // A client that is gone cannot be told.
            let _ = stream.write_bytes(&out).await;
            Err(NetError::Closed)
        }
    }
}

fn server_settings(shared: &Shared, stream: &Stream, host: &str) -> Result<ServerSettings, NetError> {
    // What each family's replicas have without more ado: an own one of the user would be asked for by a switch.
    let default_plugin = match facts::flavor(&shared.log) {
        Some(Flavor::MariaDb) => Plugin::Native,
        Some(Flavor::MySql) | None => Plugin::CachingSha2,
    };
    Ok(ServerSettings {
        capabilities: OFFERED | shared.door.compression,
        server_version: facts::version(&shared.log),
        collation: COLLATION,
        connection_id: shared.registry.next_id(),
        nonce: delphinus_net::fresh_nonce()?,
        long_nonce: delphinus_net::fresh_bytes()?,
        default_plugin,
        tls: shared.door.tls_mode,
        transport: if stream.is_unix() { Transport::Unix } else { Transport::Tcp },
        rsa_key: shared.door.rsa_key.clone(),
        client_host: host.to_owned(),
    })
}

/// The last packets of a login: in the OK, the proof for MariaDB's clients that the relay knows the password.
fn last_of_login(outcome: LoginOutcome, proof: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(packet) = outcome.before_ok {
        put_packet(&mut out, packet.seq, &packet.payload);
    }
    let at = begin_packet(&mut out);
    let ok = OkPacket { status: Status::AUTOCOMMIT, info: proof, ..OkPacket::default() };
    ok.put(&mut out, 0, outcome.connection.capabilities);
    end_packet(&mut out, at, outcome.next_seq);
    out
}

/// A relay has all passwords, or their hashes.
fn no_backend(query: PasswordQuery) -> Step {
    let denied = ErrPacket::parse(b"\xff\x15\x04#28000Access denied");
    query.answer(Verdict::Refused(denied.expect("invariant: a whole packet"), "no password"))
}

struct Conversation<'a> {
    shared: &'a Arc<Shared>,
    ground: &'a Ground,
    login: LoggedIn,
    variables: Variables,
    /// The room that they have. They have a limit of their own, and are not refused.
    kept: Permit,
}

impl Conversation<'_> {
    async fn serve(&mut self, stream: &mut Stream, buffer: &mut Buffer) -> Result<(), NetError> {
        loop {
            let mut io = PacketIo::new(stream, buffer, 0);
            match rt::timeout(WAIT_TIMEOUT, io.wait()).await {
                Some(ready) => ready?,
                None => return Ok(()),
            }
            let timed_out = NetError::TimedOut(NET_TIMEOUT.as_millis() as u64);
            // As long as the command lasts: for its bytes, and for the set that is made of them.
            let mut room = self.shared.memory.open(Owner::Relay);
            let read = io.read_within(MAX_COMMAND, |len| len <= UNCOUNTED || room.grow_to(2 * len));
            let packet = match rt::timeout(NET_TIMEOUT, read).await.ok_or(timed_out)? {
                Err(NetError::Closed) => return Ok(()),
                packet => packet?,
            };
            let payload = packet.payload;
            if let Some(&(COM_BINLOG_DUMP | COM_BINLOG_DUMP_GTID)) = payload.first() {
                let goes_on = self.dump(stream, &payload).await?;
                if !goes_on {
                    return Ok(());
                }
            } else {
                let Some(out) = self.answer(&payload) else { return Ok(()) };
                self.kept.hold(self.variables.bytes());
                write(stream, &out).await?;
            }
        }
    }

    /// Sends the log; false: the connection is over.
    async fn dump(&mut self, stream: &mut Stream, payload: &[u8]) -> Result<bool, NetError> {
        let asked = match Asked::read(payload, &self.variables) {
            Ok(Ok(asked)) => asked,
            Ok(Err(fatal)) => return self.refuse(stream, &fatal, 1).await,
            Err(malformed) => {
                let error = ClientError::new(ER_MALFORMED_PACKET, GENERAL, malformed.to_string());
                write(stream, &self.packet_of(&error, 1)).await?;
                return Ok(false);
            }
        };
        let mut who = self.login.who.clone();
        who.server_id = asked.server_id;
        who.uuid = asked::uuid(&self.variables);
        let entry = self.shared.registry.enter(self.login.id, who);
        let who = &entry.replica.who;
        tracing::info!(
            relay = %self.shared.name, replica.host = %who.host, replica.server_id = who.server_id, replica.uuid = %who.uuid,
            user = %who.user, tls = who.is_tls, "a replica asks for the log"
        );
        let server_id = self.shared.identity.server_id;
        let end = dump::serve(self.ground, stream, &entry, (asked, server_id)).await;
        match end {
            Ok(End::Sent(seq)) => {
                let mut out = Vec::new();
                let at = begin_packet(&mut out);
                let ok = OkPacket { status: Status::AUTOCOMMIT, ..OkPacket::default() };
                ok.put(&mut out, EOF, self.login.capabilities);
                end_packet(&mut out, at, seq);
                write(stream, &out).await?;
                Ok(true)
            }
            Ok(End::Refused(fatal, seq)) => self.refuse(stream, &fatal, seq).await,
            Ok(End::Gone) => {
                tracing::info!(relay = %self.shared.name, replica.server_id = who.server_id, "a replica has left");
                Ok(false)
            }
            Ok(End::Replaced) => {
                tracing::info!(
                    relay = %self.shared.name, replica.server_id = who.server_id,
                    "a replica's connection is ended: the replica has reconnected, or an operator has ended it"
                );
                Ok(false)
            }
            Err(error) => {
                tracing::info!(relay = %self.shared.name, replica.server_id = who.server_id, %error, "a replica is lost");
                Err(error)
            }
        }
    }

    async fn refuse(&self, stream: &mut Stream, fatal: &Fatal, seq: u8) -> Result<bool, NetError> {
        let who = &self.login.who;
        tracing::warn!(relay = %self.shared.name, replica.host = %who.host, user = %who.user, reason = %fatal, "a replica is refused");
        // The first one makes a replica try again, the second one makes it stop.
        let code = if fatal.is_passing() {
            ER_SERVER_SHUTDOWN
        } else {
            self.shared.registry.has_refused();
            ER_SOURCE_FATAL_ERROR_READING_BINLOG
        };
        let error = ClientError::new(code, GENERAL, fatal.to_string());
        write(stream, &self.packet_of(&error, seq)).await?;
        Ok(false)
    }

    /// The answer to any other command; `None` ends the connection.
    fn answer(&mut self, payload: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        if payload.first() == Some(&COM_REGISTER_SLAVE) {
            match Register::parse(payload) {
                Ok(register) => {
                    self.login.who.is_registered = true;
                    let host = String::from_utf8_lossy(register.host).into_owned();
                    if !host.is_empty() {
                        self.login.who.reports = format!("{host}:{}", register.port);
                    }
                    self.put_ok(&mut out);
                }
                Err(malformed) => {
                    let error = ClientError::new(ER_MALFORMED_PACKET, GENERAL, malformed.to_string());
                    return Some(self.packet_of(&error, 1));
                }
            }
            return Some(out);
        }
        match Command::parse(payload) {
            Ok(Command::Quit) => return None,
            Ok(Command::Ping | Command::InitDb(_) | Command::SetOption(_)) => self.put_ok(&mut out),
            Ok(Command::ResetConnection) => {
                self.variables = Variables::default();
                self.put_ok(&mut out);
            }
            Ok(Command::Query(text)) => self.query(&mut out, &String::from_utf8_lossy(text)),
            Ok(Command::Statistics) => put_packet_of_text(&mut out, "Delphinus, a relay of a binary log"),
            // These two have no answer on any server.
            Ok(Command::StmtClose(_) | Command::StmtSendLongData(_)) => {}
            Ok(_) | Err(_) => {
                let text = "Unknown command: a relay of a binary log knows only what replicas need";
                return Some(self.packet_of(&ClientError::new(ER_UNKNOWN_COM_ERROR, UNKNOWN, text), 1));
            }
        }
        Some(out)
    }

    fn query(&mut self, out: &mut Vec<u8>, text: &str) {
        let who = &self.login.who;
        let caller = (self.login.id, format!("{}@{}", who.user, who.host));
        let facts = Own { log: &self.shared.log, identity: &self.shared.identity, caller };
        match statement::answer(text, &mut self.variables, &facts) {
            Ok(Answer::Done) => self.put_ok(out),
            Ok(Answer::Rows(result)) => result.put(out, 1, Status::AUTOCOMMIT, self.login.capabilities),
            Err(Refused { code, state, text }) => {
                tracing::debug!(relay = %self.shared.name, code, error = %text, "a statement is refused");
                ClientError::new(code, state, text).put(out, 1, self.login.capabilities);
            }
        }
    }

    fn put_ok(&self, out: &mut Vec<u8>) {
        let at = begin_packet(out);
        let ok = OkPacket { status: Status::AUTOCOMMIT, ..OkPacket::default() };
        ok.put(out, 0, self.login.capabilities);
        end_packet(out, at, 1);
    }

    fn packet_of(&self, error: &ClientError, seq: u8) -> Vec<u8> {
        let mut out = Vec::new();
        error.put(&mut out, seq, self.login.capabilities);
        out
    }
}

fn put_packet_of_text(out: &mut Vec<u8>, text: &str) {
    put_packet(out, 1, text.as_bytes());
}

async fn write(stream: &mut Stream, bytes: &[u8]) -> Result<(), NetError> {
    let written = rt::timeout(NET_TIMEOUT, stream.write_bytes(bytes)).await;
    Ok(written.ok_or(NetError::TimedOut(NET_TIMEOUT.as_millis() as u64))??)
}
