//! A backend that sends anything: the login machine never panics, ends, and never sends the password in clear where
//! others can read it.
#![no_main]

use delphinus_fuzz::Input;
use delphinus_wire::Capabilities;
use delphinus_wire::auth::{BackendSecret, Password, Plugin, caching_sha2, native};
use delphinus_wire::handshake::client::{ClientLink, ClientLogin, ClientSettings, Step, Trust};
use delphinus_wire::handshake::{ConnectAttributes, TlsMode, Transport};
use libfuzzer_sys::fuzz_target;

const PASSWORD: &[u8] = b"correct horse battery";

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let settings = settings(input.byte(), input.byte(), input.flags());
    let is_unix = settings.transport == Transport::Unix;
    let start = input.byte();
    if !start.is_multiple_of(4) {
        follow(Step::Read(ClientLogin::start(settings)), is_unix, 0, &mut input);
        return;
    }
    let link = ClientLink {
        capabilities: Capabilities(input.flags()) | Capabilities::SECURE_CONNECTION,
        collation: 255,
        nonce: *b"abcdefghijklmnopqrst",
        plugin: [Plugin::Native, Plugin::CachingSha2, Plugin::Sha256, Plugin::Clear]
            [usize::from(start >> 4) % 4],
        is_tls: start & 0x08 != 0,
    };
    let is_private = is_unix || link.is_tls;
    follow(ClientLogin::change_user(settings, link), is_private, 1, &mut input);
});

fn settings(choice: u8, secret: u8, flags: u64) -> ClientSettings {
    ClientSettings {
        capabilities: Capabilities(flags),
        collation: u16::from(choice) * 3,
        max_packet_len: 1 << 24,
        user: "ann".into(),
        secret: match secret % 4 {
            0 => BackendSecret::NativeSha1(native::stage1(PASSWORD)),
            1 => BackendSecret::Sha2Stage1(caching_sha2::stage1(PASSWORD)),
            2 => BackendSecret::Plain(Password::new("")),
            _ => BackendSecret::Plain(Password::new(PASSWORD)),
        },
        schema: (choice & 1 == 1).then(|| b"shop".to_vec()),
        attributes: ConnectAttributes::default(),
        tls: [TlsMode::Disabled, TlsMode::Optional, TlsMode::Required][usize::from(choice >> 1) % 3],
        transport: if choice & 0x80 == 0 { Transport::Tcp } else { Transport::Unix },
        zstd_level: 3,
        trust: Trust::default(),
    }
}

fn follow(mut step: Step, mut is_private: bool, mut seq: u8, input: &mut Input<'_>) {
    for _ in 0..16 {
        step = match step {
            Step::Send(packet, next) => {
                check(&packet.payload, is_private);
                seq = packet.seq.wrapping_add(1);
                let Some(payload) = input.packet() else { return };
                next.receive(seq, payload)
            }
            Step::Read(next) => {
                let Some(payload) = input.packet() else { return };
                let step = next.receive(seq, payload);
                seq = seq.wrapping_add(1);
                step
            }
            Step::StartTls(packet, next) => {
                check(&packet.payload, false);
                is_private = true;
                next.started()
            }
            Step::Done(_) | Step::Failed(_) => return,
        };
    }
    panic!("a login without end");
}

fn check(payload: &[u8], is_private: bool) {
    let is_clear = payload.windows(PASSWORD.len()).any(|window| window == PASSWORD);
    assert!(!is_clear || is_private, "the password in clear");
}
