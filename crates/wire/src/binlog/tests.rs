//! Events as real servers have sent them (MySQL 9.7.4, MariaDB 10.11.19), and their limits.

use proptest::prelude::*;

use super::dump::*;
use super::*;
use crate::gtid::{GtidIntervals, GtidSet};

/// An event from its fields in a capture; the last four bytes of `body` are the checksum.
fn captured(fields: (u32, u8, u32, u32, u16), body: &str) -> Vec<u8> {
    let (timestamp, kind, server_id, log_pos, flags) = fields;
    let body: Vec<u8> = body.as_bytes().chunks(2).map(hex).collect();
    let mut event = Vec::new();
    let size = (HEADER_LEN + body.len()) as u32;
    Header { timestamp, kind: Kind(kind), server_id, size, log_pos, flags }.put(&mut event);
    event.extend_from_slice(&body);
    event
}

fn hex(pair: &[u8]) -> u8 {
    u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()
}

const UUID: &str = "327eb417-e7d4-11f1-aece-02fc00000001";

fn format_97() -> Vec<u8> {
    captured(
        (1_795_503_401, 15, 1001, 127, 0),
        "0400392e372e342d32000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000\
         000013000d0008000000000400040000006300041a08000000000000020000000a0a0a2a2a001234000a28000001424a430e",
    )
}

fn gtid_97() -> Vec<u8> {
    captured(
        (1_795_503_457, 33, 1001, 480, 0),
        "00327eb417e7d411f1aece02fc0000000102000000000000000201000000000000000200000000000000aaafca39006106fc19015062\
         0100563ba178",
    )
}

fn tagged_97() -> Vec<u8> {
    captured(
        (1_795_503_457, 42, 1001, 762, 0),
        "02720000000264fcd1022e9d03510322c503b902390304f1030000000204040608626c756508040a0c0c7fd1c8ca39006106107d0412\
         83120bf422dc9b",
    )
}

#[test]
fn the_head_of_a_file() {
    let bytes =
        captured((0, 4, 1001, 0, FLAG_ARTIFICIAL), "040000000000000062696e6c6f672e303030303031d63724a0");
    let rotate = Event::parse(&bytes, Checksum::Crc32).unwrap();
    assert!(rotate.header.is_artificial());
    assert_eq!(Rotate::parse(rotate.body), Ok(Rotate { position: 4, name: "binlog.000001" }));

    let bytes = format_97();
    let format = FormatDescription::parse(Event::parse(&bytes, Checksum::Off).unwrap().body).unwrap();
    assert_eq!((&*format.server_version, format.created, format.checksum), ("9.7.4-2", 0, Checksum::Crc32));
    assert!(!format.is_mariadb());

    let bytes = captured(
        (1_795_503_457, 35, 1001, 244, FLAG_IGNORABLE),
        "0102000000000001327eb417e7d411f1aece02fc0000000100010000000000000001000000000000000400000000000000327eb417e7\
         d411f1aece02fc0000000108626c75650100000000000000010000000000000002000000000000003dc648ac",
    );
    let event = Event::parse(&bytes, Checksum::Crc32).unwrap();
    let set = previous_gtids(event.body).unwrap();
    assert_eq!(set.to_string(), format!("{UUID}:1-3,{UUID}:blue:1"));
    let mut again = Vec::new();
    set.encode(&mut again);
    assert_eq!(again, event.body);
}

#[test]
fn a_wrong_bit_is_found() {
    for event in [gtid_97(), format_97()] {
        for at in 0..event.len() * 8 {
            let mut bad = event.clone();
            bad[at / 8] ^= 1 << (at % 8);
            assert!(Event::parse(&bad, Checksum::Crc32).is_err(), "bit {at}");
        }
        for cut in 0..event.len() {
            assert!(Event::parse(&event[..cut], Checksum::Crc32).is_err(), "cut at {cut}");
        }
    }
}

#[test]
fn numbers_of_groups() {
    let own = |bytes: &[u8]| AnyGtid::parse(&Event::parse(bytes, Checksum::Crc32).unwrap()).unwrap().unwrap();
    assert_eq!(own(&gtid_97()).to_string(), format!("{UUID}:2"));
    assert_eq!(own(&tagged_97()).to_string(), format!("{UUID}:blue:1"));
    let bytes =
        captured((1_795_503_457, 162, 3001, 774, 8), "0100000000000000050000000c000000000000f8ff6545");
    assert_eq!(own(&bytes).to_string(), "5-3001-1");
    let mut set = GtidSet::default();
    for gtid in [own(&gtid_97()), own(&tagged_97()), own(&gtid_97())] {
        set.insert(&gtid);
        assert!(set.has(&gtid));
    }
    assert_eq!(set.to_string(), format!("{UUID}:2,{UUID}:blue:1"));
    assert!(!set.has(&own(&bytes)));
    set.insert(&own(&bytes));
    assert_eq!(set.to_string(), "5-3001-1");
}

#[test]
fn heartbeats_say_where_the_source_is() {
    let bytes = captured((0, 41, 1001, 401, 0), "010d62696e6c6f672e3030303030310203fc9101002c58edf7");
    let event = Event::parse(&bytes, Checksum::Crc32).unwrap();
    let beat = Heartbeat::parse(&event.header, event.body).unwrap();
    assert_eq!(beat, Heartbeat { name: b"binlog.000001", position: 401 });
    let mut body = Vec::new();
    heartbeat_v2(&mut body, beat);
    assert_eq!(body, event.body);

    let bytes = captured((0, 27, 3001, 625, 0), "62696e6c6f672e3030303030327c2c6f60");
    let event = Event::parse(&bytes, Checksum::Crc32).unwrap();
    let beat = Heartbeat::parse(&event.header, event.body).unwrap();
    assert_eq!(beat, Heartbeat { name: b"binlog.000002", position: 625 });
}

#[test]
fn mariadbs_lists() {
    let bytes = captured(
        (1_795_503_457, 163, 3001, 315, 0),
        "0200000005000000b90b0000010000000000000000000000b90b000002000000000000007bbca07f",
    );
    let event = Event::parse(&bytes, Checksum::Crc32).unwrap();
    let list = gtid_list(event.body).unwrap();
    assert_eq!(list.iter().map(ToString::to_string).collect::<Vec<_>>(), ["5-3001-1", "0-3001-2"]);
    for (list, own) in [(list, event.body), (Vec::new(), &[0; 10][..])] {
        let mut again = Vec::new();
        put_gtid_list(&mut again, &list);
        assert_eq!(again, own);
    }
    assert!(gtid_list(&[255, 255, 255, 0]).is_err());
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    for bad in [
        "",
        "x",
        "../etc.1",
        "a/b.000001",
        ".000001",
        ".a.1",
        "binlog.",
        "binlog.00x",
        "a\0.1",
        "a\n.1",
        "a\\b.1",
    ] {
        let mut body = Vec::new();
        put_rotate(&mut body, Rotate { position: 4, name: bad });
        assert!(Rotate::parse(&body).is_err(), "{bad:?}");
    }
}

#[test]
fn requests_of_replicas() {
    let mut executed = GtidIntervals::default();
    executed.merge(&GtidIntervals::parse(&format!("{UUID}:1")).unwrap());
    let ask = DumpGtid { flags: 2, server_id: 1002, executed };
    let mut bytes = Vec::new();
    ask.put(&mut bytes);
    let real = "1e0200ea030000000000000400000000000000300000000100000000000000327eb417e7d411f1aece02fc00000001010000000000000001\
                000000000000000200000000000000";
    assert_eq!(bytes, real.as_bytes().chunks(2).map(hex).collect::<Vec<_>>());
    assert_eq!(DumpGtid::parse(&bytes), Ok(ask));

    let ask = Dump { position: 625, flags: 2, server_id: 3002, name: b"binlog.000002" };
    bytes.clear();
    ask.put(&mut bytes);
    assert_eq!(bytes, b"\x12q\x02\x00\x00\x02\x00\xba\x0b\x00\x00binlog.000002");
    assert_eq!(Dump::parse(&bytes), Ok(ask));

    let ask = Register { server_id: 1002, host: b"127.0.0.1", port: 23_307 };
    bytes.clear();
    ask.put(&mut bytes);
    assert_eq!(bytes, b"\x15\xea\x03\x00\x00\t127.0.0.1\x00\x00\x0b[\x00\x00\x00\x00\x00\x00\x00\x00");
    assert_eq!(Register::parse(&bytes), Ok(ask));

    bytes.clear();
    put_ack(&mut bytes, b"binlog.000003", 0x605);
    assert_eq!(bytes, b"\xef\x05\x06\0\0\0\0\0\0binlog.000003");
    assert_eq!(parse_ack(&bytes), Ok((&b"binlog.000003"[..], 0x605)));
    assert_eq!(take_semi_sync(b"\xef\x01abc"), Ok((&b"abc"[..], true)));
    assert_eq!(take_semi_sync(b"\xef\x00"), Ok((&b""[..], false)));
    assert!(take_semi_sync(b"\x00\x01abc").is_err());
}

/// An event of this kind; a QUERY's body from its text.
fn event(kind: Kind, text: &str) -> Vec<u8> {
    let mut body = Vec::new();
    if kind == Kind::QUERY {
        body.extend_from_slice(&[0; 8]);
        body.extend_from_slice(&[3, 0, 0, 2, 0, 9, 9]);
        body.extend_from_slice(b"app\0");
    }
    body.extend_from_slice(text.as_bytes());
    let mut out = Vec::new();
    let header = Header { timestamp: 0, kind, server_id: 1, size: 0, log_pos: 0, flags: 0 };
    build(&mut out, header, &body, Checksum::Crc32);
    out
}

fn mariadb_gtid(flags: u8) -> Vec<u8> {
    let mut body = vec![7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, flags];
    body.extend_from_slice(&[0; 6]);
    let mut out = Vec::new();
    let header =
        Header { timestamp: 0, kind: Kind::MARIADB_GTID, server_id: 1, size: 0, log_pos: 0, flags: 0 };
    build(&mut out, header, &body, Checksum::Crc32);
    out
}

#[test]
fn groups_end_with_their_last_event() {
    let query = |text: &str| event(Kind::QUERY, text);
    let other = |kind: Kind| event(kind, "");
    let cases: Vec<(&str, Vec<Vec<u8>>)> = vec![
        (
            "transaction",
            vec![
                gtid_97(),
                query("BEGIN"),
                other(Kind::TABLE_MAP),
                other(Kind::WRITE_ROWS),
                other(Kind::XID),
            ],
        ),
        ("tagged", vec![tagged_97(), query("BEGIN"), query("SAVEPOINT `COMMIT`"), other(Kind::XID)]),
        (
            "without a transaction engine",
            vec![gtid_97(), query("BEGIN"), query("ROLLBACK TO `a`"), query("COMMIT")],
        ),
        ("rolled back", vec![gtid_97(), query("BEGIN"), query("insert into t select 1"), query("ROLLBACK")]),
        ("DDL", vec![gtid_97(), other(Kind::INTVAR), query("create table t (a int)")]),
        (
            "atomic CTAS",
            vec![gtid_97(), query("BEGIN"), query("create table t START TRANSACTION"), other(Kind::XID)],
        ),
        ("payload", vec![gtid_97(), other(Kind::TRANSACTION_PAYLOAD)]),
        (
            "XA",
            vec![
                gtid_97(),
                query("XA START X'78',X'',1"),
                query("XA END X'78',X'',1"),
                other(Kind::XA_PREPARE),
            ],
        ),
        ("XA's end", vec![gtid_97(), query("XA COMMIT X'78',X'',1")]),
        ("MariaDB's DDL", vec![mariadb_gtid(1), query("create table t (a int)")]),
        ("MariaDB's compressed DDL", vec![mariadb_gtid(1), other(Kind::QUERY_COMPRESSED)]),
        (
            "MariaDB",
            vec![
                mariadb_gtid(12),
                other(Kind::ANNOTATE_ROWS),
                query("delete from t"),
                other(Kind::QUERY_COMPRESSED),
                other(Kind::XID),
            ],
        ),
        (
            "MariaDB's XA",
            vec![mariadb_gtid(64), query("XA START X'78'"), query("XA END X'78'"), other(Kind::XA_PREPARE)],
        ),
        ("MariaDB's XA's end", vec![mariadb_gtid(128), query("XA COMMIT X'78',X'',1")]),
    ];
    for (name, events) in cases {
        let mut groups = Groups::default();
        for (at, bytes) in events.iter().enumerate() {
            let border = groups.take(&Event::parse(bytes, Checksum::Crc32).unwrap()).unwrap();
            assert_eq!(matches!(border, Border::Group(_)), at + 1 == events.len(), "{name}, event {at}");
            assert_eq!(groups.open().is_some(), at + 1 < events.len(), "{name}, event {at}");
        }
        for kind in [Kind::ROTATE, Kind::STOP, Kind::BINLOG_CHECKPOINT, Kind(250)] {
            let bytes = event(kind, "");
            assert_eq!(
                groups.take(&Event::parse(&bytes, Checksum::Crc32).unwrap()),
                Ok(Border::Between),
                "{name}"
            );
        }
    }
}

#[test]
fn a_group_within_a_group_is_an_error() {
    let mut groups = Groups::default();
    let gtid = gtid_97();
    let gtid = Event::parse(&gtid, Checksum::Crc32).unwrap();
    assert_eq!(groups.take(&gtid), Ok(Border::Inside));
    assert!(groups.take(&gtid).is_err());
    let rotate = event(Kind::ROTATE, "12345678binlog.000009");
    assert!(groups.take(&Event::parse(&rotate, Checksum::Crc32).unwrap()).is_err());
}

#[test]
fn integers_of_all_lengths() {
    for bits in 0..64 {
        for value in [1_u64 << bits, (1 << bits) - 1, u64::MAX >> bits] {
            let mut bytes = Vec::new();
            varlen::put_unsigned(&mut bytes, value);
            let mut reader = crate::Reader::new(&bytes);
            assert_eq!(varlen::unsigned(&mut reader), Ok(value), "{value:#x}");
            assert!(reader.is_empty(), "{value:#x}");
        }
    }
}

proptest! {
    /// Nothing panics, whatever comes.
    #[test]
    fn nonsense_is_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = GtidIntervals::decode(&bytes);
        let _ = MySqlGtid::parse_tagged(&bytes);
        let _ = gtid_list(&bytes);
        let _ = FormatDescription::parse(&bytes);
        let _ = Query::parse(Kind::QUERY, &bytes);
        let _ = DumpGtid::parse(&bytes);
        if let Ok(event) = Event::parse(&bytes, Checksum::Off) {
            let _ = Groups::default().take(&event);
            let _ = Heartbeat::parse(&event.header, event.body);
        }
    }

    /// Sets come back from their bytes.
    #[test]
    fn sets_come_back(parts in prop::collection::vec((0_u8..3, 0_u8..3, 1_u64..100, 0_u64..9), 0..9)) {
        let text: Vec<_> = parts.iter().map(|(source, tag, first, more)| {
            let tag = ["", ":blue", ":t_1"][usize::from(*tag)];
            format!("0000000{source}-e7d4-11f1-aece-02fc00000001{tag}:{first}-{}", first + more)
        }).collect();
        let set = GtidIntervals::parse(&text.join(",")).unwrap();
        let mut bytes = Vec::new();
        set.encode(&mut bytes);
        prop_assert_eq!(GtidIntervals::decode(&bytes).unwrap(), set);
    }
}
