//! Answers in every kind of piece.

use delphinus_wire::put_packet;

use super::*;

const NEW: Capabilities = Capabilities(Capabilities::PROTOCOL_41.0 | Capabilities::DEPRECATE_EOF.0);
const OLD: Capabilities = Capabilities::PROTOCOL_41;

fn packets(payloads: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut seq = 1;
    for payload in payloads {
        seq = put_packet(&mut bytes, seq, payload);
    }
    bytes
}

/// One column, two rows; the end as DEPRECATE_EOF has it, with this status.
fn result(status: u8) -> Vec<u8> {
    packets(&[&[1], b"definition", &[1, b'a'], &[0xfb], &[0xfe, 0, 0, status, 0, 0, 0]])
}

/// Feeds pieces of `size` bytes; the answer must come with the last byte and not before.
fn answer_in_pieces(capabilities: Capabilities, bytes: &[u8], size: usize) -> Result<Answer> {
    let mut finder = Finder::new(capabilities);
    let mut fed = 0;
    for piece in bytes.chunks(size) {
        fed += piece.len();
        if let Some(answer) = finder.feed(piece)? {
            ensure!(fed == bytes.len(), "the answer ended {} bytes early", bytes.len() - fed);
            return Ok(answer);
        }
    }
    bail!("the answer did not end")
}

fn answer(capabilities: Capabilities, bytes: &[u8]) -> Result<Answer> {
    let whole = answer_in_pieces(capabilities, bytes, bytes.len())?;
    for size in [1, 2, 3, 4, 5, 7, 11] {
        assert_eq!(answer_in_pieces(capabilities, bytes, size)?, whole, "pieces of {size}");
    }
    Ok(whole)
}

#[test]
fn an_ok_packet_is_a_whole_answer() {
    let found = answer(NEW, &packets(&[&[0, 3, 0, 2, 0, 0, 0]])).unwrap();
    assert_eq!(found, Answer { rows: 0, affected_rows: 3 });
}

#[test]
fn rows_are_counted_up_to_the_end() {
    assert_eq!(answer(NEW, &result(2)).unwrap().rows, 2);
    let eof = [0xfe, 0, 0, 2, 0];
    let old = packets(&[&[1], b"definition", &eof, &[1, b'a'], &[1, b'b'], &[1, b'c'], &eof]);
    assert_eq!(answer(OLD, &old).unwrap().rows, 3);
}

#[test]
fn a_result_without_rows_ends() {
    let bytes = packets(&[&[2], b"one", b"two", &[0xfe, 0, 0, 2, 0, 0, 0]]);
    assert_eq!(answer(NEW, &bytes).unwrap().rows, 0);
}

#[test]
fn more_results_belong_to_the_answer() {
    let bytes = [result(8), packets(&[&[0, 1, 0, 8, 0, 0, 0]]), result(2)].concat();
    assert_eq!(answer(NEW, &bytes).unwrap(), Answer { rows: 4, affected_rows: 1 });
}

#[test]
fn binary_rows_begin_with_zero_and_are_no_ok_packets() {
    let bytes = packets(&[&[1], b"definition", &[0, 0, 5, 0, 0, 0], &[0xfe, 0, 0, 2, 0, 0, 0]]);
    assert_eq!(answer(NEW, &bytes).unwrap().rows, 1);
}

#[test]
fn an_error_is_an_error_wherever_it_comes() {
    let error = [0xff, 0x15, 0x04, b'#', b'2', b'8', b'0', b'0', b'0', b'n', b'o'];
    for bytes in [packets(&[&error]), packets(&[&[1], b"definition", &[1, b'a'], &error])] {
        let said = answer(NEW, &bytes).unwrap_err().to_string();
        assert_eq!(said, "error 1045: no");
    }
}

#[test]
fn a_row_of_several_packets_is_one_row_and_may_begin_like_an_end() {
    let mut row = vec![b'x'; MAX_PAYLOAD + 10];
    row[0] = 0xfe;
    // What continues it begins like an end, too.
    row[MAX_PAYLOAD] = 0xfe;
    let exact = vec![0xfe; MAX_PAYLOAD];
    let bytes = packets(&[&[1], b"definition", &row, &exact, &[1, b'a'], &[0xfe, 0, 0, 2, 0, 0, 0]]);
    for size in [bytes.len(), 65_536, 1_000_003] {
        assert_eq!(answer_in_pieces(NEW, &bytes, size).unwrap().rows, 3);
    }
}

#[test]
fn bytes_behind_the_end_are_an_error() {
    let bytes = [result(2), vec![1]].concat();
    assert!(Finder::new(NEW).feed(&bytes).is_err());
}

#[test]
fn the_next_answer_starts_from_nothing() {
    let mut finder = Finder::new(NEW);
    for _ in 0..3 {
        assert_eq!(finder.feed(&result(2)).unwrap().map(|answer| answer.rows), Some(2));
    }
}
