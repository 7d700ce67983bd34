//! A client that sends anything: the login machine never panics and never lets it in.
#![no_main]

use std::sync::{Arc, LazyLock};

use delphinus_fuzz::Input;
use delphinus_wire::auth::caching_sha2::StoredHash;
use delphinus_wire::auth::{Credential, Password, Plugin, RsaKey, native};
use delphinus_wire::handshake::server::{
    Established, ServerLogin, ServerSettings, Step, UserRecord, Verdict,
};
use delphinus_wire::handshake::{Greeting, Login, SslRequest, TlsMode, Transport};
use delphinus_wire::response::ErrPacket;
use delphinus_wire::{Capabilities, Malformed};
use libfuzzer_sys::fuzz_target;

/// Too long to be found; comparisons of it are not traced.
const PASSWORD: &[u8] = b"\x8f\x1d\xc3vT~\x90\xaa+q\xe2\x07Z\xf8\x99\x10\x8b\xeb\x42\x66";

static KEY: LazyLock<Arc<RsaKey>> =
    LazyLock::new(|| Arc::new(RsaKey::generate().expect("the system has randomness")));
/// With a fifth of the usual rounds, to have more runs.
static STORED: LazyLock<StoredHash> = LazyLock::new(|| {
    let mut text = StoredHash::new(PASSWORD, *b"0123456789abcdefghij").to_bytes();
    text[5] = b'1';
    StoredHash::parse(&text).expect("the form is not changed")
});

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let (settings, record) = (settings(input.byte()), record(input.byte()));
    let change = input.byte().is_multiple_of(4);
    if let Some(payload) = Input::new(input.rest()).packet() {
        parse(payload);
    }
    let step = if change { change_user(&settings, &mut input) } else { log_in(settings, &mut input) };
    if let Some(step) = step {
        follow(step, &record, &mut input);
    }
});

fn settings(choice: u8) -> ServerSettings {
    let bit = |at: u8| choice >> at & 1 == 1;
    ServerSettings {
        capabilities: Capabilities(if bit(0) { u64::MAX } else { u64::MAX - 1 }),
        server_version: "9.7.4".into(),
        collation: 255,
        connection_id: 1,
        nonce: *b"abcdefghijklmnopqrst",
        long_nonce: [7; 32],
        default_plugin: if bit(1) { Plugin::Native } else { Plugin::CachingSha2 },
        tls: [TlsMode::Optional, TlsMode::Disabled, TlsMode::Required][usize::from(choice >> 2) % 3],
        transport: if bit(5) { Transport::Unix } else { Transport::Tcp },
        rsa_key: bit(6).then(|| KEY.clone()),
        client_host: "h".into(),
    }
}

fn record(choice: u8) -> UserRecord {
    let credential = || match choice % 4 {
        0 => Credential::Plain(Password::new(PASSWORD)),
        1 => Credential::NativeHash(native::stored_hash(PASSWORD)),
        2 => Credential::Sha2Hash(STORED.clone()),
        _ => Credential::Backend,
    };
    let mut record = UserRecord::new(credential());
    record.secondary = (choice & 0x40 != 0).then(credential);
    record.plugin = (choice & 0x80 != 0).then_some(Plugin::Ed25519);
    if choice & 0x10 != 0 {
        record.verified = vec![Password::new(PASSWORD)];
    }
    if choice & 0x20 != 0 { record.decoy() } else { record }
}

/// What is read is written, and read again, as the same.
fn parse(payload: &[u8]) {
    let _ = SslRequest::parse(payload);
    if let Ok(login) = Login::parse(payload) {
        let is_writable = login.capabilities.contains(Capabilities::SECURE_CONNECTION);
        let plugin_has_nul = login.plugin.as_ref().is_some_and(|name| name.contains(&0));
        if is_writable && !plugin_has_nul {
            let again = Login::parse(&login.encode()).expect("what was written is read");
            assert_eq!((&again.user, &again.answer), (&login.user, &login.answer));
            assert_eq!((again.capabilities, again.collation), (login.capabilities, login.collation));
        }
    }
    let _: Result<Greeting, Malformed> = Greeting::parse(payload);
}

fn log_in(settings: ServerSettings, input: &mut Input<'_>) -> Option<Step> {
    let (greeting, machine) = ServerLogin::start(settings);
    assert!(Greeting::parse(&greeting.payload).is_ok());
    Some(machine.receive(1, input.packet()?))
}

fn change_user(settings: &ServerSettings, input: &mut Input<'_>) -> Option<Step> {
    let established = Established {
        capabilities: Capabilities(input.flags()),
        max_packet_len: 1 << 24,
        collation: 255,
        zstd_level: 0,
        is_tls: input.byte().is_multiple_of(2),
    };
    Some(ServerLogin::change_user(settings.clone(), established, input.packet()?))
}

fn follow(mut step: Step, record: &UserRecord, input: &mut Input<'_>) {
    let mut seq = 1;
    for _ in 0..32 {
        step = match step {
            Step::Send(packet, next) => {
                assert!(packet.payload.len() < 4096);
                seq = packet.seq.wrapping_add(1);
                let Some(payload) = input.packet() else { return };
                next.receive(seq, payload)
            }
            Step::StartTls(next) => {
                seq += 1;
                let Some(payload) = input.packet() else { return };
                next.receive(seq, payload)
            }
            Step::Lookup(query) => query.answer(record.clone()),
            Step::Compute(job, next) => next.resume(job.run()),
            Step::Verify(query) => {
                let text = format!("Access denied for user '{}'@'proxy'", query.user());
                let error = ErrPacket { code: 1045, state: *b"28000", message: text.into_bytes() };
                query.answer(Verdict::Refused(error, "wrong password"))
            }
            Step::Done(outcome) => panic!("let in: {outcome:?}"),
            Step::Refuse(refusal) => {
                assert!(matches!(refusal.code, 1043 | 1045 | 1047 | 1156 | 1251 | 3159));
                return;
            }
        };
    }
    panic!("a login without end");
}
