//! Whom a line gives the operator's password.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use delphinus_memory::Account;
use delphinus_net::tls::ServerTls;
use delphinus_net::{ListenAddress, Listener, LoginServices, serve_login};
use delphinus_wire::auth::{Credential, Plugin};
use delphinus_wire::handshake::server::{ServerSettings, UserRecord};
use delphinus_wire::handshake::{TlsMode, Transport};
use delphinus_wire::response::OkPacket;
use delphinus_wire::{begin_packet, end_packet, put_packet};

use super::*;

const PASSWORD: &[u8] = b"planted";

/// Answers logins on this machine with a certificate of its own making, which is for `delphinus` and `localhost`; gives its port, and
/// the file of the authority that it comes from.
fn listener(name: &str) -> (u16, PathBuf) {
    let (cert, key) = ServerTls::self_signed().unwrap();
    let ca = std::env::temp_dir().join(format!("delphinus-ask-{}-{name}.pem", std::process::id()));
    std::fs::write(&ca, &cert).unwrap();
    let tls = ServerTls::from_pem(cert.as_bytes(), key.as_bytes(), None).unwrap();
    let listener = Listener::bind(&ListenAddress::Tcp(([127, 0, 0, 1], 0).into())).unwrap();
    let ListenAddress::Tcp(address) = listener.local_address().unwrap() else { unreachable!() };
    rt::spawn_local(async move {
        loop {
            let mut stream = listener.accept().await.unwrap().into_stream().unwrap();
            // The client may turn away.
            let _ = let_in(&mut stream, &tls).await;
        }
    });
    (address.port(), ca)
}

async fn let_in(stream: &mut Stream, tls: &ServerTls) -> Result<(), NetError> {
    let settings = ServerSettings {
        capabilities: Capabilities::PROTOCOL_41 | Capabilities::SECURE_CONNECTION | Capabilities::PLUGIN_AUTH,
        server_version: "9.7.4".to_owned(),
        collation: 45,
        connection_id: 1,
        nonce: [7; 20],
        long_nonce: [7; 32],
        default_plugin: Plugin::CachingSha2,
        tls: TlsMode::Required,
        transport: Transport::Tcp,
        rsa_key: None,
        client_host: "h".to_owned(),
    };
    let services = LoginServices {
        memory: &Account::unlimited(),
        tls: Some(tls),
        pause: &|_| None,
        lookup: &|_| UserRecord::new(Credential::Plain(Password::new(PASSWORD))),
        verify: &|_| unreachable!("its password is known"),
    };
    let mut buffer = Buffer::default();
    let Ok(outcome) = serve_login(stream, &mut buffer, settings, &services).await else {
        return Err(NetError::Closed);
    };
    let mut out = Vec::new();
    if let Some(packet) = outcome.before_ok {
        put_packet(&mut out, packet.seq, &packet.payload);
    }
    let at = begin_packet(&mut out);
    OkPacket::default().put(&mut out, 0, outcome.connection.capabilities);
    end_packet(&mut out, at, outcome.next_seq);
    Ok(stream.write_bytes(&out).await?)
}

/// Whoever has another certificate of that authority is not the listener: it gets no password, and its answers count for nothing.
#[test]
fn a_line_asks_for_the_name_and_not_for_the_authority_alone() {
    rt::block_on(async {
        let (port, ca) = listener("name");
        let open = |host: &str| Line::open(Address::Tcp(host.to_owned(), port), "o", PASSWORD, Some(&ca));
        if let Err(error) = open("localhost").await {
            panic!("{error}");
        }
        let Err(error) = open("127.0.0.1").await else { panic!("it is for another name") };
        assert!(error.to_string().contains("certificate"), "{error}");
        std::fs::remove_file(&ca).unwrap();
    })
    .unwrap();
}
