//! Headers of the PROXY protocol: nothing is read past the end, and an origin that is read can be written and read.
#![no_main]

use delphinus_fuzz::Input;
use delphinus_wire::proxy_header::{ProxyOrigin, ProxyVersion, encode, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    // Most bytes are no header at all: half of the inputs get a good beginning.
    let start: &[u8] = match input.byte() % 4 {
        0 => b"PROXY TCP4 ",
        1 => b"\r\n\r\n\0\r\nQUIT\n",
        _ => b"",
    };
    let bytes = [start, input.rest()].concat();
    let Ok(Some((origin, len))) = parse(&bytes) else { return };
    assert!(len <= bytes.len());
    // Without its last byte it is not whole, and never something else.
    assert_eq!(parse(&bytes[..len - 1]), Ok(None));
    if let ProxyOrigin::Ip { source, destination } = origin {
        for version in [ProxyVersion::V1, ProxyVersion::V2] {
            let written = encode(version, Some((source, destination)));
            assert_eq!(parse(&written), Ok(Some((origin, written.len()))));
        }
    }
});
