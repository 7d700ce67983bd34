//! Whole responses in pieces of every size.

use super::*;
use delphinus_wire::response::SessionChanges;
use delphinus_wire::{Put, put_packet};

const PLAIN: Capabilities = Capabilities::PROTOCOL_41;
const MODERN: Capabilities =
    Capabilities(Capabilities::PROTOCOL_41.0 | Capabilities::DEPRECATE_EOF.0 | Capabilities::SESSION_TRACK.0);

#[derive(Default, Clone)]
struct Wire {
    bytes: Vec<u8>,
    seq: u8,
}

impl Wire {
    fn packet(mut self, payload: &[u8]) -> Self {
        self.seq = put_packet(&mut self.bytes, self.seq, payload);
        self
    }

    fn columns(mut self, n: u8) -> Self {
        self = self.packet(&[n]);
        for _ in 0..n {
            self = self.packet(b"\x03defsome column definition");
        }
        self
    }

    fn eof(self, status: u16) -> Self {
        let mut out = Vec::new();
        EofPacket { warnings: 0, status: Status(status) }.put(&mut out);
        self.packet(&out)
    }

    fn ok(self, first: u8, ok: &OkPacket<'_>) -> Self {
        let mut out = Vec::new();
        ok.put(&mut out, first, MODERN);
        self.packet(&out)
    }
}

/// Feeds `wire` in pieces of every size; the bytes that pass and the outcome must not depend on it.
fn track(shape: Shape, capabilities: Capabilities, wire: &Wire) -> Response {
    let mut outcomes: Vec<(Vec<u8>, Response)> = Vec::new();
    for piece in (1..wire.bytes.len().min(80)).chain([wire.bytes.len()]) {
        let mut tracker = ResponseTracker::new(shape, capabilities, capabilities);
        let (mut held, mut passed, mut given) = (Vec::new(), Vec::new(), 0);
        loop {
            let progress = tracker.advance(&mut held).expect("a well-formed response");
            let (n, done) = match progress {
                Progress::More(n) => (n, false),
                Progress::Done(n) => (n, true),
                Progress::Rewrite(n, len) => (n + len, tracker.is_done()),
                Progress::LocalInfile(_) | Progress::Shortened(..) | Progress::ResultEnd(_) => {
                    panic!("nothing of the kind here")
                }
            };
            passed.extend(held.drain(..n));
            if done {
                break;
            }
            if !matches!(progress, Progress::Rewrite(..)) {
                assert!(given < wire.bytes.len(), "the response ended without the tracker seeing it");
                let next = (given + piece).min(wire.bytes.len());
                held.extend_from_slice(&wire.bytes[given..next]);
                given = next;
            }
        }
        assert_eq!(given, wire.bytes.len(), "piece {piece}");
        outcomes.push((passed, tracker.into_response()));
    }
    assert!(outcomes.windows(2).all(|pair| pair[0] == pair[1]));
    outcomes.pop().expect("at least one run").1
}

#[test]
fn a_result_set_without_deprecate_eof() {
    let wire = Wire::default().columns(2).eof(2).packet(b"\x01a\x01b").packet(b"\xfb\x01b").eof(0x22);
    let response = track(Shape::Results, PLAIN, &wire);
    assert_eq!((response.rows, response.result_sets, response.status), (2, 1, Some(Status(0x22))));
}

#[test]
fn a_result_set_with_deprecate_eof_and_changes() {
    let changes = b"\x01\x04\x03app\x00\x0f\x08sql_mode\x05ANSI_";
    let ok = OkPacket { changes: SessionChanges::new(changes), warnings: 3, ..OkPacket::default() };
    let wire = Wire::default().columns(1).packet(b"\x00\x00\x01").packet(b"\x00\x00\x02").ok(0xfe, &ok);
    let response = track(Shape::Results, MODERN, &wire);
    assert_eq!((response.rows, response.warnings), (2, 3));
    assert_eq!(
        response.changes,
        [Changed::Schema(Some("app".into())), Changed::Var("sql_mode".into(), (*b"ANSI_").into())]
    );
}

#[test]
fn several_results_end_with_the_last() {
    let more =
        OkPacket { status: Status::MORE_RESULTS, affected_rows: 1, last_insert_id: 7, ..OkPacket::default() };
    let last = OkPacket { affected_rows: 5, ..OkPacket::default() };
    let wire = Wire::default().ok(0, &more).columns(1).packet(b"\x011").ok(0xfe, &more).ok(0, &last);
    let response = track(Shape::Results, MODERN, &wire);
    assert_eq!((response.affected_rows, response.last_insert_id, response.rows), (Some(5), 7, 1));
}

/// How a whole response goes to a client with these capabilities: what is passed at once, and what is written anew.
fn steps(client: Capabilities, wire: &Wire) -> Vec<Progress> {
    let mut tracker = ResponseTracker::new(Shape::Results, MODERN, client);
    let (mut bytes, mut steps) = (wire.bytes.clone(), Vec::new());
    while !tracker.is_done() {
        let progress = tracker.advance(&mut bytes).expect("a well-formed response");
        let (Progress::More(n) | Progress::Done(n) | Progress::ResultEnd(n) | Progress::LocalInfile(n)) =
            progress
        else {
            panic!("{progress:?}")
        };
        bytes.drain(..n);
        steps.push(progress);
    }
    steps
}

#[test]
fn clients_that_compress_see_every_result_end() {
    let more = OkPacket { status: Status::MORE_RESULTS, ..OkPacket::default() };
    let rows = |wire: Wire| wire.columns(1).packet(b"\x011").ok(0xfe, &more);
    // Between the results it is not the client's turn, and what ends the last one ends the response.
    let wire = rows(rows(Wire::default()).ok(0, &more)).packet(b"\xff\x25\x05#70100killed");
    let of_rows = rows(Wire::default()).bytes.len();
    let of_ok = Wire::default().ok(0, &more).bytes.len();
    let error = wire.bytes.len() - 2 * of_rows - of_ok;
    let each = [of_rows, of_ok, of_rows].map(Progress::ResultEnd);
    for compression in [Capabilities::COMPRESS, Capabilities::ZSTD_COMPRESSION] {
        let steps = steps(MODERN | compression, &wire);
        assert_eq!(steps, [&each[..], &[Progress::Done(error)]].concat());
    }
    assert_eq!(steps(MODERN, &wire), [Progress::Done(wire.bytes.len())]);
}

#[test]
fn an_error_in_the_middle_of_rows_is_the_end() {
    let wire = Wire::default().columns(1).eof(2).packet(b"\x011").packet(b"\xff\x25\x05#70100killed");
    let response = track(Shape::Results, PLAIN, &wire);
    assert_eq!((response.error, response.rows), (Some(1317), 1));
}

#[test]
fn a_cursor_has_no_rows_after_its_columns() {
    let wire = Wire::default().columns(1).eof(0x42);
    let ok = OkPacket { status: Status(0x42), ..OkPacket::default() };
    for (capabilities, wire) in [(PLAIN, wire), (MODERN, Wire::default().columns(1).ok(0xfe, &ok))] {
        let response = track(Shape::Cursor, capabilities, &wire);
        assert_eq!((response.status, response.has_cursor), (Some(Status(0x42)), true));
    }
    // No cursor: what a statement gives that sends its rows at once.
    let wire = Wire::default().columns(1).eof(2).packet(b"\0\0\x01").eof(2);
    let response = track(Shape::Cursor, PLAIN, &wire);
    assert_eq!((response.rows, response.has_cursor), (1, false));
}

/// 0x40 is left of a cursor that the procedure, or the function, has had.
#[test]
fn a_cursor_that_was_not_asked_for_ends_nothing() {
    let rows = |wire: Wire, status| wire.columns(1).eof(status).packet(b"\x011").eof(status);
    let ok = OkPacket { status: Status(0x42), ..OkPacket::default() };
    let call = rows(rows(Wire::default(), 0x4a), 0x4a).ok(0, &ok);
    for shape in [Shape::Results, Shape::Cursor] {
        let response = track(shape, PLAIN, &call);
        assert_eq!((response.result_sets, response.rows, response.has_cursor), (2, 1, false), "{shape:?}");
    }
    let response = track(Shape::Results, PLAIN, &rows(Wire::default(), 0x42));
    assert_eq!((response.rows, response.has_cursor), (1, false));
}

/// 1290 and 1836.
#[test]
fn a_refusal_for_another_option_is_not_that_of_a_server_that_takes_no_writes() {
    let option =
        |name| format!("\u{a}\u{5}#HY000The server is running with the --{name} option").into_bytes();
    let packet = |payload: &[u8]| [b"\xff", payload].concat();
    for (payload, takes_no_writes) in [
        (option("read-only"), true),
        (option("secure-file-priv"), false),
        (b"\x2c\x07#HY000Running in read only mode".to_vec(), true),
        (b"\x14\x04#42000read-only".to_vec(), false),
    ] {
        let response = track(Shape::Results, PLAIN, &Wire::default().packet(&packet(&payload)));
        assert_eq!(response.takes_no_writes(), takes_no_writes, "{}", String::from_utf8_lossy(&payload));
    }
}

#[test]
fn an_error_may_stand_in_the_place_of_any_packet() {
    let error = b"\xff\xda\x04#21000Subquery returns more than 1 row";
    let two = || Wire::default().packet(&[2]).packet(b"\x03defone");
    for wire in [Wire::default(), two(), two().packet(b"\x03deftwo"), Wire::default().columns(2).eof(2)] {
        for shape in [Shape::Results, Shape::Cursor] {
            assert_eq!(track(shape, PLAIN, &wire.clone().packet(error)).error, Some(1242));
        }
    }
}

/// `MySQL`: only the first EOF of OUT parameters says that the OK of the CALL follows.
#[test]
fn out_parameters_are_followed_by_the_calls_own_answer() {
    let ok = OkPacket { affected_rows: 3, ..OkPacket::default() };
    let wire = Wire::default().columns(1).eof(0x102a).packet(b"\0\0\x01").eof(0x22).ok(0, &ok);
    let response = track(Shape::Results, PLAIN, &wire);
    assert_eq!((response.rows, response.affected_rows), (1, Some(3)));
}

/// `MariaDB`: they look like errors.
#[test]
fn reports_of_progress_end_nothing() {
    let report = b"\xff\xff\xff\x01\x02\x02\x00\x00\x00\x0dEnabling keys";
    let reporting = PLAIN | Capabilities::MARIADB_PROGRESS;
    let wire = Wire::default().packet(report).packet(report).ok(0, &OkPacket::default());
    let response = track(Shape::Results, reporting, &wire);
    assert_eq!((response.error, response.affected_rows), (None, Some(0)));
    assert_eq!(track(Shape::Results, PLAIN, &Wire::default().packet(report)).error, Some(0xffff));
}

#[test]
fn a_file_is_asked_for_only_of_a_client_that_has_agreed() {
    let agreed = PLAIN | Capabilities::LOCAL_FILES;
    for client in [PLAIN, agreed] {
        let mut wire = Wire::default().packet(b"\xfb/etc/passwd");
        let len = wire.bytes.len();
        let found = ResponseTracker::new(Shape::Results, agreed, client).advance(&mut wire.bytes);
        assert_eq!(found.ok(), (client == agreed).then_some(Progress::LocalInfile(len)));
    }
}

#[test]
fn an_error_is_numbered_behind_the_whole_command() {
    let mut tracker = ResponseTracker::new(Shape::Results, PLAIN, PLAIN);
    assert_eq!(tracker.error_seq(), Some(1));
    tracker.follow(2);
    assert_eq!(tracker.error_seq(), Some(3));
}

/// `MariaDB`: ANALYZE of a SELECT, executed with a cursor.
#[test]
fn columns_that_begin_anew() {
    let wire = Wire::default().columns(1).columns(3).eof(0x22).packet(b"\0\0\x01").eof(0x62);
    let response = track(Shape::Cursor, PLAIN, &wire);
    assert_eq!((response.rows, response.has_cursor), (1, true));
    let bytes = &mut wire.bytes.clone();
    assert!(ResponseTracker::new(Shape::Results, PLAIN, PLAIN).advance(bytes).is_err());
}

#[test]
fn prepared_statements_get_the_clients_id() {
    for (capabilities, params, columns) in [
        (PLAIN, 0, 0),
        (PLAIN, 2, 0),
        (PLAIN, 0, 1),
        (PLAIN, 2, 3),
        (MODERN, 2, 3),
        (MODERN, 1, 0),
        (MODERN, 0, 1),
    ] {
        let mut first = vec![0, 9, 0, 0, 0];
        first.put_u16(columns);
        first.put_u16(params);
        first.extend_from_slice(&[0, 0, 0]);
        let mut wire = Wire::default().packet(&first);
        for count in [params, columns] {
            for _ in 0..count {
                wire = wire.packet(b"\x03defanything");
            }
            if count > 0 && capabilities == PLAIN {
                wire = wire.eof(2);
            }
        }
        let response = track(Shape::Prepared(77), capabilities, &wire);
        assert_eq!(response.prepared.map(|ok| ok.id.0), Some(9));
        let mut tracker = ResponseTracker::new(Shape::Prepared(77), capabilities, capabilities);
        tracker.advance(&mut wire.bytes).expect("well-formed");
        assert_eq!(wire.bytes[5..9], [77, 0, 0, 0]);
    }
}

#[test]
fn an_ordinary_ok_for_a_preparation_has_prepared_nothing() {
    let wire = Wire::default().packet(&[0; 7]);
    let response = track(Shape::Prepared(77), MODERN, &wire);
    assert_eq!((response.prepared, response.status, response.error), (None, None, None));
}

#[test]
fn rows_of_16_mib_pass_in_parts() {
    let mut row = vec![0xfe];
    row.put_u64(20 << 20);
    row.resize(row.len() + (20 << 20), 0xff);
    let wire = Wire::default().columns(1).packet(&row).ok(0xfe, &OkPacket::default());
    let mut tracker = ResponseTracker::new(Shape::Results, MODERN, MODERN);
    let (mut held, mut largest, mut done) = (Vec::new(), 0, false);
    for piece in wire.bytes.chunks(60_000) {
        assert!(!done);
        held.extend_from_slice(piece);
        match tracker.advance(&mut held).expect("well-formed") {
            Progress::More(n) => drop(held.drain(..n)),
            Progress::Done(n) => (done, _) = (true, held.drain(..n)),
            other => panic!("{other:?}"),
        }
        largest = largest.max(held.len());
    }
    assert!(done && held.is_empty());
    assert!(largest < 100, "held back {largest} bytes");
    assert_eq!(tracker.response().rows, 1);
}

#[test]
fn a_client_that_does_not_track_gets_its_own_ok() {
    let changes = b"\x01\x04\x03app";
    let ok = OkPacket { changes: SessionChanges::new(changes), ..OkPacket::default() };
    let mut wire = Wire::default().ok(0, &ok);
    let mut tracker = ResponseTracker::new(Shape::Results, MODERN, PLAIN);
    assert_eq!(tracker.advance(&mut wire.bytes), Ok(Progress::Shortened(0, 11)));
    assert_eq!(wire.bytes[..11], [7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert!(tracker.is_done());
    assert_eq!(tracker.response().changes, [Changed::Schema(Some("app".into()))]);
}

#[test]
fn the_number_of_a_statement_is_told_to_nobody() {
    let changes = b"\x00\x0f\x0cstatement_id\x019";
    let ok = OkPacket { changes: SessionChanges::new(changes), ..OkPacket::default() };
    let mut wire = Wire::default().ok(0, &ok);
    let mut tracker = ResponseTracker::new(Shape::Results, MODERN, MODERN);
    assert_eq!(tracker.advance(&mut wire.bytes), Ok(Progress::Shortened(0, 11)));
    assert_eq!(tracker.response().changes, []);
    // Followed by bytes that do not belong there, it is not touched: the caller finds what is wrong.
    let mut wire = Wire::default().ok(0, &ok).packet(b"more");
    let len = wire.bytes.len() - 8;
    let mut tracker = ResponseTracker::new(Shape::Results, MODERN, MODERN);
    assert_eq!(tracker.advance(&mut wire.bytes), Ok(Progress::Rewrite(0, len)));
}

#[test]
fn an_age_is_told_to_one_of_us_and_hidden_from_all_others() {
    let changes = *b"\x00\x15\x0ddelphinus_age\x0612345+";
    let old = *b"\x00\x15\x0ddelphinus_age\x06012345";
    for (ages, told) in [(Ages::Hidden, None), (Ages::Told, Some(&old)), (Ages::ToldWhole, Some(&changes))] {
        let ok = OkPacket { changes: SessionChanges::new(&changes), ..OkPacket::default() };
        let mut wire = Wire::default().ok(packets::EOF, &ok);
        let mut tracker = ResponseTracker::new(Shape::Single, MODERN, MODERN);
        tracker.tell_ages(ages);
        let (len, progress) = (wire.bytes.len(), tracker.advance(&mut wire.bytes));
        match told {
            None => assert_eq!(progress, Ok(Progress::Shortened(0, 11))),
            Some(told) => {
                assert_eq!(progress, Ok(Progress::Done(len)));
                let ok = OkPacket::parse(&wire.bytes[HEADER_LEN..], MODERN).unwrap();
                assert_eq!(ok.changes.bytes(), told);
            }
        }
        let age = tracker.response().age.unwrap();
        assert_eq!((age.age.as_micros(), age.is_current), (12_345, true));
    }
}

#[test]
fn a_result_set_without_columns_is_nonsense() {
    for zero in [b"\xfc\0\0".as_slice(), b"\xfd\0\0\0"] {
        let mut wire = Wire::default().packet(zero).packet(b"a packet more");
        assert!(ResponseTracker::new(Shape::Results, PLAIN, PLAIN).advance(&mut wire.bytes).is_err());
    }
}

#[test]
fn nonsense_is_an_error_and_never_a_panic() {
    for bad in [
        &b"\x00\x00\x00\x00"[..],
        b"\x01\x00\x00\x01\x00",
        b"\x02\x00\x00\x01\xff\x01",
        b"\x01\x00\x00\x01\xff",
    ] {
        let mut bytes = bad.to_vec();
        bytes.extend_from_slice(&[0; 8]);
        let mut tracker = ResponseTracker::new(Shape::Results, MODERN, MODERN);
        assert!(tracker.advance(&mut bytes).is_err(), "{bad:?}");
    }
    let mut huge = vec![0xff, 0xff, 0xef, 1, 0xff, 1, 4];
    let mut tracker = ResponseTracker::new(Shape::Results, MODERN, MODERN);
    assert!(tracker.advance(&mut huge).is_err(), "an error of 15 MiB is not held");
}

/// How much passes of this much of a response, and whether an error can stand behind that.
fn passes(wire: &Wire, len: usize) -> (usize, bool, Option<u8>) {
    let mut tracker = ResponseTracker::new(Shape::Results, MODERN, MODERN);
    match tracker.advance(&mut wire.bytes[..len].to_vec()) {
        Ok(Progress::More(n)) => (n, tracker.takes_error(), tracker.error_seq()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_not_long_passes_whole_so_that_an_error_can_follow() {
    let columns = Wire::default().columns(2).bytes.len();
    let wire = Wire::default().columns(2).packet(b"\x01a\x01b").packet(b"\x01c\x01d");
    let row = wire.bytes.len() - columns;
    let first_row = columns + row / 2;
    for len in columns..wire.bytes.len() {
        let (whole, seq) = if len < first_row { (columns, 3) } else { (first_row, 4) };
        assert_eq!(passes(&wire, len), (whole, true, Some(seq)), "{len} bytes");
    }
    for len in 1..columns {
        let (n, takes_error, seq) = passes(&wire, len);
        assert!(n <= len && takes_error == (n == 0) && seq.is_some(), "{len} bytes of columns");
    }
    // A long one passes as it comes, and nothing can follow a part of it.
    let long = Wire::default().columns(1).packet(&vec![b'x'; MAX_HELD_ROW + 1]);
    let len = long.bytes.len() - 1;
    assert_eq!(passes(&long, len), (len, false, None));
    let held = Wire::default().columns(1).packet(&vec![b'x'; MAX_HELD_ROW]);
    let columns = Wire::default().columns(1).bytes.len();
    assert_eq!(passes(&held, held.bytes.len() - 1), (columns, true, Some(2)));
}

#[test]
fn what_the_proxy_has_ended_has_the_error_that_its_client_got() {
    for (code, told) in [(error_code::ER_QUERY_INTERRUPTED, 1226), (error_code::ER_LOCK_DEADLOCK, 1213)] {
        let mut tracker = ResponseTracker::new(Shape::Results, MODERN, MODERN);
        tracker.response.error = Some(code);
        tracker.was_ended(error_code::ER_USER_LIMIT_REACHED);
        assert_eq!(tracker.into_response().error, Some(told));
    }
}
