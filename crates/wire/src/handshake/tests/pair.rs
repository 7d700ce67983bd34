//! Runs a `ServerLogin` and a `ClientLogin` against each other and keeps what they sent.

use std::sync::{Arc, LazyLock};

use crate::Capabilities;
use crate::auth::{BackendSecret, Credential, Nonce, Password, Plugin, RsaKey, caching_sha2, native};
use crate::handshake::client::{
    ClientFailure, ClientLogin, ClientOutcome, ClientSettings, Step as ClientStep, Trust,
};
use crate::handshake::server::{
    LoginOutcome, Refusal, ServerLogin, ServerSettings, Step as ServerStep, UserRecord, Verdict as Said,
};
use crate::handshake::{ConnectAttributes, Packet, TlsMode, Transport};

pub(super) const NONCE: Nonce = *b"abcdefghijklmnopqrst";
pub(super) const PASSWORD: &str = "correct horse";

/// Made once: it takes long in a debug build.
pub(super) static KEY: LazyLock<Arc<RsaKey>> = LazyLock::new(|| Arc::new(RsaKey::generate().unwrap()));

pub(super) fn server_settings() -> ServerSettings {
    ServerSettings {
        capabilities: Capabilities::LONG_PASSWORD
            | Capabilities::CONNECT_WITH_DB
            | Capabilities::CONNECT_ATTRS
            | Capabilities::PLUGIN_AUTH_LENENC_DATA
            | Capabilities::DEPRECATE_EOF,
        server_version: "9.7.4-delphinus".into(),
        collation: 255,
        connection_id: 42,
        nonce: NONCE,
        long_nonce: [7; 32],
        default_plugin: Plugin::CachingSha2,
        tls: TlsMode::Optional,
        transport: Transport::Tcp,
        rsa_key: Some(KEY.clone()),
        client_host: "10.0.0.7".into(),
    }
}

pub(super) fn client_settings(secret: BackendSecret) -> ClientSettings {
    let mut attributes = ConnectAttributes::default();
    attributes.push(b"_client_name", b"delphinus");
    ClientSettings {
        capabilities: Capabilities::DEPRECATE_EOF | Capabilities::SESSION_TRACK,
        collation: 255,
        max_packet_len: 1 << 30,
        user: "ann".into(),
        secret,
        schema: Some(b"shop".to_vec()),
        attributes,
        tls: TlsMode::Disabled,
        transport: Transport::Tcp,
        zstd_level: 3,
        trust: Trust::default(),
    }
}

pub(super) fn plain(password: &str) -> BackendSecret {
    BackendSecret::Plain(Password::new(password))
}

pub(super) fn credentials() -> [(&'static str, UserRecord); 8] {
    static STORED: LazyLock<caching_sha2::StoredHash> =
        LazyLock::new(|| caching_sha2::StoredHash::new(PASSWORD.as_bytes(), *b"0123456789abcdefghij"));
    let mut cached = UserRecord::new(Credential::Sha2Hash(STORED.clone()));
    cached.verified = vec![Password::new(PASSWORD)];
    let mut remembered = UserRecord::new(Credential::Backend);
    remembered.verified = vec![Password::new("another"), Password::new(PASSWORD)];
    let mut signing = UserRecord::new(Credential::Plain(Password::new(PASSWORD)));
    signing.plugin = Some(Plugin::Ed25519);
    [
        ("plain", UserRecord::new(Credential::Plain(Password::new(PASSWORD)))),
        ("native hash", UserRecord::new(Credential::NativeHash(native::stored_hash(PASSWORD.as_bytes())))),
        ("sha2 hash", UserRecord::new(Credential::Sha2Hash(STORED.clone()))),
        ("sha2 hash, cached", cached),
        ("backend", UserRecord::new(Credential::Backend)),
        ("backend, cached", remembered),
        (
            "plain, two",
            rotating(Credential::Plain(Password::new("next")), Credential::Plain(Password::new(PASSWORD))),
        ),
        ("plain, ed25519", signing),
    ]
}

/// What a backend says to the proxy, whose host it sees.
pub(super) fn backend_error(has_password: bool) -> crate::response::ErrPacket {
    let given = if has_password { "YES" } else { "NO" };
    let message = format!("Access denied for user 'ann'@'the.proxy' (using password: {given})");
    crate::response::ErrPacket { code: 1045, state: *b"28000", message: message.into_bytes() }
}

/// A user with two passwords.
pub(super) fn rotating(primary: Credential, secondary: Credential) -> UserRecord {
    let mut record = UserRecord::new(primary);
    record.secondary = Some(secondary);
    record
}

/// What came of a login.
#[derive(Debug)]
pub(super) struct Verdict {
    /// `None` if the client gave up first.
    pub(super) server: Option<Result<LoginOutcome, Refusal>>,
    /// `None` if the server refused.
    pub(super) client: Option<Result<ClientOutcome, ClientFailure>>,
    /// Every packet: its first byte with `>` (from the client) or `<` before it, `tls`, and `compute`.
    pub(super) trace: Vec<String>,
}

/// Logs in.
pub(super) fn log_in(server: ServerSettings, client: ClientSettings, record: UserRecord) -> Verdict {
    let is_unix = server.transport == Transport::Unix;
    let (greeting, server) = ServerLogin::start(server);
    let client = ClientLogin::start(client);
    let mut run = Run { record, trace: Vec::new(), is_unix, is_tls: false };
    run.deliver(&greeting, client, server)
}

/// Sends a COM_CHANGE_USER on the connection of `before`.
pub(super) fn change_user(
    server: ServerSettings,
    client: ClientSettings,
    record: UserRecord,
    before: &Verdict,
) -> Verdict {
    let (Some(Ok(server_side)), Some(Ok(client_side))) = (&before.server, &before.client) else {
        panic!("not logged in: {before:?}");
    };
    let is_tls = server_side.connection.is_tls;
    let is_unix = server.transport == Transport::Unix;
    let mut run = Run { record, trace: Vec::new(), is_unix, is_tls };
    match ClientLogin::change_user(client, client_side.link) {
        ClientStep::Send(packet, client) => {
            assert_eq!(packet.seq, 0);
            run.note('>', &packet);
            let step = ServerLogin::change_user(server, server_side.connection, &packet.payload);
            run.server_step(step, client)
        }
        ClientStep::Failed(failure) => run.give_up(failure),
        step => panic!("unexpected {step:?}"),
    }
}

struct Run {
    record: UserRecord,
    trace: Vec<String>,
    is_unix: bool,
    is_tls: bool,
}

impl Run {
    fn note(&mut self, from: char, packet: &Packet) {
        let first = packet.payload.first().map_or("empty".into(), |byte| format!("{byte:02x}"));
        let secret = [PASSWORD.as_bytes(), b"wrong"];
        let is_clear =
            secret.iter().any(|secret| packet.payload.windows(secret.len()).any(|window| window == *secret));
        assert!(!is_clear || self.is_tls || self.is_unix, "password in clear: {:?}", self.trace);
        self.trace.push(format!("{from}{first} {}", packet.payload.len()));
    }

    fn deliver(&mut self, packet: &Packet, client: ClientLogin, server: ServerLogin) -> Verdict {
        self.note('<', packet);
        let step = client.receive(packet.seq, &packet.payload);
        self.client_step(step, server)
    }

    fn client_step(&mut self, step: ClientStep, server: ServerLogin) -> Verdict {
        match step {
            ClientStep::Send(packet, client) => {
                self.note('>', &packet);
                let step = server.receive(packet.seq, &packet.payload);
                self.server_step(step, client)
            }
            ClientStep::StartTls(packet, tls) => {
                self.note('>', &packet);
                let ServerStep::StartTls(server) = server.receive(packet.seq, &packet.payload) else {
                    panic!("the server does not start TLS");
                };
                self.trace.push("tls".into());
                self.is_tls = true;
                self.client_step(tls.started(), server)
            }
            ClientStep::Failed(failure) => self.give_up(failure),
            step => panic!("unexpected {step:?}"),
        }
    }

    fn server_step(&mut self, step: ServerStep, client: ClientLogin) -> Verdict {
        match step {
            ServerStep::Send(packet, server) => self.deliver(&packet, client, server),
            ServerStep::Lookup(query) => {
                assert_eq!(query.user(), "ann");
                let step = query.answer(self.record.clone());
                self.server_step(step, client)
            }
            ServerStep::Compute(job, next) => {
                self.trace.push("compute".into());
                let step = next.resume(std::thread::spawn(move || job.run()).join().unwrap());
                self.server_step(step, client)
            }
            ServerStep::Verify(query) => {
                self.trace.push("verify".into());
                let verdict = match query.password().expose() {
                    given if given == PASSWORD.as_bytes() => Said::Right,
                    given => Said::Refused(backend_error(!given.is_empty()), "wrong password"),
                };
                let step = query.answer(verdict);
                self.server_step(step, client)
            }
            ServerStep::Done(outcome) => self.done(*outcome, client),
            ServerStep::Refuse(refusal) => self.refuse(refusal, client),
            step @ ServerStep::StartTls(_) => panic!("unexpected {step:?}"),
        }
    }

    fn done(&mut self, mut outcome: LoginOutcome, mut client: ClientLogin) -> Verdict {
        if let Some(packet) = outcome.before_ok.take() {
            self.note('<', &packet);
            let ClientStep::Read(next) = client.receive(packet.seq, &packet.payload) else {
                panic!("the client does not wait for OK");
            };
            client = next;
        }
        let ok = b"\x00\x00\x00\x02\x00\x00\x00";
        let ClientStep::Done(client) = client.receive(outcome.next_seq, ok) else {
            panic!("the client does not take the OK");
        };
        assert_eq!(client.ok, ok);
        assert_eq!(outcome.connection.is_tls, self.is_tls);
        assert_eq!(client.link.is_tls, self.is_tls);
        self.verdict(Some(Ok(outcome)), Some(Ok(*client)))
    }

    fn refuse(&mut self, refusal: Refusal, client: ClientLogin) -> Verdict {
        let mut err = Vec::new();
        crate::response::ErrPacket {
            code: refusal.code,
            state: refusal.state,
            message: refusal.message.clone().into(),
        }
        .put(&mut err, Capabilities::PROTOCOL_41);
        let ClientStep::Failed(ClientFailure::Refused(seen)) = client.receive(refusal.seq, &err) else {
            panic!("the client does not take the error");
        };
        assert_eq!((seen.code, seen.text().into_owned()), (refusal.code, refusal.message.clone()));
        self.verdict(Some(Err(refusal)), None)
    }

    fn give_up(&mut self, failure: ClientFailure) -> Verdict {
        self.verdict(None, Some(Err(failure)))
    }

    fn verdict(
        &mut self,
        server: Option<Result<LoginOutcome, Refusal>>,
        client: Option<Result<ClientOutcome, ClientFailure>>,
    ) -> Verdict {
        Verdict { server, client, trace: std::mem::take(&mut self.trace) }
    }
}
