//! Events of the binary log, sets of GTIDs, and what replicas ask.
//!
//! The first byte chooses whether events have checksums.
#![no_main]

use delphinus_fuzz::Input;
use delphinus_wire::binlog::dump::{Dump, DumpGtid, Register, parse_ack, put_ack, take_semi_sync};
use delphinus_wire::binlog::{
    AnyGtid, Checksum, Event, FormatDescription, Groups, Heartbeat, Kind, PayloadFront, Query, Rotate,
    TableMap, build, each_event, gtid_list, put_gtid_list, put_rotate, unpack_query,
};
use delphinus_wire::gtid::{GtidIntervals, GtidSet};
use libfuzzer_sys::fuzz_target;

/// What is unpacked has at most so many bytes.
const MOST: u64 = 1 << 20;

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let checksum = if input.byte() & 1 == 0 { Checksum::Off } else { Checksum::Crc32 };
    let bytes = input.rest();
    events(bytes, checksum);
    sets(bytes);
    requests(bytes);
    let _ = unpack_query(bytes, MOST as usize).map(|text| assert!(text.len() as u64 <= MOST));
});

/// Goes through events as a relay does; checksums are not looked at, or nothing would get through.
fn events(bytes: &[u8], checksum: Checksum) {
    let (mut rest, mut groups, mut set) = (bytes, Groups::default(), GtidSet::default());
    while let Ok(event) = Event::parse_unchecked(rest, checksum) {
        rest = &rest[event.bytes.len()..];
        let (kind, body) = (event.header.kind, event.body);
        if let Ok(border) = groups.take(&event) {
            assert_eq!(border.is_whole(), groups.open().is_none());
        }
        if let Ok(Some(gtid)) = AnyGtid::parse(&event) {
            set.insert(&gtid);
            assert!(gtid == AnyGtid::Anonymous || set.has(&gtid));
        }
        if let Ok(rotate) = Rotate::parse(body) {
            let mut out = Vec::new();
            put_rotate(&mut out, rotate);
            assert_eq!(out, body);
            assert!(!rotate.name.contains('/'));
        }
        let _ =
            (FormatDescription::parse(body), Heartbeat::parse(&event.header, body), TableMap::parse(body));
        let _ = Query::parse(kind, body);
        if let Ok(front) = PayloadFront::parse(body) {
            let mut seen = 0;
            let _ = each_event(front, &body[front.len..], MOST, |header, body| {
                seen += u64::from(header.size);
                assert!(body.len() <= header.size as usize);
            });
            assert!(seen <= MOST);
        }
        let mut again = Vec::new();
        build(&mut again, event.header, body, checksum);
        assert_eq!(Event::parse(&again, checksum).expect("what was written is read").body, body);
        if kind == Kind::GTID_LIST
            && let Ok(list) = gtid_list(body)
        {
            let mut out = Vec::new();
            put_gtid_list(&mut out, &list);
            assert_eq!(gtid_list(&out), Ok(list));
        }
    }
}

fn sets(bytes: &[u8]) {
    if let Ok(set) = GtidIntervals::decode(bytes) {
        let mut out = Vec::new();
        set.encode(&mut out);
        assert_eq!(GtidIntervals::decode(&out), Ok(set.clone()));
        let text = set.to_string();
        assert_eq!(GtidIntervals::parse(&text), Ok(set.clone()), "{text}");
        assert!(set.contains(&set) && set.without(&set).is_empty());
    }
}

fn requests(bytes: &[u8]) {
    if let Ok(dump) = Dump::parse(bytes) {
        let mut out = Vec::new();
        dump.put(&mut out);
        assert_eq!(out, bytes);
    }
    if let Ok(dump) = DumpGtid::parse(bytes) {
        let mut out = Vec::new();
        dump.put(&mut out);
        assert_eq!(DumpGtid::parse(&out), Ok(dump));
    }
    let _ = (Register::parse(bytes), take_semi_sync(bytes));
    if let Ok((name, position)) = parse_ack(bytes) {
        let mut out = Vec::new();
        put_ack(&mut out, name, position);
        assert_eq!(out, bytes);
    }
}
