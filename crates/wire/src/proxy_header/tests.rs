//! Headers as the specification has them, whole, cut and wrong.

use proptest::prelude::*;

use super::*;

fn ends(source: &str, destination: &str) -> (SocketAddr, SocketAddr) {
    (source.parse().unwrap(), destination.parse().unwrap())
}

fn ip(source: &str, destination: &str) -> ProxyOrigin {
    let (source, destination) = ends(source, destination);
    ProxyOrigin::Ip { source, destination }
}

fn binary(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
    let len = (body.len() as u16).to_be_bytes();
    [START_V2, &[command, family], &len, body].concat()
}

#[test]
fn lines_are_read() {
    for (line, origin) in [
        ("PROXY TCP4 10.1.2.3 10.0.0.1 40000 3306", ip("10.1.2.3:40000", "10.0.0.1:3306")),
        ("PROXY TCP6 fd00::7 ::1 1 65535", ip("[fd00::7]:1", "[::1]:65535")),
        ("PROXY TCP6 ::ffff:1.2.3.4 ::1 1 0", ip("1.2.3.4:1", "[::1]:0")),
        ("PROXY UNKNOWN", ProxyOrigin::Own),
        ("PROXY UNKNOWN ffff:: ffff:: 65535 65535", ProxyOrigin::Own),
    ] {
        let bytes = format!("{line}\r\nmore");
        assert_eq!(parse(bytes.as_bytes()), Ok(Some((origin, line.len() + 2))), "{line}");
        for cut in 0..line.len() + 2 {
            assert_eq!(parse(&bytes.as_bytes()[..cut]), Ok(None), "{line} cut at {cut}");
        }
    }
}

#[test]
fn wrong_lines_are_errors() {
    for line in [
        "PROXY TCP4 10.1.2.3 10.0.0.1 40000\r\n",
        "PROXY TCP4 10.1.2.3 10.0.0.1 40000 3306 \r\n",
        "PROXY TCP4 10.1.2.3  10.0.0.1 40000 3306\r\n",
        "PROXY TCP4 10.1.2 10.0.0.1 40000 3306\r\n",
        "PROXY TCP4 fd00::7 10.0.0.1 40000 3306\r\n",
        "PROXY TCP4 10.1.2.3 10.0.0.1 70000 3306\r\n",
        "PROXY TCP4 10.1.2.3 10.0.0.1 +1 3306\r\n",
        "PROXY TCP4 10.1.2.3 10.0.0.1 01 3306\r\n",
        "PROXY UDP4 10.1.2.3 10.0.0.1 1 3306\r\n",
        "PROXY TCP4 10.1.2.3 10.0.0.1 40000 3306\n",
        "PROXYTCP4\r\n",
        "GET / HTTP/1.0\r\n",
        "PRX",
        "\r\n\r\n\0\r\nQUIT\r",
    ] {
        assert!(parse(line.as_bytes()).is_err(), "{line:?}");
    }
    assert!(parse(format!("PROXY UNKNOWN {}", "x".repeat(93)).as_bytes()).is_err());
}

#[test]
fn binary_headers_are_read() {
    let v4 = [10, 1, 2, 3, 10, 0, 0, 1, 0x9c, 0x40, 0x0c, 0xea];
    let with_tlv = [&v4[..], &[0xea, 0, 2, 1, 2]].concat();
    let mut v6 = [0; 36];
    v6[10..16].copy_from_slice(&[255, 255, 1, 2, 3, 4]);
    v6[31] = 1;
    v6[33] = 9;
    for (bytes, origin) in [
        (binary(PROXY, TCP4, &v4), ip("10.1.2.3:40000", "10.0.0.1:3306")),
        (binary(PROXY, TCP4, &with_tlv), ip("10.1.2.3:40000", "10.0.0.1:3306")),
        (binary(PROXY, TCP6, &v6), ip("1.2.3.4:9", "[::1]:0")),
        (binary(PROXY, UNIX, &[b'/'; 216]), ProxyOrigin::Unix),
        (binary(PROXY, 0, b"anything"), ProxyOrigin::Own),
        (binary(LOCAL, 0, b""), ProxyOrigin::Own),
        (binary(LOCAL, TCP4, &v4), ProxyOrigin::Own),
    ] {
        let more = [&bytes[..], b"more"].concat();
        assert_eq!(parse(&more), Ok(Some((origin, bytes.len()))), "{bytes:?}");
        for cut in 0..bytes.len() {
            assert_eq!(parse(&bytes[..cut]), Ok(None), "{bytes:?} cut at {cut}");
        }
    }
}

#[test]
fn wrong_binary_headers_are_errors() {
    for bytes in [
        binary(0x11, TCP4, &[0; 12]),
        binary(0x22, TCP4, &[0; 12]),
        binary(PROXY, TCP4, &[0; 11]),
        binary(PROXY, TCP6, &[0; 35]),
        binary(PROXY, UNIX, &[0; 215]),
        binary(PROXY, 0x12, &[0; 12]),
        binary(PROXY, 0x41, &[0; 12]),
        binary(PROXY, TCP4, &[0; LONGEST_V2]),
    ] {
        assert!(parse(&bytes).is_err(), "{bytes:?}");
    }
}

#[test]
fn headers_come_back() {
    for (source, destination) in [
        ("10.1.2.3:40000", "10.0.0.1:3306"),
        ("[fd00::7]:0", "[fd00::1]:3306"),
        ("10.1.2.3:0", "[fd00::1]:3306"),
        ("[fd00::7]:1", "10.0.0.1:1"),
    ] {
        for version in [ProxyVersion::V1, ProxyVersion::V2] {
            let bytes = encode(version, Some(ends(source, destination)));
            assert_eq!(version_of(&bytes), Some(version));
            assert_eq!(parse(&bytes), Ok(Some((ip(source, destination), bytes.len()))));
            let own = encode(version, None);
            assert_eq!(parse(&own), Ok(Some((ProxyOrigin::Own, own.len()))));
        }
    }
}

#[test]
fn packets_are_no_headers() {
    assert_eq!(version_of(&[32, 0, 0, 1, 0]), None);
    assert_eq!(version_of(b"PRO"), None);
    assert_eq!(version_of(b"PROX"), Some(ProxyVersion::V1));
}

proptest! {
    #[test]
    fn no_bytes_are_read_beyond_their_end(bytes in prop::collection::vec(any::<u8>(), 0..300), start in 0_usize..3) {
        let start = [b"", START_V1, START_V2][start];
        let bytes = [start, &bytes[..]].concat();
        if let Ok(Some((_, len))) = parse(&bytes) {
            prop_assert!(len <= bytes.len());
        }
    }
}
