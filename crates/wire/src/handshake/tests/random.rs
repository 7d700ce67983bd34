//! Bytes that nobody meant: neither machine may panic, and neither may be talked into a login.

use proptest::prelude::*;

use super::pair::*;
use crate::Capabilities;
use crate::handshake::client::{ClientLogin, Step as ClientStep};
use crate::handshake::server::{
    MAX_ANSWER_LEN, MAX_LOGIN_LEN, ServerLogin, Step as ServerStep, Verdict as Said,
};
use crate::handshake::{AuthSwitchRequest, ComChangeUser, ConnectAttributes, Greeting, Login, SslRequest};

/// Gives the server machine one payload after the other. True if it lets the client in.
fn feed_server(payloads: &[Vec<u8>], kind: usize) -> bool {
    let (packet, mut server) = ServerLogin::start(server_settings());
    let mut seq = packet.seq;
    for payload in payloads {
        seq = seq.wrapping_add(1);
        let mut step = server.receive(seq, payload);
        server = loop {
            step = match step {
                ServerStep::Send(packet, next) => {
                    seq = packet.seq;
                    break next;
                }
                ServerStep::StartTls(next) => break next,
                ServerStep::Lookup(query) => query.answer(credentials()[kind].1.clone()),
                ServerStep::Compute(job, next) => next.resume(job.run()),
                ServerStep::Verify(query) => {
                    query.answer(Said::Refused(backend_error(true), "wrong password"))
                }
                ServerStep::Done(_) => return true,
                ServerStep::Refuse(_) => return false,
            };
        };
    }
    false
}

fn feed_client(payloads: &[Vec<u8>]) {
    let mut client = ClientLogin::start(client_settings(plain(PASSWORD)));
    let mut seq = 0u8;
    for payload in payloads {
        client = match client.receive(seq, payload) {
            ClientStep::Send(packet, next) => {
                seq = packet.seq;
                next
            }
            ClientStep::Read(next) => next,
            ClientStep::StartTls(..) | ClientStep::Done(_) | ClientStep::Failed(_) => return,
        };
        seq = seq.wrapping_add(1);
    }
}

/// A login packet as a client would send it, with any flags and any plugin.
fn login_packet() -> impl Strategy<Value = Vec<u8>> {
    let plugins = prop::sample::select(vec![
        "",
        "mysql_native_password",
        "caching_sha2_password",
        "sha256_password",
        "mysql_clear_password",
        "client_ed25519",
        "dialog",
    ]);
    let answers = prop::collection::vec(any::<u8>(), 0..40);
    (any::<u64>(), plugins, answers).prop_map(|(flags, plugin, answer)| {
        let has_lenenc = Capabilities(flags).contains(Capabilities::PLUGIN_AUTH_LENENC_DATA);
        let is_short = Capabilities(flags).contains(Capabilities::SECURE_CONNECTION) || has_lenenc;
        let answer = if is_short { answer } else { answer.into_iter().filter(|byte| *byte != 0).collect() };
        Login {
            capabilities: Capabilities(flags) | Capabilities::PROTOCOL_41,
            max_packet_len: 1,
            collation: 8,
            user: b"ann".to_vec(),
            answer,
            schema: None,
            plugin: Some(plugin.into()),
            attributes: ConnectAttributes::default(),
            zstd_level: 0,
        }
        .encode()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_panic(
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..5),
        flags in any::<u64>(),
    ) {
        for payload in &payloads {
            let _ = Login::parse(payload);
            let _ = Greeting::parse(payload);
            let _ = SslRequest::parse(payload);
            let _ = AuthSwitchRequest::parse(payload);
            let _ = ComChangeUser::parse(payload, Capabilities(flags));
        }
        feed_client(&payloads);
        prop_assert!(!feed_server(&payloads, 0));
    }

    #[test]
    fn no_login_packet_and_no_answer_gets_in_by_chance(
        login in login_packet(),
        answers in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..4),
        kind in 0usize..8,
    ) {
        let payloads: Vec<_> = std::iter::once(login).chain(answers).collect();
        prop_assert!(!feed_server(&payloads, kind));
    }

    #[test]
    fn what_a_backend_sends_after_its_greeting_never_panics(
        replies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 1..4),
        first in prop::sample::select(vec![0u8, 1, 0xfe, 0xff]),
    ) {
        let greeting = ServerLogin::start(server_settings()).0.payload;
        let replies = replies.into_iter().map(|mut reply| {
            reply.insert(0, first);
            reply
        });
        feed_client(&std::iter::once(greeting).chain(replies).collect::<Vec<_>>());
    }
}

#[test]
fn logins_that_are_cut_anywhere_are_refused() {
    let greeting = ServerLogin::start(server_settings()).0.payload;
    let client = ClientLogin::start(client_settings(plain(PASSWORD)));
    let ClientStep::Send(login, _) = client.receive(0, &greeting) else { panic!("no login") };
    let whole_without_attributes = Login::parse(&login.payload).unwrap();
    let attributes_at = login.payload.len() - whole_without_attributes.attributes.as_bytes().len() - 1;
    assert!(feed_server(std::slice::from_ref(&login.payload), 0));
    for cut in 0..login.payload.len() {
        let is_in = feed_server(&[login.payload[..cut].to_vec()], 0);
        // Servers take a login packet that ends before the attributes, or in the plugin's last byte.
        assert_eq!(is_in, cut == attributes_at || cut == attributes_at - 1, "cut at {cut}");
    }
}

#[test]
fn greetings_that_are_cut_anywhere_are_errors() {
    let greeting = ServerLogin::start(server_settings()).0.payload;
    let plugin_at = greeting.len() - b"caching_sha2_password\0".len();
    for cut in 0..greeting.len() {
        let is_read = Greeting::parse(&greeting[..cut]).is_ok();
        assert_eq!(is_read, cut >= plugin_at, "cut at {cut}");
        feed_client(&[greeting[..cut].to_vec()]);
    }
}

#[test]
fn payloads_are_bounded() {
    let (_, server) = ServerLogin::start(server_settings());
    assert_eq!(server.max_payload_len(), MAX_LOGIN_LEN);
    let ServerStep::Refuse(refusal) = server.receive(1, &vec![0xff; MAX_LOGIN_LEN + 1]) else { panic!() };
    assert_eq!((refusal.code, refusal.seq, refusal.message.as_str()), (1043, 2, "Bad handshake"));
    const { assert!(MAX_ANSWER_LEN >= 512, "RSA of 4096 bits has to fit") };
}
