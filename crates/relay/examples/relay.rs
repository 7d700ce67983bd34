//! A relay by itself, for tests of it without the rest of the product.
//!
//! Arguments: its folder, the address to listen on, and the source's (`-`: none). Users: repl/replpw on both sides.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use delphinus_memory::Account;
use delphinus_net::tls::{ClientTls, ServerTls, Verify};
use delphinus_net::{Address, ListenAddress, Reach};
use delphinus_relay::replica::{Door, Identity, Registry, ReplicaUser, serve};
use delphinus_relay::{Relay, Settings, Target};
use delphinus_wire::Capabilities;
use delphinus_wire::auth::{Credential, Password};
use delphinus_wire::handshake::TlsMode;
use delphinus_wire::handshake::client::Trust;

const SERVER_ID: u32 = 999;
const UUID: u128 = 0x5d9f_3a52_0c1e_4f43_9a7e_0000_0000_0999;

fn target(source: &str) -> Result<Option<Target>, Box<dyn std::error::Error>> {
    if source == "-" {
        return Ok(None);
    }
    let address: SocketAddr = source.parse()?;
    let reach = Reach {
        tls: Some((ClientTls::new(&Verify::Nothing, None)?, false)),
        compression: None,
        proxy_protocol: None,
        trust: Trust::default(),
    };
    let host = address.ip().to_string();
    Ok(Some(Target {
        name: "source".to_owned(),
        address: Address::Tcp(host.clone(), address.port()),
        reach,
        host,
    }))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().collect();
    let [_, folder, listen, source] = &words[..] else {
        return Err("arguments: FOLDER LISTEN SOURCE".into());
    };
    let settings = Settings {
        name: "example".to_owned(),
        folder: PathBuf::from(folder),
        source: target(source)?,
        user: "repl".to_owned(),
        password: Password::new("replpw"),
        server_id: SERVER_ID,
        uuid: Some(UUID),
        semi_sync: true,
        from_oldest: true,
        heartbeat: Duration::from_secs(1),
        retry: Duration::from_millis(500),
        limit: Duration::from_secs(10),
        is_started: true,
    };
    let relay = Relay::start(settings, &Account::unlimited())?;
    let (cert, key) = ServerTls::self_signed()?;
    let door = Door {
        addresses: vec![ListenAddress::Tcp(listen.parse()?)],
        tls_mode: TlsMode::Optional,
        tls: Some(ServerTls::from_pem(cert.as_bytes(), key.as_bytes(), None)?),
        compression: Capabilities::COMPRESS | Capabilities::ZSTD_COMPRESSION,
        must_compress: false,
        rsa_key: None,
        users: vec![ReplicaUser {
            name: "repl".to_owned(),
            credential: Credential::Plain(Password::new("replpw")),
        }],
        max_connections: 100,
        threads: 2,
    };
    let digits = format!("{UUID:032x}");
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    let identity = Identity { server_id: SERVER_ID, uuid: parts.join("-") };
    let registry = Arc::new(Registry::default());
    let serving = serve("example", relay.log(), (identity, &registry), door, &Account::unlimited())?;
    eprintln!("listening at {:?}", serving.addresses);
    loop {
        std::thread::sleep(Duration::from_secs(2));
        eprintln!("{:?} {:?}", relay.status().told(), relay.log().end());
        for row in registry.rows(relay.log()) {
            eprintln!("{row:?}");
        }
    }
}
