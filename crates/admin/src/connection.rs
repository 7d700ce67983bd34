//! One operator's connection: login, then commands until one side ends it.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use delphinus_clients::{ListenerSettings, LoginAttempt, Visitor};
use delphinus_net::rt::Either;
use delphinus_net::{Buffer, LoginEnd, LoginServices, NetError, PacketIo, Peer, Stream, rt, serve_login};
use delphinus_session::ClientError;
use delphinus_sql::{Backslash, LexOptions, split};
use delphinus_tables::MAX_ANSWER_BYTES;
use delphinus_wire::command::ClientStmtId;
use delphinus_wire::handshake::server::{LoginOutcome, PasswordQuery, ServerSettings, Step, Verdict};
use delphinus_wire::handshake::{ConnectAttributes, Transport};
use delphinus_wire::response::{EofPacket, ErrPacket, OkPacket, Status};
use delphinus_wire::{Capabilities, Command, begin_packet, end_packet, error_code, put_packet};

use crate::answer::{Answer, Refused};
use crate::ask;
use crate::command::{self, Caller};
use crate::console::Console;
use crate::hello::VERSION;
use crate::listen::Place;
use crate::prepared::{self, Prepared};

/// What operators may agree on.
const OFFERED: Capabilities = Capabilities(
    Capabilities::LONG_PASSWORD.0
        | Capabilities::FOUND_ROWS.0
        | Capabilities::LONG_FLAG.0
        | Capabilities::CONNECT_WITH_DB.0
        | Capabilities::NO_SCHEMA.0
        | Capabilities::ODBC.0
        | Capabilities::PROTOCOL_41.0
        | Capabilities::INTERACTIVE.0
        | Capabilities::IGNORE_SIGPIPE.0
        | Capabilities::TRANSACTIONS.0
        | Capabilities::RESERVED.0
        | Capabilities::SECURE_CONNECTION.0
        | Capabilities::MULTI_STATEMENTS.0
        | Capabilities::MULTI_RESULTS.0
        | Capabilities::PS_MULTI_RESULTS.0
        | Capabilities::PLUGIN_AUTH.0
        | Capabilities::CONNECT_ATTRS.0
        | Capabilities::PLUGIN_AUTH_LENENC_DATA.0
        | Capabilities::DEPRECATE_EOF.0,
);

/// utf8mb4_general_ci.
const COLLATION: u8 = 45;
/// The largest command, in bytes.
pub(crate) const MAX_COMMAND: usize = 64 * 1024;
/// How long a command that has begun, or an answer that nobody takes, may last.
const NET_TIMEOUT: Duration = Duration::from_mins(1);

/// Serves an operator from the first byte to the last.
pub(crate) async fn run(console: Rc<Console>, peer: Peer, listener: Arc<ListenerSettings>, place: Place) {
    let (host, visitor) = (peer.host(), Visitor::of(peer.ip, peer.system_user));
    if let Ok(mut stream) = peer.into_stream() {
        let mut buffer = Buffer::default();
        let newcomer = Newcomer { listener: &listener, host: &host, visitor, place: &place };
        let login = log_in(&console, &mut stream, &mut buffer, newcomer);
        let login = rt::timeout(place.login_limit(), login);
        match rt::either(login, place.evicted()).await {
            Either::Second(()) => {
                tracing::debug!(client.host = %host, "operator's login ended: a newer one took its place");
            }
            Either::First(Some(Ok((caller, capabilities)))) => {
                let mut connection = Connection::new(&console, caller, capabilities);
                if let Err(error) = connection.serve(&mut stream, &mut buffer).await {
                    tracing::debug!(client.host = %host, %error, "operator lost");
                }
            }
            Either::First(Some(Err(error))) => {
                tracing::debug!(client.host = %host, %error, "operator's login not finished");
            }
            Either::First(None) => tracing::debug!(client.host = %host, "operator's login took too long"),
        }
        let _ = rt::timeout(Duration::from_secs(1), stream.finish()).await;
    }
    drop(place);
}

/// A client that has not logged in yet, and by which listener it came.
struct Newcomer<'a> {
    listener: &'a ListenerSettings,
    host: &'a str,
    visitor: Visitor,
    place: &'a Place,
}

async fn log_in(
    console: &Console,
    stream: &mut Stream,
    buffer: &mut Buffer,
    Newcomer { listener, host, visitor, place }: Newcomer<'_>,
) -> Result<(Caller, Capabilities), NetError> {
    let settings = ServerSettings {
        capabilities: OFFERED,
        server_version: VERSION.to_owned(),
        collation: COLLATION,
        connection_id: console.parts.registry.next_id().0,
        nonce: delphinus_net::fresh_nonce()?,
        long_nonce: delphinus_net::fresh_bytes()?,
        default_plugin: console.times().default_plugin,
        tls: listener.tls_mode,
        transport: if stream.is_unix() { Transport::Unix } else { Transport::Tcp },
        rsa_key: console.parts.rsa_key.clone(),
        client_host: host.to_owned(),
    };
    let id = settings.connection_id;
    let attempt = LoginAttempt::new(&console.failed_logins, place, (visitor, host), place.login_limit());
    let services = LoginServices {
        memory: &console.parts.memory,
        tls: listener.tls.as_ref(),
        pause: &|query| attempt.pause(query.user()),
        lookup: &|query| console.users.borrow().record(query.user()),
        verify: &|query| Box::pin(async { nobody_to_ask(query) }),
    };
    let end = serve_login(stream, buffer, settings, &services).await;
    if let Err(end) = &end {
        attempt.failed(end).await;
    }
    match end {
        Ok(outcome) => {
            attempt.succeeded();
            if !place.enter() {
                return Err(NetError::Closed);
            }
            let LoginOutcome { connection, user, before_ok, next_seq, attributes, .. } = outcome;
            tell_login(&user, host, &attributes);
            let mut out = Vec::new();
            if let Some(packet) = before_ok {
                put_packet(&mut out, packet.seq, &packet.payload);
            }
            put_ok(&mut out, next_seq, connection.capabilities);
            stream.write_bytes(&out).await?;
            // One that was taken away while it logged in.
            let Some(role) = console.users.borrow().role(&user) else { return Err(NetError::Closed) };
            Ok((Caller { id, user, host: host.to_owned(), role }, connection.capabilities))
        }
        Err(LoginEnd::Broken(error)) => Err(error),
        Err(LoginEnd::Refused(refusal)) => {
            tracing::warn!(client.host = %host, code = refusal.code, reason = refusal.reason, "operator's login refused");
            let mut out = Vec::new();
            let error = ClientError::new(refusal.code, refusal.state, refusal.message);
            error.put(&mut out, refusal.seq, Capabilities::PROTOCOL_41);
            // A client that is gone cannot be told.
            let _ = stream.write_bytes(&out).await;
            Err(NetError::Closed)
        }
    }
}

/// `delphinus ctl` logs in for each command: scripts that run it must not fill the log.
fn tell_login(user: &str, host: &str, attributes: &ConnectAttributes) {
    if attributes.iter().any(|one| one == ask::PROGRAM) {
        tracing::debug!(admin.user = %user, client.host = %host, "operator logged in by delphinus ctl");
    } else {
        tracing::info!(admin.user = %user, client.host = %host, "operator logged in");
    }
}

/// Operators' passwords are never asked of a backend.
fn nobody_to_ask(query: PasswordQuery) -> Step {
    let denied = ErrPacket::parse(b"\xff\x15\x04#28000Access denied");
    query.answer(Verdict::Refused(denied.expect("invariant: a whole packet"), "no password"))
}

fn put_ok(out: &mut Vec<u8>, seq: u8, capabilities: Capabilities) {
    put_ok_with(out, seq, Status::AUTOCOMMIT, capabilities);
}

fn put_ok_with(out: &mut Vec<u8>, seq: u8, status: Status, capabilities: Capabilities) {
    let at = begin_packet(out);
    OkPacket { status, ..OkPacket::default() }.put(out, 0, capabilities);
    end_packet(out, at, seq);
}

/// The statements of a text; one without any is one, which is answered as such. SQLite and the commands know no backslashes.
pub(crate) fn statements(text: &str) -> Vec<&str> {
    let lex = LexOptions { backslash: Backslash::Literal, ..LexOptions::default() };
    let all: Vec<_> = split(text.as_bytes(), lex).filter_map(|range| text.get(range)).collect();
    if all.len() < 2 { vec![text] } else { all }
}

/// The answers to a text have become too large for one more.
fn too_much() -> Refused {
    let text = format!(
        "Delphinus: the answers to the statements before this one have more than {} MiB, which is the limit for one text; \
         it has not run: send it by itself",
        MAX_ANSWER_BYTES >> 20
    );
    Refused { code: error_code::ER_TOO_BIG_SELECT, state: *b"42000", text }
}

/// The number of the packet after these.
fn next_seq(mut packets: &[u8]) -> u8 {
    let mut next = 1;
    while let [a, b, c, seq, rest @ ..] = packets {
        next = seq.wrapping_add(1);
        packets = rest.get(u32::from_le_bytes([*a, *b, *c, 0]) as usize..).unwrap_or_default();
    }
    next
}

pub(crate) struct Connection<'a> {
    console: &'a Console,
    caller: Caller,
    capabilities: Capabilities,
    /// A text may have several statements.
    takes_several: bool,
    prepared: Prepared,
}

impl<'a> Connection<'a> {
    /// As it is after a login with these capabilities.
    pub(crate) fn new(console: &'a Console, caller: Caller, capabilities: Capabilities) -> Self {
        let takes_several = capabilities.contains(Capabilities::MULTI_STATEMENTS);
        Self { console, caller, capabilities, takes_several, prepared: Prepared::default() }
    }

    async fn serve(&mut self, stream: &mut Stream, buffer: &mut Buffer) -> Result<(), NetError> {
        loop {
            let mut io = PacketIo::new(stream, buffer, 0);
            match rt::timeout(self.console.times().wait_timeout, io.wait()).await {
                Some(ready) => ready?,
                None => return Ok(()),
            }
            let timed_out = NetError::TimedOut(NET_TIMEOUT.as_millis() as u64);
            let packet = match rt::timeout(NET_TIMEOUT, io.read(MAX_COMMAND)).await.ok_or(timed_out)? {
                Err(error @ NetError::TooLarge(_)) => {
                    let too_large = "Got a packet bigger than 'max_allowed_packet' bytes";
                    let refused = Refused {
                        code: error_code::ER_NET_PACKET_TOO_LARGE,
                        state: *b"08S01",
                        text: too_large.to_owned(),
                    };
                    write(stream, &self.error(&refused)).await?;
                    return Err(error);
                }
                // A client that closes without a word.
                Err(NetError::Closed) => return Ok(()),
                packet => packet?,
            };
            let role = self.console.users.borrow().role(&self.caller.user);
            let Some(role) = role else {
                tracing::info!(admin.user = %self.caller.user, "operator disconnected: the user is no longer an \
                 operator");
                return Ok(());
            };
            self.caller.role = role;
            let Some(out) = self.answer(&packet.payload).await else { return Ok(()) };
            write(stream, &out).await?;
        }
    }

    /// The answer to a command; `None` ends the connection.
    pub(crate) async fn answer(&mut self, payload: &[u8]) -> Option<Vec<u8>> {
        let unknown = Refused {
            code: error_code::ER_UNKNOWN_COM_ERROR,
            state: *b"08S01",
            text: "Unknown command".to_owned(),
        };
        let mut out = Vec::new();
        match Command::parse(payload) {
            Ok(Command::Quit) => return None,
            Ok(Command::Ping | Command::InitDb(_)) => put_ok(&mut out, 1, self.capabilities),
            Ok(Command::ResetConnection) => {
                self.prepared.clear();
                put_ok(&mut out, 1, self.capabilities);
            }
            Ok(Command::Query(text)) => return Some(self.query(&String::from_utf8_lossy(text)).await),
            Ok(Command::ProcessKill(id)) => return Some(self.query(&format!("KILL {id}")).await),
            Ok(Command::SetOption(option)) => {
                self.takes_several = option == 0;
                self.put_eof(&mut out);
            }
            Ok(Command::Statistics) => {
                put_packet(&mut out, 1, format!("Uptime: {}", self.uptime_s()).as_bytes());
            }
            Ok(Command::StmtPrepare(text)) => {
                return Some(self.prepare(&String::from_utf8_lossy(text)).await);
            }
            Ok(Command::StmtExecute { id, .. }) => return Some(self.execute(id, payload).await),
            Ok(Command::StmtReset(id)) => match self.prepared.reset(id) {
                Ok(()) => put_ok(&mut out, 1, self.capabilities),
                Err(refused) => return Some(self.error(&refused)),
            },
            // These two are without an answer, on every server.
            Ok(Command::StmtClose(id)) => self.prepared.close(id),
            Ok(Command::StmtSendLongData(id)) => self.prepared.long_data(id),
            Ok(_) | Err(_) => return Some(self.error(&unknown)),
        }
        Some(out)
    }

    fn uptime_s(&self) -> u64 {
        rt::now().saturating_duration_since(self.console.started).as_secs()
    }

    /// The answers to a text, of which each but the last says that more come; an error is the last.
    async fn query(&self, text: &str) -> Vec<u8> {
        let statements = if self.takes_several { statements(text) } else { vec![text] };
        let (mut out, mut seq) = (Vec::new(), 1);
        for (at, statement) in statements.iter().enumerate() {
            // All answers are kept until the last one is made.
            if out.len() > MAX_ANSWER_BYTES {
                too_much().to_error().put(&mut out, seq, self.capabilities);
                break;
            }
            let begin = out.len();
            let more = if at + 1 < statements.len() { Status::MORE_RESULTS.0 } else { 0 };
            let status = Status(Status::AUTOCOMMIT.0 | more);
            match command::run(self.console, &self.caller, statement, &[]).await {
                Ok(Answer::Done) => put_ok_with(&mut out, seq, status, self.capabilities),
                Ok(Answer::Rows(table)) => table.into_result().put(&mut out, seq, status, self.capabilities),
                Err(refused) => {
                    refused.to_error().put(&mut out, seq, self.capabilities);
                    break;
                }
            }
            seq = next_seq(&out[begin..]);
        }
        out
    }

    async fn prepare(&mut self, text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        let prepared = command::prepare(self.console, &self.caller, text).await;
        let kept = prepared.and_then(|(columns, parameters)| {
            let parameters = u16::try_from(parameters).map_err(|_| Refused::syntax("too many parameters"))?;
            Ok((self.prepared.keep(text.to_owned(), parameters)?, parameters, columns))
        });
        match kept {
            Ok((id, parameters, columns)) => {
                prepared::put_answer(&mut out, id, (parameters, &columns), self.capabilities);
            }
            Err(refused) => return self.error(&refused),
        }
        out
    }

    async fn execute(&mut self, id: ClientStmtId, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let (text, values) = match self.prepared.executed(id, payload) {
            Ok(read) => read,
            Err(refused) => return self.error(&refused),
        };
        match command::run(self.console, &self.caller, &text, &values).await {
            Ok(Answer::Done) => put_ok(&mut out, 1, self.capabilities),
            Ok(Answer::Rows(table)) => {
                table.into_result().put_binary(&mut out, 1, Status::AUTOCOMMIT, self.capabilities);
            }
            Err(refused) => return self.error(&refused),
        }
        out
    }

    fn put_eof(&self, out: &mut Vec<u8>) {
        if self.capabilities.contains(Capabilities::DEPRECATE_EOF) {
            let at = begin_packet(out);
            let ok = OkPacket { status: Status::AUTOCOMMIT, ..OkPacket::default() };
            ok.put(out, delphinus_wire::response::EOF, self.capabilities);
            end_packet(out, at, 1);
        } else {
            let at = begin_packet(out);
            EofPacket { warnings: 0, status: Status::AUTOCOMMIT }.put(out);
            end_packet(out, at, 1);
        }
    }

    fn error(&self, refused: &Refused) -> Vec<u8> {
        let mut out = Vec::new();
        refused.to_error().put(&mut out, 1, self.capabilities);
        out
    }
}

async fn write(stream: &mut Stream, bytes: &[u8]) -> Result<(), NetError> {
    let written = rt::timeout(NET_TIMEOUT, stream.write_bytes(bytes)).await;
    Ok(written.ok_or(NetError::TimedOut(NET_TIMEOUT.as_millis() as u64))??)
}
