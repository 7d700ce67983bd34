//! What one side encodes the other decodes, whatever the pieces; what breaks the protocol is an error.

use proptest::prelude::*;

use super::codec::Header;
use super::{Algorithm, Codec, CompressedLink, FRAME_HEADER_LEN, Side};
use crate::frame::{HEADER_LEN, MAX_PAYLOAD, header, parse_header, put_packet};

const ZSTD: Algorithm = Algorithm::Zstd { level: 3 };

/// Two ends of a connection, and how many frames were on it.
struct Pair {
    codec: Codec,
    client: CompressedLink,
    server: CompressedLink,
    wire: Vec<u8>,
}

impl Pair {
    fn new(algorithm: Algorithm) -> Self {
        Self {
            codec: Codec::default(),
            client: CompressedLink::new(algorithm, Side::Client),
            server: CompressedLink::new(algorithm, Side::Server),
            wire: Vec::new(),
        }
    }

    /// Sends from `side` in pieces; gives what arrives and the numbers of the frames.
    fn pass(&mut self, side: Side, pieces: &[&[u8]]) -> (Vec<u8>, Vec<u8>) {
        let (from, to) = match side {
            Side::Client => (&mut self.client, &mut self.server),
            Side::Server => (&mut self.server, &mut self.client),
        };
        self.wire.clear();
        for piece in pieces {
            from.encode(&mut self.codec, piece, &mut self.wire);
        }
        let (mut arrived, mut numbers, mut part) = (Vec::new(), Vec::new(), Vec::new());
        let mut rest = &self.wire[..];
        while !rest.is_empty() {
            let len = CompressedLink::frame_len(rest).expect("whole frames");
            numbers.push(rest[3]);
            to.decode(&mut self.codec, &rest[..len], &mut part).expect("a good frame");
            arrived.extend_from_slice(&part);
            rest = &rest[len..];
        }
        (arrived, numbers)
    }
}

fn packets(payloads: &[&[u8]], mut seq: u8) -> Vec<u8> {
    let mut out = Vec::new();
    for payload in payloads {
        seq = put_packet(&mut out, seq, payload);
    }
    out
}

/// The numbers of the packets in a stream.
fn numbers(mut stream: &[u8]) -> Vec<u8> {
    let mut found = Vec::new();
    while let Some(frame) = parse_header(stream) {
        found.push(frame.seq);
        stream = &stream[HEADER_LEN + frame.len..];
    }
    found
}

#[test]
fn short_pieces_go_as_they_are_and_long_ones_shrink() {
    for algorithm in [Algorithm::Zlib, ZSTD] {
        let mut pair = Pair::new(algorithm);
        let short = packets(&[&[3; 45]], 0);
        assert_eq!(pair.pass(Side::Client, &[&short]), (short.clone(), vec![0]));
        assert_eq!(pair.wire, [&[49, 0, 0, 0, 0, 0, 0][..], &short].concat());
        let long = packets(&[&[3; 500]], 0);
        assert_eq!(pair.pass(Side::Client, &[&long]), (long, vec![0]));
        assert!(pair.wire.len() < 60 && pair.wire[4..7] == [248, 1, 0], "{:?}", pair.wire);
    }
}

#[test]
fn what_does_not_shrink_is_sent_as_it_is() {
    // A sequence without repetitions.
    let noise: Vec<u8> =
        (0..3000_u32).map(|n| (n.wrapping_mul(2_654_435_761).rotate_left(n % 31) >> 13) as u8).collect();
    for algorithm in [Algorithm::Zlib, ZSTD] {
        let mut pair = Pair::new(algorithm);
        let stream = packets(&[&noise], 0);
        assert_eq!(pair.pass(Side::Client, &[&stream]).0, stream);
        assert_eq!(pair.wire[4..7], [0, 0, 0]);
    }
}

#[test]
fn each_command_begins_at_zero_and_an_answer_goes_on() {
    let mut pair = Pair::new(Algorithm::Zlib);
    let ping = packets(&[&[14]], 0);
    assert_eq!(pair.pass(Side::Client, &[&ping]).1, [0]);
    let answer = packets(&[&[0; 7], &[0; 7]], 1);
    assert_eq!(pair.pass(Side::Server, &[&answer[..11], &answer[11..]]), (answer, vec![1, 2]));
    // Two commands without an answer in one write, then one in two pieces.
    let twice = [packets(&[&[0x19, 1, 0, 0, 0]], 0), ping.clone()].concat();
    assert_eq!(pair.pass(Side::Client, &[&twice]).1, [0, 0]);
    assert_eq!(pair.pass(Side::Client, &[&ping[..4], &ping[4..]]).1, [0, 1]);
    assert_eq!(pair.pass(Side::Server, &[&packets(&[&[0; 7]], 1)]).1, [2]);
}

#[test]
fn numbers_of_packets_are_put_right() {
    // A command of three frames: servers number the packets of the answer like the frames, and after the first of
    // several results again.
    let mut pair = Pair::new(Algorithm::Zlib);
    pair.pass(Side::Client, &[&packets(&[&vec![3; 150_000]], 0)]);
    let run_away = [packets(&[&[1], &[2]], 3), packets(&[&[0; 7]], 77), packets(&[&[1], &[2]], 5)].concat();
    let (arrived, frames) = pair.pass(Side::Server, &[&run_away]);
    assert_eq!((numbers(&arrived), frames), (vec![1, 2, 3, 4, 5], vec![3]));
    // The numbers go round.
    let rows: Vec<&[u8]> = vec![&[b'x'; 9]; 600];
    let (arrived, _) = pair.pass(Side::Server, &[&packets(&rows, 6)]);
    assert_eq!(numbers(&arrived), (6..606).map(|n: u32| n as u8).collect::<Vec<_>>());
}

/// The frames that a server sends for these pieces: of each its number, and what is in it.
fn frames(server: &mut CompressedLink, pieces: &[&[u8]]) -> Vec<(u8, Vec<u8>)> {
    let (mut codec, mut wire, mut frames) = (Codec::default(), Vec::new(), Vec::new());
    for piece in pieces {
        server.encode(&mut codec, piece, &mut wire);
    }
    let (mut rest, mut body) = (&wire[..], Vec::new());
    while let Some(len) = CompressedLink::frame_len(rest) {
        let header = Header::parse(rest).expect("a header");
        codec.take(&mut body, server.algorithm(), header, &rest[FRAME_HEADER_LEN..len]).expect("a body");
        frames.push((header.seq, std::mem::take(&mut body)));
        rest = &rest[len..];
    }
    frames
}

/// The same with the numbers of the packets instead: whole ones, which pieces that are not too long have.
fn sent(server: &mut CompressedLink, pieces: &[&[u8]]) -> Vec<(u8, Vec<u8>)> {
    frames(server, pieces).into_iter().map(|(seq, body)| (seq, numbers(&body))).collect()
}

/// As MariaDB 10.11 and MySQL 9.7 do it.
#[test]
fn each_result_takes_its_first_number_from_its_frame() {
    let mut pair = Pair::new(Algorithm::Zlib);
    pair.pass(Side::Client, &[&packets(&[b"\x03several"], 0)]);
    let select = |seq| packets(&[&[1], &[3; 20], &[b'x'; 2], &[0xfe; 7]], seq);
    assert_eq!(sent(&mut pair.server, &[&select(1)]), [(1, vec![1, 2, 3, 4])]);
    pair.server.end_result();
    assert_eq!(sent(&mut pair.server, &[&packets(&[&[0; 7]], 5)]), [(2, vec![2])]);
    pair.server.end_result();
    // A result in several frames runs on.
    let large = packets(&[&[1], &[3; 20], &vec![b'x'; 70_000], &vec![b'y'; 70_000], &[0xfe; 7]], 6);
    let of_large = sent(&mut pair.server, &[&large[..100], &large[100..90_000], &large[90_000..]]);
    assert_eq!(of_large, [(3, vec![3, 4]), (4, vec![5]), (5, vec![6]), (6, vec![7])]);
    pair.server.end_result();
    assert_eq!(sent(&mut pair.server, &[&select(11)]), [(7, vec![7, 8, 9, 10])]);
    // What nobody asked for.
    assert_eq!(sent(&mut pair.server, &[&packets(&[b"\xffbye"], 0)]), [(0, vec![0])]);
    pair.pass(Side::Client, &[&packets(&[&[14]], 0)]);
    assert_eq!(sent(&mut pair.server, &[&packets(&[&[0; 7]], 1)]), [(1, vec![1])]);
}

#[test]
fn an_answer_takes_its_first_number_from_the_frames_of_the_command() {
    let mut pair = Pair::new(ZSTD);
    let command = packets(&[&vec![3; 150_000]], 0);
    pair.pass(Side::Client, &[&command]);
    assert_eq!(sent(&mut pair.server, &[&packets(&[&[0; 7], &[0; 7]], 1)]), [(3, vec![3, 4])]);
    // Also where a packet is not held back until it is whole.
    pair.pass(Side::Client, &[&command]);
    let long = packets(&[&[1], &vec![b'x'; 4_000_000], &[0xfe; 7]], 1);
    let frames = frames(&mut pair.server, &long.chunks(2_500_000).collect::<Vec<_>>());
    assert_eq!(frames[0].0, 3);
    let stream: Vec<u8> = frames.into_iter().flat_map(|(_, body)| body).collect();
    assert_eq!(numbers(&stream), [3, 4, 5]);
}

#[test]
fn a_frames_number_says_that_a_command_begins_whatever_its_packet_has() {
    let mut server = CompressedLink::new(Algorithm::Zlib, Side::Server);
    let (mut codec, mut out) = (Codec::default(), Vec::new());
    for seq in [0, 1, 7, 0] {
        let mut wire = Vec::new();
        codec.put(&mut wire, Algorithm::Zlib, 0, &packets(&[b"\x03text"], seq));
        server.decode(&mut codec, &wire, &mut out).unwrap();
        assert_eq!(numbers(&out), [0], "from {seq}");
        assert_eq!(sent(&mut server, &[&packets(&[&[0; 7]], 1)]), [(1, vec![1])]);
    }
}

#[test]
fn a_file_is_no_command() {
    let mut pair = Pair::new(Algorithm::Zlib);
    pair.pass(Side::Client, &[&packets(&[b"\x03LOAD"], 0)]);
    pair.pass(Side::Server, &[&packets(&[b"\xfbfile"], 1)]);
    // A client that compresses may use any numbers in its packets, 0 among them.
    let file = [packets(&[b"\x00row"], 0), packets(&[b"row"], 0)].concat();
    let (arrived, frames) = pair.pass(Side::Client, &[&file, &packets(&[b""], 9)]);
    assert_eq!((numbers(&arrived), frames), (vec![2, 3, 4], vec![2, 3]));
    assert_eq!(sent(&mut pair.server, &[&packets(&[&[0; 7]], 5)]), [(4, vec![4])]);
    assert_eq!(pair.pass(Side::Client, &[&packets(&[&[14]], 0)]).1, [0]);
}

#[test]
fn payloads_of_sixteen_mib_and_more_pass() {
    for algorithm in [Algorithm::Zlib, ZSTD] {
        for len in [MAX_PAYLOAD - 1, MAX_PAYLOAD, MAX_PAYLOAD + 1] {
            let stream = packets(&[&vec![7; len]], 0);
            let mut pair = Pair::new(algorithm);
            let (arrived, frames) = pair.pass(Side::Client, &[&stream]);
            assert!(arrived == stream, "{len}");
            assert_eq!(frames, (0..frames.len()).map(|n| n as u8).collect::<Vec<_>>());
        }
    }
}

#[test]
fn frames_of_an_answer_hold_whole_packets() {
    let mut pair = Pair::new(ZSTD);
    let answer = packets(&[&vec![1; 40_000], &vec![2; 40_000], &vec![3; 1_000_000], &[4; 9]], 1);
    let mut wire = Vec::new();
    for piece in answer.chunks(10_001) {
        pair.server.encode(&mut pair.codec, piece, &mut wire);
    }
    let (mut rest, mut part) = (&wire[..], Vec::new());
    while let Some(len) = CompressedLink::frame_len(rest) {
        pair.client.decode(&mut pair.codec, &rest[..len], &mut part).unwrap();
        let mut packets = &part[..];
        while let Some(frame) = parse_header(packets) {
            packets = &packets[HEADER_LEN + frame.len..];
        }
        assert!(packets.is_empty());
        rest = &rest[len..];
    }
    assert!(rest.is_empty());
    // A packet that is too long for that is not held back.
    let long = packets(&[&vec![5; 4_000_000]], 5);
    wire.clear();
    pair.server.encode(&mut pair.codec, &long[..1_000_000], &mut wire);
    assert!(wire.is_empty());
    pair.server.encode(&mut pair.codec, &long[1_000_000..2_500_000], &mut wire);
    assert!(!wire.is_empty());
    let before = wire.len();
    pair.server.encode(&mut pair.codec, &long[2_500_000..2_500_100], &mut wire);
    assert!(wire.len() > before);
}

#[test]
fn a_server_may_answer_before_it_has_read_everything() {
    let mut pair = Pair::new(Algorithm::Zlib);
    pair.client.encode(&mut pair.codec, &packets(&[&vec![3; 200_000]], 0), &mut pair.wire);
    let mut early = CompressedLink::new(Algorithm::Zlib, Side::Server);
    let (mut wire, mut out) = (Vec::new(), Vec::new());
    let len = CompressedLink::frame_len(&pair.wire).unwrap();
    early.decode(&mut pair.codec, &pair.wire[..len], &mut out).unwrap();
    early.encode(&mut pair.codec, &packets(&[b"\xff\x81\x04no"], 1), &mut wire);
    assert_eq!(pair.client.decode(&mut pair.codec, &wire, &mut out), Ok(()));
    assert_eq!(numbers(&out), [1]);
}

#[test]
fn a_stream_without_end_is_sent_piece_by_piece() {
    for algorithm in [Algorithm::Zlib, ZSTD] {
        let mut pair = Pair::new(algorithm);
        pair.pass(Side::Client, &[&packets(&[b"\x12dump"], 0)]);
        pair.server.begin_flow();
        let stream = packets(&[&[b'e'; 9000], &vec![b'f'; 200_000]], 1);
        // No piece ends with a packet, and each arrives at once.
        for piece in [&stream[..3], &stream[3..8000], &stream[8000..10_000], &stream[10_000..]] {
            assert!(pair.pass(Side::Server, &[piece]).0 == piece);
        }
        // It was ended, and the next answer is whole again.
        pair.pass(Side::Client, &[&packets(&[b"\x03ask"], 0)]);
        let answer = packets(&[&[0; 70]], 1);
        assert_eq!(pair.pass(Side::Server, &[&answer[..20]]).0, b"");
        assert_eq!(pair.pass(Side::Server, &[&answer[20..]]), (answer, vec![1]));
    }
}

/// Sources with semi-sync begin to count packets anew behind each event that is to be acknowledged. Frames may follow that, or not.
#[test]
fn frames_of_a_stream_that_is_acknowledged_begin_anew() {
    let mut pair = Pair::new(Algorithm::Zlib);
    let (mut codec, mut out) = (Codec::default(), Vec::new());
    let mut read = |client: &mut CompressedLink, seq: u8| {
        let mut wire = Vec::new();
        codec.put(&mut wire, Algorithm::Zlib, seq, &packets(&[&[0; 90]], seq));
        client.decode(&mut codec, &wire, &mut out).map(|()| out.len())
    };
    pair.pass(Side::Client, &[&packets(&[b"\x12dump"], 0)]);
    assert_eq!(read(&mut pair.client, 1), Ok(94));
    assert!(read(&mut pair.client, 0).is_err());
    pair.client.begin_flow();
    for seq in [1, 2, 0, 1, 2, 0, 0] {
        assert_eq!(read(&mut pair.client, seq), Ok(94), "{seq}");
    }
    // An acknowledgement is numbered as a command.
    let ack = packets(&[b"\xefwhere"], 0);
    assert_eq!(pair.pass(Side::Client, &[&ack]), (ack, vec![0]));
    assert_eq!(read(&mut pair.client, 7), Ok(94));
}

#[test]
fn frames_out_of_order_are_errors() {
    for (side, other) in [(Side::Server, Side::Client), (Side::Client, Side::Server)] {
        let mut pair = Pair::new(Algorithm::Zlib);
        pair.pass(other, &[&packets(&[&[3; 9]], u8::from(other == Side::Server))]);
        let link = if side == Side::Server { &mut pair.server } else { &mut pair.client };
        let frame = [4, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0];
        assert!(link.decode(&mut pair.codec, &frame, &mut Vec::new()).is_err(), "{side:?}");
    }
}

fn frame(body: &[u8], original_len: usize) -> Vec<u8> {
    let mut bytes = header(body.len(), 0).to_vec();
    bytes.extend_from_slice(&(original_len as u32).to_le_bytes()[..3]);
    bytes.extend_from_slice(body);
    bytes
}

#[test]
fn bodies_that_lie_are_errors() {
    for algorithm in [Algorithm::Zlib, ZSTD] {
        let mut codec = Codec::default();
        let stream = packets(&[&[3; 500]], 0);
        let mut good = Vec::new();
        CompressedLink::new(algorithm, Side::Client).encode(&mut codec, &stream, &mut good);
        let body = good[FRAME_HEADER_LEN..].to_vec();
        let mut bad = vec![frame(&body, 503), frame(&body, 505), frame(&body, MAX_PAYLOAD)];
        bad.push(frame(&[&body[..], &[0]].concat(), 504));
        bad.push(frame(b"", 504));
        bad.extend((0..body.len()).map(|cut| frame(&body[..cut], 504)));
        for frame in bad {
            let mut server = CompressedLink::new(algorithm, Side::Server);
            assert_eq!(CompressedLink::frame_len(&frame), Some(frame.len()));
            assert!(
                server.decode(&mut codec, &frame, &mut Vec::new()).is_err(),
                "{:?}",
                Header::parse(&frame)
            );
        }
        // The working memory is as good as new after all that.
        let (mut server, mut out) = (CompressedLink::new(algorithm, Side::Server), Vec::new());
        assert_eq!(server.decode(&mut codec, &good, &mut out), Ok(()));
        assert_eq!(out, stream);
    }
}

#[test]
fn a_frame_is_waited_for() {
    let whole = frame(&[1, 2, 3], 0);
    for cut in 0..whole.len() {
        assert_eq!(CompressedLink::frame_len(&whole[..cut]), None);
    }
    assert_eq!(CompressedLink::frame_len(&[&whole[..], &[9]].concat()), Some(whole.len()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any conversation, cut anywhere, comes through; packets that have run away are put right.
    #[test]
    fn any_conversation_passes(
        is_zlib: bool,
        talks in prop::collection::vec((prop::collection::vec((0_u8..4, 0_usize..90_000), 1..6), any::<u8>()), 1..6),
        cuts in prop::collection::vec(1_usize..70_000, 1..8),
    ) {
        let algorithm = if is_zlib { Algorithm::Zlib } else { ZSTD };
        let mut pair = Pair::new(algorithm);
        for (answers, noise) in talks {
            let command = packets(&[&vec![noise; usize::from(noise) * 700 + 1]], 0);
            let (arrived, _) = pair.pass(Side::Client, &cut(&command, &cuts));
            prop_assert!(arrived == command);
            // The first byte of a payload is never that of a request for a file.
            let payloads: Vec<Vec<u8>> = answers.iter().map(|&(byte, len)| vec![byte; len]).collect();
            let payloads: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
            let right = packets(&payloads, 1);
            let (arrived, _) = pair.pass(Side::Server, &cut(&right, &cuts));
            prop_assert!(arrived == right);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300), is_zlib: bool, as_client: bool) {
        let algorithm = if is_zlib { Algorithm::Zlib } else { ZSTD };
        let side = if as_client { Side::Client } else { Side::Server };
        let (mut codec, mut link, mut out) = (Codec::default(), CompressedLink::new(algorithm, side), Vec::new());
        let mut rest = &bytes[..];
        while let Some(len) = CompressedLink::frame_len(rest) {
            if link.decode(&mut codec, &rest[..len], &mut out).is_err() {
                break;
            }
            prop_assert!(out.len() <= MAX_PAYLOAD);
            rest = &rest[len..];
        }
    }
}

/// Pieces of the given lengths, again and again.
fn cut<'a>(mut stream: &'a [u8], lens: &[usize]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for len in lens.iter().cycle() {
        if stream.is_empty() {
            break;
        }
        // The header of a command comes whole, as it does from everybody who writes one.
        let (piece, rest) = stream.split_at((*len).max(4).min(stream.len()));
        pieces.push(piece);
        stream = rest;
    }
    pieces
}
