//! The PROXY protocol on both sides: load balancers tell where clients come from, and servers hear it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use delphinus_e2e::{Address, Client, ConfigFile, Haproxy, Login, Packets, ServerError, Stage, eventually};
use delphinus_sandbox::{Flavor, PortLease};
use delphinus_wire::proxy_header::{ProxyVersion, encode};

const LIMIT: Duration = Duration::from_mins(1);
const TRUSTED: &str = "proxy_protocol_networks = [\"127.0.0.1\", \"fd00::/8\"]";

fn config(listener: &[&str], backend: &[&str]) -> ConfigFile {
    let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
    ConfigFile { listener: owned(listener), backend: owned(backend), ..ConfigFile::default() }
}

/// Servers that believe whoever comes from this machine, and a proxy that does, too, and tells them in version 2.
fn stage() -> &'static Stage {
    static STAGE: OnceLock<Stage> = OnceLock::new();
    STAGE.get_or_init(|| {
        let servers = ["proxy_protocol_networks=127.0.0.1,localhost"];
        let config = config(&[TRUSTED], &["send_proxy_protocol = \"v2\""]);
        Stage::with_servers(Flavor::MariaDb, &servers, &config).unwrap()
    })
}

/// A session that begins with these bytes.
fn connect_after(address: &Address, start: &[u8]) -> anyhow::Result<Client> {
    Client::connect(&Login::new(address).over_tcp(address).after(start))
}

fn header(version: ProxyVersion, source: &str) -> Vec<u8> {
    let destination: SocketAddr = "10.0.0.9:3306".parse().unwrap();
    let source: SocketAddr = source.parse().unwrap();
    encode(version, Some((source, destination)))
}

/// The host that the server sees.
fn host(client: &mut Client) -> String {
    let user = client.value("SELECT USER() FROM app.answered_by").unwrap();
    user.split_once('@').unwrap().1.to_owned()
}

#[test]
fn the_servers_see_where_the_client_is() {
    let address = &stage().address;
    for version in [ProxyVersion::V1, ProxyVersion::V2] {
        for (source, seen) in [
            ("10.1.2.3:40000", "10.1.2.3"),
            ("[fd00::7]:40000", "fd00::7"),
            ("[::ffff:10.9.8.7]:1", "10.9.8.7"),
        ] {
            let mut client = connect_after(address, &header(version, source)).unwrap();
            assert_eq!(host(&mut client), seen, "{version:?}");
            client.query("DO 1").unwrap();
            client.quit().unwrap();
        }
        let mut own = connect_after(address, &encode(version, None)).unwrap();
        assert_eq!(host(&mut own), "127.0.0.1", "{version:?}");
    }
    // Clients of the Unix socket have no address: the server sees the proxy's.
    assert_eq!(host(&mut address.connect().unwrap()), "127.0.0.1");
    // A line that says that nothing is known, with more in it.
    let mut unknown = connect_after(address, b"PROXY UNKNOWN ffff:: ffff:: 1 2\r\n").unwrap();
    assert_eq!(host(&mut unknown), "127.0.0.1");
}

#[test]
fn version_1_to_the_servers() {
    let config = config(&[TRUSTED], &["send_proxy_protocol = \"v1\""]);
    let (_proxy, address, _port) = stage().another_proxy(&config).unwrap();
    for (source, seen) in [("10.1.2.4:1", "10.1.2.4"), ("[fd00::8]:1", "fd00::8")] {
        let mut client = connect_after(&address, &header(ProxyVersion::V1, source)).unwrap();
        assert_eq!(host(&mut client), seen);
    }
    assert_eq!(host(&mut address.connect().unwrap()), "127.0.0.1");
}

#[test]
fn connections_are_shared_within_an_address_only() {
    let address = &stage().address;
    let mut seen = BTreeSet::new();
    for number in 0..20 {
        let source = format!("10.7.7.{}:{}", number % 2, 1000 + number);
        let mut client = connect_after(address, &header(ProxyVersion::V2, &source)).unwrap();
        assert_eq!(host(&mut client), format!("10.7.7.{}", number % 2));
        client.query("BEGIN").unwrap();
        let primary = host(&mut client);
        seen.insert((primary, client.value("SELECT @@pseudo_thread_id").unwrap()));
        client.query("COMMIT").unwrap();
        client.quit().unwrap();
    }
    // Two workers, two addresses; twenty sessions.
    assert!(seen.len() <= 4, "{seen:?}");
    assert_eq!(seen.iter().map(|(host, _)| host).collect::<BTreeSet<_>>().len(), 2);
}

#[test]
fn errors_and_the_log_name_the_client() {
    let mut wrong = stage().address.clone();
    wrong.password = "certainly wrong".to_owned();
    let error = connect_after(&wrong, &header(ProxyVersion::V2, "10.5.5.5:1")).unwrap_err();
    assert!(error.to_string().contains("'app'@'10.5.5.5'"), "{error:#}");
    let log = stage().proxy.as_ref().unwrap().log();
    assert!(log.lines().any(|line| line.contains("10.5.5.5") && line.contains("login refused")), "{log}");
}

fn refusal(error: &anyhow::Error) -> &ServerError {
    error.downcast_ref().unwrap_or_else(|| panic!("not an error packet: {error:#}"))
}

#[test]
fn a_balancer_without_a_header_is_told() {
    let address = &stage().address;
    let begun = Instant::now();
    let error = Client::connect(&Login::new(address).over_tcp(address)).unwrap_err();
    assert_eq!(refusal(&error).code, 1105);
    assert!(error.to_string().contains("proxy_protocol_networks"), "{error:#}");
    assert!(begun.elapsed() > Duration::from_secs(2), "before there was time for a header");
    for nonsense in
        [&b"GET / HTTP/1.1\r\n"[..], b"PROXY TCP4 1.2.3.4\r\n", b"\r\n\r\n\0\r\nQUIT\n\x31\x11\0\0"]
    {
        let begun = Instant::now();
        let error = connect_after(address, nonsense).unwrap_err();
        assert_eq!(refusal(&error).code, 1105, "{nonsense:?}");
        assert!(begun.elapsed() < Duration::from_secs(2), "{nonsense:?}");
    }
}

#[test]
fn a_header_from_anybody_else_is_refused() {
    let (_proxy, address, _port) = stage().another_proxy(&config(&[], &[])).unwrap();
    for version in [ProxyVersion::V1, ProxyVersion::V2] {
        let mut packets = Packets::tcp(&address.host, address.port).unwrap();
        packets.wire.write_all(&header(version, "10.1.2.3:1")).unwrap();
        assert_eq!(packets.read_checked().unwrap()[0], 10, "no greeting");
        // The client's login would have been the packet in between.
        packets.write(&[0]).ok();
        let error = packets.read_checked().unwrap_err();
        assert_eq!(refusal(&error).code, 1105);
        assert!(error.to_string().contains("does not list 127.0.0.1"), "{error:#}");
        assert!(packets.is_at_end().unwrap());
    }
}

/// Two of HAProxy, one behind the other: the first connects from another address of this machine, which the second
/// tells to the proxy.
#[test]
fn behind_a_real_haproxy() {
    let stage = stage();
    for (name, send) in [("v1", "send-proxy"), ("v2", "send-proxy-v2")] {
        let (front, middle) = (PortLease::take().unwrap(), PortLease::take().unwrap());
        let dir = stage.cluster.dir().join(format!("haproxy-{name}"));
        std::fs::create_dir(&dir).unwrap();
        let (front, middle, back) = (front.port(), middle.port(), stage.address.port);
        let sections = format!(
            "listen front\n    bind 127.0.0.1:{front}\n    server one 127.0.0.1:{middle} source 127.0.0.77\n\n\
             listen middle\n    bind 127.0.0.1:{middle}\n    server one 127.0.0.1:{back} {send}\n"
        );
        let _haproxy = Haproxy::start(&dir, &sections).unwrap();
        let address = Address { port: front, ..stage.address.clone() };
        let login = Login::new(&address).over_tcp(&address);
        let mut client =
            eventually(LIMIT, "HAProxy to listen", || Client::connect(&login).map(Some)).unwrap();
        assert_eq!(host(&mut client), "127.0.0.77", "{name}");
    }
}

/// MySQL itself cannot hear it; the proxy in front of it can.
#[test]
fn in_front_of_mysql() {
    let stage = Stage::with(Flavor::MySql, &config(&[TRUSTED], &[])).unwrap();
    let mut wrong = stage.address.clone();
    let mut client = connect_after(&wrong, &header(ProxyVersion::V2, "10.1.2.3:1")).unwrap();
    assert_eq!(host(&mut client), "127.0.0.1");
    wrong.password = "certainly wrong".to_owned();
    let error = connect_after(&wrong, &header(ProxyVersion::V1, "10.1.2.3:1")).unwrap_err();
    assert!(error.to_string().contains("'app'@'10.1.2.3'"), "{error:#}");
}
