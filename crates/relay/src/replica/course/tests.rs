//! Logs as servers would write them, and what of them replicas with different wishes are sent.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use delphinus_wire::binlog::{MAGIC, build, put_gtid_list};
use delphinus_wire::gtid::{GtidIntervals, GtidPosition};
use delphinus_wire::{HEADER_LEN as PACKET_HEADER, MAX_PAYLOAD, parse_header};

use super::super::asked::{From, Unwanted};
use super::*;

const NAME: &str = "binlog.000007";

fn asked(is_mariadb: bool) -> Asked {
    let form = if is_mariadb { HeartbeatForm::Old } else { HeartbeatForm::V2 };
    Asked { form, ..Asked::plain(From::Place(String::new(), 4)) }
}

/// A file as a server would write it.
struct File {
    bytes: Vec<u8>,
    head_len: usize,
}

impl File {
    fn new(last_of_head: (Kind, &[u8])) -> Self {
        let mut file = Self { bytes: MAGIC.to_vec(), head_len: 0 };
        let mut body = vec![4, 0];
        body.resize(52, 0);
        body.extend_from_slice(&7_u32.to_le_bytes());
        body.extend_from_slice(&[19, 0, 13, 1]);
        file.add(Kind::FORMAT_DESCRIPTION, 0, &body);
        file.add(last_of_head.0, 0, last_of_head.1);
        file.head_len = file.bytes.len();
        file
    }

    fn add(&mut self, kind: Kind, flags: u16, body: &[u8]) -> usize {
        let mut event = Vec::new();
        let size = HEADER_LEN + body.len() + 4;
        let log_pos = (self.bytes.len() + size) as u32;
        let header = Header { timestamp: 1_700_000_000, kind, server_id: 1, size: 0, log_pos, flags };
        build(&mut event, header, body, Checksum::Crc32);
        self.bytes.extend_from_slice(&event);
        event.len()
    }

    /// A group of MySQL with one event of `len` bytes in its middle.
    fn mysql_group(&mut self, number: u64, len: usize) {
        let mut body = vec![0];
        body.extend_from_slice(&[9; 16]);
        body.extend_from_slice(&number.to_le_bytes());
        self.add(Kind::GTID, 0, &body);
        self.add(Kind::WRITE_ROWS, 0, &vec![number as u8; len]);
        self.add(Kind::XID, 0, &number.to_le_bytes());
    }

    fn mariadb_group(&mut self, sequence: u64, flags: u16) {
        let mut body = sequence.to_le_bytes().to_vec();
        body.extend_from_slice(&[0; 5]);
        self.add(Kind::MARIADB_GTID, flags, &body);
        self.add(Kind::ANNOTATE_ROWS, flags, b"insert into t values (1)");
        self.add(Kind::XID, flags, &sequence.to_le_bytes());
    }
}

/// What a replica gets of the file, in pieces of this size: the events, each as kind and length; checks packets and checksums.
fn sent(course: &mut Course, file: &File, piece: usize) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let head = Head {
        name: NAME,
        bytes: &file.bytes[4..file.head_len],
        from: file.head_len as u64,
        is_first: true,
        checksum: Checksum::Crc32,
        previous: &GtidSet::default(),
    };
    course.begin(&mut out, head).unwrap();
    let (mut at, mut wanted) = (file.head_len, piece);
    while at < file.bytes.len() {
        let end = (at + wanted).min(file.bytes.len());
        let taken = course.take(&mut out, &file.bytes[at..end], at as u64).unwrap();
        wanted = if taken == 0 { wanted + piece } else { piece };
        at += taken;
    }
    course.tell_omitted(&mut out, at as u64);
    events(&out)
}

fn events(mut packets: &[u8]) -> Vec<Vec<u8>> {
    let (mut events, mut payload, mut seq) = (Vec::new(), Vec::new(), 1_u8);
    while let Some(frame) = parse_header(packets) {
        assert_eq!(frame.seq, seq);
        seq = seq.wrapping_add(1);
        payload.extend_from_slice(&packets[PACKET_HEADER..PACKET_HEADER + frame.len]);
        packets = &packets[PACKET_HEADER + frame.len..];
        if frame.len < MAX_PAYLOAD {
            assert_eq!(payload[0], 0);
            let event = payload.split_off(1);
            assert_eq!(Event::parse(&event, Checksum::Crc32).unwrap().bytes.len(), event.len());
            events.push(event);
            payload.clear();
        }
    }
    assert!(packets.is_empty());
    events
}

fn kinds(events: &[Vec<u8>]) -> Vec<Kind> {
    events.iter().map(|event| Header::parse(event).unwrap().kind).collect()
}

#[test]
fn everything_is_sent_as_it_is_in_pieces_of_any_size() {
    let mut file = File::new((Kind::PREVIOUS_GTIDS, &[0; 8]));
    for (number, len) in [(1, 10), (2, 100_000), (3, 0), (4, MAX_PAYLOAD), (5, 1)] {
        file.mysql_group(number, len);
    }
    let whole: Vec<u8> = file.bytes[4..].to_vec();
    for piece in [1000, 4096, 262_144, usize::MAX / 2] {
        let mut course = Course::new(asked(false), Filter::Nothing(None), 99);
        let events = sent(&mut course, &file, piece);
        assert_eq!(kinds(&events[..3]), [Kind::ROTATE, Kind::FORMAT_DESCRIPTION, Kind::PREVIOUS_GTIDS]);
        assert!(events[1..].concat() == whole, "pieces of {piece}");
        let counted = course.take_counted();
        assert_eq!((counted.events, counted.event_s), (16, 1_700_000_000));
    }
}

#[test]
fn groups_that_a_mysql_replica_has_are_left_out_and_it_is_told_where_it_is() {
    let mut file = File::new((Kind::PREVIOUS_GTIDS, &[0; 8]));
    for number in 1..=4 {
        file.mysql_group(number, 40);
    }
    let uuid = "09090909-0909-0909-0909-090909090909";
    let filter = |has: &str| Filter::MySql(GtidIntervals::parse(&format!("{uuid}:{has}")).unwrap());
    let mut course = Course::new(asked(false), filter("1-2:4"), 99);
    let events = sent(&mut course, &file, 64);
    let expected = [
        Kind::ROTATE,
        Kind::FORMAT_DESCRIPTION,
        Kind::PREVIOUS_GTIDS,
        Kind::HEARTBEAT_V2,
        Kind::GTID,
        Kind::WRITE_ROWS,
        Kind::XID,
        Kind::HEARTBEAT_V2,
    ];
    assert_eq!(kinds(&events), expected);
    // Each at the place behind what was left out.
    let third = file.bytes.len() - (file.bytes.len() - file.head_len) / 2;
    assert_eq!(Header::parse(&events[3]).unwrap().log_pos as usize, third);
    assert_eq!(Header::parse(&events[7]).unwrap().log_pos as usize, file.bytes.len());
    let mut course = Course::new(Asked { form: HeartbeatForm::Old, ..asked(false) }, filter("1-4"), 99);
    assert_eq!(kinds(&sent(&mut course, &file, 64)).last(), Some(&Kind::HEARTBEAT));
}

/// A replica that comes again at the begin of the file with which its source was started has to hear of that.
#[test]
fn the_start_of_the_source_is_told_to_who_has_nothing_of_the_file() {
    let mut file = File::new((Kind::PREVIOUS_GTIDS, &[0; 8]));
    file.mysql_group(6, 40);
    let set =
        |has: &str| GtidIntervals::parse(&format!("09090909-0909-0909-0909-090909090909:{has}")).unwrap();
    let previous = GtidSet::MySql(set("1-5"));
    for (has, expected) in [("1-5", 7), ("1-6", 0)] {
        let mut course = Course::new(asked(false), Filter::MySql(set(has)), 99);
        let mut out = Vec::new();
        let (bytes, from) = (&file.bytes[4..file.head_len], file.head_len as u64);
        let (is_first, checksum, previous) = (true, Checksum::Crc32, &previous);
        course.begin(&mut out, Head { name: NAME, bytes, from, is_first, checksum, previous }).unwrap();
        let events = events(&out);
        let event = Event::parse(&events[1], Checksum::Crc32).unwrap();
        let format = delphinus_wire::binlog::FormatDescription::parse(event.body).unwrap();
        assert_eq!(format.created, expected, "{has}");
    }
}

#[test]
fn mariadb_replicas_are_told_with_a_gtid_list_and_may_leave_more_out() {
    let mut list = Vec::new();
    put_gtid_list(&mut list, &[MariaDbGtid { domain: 0, server_id: 1, sequence: 1 }]);
    let mut file = File::new((Kind::GTID_LIST, &list));
    file.mariadb_group(2, 0);
    file.mariadb_group(3, FLAG_SKIP_REPLICATION);
    file.add(Kind::BINLOG_CHECKPOINT, 0, b"\x0d\0\0\0binlog.000007");
    file.mariadb_group(4, 0);
    let position = GtidPosition::parse("0-1-2").unwrap();
    let filter = || {
        Filter::mariadb(
            position.clone(),
            (&[MariaDbGtid { domain: 0, server_id: 1, sequence: 1 }], &Past::default()),
            true,
        )
    };
    let head = [Kind::ROTATE, Kind::FORMAT_DESCRIPTION, Kind::GTID_LIST, Kind::GTID_LIST];
    let group = [Kind::MARIADB_GTID, Kind::ANNOTATE_ROWS, Kind::XID];
    let mut course = Course::new(asked(true), filter(), 99);
    let events = sent(&mut course, &file, 100);
    assert_eq!(kinds(&events), [&head[..], &group, &[Kind::BINLOG_CHECKPOINT], &group].concat());
    assert!(Header::parse(&events[3]).unwrap().is_artificial());
    let wants = Asked { unwanted: Unwanted { annotations: true, marked: true }, ..asked(true) };
    let events = sent(&mut Course::new(wants, filter(), 99), &file, 100);
    let short = [Kind::MARIADB_GTID, Kind::XID];
    assert_eq!(kinds(&events), [&head[..], &[Kind::BINLOG_CHECKPOINT], &short].concat());
}

/// A replica may say that it is in very many domains. What it is told of them each time does not pile up.
#[test]
fn what_is_made_of_a_piece_has_an_end() {
    let mut list = Vec::new();
    put_gtid_list(&mut list, &[]);
    let mut file = File::new((Kind::GTID_LIST, &list));
    for sequence in 1..=100_u64 {
        // One that it has, and one that it has not.
        for domain in [0_u8, 1] {
            let mut body = sequence.to_le_bytes().to_vec();
            body.extend_from_slice(&[domain, 0, 0, 0, 0]);
            file.add(Kind::MARIADB_GTID, 0, &body);
            file.add(Kind::XID, 0, &sequence.to_le_bytes());
        }
    }
    let position = (2..20_000).map(|domain| format!("{domain}-1-1")).collect::<Vec<_>>().join(",");
    let position = GtidPosition::parse(&format!("{position},0-1-100")).unwrap();
    let mut course = Course::new(asked(true), Filter::mariadb(position, (&[], &Past::default()), false), 99);
    let (mut out, mut at, mut pieces) = (Vec::new(), file.head_len, 0);
    let (mut groups, mut longest) = (0, 0);
    while at < file.bytes.len() {
        out.clear();
        at += course.take(&mut out, &file.bytes[at..], at as u64).unwrap();
        longest = longest.max(out.len());
        pieces += 1;
        let mut packets = &out[..];
        while let Some(frame) = parse_header(packets) {
            let event = &packets[PACKET_HEADER + 1..];
            groups += usize::from(Header::parse(event).unwrap().kind == Kind::XID);
            packets = &packets[PACKET_HEADER + frame.len..];
        }
    }
    assert!(longest < 2 << 20 && pieces > 10, "{longest} bytes at a time, {pieces} times");
    assert_eq!(groups, 100);
}

#[test]
fn one_who_begins_inside_of_a_file_is_at_no_position_in_its_head() {
    let mut file = File::new((Kind::PREVIOUS_GTIDS, &[0; 8]));
    file.mysql_group(1, 40);
    let mut out = Vec::new();
    let mut course =
        Course::new(Asked { checksum: Some(Checksum::Off), ..asked(false) }, Filter::Nothing(None), 99);
    let from = file.bytes.len() as u64;
    let bytes = &file.bytes[4..file.head_len];
    let (is_first, previous) = (true, &GtidSet::default());
    course
        .begin(&mut out, Head { name: NAME, bytes, from, is_first, checksum: Checksum::Crc32, previous })
        .unwrap();
    // The first one is in the checksum that was asked for: none.
    let frame = parse_header(&out).unwrap();
    assert_eq!(frame.len, 1 + HEADER_LEN + 8 + NAME.len());
    let format = &out[PACKET_HEADER + frame.len + PACKET_HEADER + 1..];
    let event = Event::parse(format, Checksum::Crc32).unwrap();
    assert_eq!((event.header.kind, event.header.log_pos), (Kind::FORMAT_DESCRIPTION, 0));
    assert_eq!(event.bytes.len(), format.len());
}

#[test]
fn after_a_rotation_the_place_is_the_begin_of_the_next_file() {
    let mut file = File::new((Kind::PREVIOUS_GTIDS, &[0; 8]));
    file.mysql_group(1, 40);
    file.add(Kind::ROTATE, 0, b"\x04\0\0\0\0\0\0\0binlog.000008");
    let mut course = Course::new(asked(false), Filter::Nothing(None), 99);
    sent(&mut course, &file, 30);
    let mut out = Vec::new();
    course.put_heartbeat(&mut out, file.bytes.len() as u64);
    let event = Event::parse(&out[PACKET_HEADER + 1..], Checksum::Crc32).unwrap();
    assert_eq!(event.body, b"\x01\x0dbinlog.000008\x02\x01\x04\0");
}

/// Where the event that is left out ends, a replica may go on; inside of a group it may not.
#[test]
fn a_sign_of_life_in_between_names_a_place_to_go_on_at() {
    let mut file = File::new((Kind::PREVIOUS_GTIDS, &[0; 8]));
    file.mysql_group(1, 5000);
    file.mysql_group(2, 5000);
    let has = GtidIntervals::parse("09090909-0909-0909-0909-090909090909:1").unwrap();
    let mut course = Course::new(asked(false), Filter::MySql(has), 99);
    let mut at = file.head_len;
    let mut out = Vec::new();
    let head = Head {
        name: NAME,
        bytes: &file.bytes[4..at],
        from: at as u64,
        is_first: true,
        checksum: Checksum::Crc32,
        previous: &GtidSet::default(),
    };
    course.begin(&mut out, head).unwrap();
    let body = |out: &[u8]| Event::parse(&out[PACKET_HEADER + 1..], Checksum::Crc32).unwrap().body.to_vec();
    // GTID, and the event of 5,000 bytes, in which it is now.
    let end = file.head_len + (HEADER_LEN + 25 + 4) + (HEADER_LEN + 5000 + 4);
    out.clear();
    at += course.take(&mut out, &file.bytes[at..at + 1000], at as u64).unwrap();
    assert!(out.is_empty());
    course.put_heartbeat_between(&mut out, at as u64);
    let mut expected = Vec::new();
    course.put_heartbeat(&mut expected, end as u64);
    assert_eq!(body(&out), body(&expected));
    // The middle and the end of that event of the second group.
    let second = end + (HEADER_LEN + 8 + 4) + (HEADER_LEN + 25 + 4);
    for until in [second + 1000, second + HEADER_LEN + 5000 + 4] {
        at += course.take(&mut out, &file.bytes[at..until], at as u64).unwrap();
        assert_eq!(at, until);
        out.clear();
        course.put_heartbeat_between(&mut out, at as u64);
        assert!(out.is_empty());
    }
}

#[test]
fn what_cannot_be_read_is_said() {
    let mut course = Course::new(asked(false), Filter::Nothing(None), 99);
    let mut out = Vec::new();
    let torn = course.take(&mut out, &[0; 40], 4);
    assert!(matches!(torn, Err(Fatal::Unreadable(_))), "{torn:?}");
}
