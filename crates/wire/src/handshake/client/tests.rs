//! Backends that do what this project's own server machine never does.

use super::*;
use crate::auth::{Password, RsaKey, Secret, caching_sha2, native};

const NONCE: Nonce = *b"abcdefghijklmnopqrst";
const OTHER: Nonce = *b"ABCDEFGHIJKLMNOPQRST";
const OK: &[u8] = b"\x00\x00\x00\x02\x00\x00\x00";

fn settings() -> ClientSettings {
    ClientSettings {
        capabilities: Capabilities::default(),
        collation: 255,
        max_packet_len: 1 << 30,
        user: "ann".into(),
        secret: BackendSecret::Plain(Password::new("secret")),
        schema: None,
        attributes: ConnectAttributes::default(),
        tls: TlsMode::Disabled,
        transport: Transport::Tcp,
        zstd_level: 3,
        trust: Trust::default(),
    }
}

fn greeting(plugin: &str) -> Vec<u8> {
    Greeting {
        server_version: "9.7.4".into(),
        connection_id: 7,
        nonce: NONCE,
        capabilities: Capabilities(0xffff_ffff),
        collation: 255,
        status: 2,
        plugin: plugin.into(),
    }
    .encode()
}

fn switch(plugin: &str, data: &[u8]) -> Vec<u8> {
    AuthSwitchRequest { plugin: plugin.into(), data: data.to_vec() }.encode()
}

fn with_nul(nonce: Nonce) -> Vec<u8> {
    [&nonce[..], &[0]].concat()
}

fn sent(step: Step) -> (Vec<u8>, ClientLogin) {
    let Step::Send(packet, next) = step else { panic!("nothing sent: {step:?}") };
    (packet.payload, next)
}

fn failure(step: Step) -> ClientFailure {
    let Step::Failed(failure) = step else { panic!("not failed: {step:?}") };
    failure
}

fn logged_in(settings: ClientSettings, plugin: &str) -> (Login, ClientLogin) {
    let (payload, next) = sent(ClientLogin::start(settings).receive(0, &greeting(plugin)));
    (Login::parse(&payload).unwrap(), next)
}

fn secret_in_tls(plugin: &str) -> (Login, ClientLogin) {
    let settings = ClientSettings { tls: TlsMode::Required, ..settings() };
    let step = ClientLogin::start(settings).receive(0, &greeting(plugin));
    let Step::StartTls(packet, tls) = step else { panic!("{step:?}") };
    assert_eq!((packet.seq, packet.payload.len()), (1, 32));
    let (payload, next) = sent(tls.started());
    (Login::parse(&payload).unwrap(), next)
}

#[test]
fn the_error_of_a_server_that_is_full_is_passed_on() {
    for (seq, err) in
        [(0, &b"\xff\x10\x04Too many connections"[..]), (3, b"\xff\x10\x04#08004Too many connections")]
    {
        let failed = failure(ClientLogin::start(settings()).receive(seq, err));
        let ClientFailure::Refused(err) = &failed else { panic!("{failed:?}") };
        assert_eq!((err.code, err.text().as_ref()), (1040, "Too many connections"));
        assert_eq!(failed.to_string(), "the backend refuses the login: error 1040: Too many connections");
    }
}

#[test]
fn sha256_password_is_sent_inside_tls_or_by_rsa() {
    let (login, _) = secret_in_tls("sha256_password");
    assert_eq!(login.answer, b"secret\0");
    let (login, next) = logged_in(settings(), "sha256_password");
    assert_eq!(login.answer, [1]);
    let key = RsaKey::generate().unwrap();
    let pem = AuthMoreData(key.public_pem().as_bytes()).encode();
    let (encrypted, next) = sent(next.receive(2, &pem));
    assert_eq!(key.decrypt_password(&encrypted, &NONCE), Some(Password::new("secret")));
    let Step::Done(outcome) = next.receive(4, OK) else { panic!() };
    assert_eq!(outcome.link.plugin, Plugin::Sha256);
}

#[test]
fn a_bad_public_key_is_an_error() {
    let (_, next) = logged_in(settings(), "sha256_password");
    assert!(matches!(failure(next.receive(2, b"\x01no key")), ClientFailure::Rsa(_)));
}

#[test]
fn clear_passwords_are_sent_inside_tls_only() {
    let request = switch("mysql_clear_password", b"");
    let (_, next) = logged_in(settings(), "caching_sha2_password");
    let failed = failure(next.receive(2, &request));
    assert_eq!(
        failed.to_string(),
        "the backend asks for the password of user 'ann' in clear (mysql_clear_password), which needs TLS"
    );
    let (_, next) = secret_in_tls("caching_sha2_password");
    let (answer, _) = sent(next.receive(3, &request));
    assert_eq!(answer, b"secret\0");
    // The greeting alone does not make the password in clear the first thing that is sent.
    let (login, _) = secret_in_tls("mysql_clear_password");
    assert_eq!(login.plugin.as_deref(), Some(&b"mysql_native_password"[..]));
    assert_eq!(login.answer.len(), native::HASH_LEN);
}

#[test]
fn a_switch_brings_a_new_nonce() {
    let (_, next) = logged_in(settings(), "caching_sha2_password");
    let (answer, next) = sent(next.receive(2, &switch("mysql_native_password", &with_nul(OTHER))));
    assert_eq!(answer, native::scramble(&native::stage1(b"secret"), &OTHER));
    let Step::Done(outcome) = next.receive(4, OK) else { panic!() };
    assert_eq!((outcome.link.nonce, outcome.link.plugin), (OTHER, Plugin::Native));
}

#[test]
fn a_backend_may_switch_once_and_to_what_is_known() {
    let again = switch("mysql_native_password", &with_nul(OTHER));
    let (_, next) = logged_in(settings(), "caching_sha2_password");
    let (_, next) = sent(next.receive(2, &again));
    assert!(matches!(failure(next.receive(4, &again)), ClientFailure::Unexpected(_)));

    let (_, next) = logged_in(settings(), "caching_sha2_password");
    let failed = failure(next.receive(2, &switch("auth_gssapi_client", b"")));
    let expected = ClientFailure::UnknownPlugin { user: "ann".into(), plugin: "auth_gssapi_client".into() };
    assert_eq!(failed, expected);

    for data in [&b""[..], b"short", &[7; 22]] {
        let (_, next) = logged_in(settings(), "caching_sha2_password");
        let failed = failure(next.receive(2, &switch("mysql_native_password", data)));
        assert!(matches!(failed, ClientFailure::Unexpected(_)), "{data:?}");
    }
    let (_, next) = logged_in(settings(), "caching_sha2_password");
    assert!(
        matches!(failure(next.receive(2, b"\xfe")), ClientFailure::UnknownPlugin { plugin, .. } if plugin == "mysql_old_password")
    );
}

#[test]
fn a_login_starts_with_the_plugin_that_the_secret_serves() {
    let native = BackendSecret::NativeSha1(native::stage1(b"secret"));
    let sha2 = BackendSecret::Sha2Stage1(caching_sha2::stage1(b"secret"));
    for (secret, greets, starts) in [
        (&native, "caching_sha2_password", "mysql_native_password"),
        (&native, "mysql_native_password", "mysql_native_password"),
        (&sha2, "mysql_native_password", "caching_sha2_password"),
        (&sha2, "auth_gssapi_client", "caching_sha2_password"),
        (&settings().secret, "caching_sha2_password", "caching_sha2_password"),
        (&settings().secret, "auth_gssapi_client", "mysql_native_password"),
    ] {
        let (login, _) = logged_in(ClientSettings { secret: secret.clone(), ..settings() }, greets);
        assert_eq!(login.plugin.as_deref(), Some(starts.as_bytes()), "{secret:?} {greets}");
    }
}

#[test]
fn a_digest_is_not_enough_for_full_authentication() {
    let secret = BackendSecret::Sha2Stage1(Secret::new([7; 32]));
    let (_, next) = logged_in(ClientSettings { secret, ..settings() }, "caching_sha2_password");
    let expected = ClientFailure::SecretUnfit { user: "ann".into(), plugin: "caching_sha2_password" };
    assert_eq!(failure(next.receive(2, &[1, 4])), expected);
}

#[test]
fn what_has_no_place_is_an_error() {
    for (replies, name) in [
        (vec![&b""[..]], "nothing"),
        (vec![&[2][..]], "an unknown first byte"),
        (vec![&[1, 9]], "unknown data"),
        (vec![&[1, 3], &[1, 3]], "fast twice"),
        (vec![&[1, 3], &[1, 4]], "full after fast"),
        (vec![&[1, 3], &[0xfe]], "a switch after fast"),
        (vec![&[1, 4], OK], "OK instead of a key"),
    ] {
        let (_, mut next) = logged_in(settings(), "caching_sha2_password");
        let mut seq = 2;
        let (last, before) = replies.split_last().unwrap();
        for reply in before {
            (seq, next) = match next.receive(seq, reply) {
                Step::Read(next) => (seq + 1, next),
                Step::Send(packet, next) => (packet.seq + 1, next),
                step => panic!("{name}: {step:?}"),
            };
        }
        assert!(matches!(failure(next.receive(seq, last)), ClientFailure::Unexpected(_)), "{name}");
    }
    let (_, next) = logged_in(settings(), "caching_sha2_password");
    assert!(matches!(failure(next.receive(7, OK)), ClientFailure::Unexpected(_)), "out of order");
}

#[test]
fn names_with_a_nul_are_not_sent() {
    let user = ClientSettings { user: "a\0b".into(), ..settings() };
    let schema = ClientSettings { schema: Some(b"a\0b".to_vec()), ..settings() };
    for settings in [user, schema] {
        let step = ClientLogin::start(settings).receive(0, &greeting("caching_sha2_password"));
        assert_eq!(failure(step), ClientFailure::NulInName);
    }
}

#[test]
fn flags_follow_the_settings() {
    let (login, _) = logged_in(settings(), "caching_sha2_password");
    for flag in [Capabilities::SSL, Capabilities::CONNECT_WITH_DB, Capabilities::CONNECT_ATTRS] {
        assert!(!login.capabilities.contains(flag), "{flag:?}");
    }
    let mut attributes = ConnectAttributes::default();
    attributes.push(b"a", b"b");
    let all = ClientSettings { schema: Some(b"shop".to_vec()), attributes, ..settings() };
    let (login, _) = logged_in(all, "caching_sha2_password");
    assert!(login.capabilities.contains(Capabilities::CONNECT_WITH_DB | Capabilities::CONNECT_ATTRS));
    assert_eq!(login.schema.as_deref(), Some(&b"shop"[..]));
}

#[test]
fn wide_collation_ids_have_no_place_in_the_login_packet() {
    for (wanted, expected) in [(8, 8), (255, 255), (256, 45), (309, 45), (2304, 45)] {
        let wide = ClientSettings { collation: wanted, ..settings() };
        let (login, next) = logged_in(wide, "caching_sha2_password");
        assert_eq!(login.collation, expected);
        let Step::Done(outcome) = next.receive(2, OK) else { panic!() };
        assert_eq!(outcome.link.collation, expected);
    }
}

#[test]
fn a_backend_without_plugins_gets_a_native_answer() {
    let old = Greeting {
        capabilities: Capabilities(0xffff_ffff).without(Capabilities::PLUGIN_AUTH),
        ..Greeting::parse(&greeting("")).unwrap()
    };
    let (payload, _) = sent(ClientLogin::start(settings()).receive(0, &old.encode()));
    let login = Login::parse(&payload).unwrap();
    assert_eq!(login.answer, native::scramble(&native::stage1(b"secret"), &NONCE));
    let sha2 = BackendSecret::Sha2Stage1(Secret::new([7; 32]));
    let settings = ClientSettings { secret: sha2, ..settings() };
    let failed = failure(ClientLogin::start(settings).receive(0, &old.encode()));
    assert!(matches!(failed, ClientFailure::SecretUnfit { .. }));
}
