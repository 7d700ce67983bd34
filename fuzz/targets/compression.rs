//! Compressed packets: any bytes are read or refused, in bounded memory, and what is written is read back.
#![no_main]

use delphinus_fuzz::Input;
use delphinus_wire::compression::{Algorithm, Codec, CompressedLink, Side};
use delphinus_wire::{MAX_PAYLOAD, put_packet};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let choice = input.byte();
    let algorithm = if choice & 1 == 0 { Algorithm::Zlib } else { Algorithm::Zstd { level: choice >> 2 } };
    let side = if choice & 2 == 0 { Side::Client } else { Side::Server };
    let mut codec = Codec::default();
    let mut link = CompressedLink::new(algorithm, side);
    let mut rest = input.rest();
    let mut out = Vec::new();
    while let Some(len) = CompressedLink::frame_len(rest) {
        if link.decode(&mut codec, &rest[..len], &mut out).is_err() {
            break;
        }
        assert!(out.len() <= MAX_PAYLOAD);
        rest = &rest[len..];
    }
    comes_back(&mut codec, algorithm, input);
});

/// A command of the same bytes, in pieces, through two links.
fn comes_back(codec: &mut Codec, algorithm: Algorithm, mut input: Input<'_>) {
    let piece = usize::from(input.byte()) + 4;
    let mut command = Vec::new();
    put_packet(&mut command, 0, input.rest());
    let mut from = CompressedLink::new(algorithm, Side::Client);
    let mut to = CompressedLink::new(algorithm, Side::Server);
    let (mut wire, mut part, mut arrived) = (Vec::new(), Vec::new(), Vec::new());
    for piece in command.chunks(piece) {
        from.encode(codec, piece, &mut wire);
    }
    let mut rest = &wire[..];
    while let Some(len) = CompressedLink::frame_len(rest) {
        to.decode(codec, &rest[..len], &mut part).expect("what was written is read");
        arrived.extend_from_slice(&part);
        rest = &rest[len..];
    }
    assert!(rest.is_empty() && arrived == command);
}
