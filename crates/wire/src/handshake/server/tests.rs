//! Clients that do what this project's own client machine never does.

use super::*;
use crate::auth::caching_sha2::{self, StoredHash};
use crate::auth::{BackendSecret, Credential, Password, native};
use crate::handshake::{AuthSwitchRequest, ConnectAttributes};

const NONCE: Nonce = *b"abcdefghijklmnopqrst";
const FLAGS: Capabilities = Capabilities(
    Capabilities::LONG_PASSWORD.0
        | Capabilities::PROTOCOL_41.0
        | Capabilities::SECURE_CONNECTION.0
        | Capabilities::PLUGIN_AUTH.0,
);

fn settings() -> ServerSettings {
    ServerSettings {
        capabilities: Capabilities::LONG_PASSWORD,
        server_version: "9.7.4".into(),
        collation: 255,
        connection_id: 1,
        nonce: NONCE,
        long_nonce: [7; 32],
        default_plugin: Plugin::CachingSha2,
        tls: TlsMode::Optional,
        transport: Transport::Tcp,
        rsa_key: None,
        client_host: "h".into(),
    }
}

fn login(capabilities: Capabilities, plugin: &str, answer: &[u8]) -> Vec<u8> {
    Login {
        capabilities,
        max_packet_len: 1,
        collation: 45,
        user: b"ann".to_vec(),
        answer: answer.to_vec(),
        schema: None,
        plugin: Some(plugin.into()),
        attributes: ConnectAttributes::default(),
        zstd_level: 0,
    }
    .encode()
}

fn plain() -> UserRecord {
    UserRecord::new(Credential::Plain(Password::new("secret")))
}

fn sha2() -> UserRecord {
    UserRecord::new(Credential::Sha2Hash(StoredHash::new(b"secret", *b"0123456789abcdefghij")))
}

fn right_native() -> [u8; 20] {
    native::scramble(&native::stage1(b"secret"), &NONCE)
}

/// Sends the login packet and answers the lookup.
fn after_login(settings: ServerSettings, payload: &[u8], record: UserRecord) -> Step {
    match ServerLogin::start(settings).1.receive(1, payload) {
        Step::Lookup(query) => query.answer(record),
        step => step,
    }
}

fn code(step: Step) -> u16 {
    match step {
        Step::Refuse(refusal) => refusal.code,
        step => panic!("not refused: {step:?}"),
    }
}

fn switched_to(step: Step) -> (String, ServerLogin) {
    let Step::Send(packet, next) = step else { panic!("no switch: {step:?}") };
    assert_eq!(packet.seq, 2);
    let request = AuthSwitchRequest::parse(&packet.payload).unwrap();
    assert_eq!(request.nonce(), Some(NONCE));
    (String::from_utf8(request.plugin).unwrap(), next)
}

#[test]
fn unknown_plugins_are_switched_to_one_that_fits() {
    for plugin in ["", "dialog", "mysql_clear_password", "sha256_password", "auth_gssapi_client"] {
        let payload = login(FLAGS, plugin, b"secret\0");
        let (name, next) = switched_to(after_login(settings(), &payload, plain()));
        assert_eq!(name, "caching_sha2_password", "{plugin}");
        let refused = next.receive(3, &right_native());
        assert_eq!(code(refused), 1045, "an answer of another plugin");

        let mut record = plain();
        record.plugin = Some(Plugin::Native);
        let (name, next) = switched_to(after_login(settings(), &payload, record));
        assert_eq!(name, "mysql_native_password", "{plugin}");
        let Step::Done(outcome) = next.receive(3, &right_native()) else { panic!("{plugin}") };
        assert_eq!((outcome.plugin, outcome.next_seq), (Plugin::Native, 4));
    }
}

#[test]
fn an_empty_answer_for_another_plugin_than_the_greetings_is_no_password_yet() {
    let payload = login(FLAGS, "mysql_native_password", b"");
    let (name, next) = switched_to(after_login(settings(), &payload, plain()));
    assert_eq!(name, "mysql_native_password");
    assert!(matches!(next.receive(3, &right_native()), Step::Done(_)));
}

#[test]
fn clients_without_plugins_have_the_native_one() {
    let old = FLAGS.without(Capabilities::PLUGIN_AUTH);
    let payload = login(old, "", &right_native());
    assert!(matches!(after_login(settings(), &payload, plain()), Step::Done(_)));
    assert_eq!(code(after_login(settings(), &payload, sha2())), 1251);
    assert_eq!(code(after_login(settings(), &login(old, "", b""), plain())), 1045);
}

#[test]
fn clear_passwords_are_taken_inside_tls_only() {
    let payload = login(FLAGS | Capabilities::SSL, "mysql_clear_password", b"secret\0");
    let request = payload[..32].to_vec();
    for (record, password) in [(plain(), "secret"), (sha2(), "secret"), (plain(), "wrong")] {
        let Step::StartTls(machine) = ServerLogin::start(settings()).1.receive(1, &request) else { panic!() };
        let payload =
            login(FLAGS | Capabilities::SSL, "mysql_clear_password", format!("{password}\0").as_bytes());
        let Step::Lookup(query) = machine.receive(2, &payload) else { panic!() };
        let step = match query.answer(record) {
            Step::Compute(job, next) => next.resume(job.run()),
            step => step,
        };
        match (step, password) {
            (Step::Done(outcome), "secret") => {
                assert_eq!(outcome.secret, BackendSecret::Plain(Password::new("secret")));
                assert!(outcome.connection.is_tls);
            }
            (Step::Refuse(refusal), "wrong") => assert_eq!(refusal.code, 1045),
            (step, _) => panic!("{step:?}"),
        }
    }
    let (name, _) = switched_to(after_login(settings(), &payload, plain()));
    assert_eq!(name, "caching_sha2_password", "without TLS");
}

#[test]
fn tls_is_asked_for_once_and_only_where_it_is_offered() {
    let request = login(FLAGS | Capabilities::SSL, "", b"")[..32].to_vec();
    let off = ServerSettings { tls: TlsMode::Disabled, ..settings() };
    assert_eq!(code(ServerLogin::start(off).1.receive(1, &request)), 1043);
    let Step::StartTls(machine) = ServerLogin::start(settings()).1.receive(1, &request) else { panic!() };
    assert_eq!(code(machine.receive(2, &request)), 1043);
}

#[test]
fn tls_that_was_not_started_is_not_negotiated() {
    let payload = login(FLAGS | Capabilities::SSL, "mysql_native_password", &right_native());
    let Step::Done(outcome) = after_login(settings(), &payload, plain()) else { panic!() };
    assert!(!outcome.connection.capabilities.contains(Capabilities::SSL));
}

#[test]
fn required_tls_spares_unix_sockets() {
    let payload = login(FLAGS, "mysql_native_password", &right_native());
    let required = ServerSettings { tls: TlsMode::Required, ..settings() };
    let step = after_login(required.clone(), &payload, plain());
    let Step::Refuse(refusal) = step else { panic!("{step:?}") };
    assert_eq!((refusal.code, &refusal.state, refusal.seq), (3159, b"HY000", 2));
    let unix = ServerSettings { transport: Transport::Unix, ..required };
    assert!(matches!(after_login(unix, &payload, plain()), Step::Done(_)));
}

#[test]
fn malformed_and_old_logins_get_mysqls_errors() {
    let start = || ServerLogin::start(settings()).1;
    assert_eq!(code(start().receive(1, b"")), 1043);
    assert_eq!(code(start().receive(1, &FLAGS.mysql_bits().to_le_bytes())), 1043);
    // The login packet of MySQL 4.0: 2 bytes of flags, 3 bytes of packet size, the user.
    assert_eq!(code(start().receive(1, b"\x85\x24\x00\x00\x00old\0\x47\x44\x53\x43\0")), 1251);
    let no_secure = login(FLAGS.without(Capabilities::SECURE_CONNECTION), "", b"");
    assert_eq!(code(start().receive(1, &no_secure)), 1251);
    let payload = login(FLAGS, "mysql_native_password", &right_native());
    for seq in [0, 2, 255] {
        assert_eq!(code(start().receive(seq, &payload)), 1156, "sequence id {seq}");
    }
}

#[test]
fn full_authentication_without_tls_needs_a_key() {
    let payload = login(FLAGS, "caching_sha2_password", &[7; 32]);
    for reply in [&[2][..], &[7; 256], b"secret\0", b""] {
        let step = after_login(settings(), &payload, sha2());
        let Step::Send(packet, next) = step else { panic!("{step:?}") };
        assert_eq!(packet.payload, [1, 4]);
        assert_eq!(code(next.receive(3, reply)), 1045, "{reply:?}");
    }
}

#[test]
fn what_is_not_encrypted_with_the_key_is_refused() {
    let key = Arc::new(RsaKey::generate().unwrap());
    let settings = ServerSettings { rsa_key: Some(key), ..settings() };
    let payload = login(FLAGS, "caching_sha2_password", &[7; 32]);
    for record in [sha2(), sha2().decoy()] {
        let Step::Send(_, next) = after_login(settings.clone(), &payload, record) else { panic!() };
        let Step::Send(key, next) = next.receive(3, &[2]) else { panic!() };
        assert!(key.payload.starts_with(b"\x01-----BEGIN PUBLIC KEY-----\n"));
        assert_eq!(next.max_payload_len(), MAX_ANSWER_LEN);
        let Step::Compute(job, next) = next.receive(5, &[7; 256]) else { panic!() };
        assert_eq!(code(next.resume(job.run())), 1045);
    }
}

#[test]
fn a_user_name_that_is_not_utf8_fits_nobody() {
    let mut payload = login(FLAGS, "mysql_native_password", &right_native());
    payload[32] = 0xff;
    let Step::Lookup(query) = ServerLogin::start(settings()).1.receive(1, &payload) else { panic!() };
    assert_eq!(query.user(), "\u{fffd}nn");
}

#[test]
fn malformed_changes_of_the_user_are_unknown_commands() {
    let payload = login(FLAGS, "mysql_native_password", &right_native());
    let Step::Done(outcome) = after_login(settings(), &payload, plain()) else { panic!() };
    for bad in [&b"\x11"[..], b"\x11ann", b"\x11ann\0\x14short"] {
        let step = ServerLogin::change_user(settings(), outcome.connection, bad);
        assert_eq!(code(step), 1047, "{bad:?}");
    }
}

#[test]
fn a_right_change_of_the_user_is_answered_at_once_and_a_wrong_one_is_asked_again() {
    let payload = login(FLAGS, "mysql_native_password", &right_native());
    let Step::Done(before) = after_login(settings(), &payload, plain()) else { panic!() };
    let command = |answer: &[u8]| {
        let head = [&b"\x11ann\0"[..], &[answer.len() as u8], answer].concat();
        [&head[..], b"shop\0\x21\0mysql_native_password\0"].concat()
    };
    let change = |payload: &[u8]| {
        let Step::Lookup(query) = ServerLogin::change_user(settings(), before.connection, payload) else {
            panic!()
        };
        query.answer(plain())
    };
    let Step::Done(outcome) = change(&command(&right_native())) else { panic!() };
    assert_eq!((outcome.next_seq, outcome.connection.collation), (1, 0x21));
    assert_eq!(outcome.schema.as_deref(), Some(&b"shop"[..]));
    for first in [&[7; 20][..], b""] {
        let Step::Send(packet, next) = change(&command(first)) else { panic!() };
        assert_eq!((packet.seq, packet.payload[0]), (1, 0xfe));
        let Step::Done(outcome) = next.receive(2, &right_native()) else { panic!() };
        assert_eq!(outcome.next_seq, 3);
        let Step::Send(_, next) = change(&command(first)) else { panic!() };
        assert_eq!(code(next.receive(2, &[7; 20])), 1045);
    }
}

#[test]
fn guessing_a_decoy_helps_nobody() {
    let guess = ".".repeat("secret".len());
    let answer = native::scramble(&native::stage1(guess.as_bytes()), &NONCE);
    let payload = login(FLAGS, "mysql_native_password", &answer);
    assert_eq!(code(after_login(settings(), &payload, plain().decoy())), 1045);

    let mut cached = sha2();
    cached.verified = vec![Password::new("secret")];
    for password in [".", "secret"] {
        let stage1 = caching_sha2::stage1(password.as_bytes());
        let payload = login(FLAGS, "caching_sha2_password", &caching_sha2::scramble(&stage1, &NONCE));
        let Step::Send(packet, _) = after_login(settings(), &payload, cached.decoy()) else { panic!() };
        assert_eq!(packet.payload, [1, 4], "as after any wrong fast answer");
    }
}

#[test]
fn what_cannot_be_decrypted_is_not_an_empty_password() {
    let empty = Credential::Sha2Hash(StoredHash::new(b"", *b"0123456789abcdefghij"));
    let settings = ServerSettings { rsa_key: Some(Arc::new(RsaKey::generate().unwrap())), ..settings() };
    let payload = login(FLAGS, "caching_sha2_password", &[7; 32]);
    let Step::Send(_, next) = after_login(settings, &payload, UserRecord::new(empty)) else { panic!() };
    let Step::Compute(job, next) = next.receive(3, &[7; 256]) else { panic!() };
    assert_eq!(code(next.resume(job.run())), 1045);
}

fn backend() -> UserRecord {
    UserRecord::new(Credential::Backend)
}

#[test]
fn a_backends_words_come_with_the_clients_host() {
    let said = |text: &str| {
        let payload = login(FLAGS, "caching_sha2_password", b"");
        let Step::Verify(query) = after_login(settings(), &payload, backend()) else { panic!("no query") };
        assert_eq!((query.user(), query.password().is_empty()), ("ann", true));
        let error = crate::response::ErrPacket { code: 3118, state: *b"HY000", message: text.into() };
        let Step::Refuse(refusal) = query.answer(Verdict::Refused(error, "r")) else { panic!("let in") };
        assert_eq!((refusal.code, refusal.seq), (3118, 2));
        refusal.message
    };
    assert_eq!(
        said("Access denied for user 'ann'@'proxy'. Account is locked."),
        "Access denied for user 'ann'@'h'. Account is locked."
    );
    for same in ["Too many connections", "user 'bob'@'proxy'", "user 'ann'@'no end", ""] {
        assert_eq!(said(same), same);
    }
}

#[test]
fn a_password_for_a_backend_is_asked_for_by_rsa_or_inside_tls_only() {
    for plugin in ["mysql_clear_password", "mysql_native_password", "caching_sha2_password"] {
        let payload = login(FLAGS, plugin, b"12345678901234567890123456789012");
        let mut step = after_login(settings(), &payload, backend());
        let mut seq = 3;
        if plugin != "caching_sha2_password" {
            let (name, next) = switched_to(step);
            assert_eq!(name, "caching_sha2_password", "{plugin}");
            step = next.receive(3, &[7; 32]);
            seq = 5;
        }
        let Step::Send(packet, next) = step else { panic!("{plugin}: {step:?}") };
        assert_eq!(packet.payload, [1, 4]);
        // Without a key and without TLS: what is sent in clear is not looked at.
        assert_eq!(code(next.receive(seq, b"secret\0")), 1045, "{plugin}");
    }
}

#[test]
fn what_was_verified_is_not_asked_again_and_everything_else_is() {
    let unix = ServerSettings { transport: Transport::Unix, ..settings() };
    let mut record = backend();
    record.verified = vec![Password::new("secret"), Password::new("older")];
    for (password, is_known) in [("secret", true), ("older", true), ("wrong", false)] {
        let payload = login(FLAGS, "mysql_clear_password", format!("{password}\0").as_bytes());
        match after_login(unix.clone(), &payload, record.clone()) {
            Step::Done(outcome) => {
                assert!(is_known, "{password}");
                assert_eq!(outcome.secret, BackendSecret::Plain(Password::new(password)));
            }
            Step::Verify(query) => {
                assert!(!is_known, "{password}");
                assert_eq!(query.password(), &Password::new(password));
            }
            step => panic!("{password}: {step:?}"),
        }
    }
}

#[test]
fn both_passwords_of_a_rotation_are_right_and_no_third() {
    let pairs = [
        (Credential::Plain(Password::new("new")), Credential::Plain(Password::new("old"))),
        (
            Credential::NativeHash(native::stored_hash(b"new")),
            Credential::NativeHash(native::stored_hash(b"old")),
        ),
    ];
    for (primary, secondary) in pairs {
        let mut record = UserRecord::new(primary);
        record.secondary = Some(secondary);
        for (password, is_right) in [("new", true), ("old", true), ("older", false)] {
            let answer = native::scramble(&native::stage1(password.as_bytes()), &NONCE);
            let payload = login(FLAGS, "mysql_native_password", &answer);
            let step = after_login(settings(), &payload, record.clone());
            assert_eq!(matches!(step, Step::Done(_)), is_right, "{record:?} {password}");
        }
    }
}

#[test]
fn a_user_of_ed25519_is_switched_to_a_nonce_of_32_bytes_without_a_nul() {
    let mut record = plain();
    record.plugin = Some(Plugin::Ed25519);
    for plugin in ["client_ed25519", "mysql_native_password", "caching_sha2_password"] {
        let payload = login(FLAGS, plugin, &right_native());
        let step = after_login(settings(), &payload, record.clone());
        let Step::Send(packet, next) = step else { panic!("{plugin}: {step:?}") };
        let request = AuthSwitchRequest::parse(&packet.payload).unwrap();
        assert_eq!((&request.plugin[..], &request.data[..]), (&b"client_ed25519"[..], &[7; 32][..]));
        let answer = crate::auth::ed25519::sign(b"secret", &[7; 32]);
        let Step::Done(outcome) = next.receive(3, &answer) else { panic!("{plugin}") };
        assert_eq!(outcome.plugin, Plugin::Ed25519);
    }
}

/// All that a client sees, and where the proxy works, when every answer of the client is wrong.
fn seen_with_wrong_answers(
    settings: &ServerSettings,
    plugin: &str,
    first: &[u8],
    record: UserRecord,
) -> Vec<String> {
    let mut seen = Vec::new();
    let mut step = after_login(settings.clone(), &login(FLAGS, plugin, first), record);
    loop {
        step = match step {
            Step::Send(packet, next) => {
                seen.push(format!("{packet:?}"));
                let answer: &[u8] = match packet.payload[..] {
                    [1, 4] if settings.transport == Transport::Unix => b"wrong\0",
                    [1, 4] => &[2],
                    // The public key.
                    [1, ..] => &[7; 256],
                    [0xfe, ref name @ ..] if name.starts_with(b"mysql_clear") => b"wrong\0",
                    [0xfe, ref name @ ..] if name.starts_with(b"client_ed") => &[7; 64],
                    [0xfe, ref name @ ..] if name.starts_with(b"caching") => &[7; 32],
                    _ => &[7; 20],
                };
                next.receive(packet.seq + 1, answer)
            }
            Step::Compute(job, next) => {
                seen.push("computes".to_owned());
                next.resume(job.run())
            }
            Step::Verify(query) => {
                seen.push("asks a backend".to_owned());
                let words =
                    crate::response::ErrPacket { code: 1045, state: *b"28000", message: b"no".to_vec() };
                query.answer(Verdict::Refused(words, "refused by the primary"))
            }
            Step::Refuse(Refusal { code, state, message, seq, .. }) => {
                seen.push(format!("{seq} {code} {state:?} {message}"));
                return seen;
            }
            step => panic!("{step:?}"),
        };
    }
}

#[test]
fn an_unknown_user_looks_like_a_known_one_with_a_wrong_password() {
    let key = Some(Arc::new(RsaKey::generate().unwrap()));
    let stored = StoredHash::new(b"secret", *b"0123456789abcdefghij");
    let mut verified = sha2();
    verified.verified = vec![Password::new("secret")];
    let mut asked = backend();
    asked.verified = vec![Password::new("secret")];
    let mut two = plain();
    two.secondary = Some(Credential::Plain(Password::new("former")));
    let mut known = vec![
        plain(),
        two,
        UserRecord::new(Credential::NativeHash([7; 20])),
        UserRecord::new(Credential::Sha2Hash(stored)),
        verified,
        backend(),
        asked,
    ];
    for plugin in [Plugin::Native, Plugin::CachingSha2, Plugin::Ed25519] {
        let mut record = plain();
        record.plugin = Some(plugin);
        known.push(record);
    }
    let mut most = 0;
    for record in known {
        // As the only user: so every other name is of its kind.
        let decoy = Decoys::new([("bob", &record)]).record("ann");
        for transport in [Transport::Tcp, Transport::Unix] {
            let settings = ServerSettings { transport, rsa_key: key.clone(), ..settings() };
            for (plugin, first) in [
                ("mysql_native_password", &[7; 20][..]),
                ("caching_sha2_password", &[7; 32]),
                ("client_ed25519", &[7; 64]),
                ("mysql_clear_password", b"wrong\0"),
                ("mysql_native_password", b""),
                ("caching_sha2_password", b""),
                ("sha256_password", b"\x01"),
            ] {
                let of_known = seen_with_wrong_answers(&settings, plugin, first, record.clone());
                let of_unknown = seen_with_wrong_answers(&settings, plugin, first, decoy.clone());
                assert_eq!(of_unknown, of_known, "{record:?} {transport:?} {plugin} {first:?}");
                most = most.max(of_known.len());
            }
        }
    }
    assert!(most >= 4, "the longest course is full authentication by the key: {most}");
}
