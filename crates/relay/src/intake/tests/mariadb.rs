//! MariaDB's files: of another primary's first file, and what is known while it comes in.

use std::sync::Arc;

use delphinus_wire::binlog::{
    Checksum, FLAG_ARTIFICIAL, FLAG_IGNORABLE, HEADER_LEN, Header, Kind, MAGIC, MariaDbGtid, Rotate, build,
    put_gtid_list, put_rotate,
};
use delphinus_wire::put_packet;

use super::Place;
use super::histories::run;
use crate::changes::{Change, Changes};
use crate::intake::{Files, IntakeError, Start, Writer};
use crate::log::{Flavor, Log, Origin, Position, recover};

const STANDALONE: u8 = 1;

pub(crate) fn gtid(server_id: u32, sequence: u64) -> MariaDbGtid {
    MariaDbGtid { domain: 0, server_id, sequence }
}

/// Of the first file after a start of the server, which says when that was.
fn format_body() -> Vec<u8> {
    let mut body = vec![4, 0];
    body.extend_from_slice(b"11.8.3-MariaDB");
    body.resize(2 + 50, 0);
    body.extend_from_slice(&7_u32.to_le_bytes());
    body.push(HEADER_LEN as u8);
    body.resize(body.len() + 40, 0);
    body.push(0);
    body
}

/// A file, and what a source sends of it.
pub(crate) struct Stream {
    pub(crate) at: u32,
    pub(crate) sent: Vec<u8>,
}

impl Stream {
    pub(crate) fn new(name: &str, before: MariaDbGtid) -> Self {
        Self::behind(name, &[before])
    }

    /// Behind the last ones of several servers.
    pub(crate) fn behind(name: &str, before: &[MariaDbGtid]) -> Self {
        let mut stream = Self { at: MAGIC.len() as u32, sent: Vec::new() };
        let mut body = Vec::new();
        put_rotate(&mut body, Rotate { position: 4, name });
        stream.packet(Kind::ROTATE, (1, 0), FLAG_ARTIFICIAL, &body);
        stream.event(Kind::FORMAT_DESCRIPTION, 1, &format_body());
        let mut body = Vec::new();
        put_gtid_list(&mut body, before);
        stream.event(Kind::GTID_LIST, 1, &body);
        stream
    }

    pub(crate) fn group(&mut self, gtid: MariaDbGtid) {
        self.begin_group(gtid, STANDALONE);
        let mut body = vec![0; 13];
        body.extend_from_slice(b"\0create table t (a int)");
        self.event(Kind::QUERY, gtid.server_id, &body);
    }

    pub(crate) fn begin_group(&mut self, gtid: MariaDbGtid, flags: u8) {
        let mut body = gtid.sequence.to_le_bytes().to_vec();
        body.extend_from_slice(&gtid.domain.to_le_bytes());
        body.push(flags);
        body.extend_from_slice(&[0; 6]);
        self.event(Kind::MARIADB_GTID, gtid.server_id, &body);
    }

    /// An event inside of a group, with its place left out.
    pub(crate) fn unplaced(&mut self, kind: Kind, body: &[u8]) {
        self.at += (HEADER_LEN + body.len()) as u32;
        self.packet(kind, (1, 0), 0, body);
    }

    pub(crate) fn event(&mut self, kind: Kind, server_id: u32, body: &[u8]) {
        let sum = if kind == Kind::FORMAT_DESCRIPTION { 4 } else { 0 };
        self.at += (HEADER_LEN + body.len() + sum) as u32;
        self.packet(kind, (server_id, self.at), 0, body);
    }

    fn packet(&mut self, kind: Kind, (server_id, log_pos): (u32, u32), flags: u16, body: &[u8]) {
        let mut payload = vec![0];
        let header = Header { timestamp: 7, kind, server_id, size: 0, log_pos, flags };
        build(&mut payload, header, body, Checksum::Off);
        put_packet(&mut self.sent, 1, &payload);
    }
}

/// `binlog_legacy_event_pos = OFF`: only the ends of groups tell whether something is missing. A recovery goes by the same,
/// and who listens to changes by the sizes of events.
#[test]
fn places_may_be_left_out_inside_of_groups_only() {
    let stream = |is_cut: bool| {
        let mut stream = Stream::new("m.000001", gtid(1, 4));
        stream.group(gtid(1, 5));
        stream.begin_group(gtid(1, 6), 0);
        stream.unplaced(Kind::TABLE_MAP, &[1; 30]);
        let before = stream.sent.len();
        stream.unplaced(Kind::WRITE_ROWS, &[2; 40]);
        if is_cut {
            stream.sent.truncate(before);
        }
        stream.event(Kind::XID, 1, &[0; 8]);
        stream
    };
    let place = Place::new();
    let log = Arc::new(Log::new(&place.0));
    let mut writer = Writer::new(log.clone(), Files);
    let start = || Start::New(Origin::new(Flavor::MariaDb, "server-1".to_owned()));
    writer.start(start(), Checksum::Off).unwrap();
    run(&mut writer, &stream(false).sent).unwrap();
    writer.stop().unwrap();
    assert_eq!(log.executed().to_string(), "0-1-6");
    let end = log.end();
    drop((writer, log));
    let log = recover(&place.0).unwrap().log;
    assert_eq!((log.end(), log.executed().to_string().as_str()), (end, "0-1-6"));
    let (mut changes, mut rows) = (Changes::from(&log, Position { ordinal: 0, offset: 4 }).unwrap(), 0);
    let mut see = |change: Change<'_>| rows += u32::from(matches!(change, Change::Rows { .. }));
    while changes.next(&mut see).unwrap().is_some() {}
    assert_eq!(rows, 1, "who listens to changes needs no places either");

    let place = Place::new();
    let log = Arc::new(Log::new(&place.0));
    let mut writer = Writer::new(log.clone(), Files);
    writer.start(start(), Checksum::Off).unwrap();
    let error = run(&mut writer, &stream(true).sent).unwrap_err();
    assert!(matches!(error, IntakeError::Gap { .. }), "{error}");

    let mut between = Stream::new("m.000001", gtid(1, 4));
    between.unplaced(Kind::QUERY, &[0; 30]);
    let place = Place::new();
    let log = Arc::new(Log::new(&place.0));
    let mut writer = Writer::new(log.clone(), Files);
    writer.start(start(), Checksum::Off).unwrap();
    let error = run(&mut writer, &between.sent).unwrap_err();
    assert!(matches!(error, IntakeError::Gap { .. }), "{error}");
}

/// Another replica has this one's identity: that says nothing of the file.
#[test]
fn a_file_is_not_left_for_a_replica_of_the_same_name() {
    let place = Place::new();
    let log = Arc::new(Log::new(&place.0));
    let mut writer = Writer::new(log.clone(), Files);
    let mut stream = Stream::new("m.000001", gtid(1, 4));
    stream.begin_group(gtid(1, 5), 0);
    let said = b"\xff\xd4\x04#HY000A slave with the same server_uuid/server_id as this slave has connected to the master";
    put_packet(&mut stream.sent, 1, said);
    writer.start(Start::New(Origin::new(Flavor::MariaDb, "server-1".to_owned())), Checksum::Off).unwrap();
    let error = run(&mut writer, &stream.sent).unwrap_err();
    let error = writer.read_error(error);
    assert!(matches!(error, IntakeError::Refused(_)), "{error}");
}

/// With `encrypt_binlog` a source begins each connection with START_ENCRYPTION, which it does not mark as made for it.
#[test]
fn a_file_of_a_source_that_encrypts_goes_on() {
    let place = Place::new();
    let log = Arc::new(Log::new(&place.0));
    let mut writer = Writer::new(log.clone(), Files);
    let mut stream = Stream::new("m.000001", gtid(1, 4));
    stream.group(gtid(1, 5));
    writer.start(Start::New(Origin::new(Flavor::MariaDb, "server-1".to_owned())), Checksum::Off).unwrap();
    run(&mut writer, &stream.sent).unwrap();
    writer.stop().unwrap();
    let end = log.end().unwrap().offset;
    let mut again = Stream { at: 4, sent: Vec::new() };
    let mut body = Vec::new();
    put_rotate(&mut body, Rotate { position: end, name: "m.000001" });
    again.packet(Kind::ROTATE, (1, 0), FLAG_ARTIFICIAL, &body);
    again.packet(Kind::FORMAT_DESCRIPTION, (1, 0), 0, &format_body());
    again.packet(Kind::START_ENCRYPTION, (1, 0), FLAG_IGNORABLE, &[1; 17]);
    again.at = end as u32;
    again.group(gtid(1, 6));
    writer.start(Start::Resume(end), Checksum::Off).unwrap();
    run(&mut writer, &again.sent).unwrap();
    assert_eq!(log.executed().to_string(), "0-1-6");
}

/// Each primary has to catch up with the one before: while it does, and if it ends before it has, the relay has not less than before.
#[test]
fn what_the_log_has_does_not_go_back_while_a_new_folder_catches_up() {
    let place = Place::new();
    let log = Arc::new(Log::new(&place.0));
    let mut writer = Writer::new(log.clone(), Files);
    let mut begin = |identity: &str, before, groups: std::ops::RangeInclusive<u64>, expected: &str| {
        let mut stream = Stream::new("m.000001", gtid(1, before));
        groups.for_each(|sequence| stream.group(gtid(1, sequence)));
        writer.stop().unwrap();
        writer.start(Start::New(Origin::new(Flavor::MariaDb, identity.to_owned())), Checksum::Off).unwrap();
        run(&mut writer, &stream.sent).unwrap();
        assert_eq!(log.executed().to_string(), expected);
        assert_eq!(log.state().to_string(), expected);
    };
    begin("server-1", 89, 90..=100, "0-1-100");
    begin("server-2", 40, 41..=60, "0-1-100");
    begin("server-3", 40, 41..=99, "0-1-100");
    begin("server-4", 98, 99..=101, "0-1-101");
    drop((writer, log));
    let log = recover(&place.0).unwrap().log;
    assert_eq!(log.executed().to_string(), "0-1-101");
    // The third one's folder is the last one.
    std::fs::remove_dir_all(&log.files()[3].folder.path).unwrap();
    drop(log);
    let log = recover(&place.0).unwrap().log;
    assert_eq!((log.files().len(), log.executed().to_string().as_str()), (3, "0-1-100"));
    // And goes on after the restart.
    let mut stream = Stream::new("m.000002", gtid(1, 99));
    for sequence in [100, 101] {
        stream.group(gtid(1, sequence));
    }
    let mut writer = Writer::new(log.clone(), Files);
    writer.start(Start::Resume(log.end().unwrap().offset), Checksum::Off).unwrap();
    run(&mut writer, &stream.sent).unwrap();
    assert_eq!(log.executed().to_string(), "0-1-101");
}

/// MariaDB was killed while it wrote a large group. It keeps what there is of it, and replicas of its own roll that back where the next
/// file begins. At the border of an event it goes on with the next file; else it says that the file is cut.
#[test]
fn a_group_of_which_the_source_has_only_a_part_is_left_out() {
    for is_at_border in [true, false] {
        let place = Place::new();
        let log = Arc::new(Log::new(&place.0));
        let mut writer = Writer::new(log.clone(), Files);
        let mut stream = Stream::new("m.000001", gtid(1, 4));
        stream.group(gtid(1, 5));
        let whole = u64::from(stream.at);
        stream.begin_group(gtid(1, 6), 0);
        stream.event(Kind::TABLE_MAP, 1, &[1; 30]);
        let mut next = Stream::new("m.000002", gtid(1, 5));
        next.group(gtid(1, 6));
        if is_at_border {
            stream.sent.extend_from_slice(&next.sent);
        } else {
            stream.sent.extend_from_slice(b"\x10\0\0\x01\xff\xd4\x04#HY000cut off");
        }
        writer.start(Start::New(Origin::new(Flavor::MariaDb, "server-1".to_owned())), Checksum::Off).unwrap();
        let error = run(&mut writer, &stream.sent).unwrap_err();
        let error = writer.read_error(error);
        assert!(matches!(error, IntakeError::Torn { .. }) && error.is_other_history(), "{error}");
        writer.stop().unwrap();
        assert_eq!((log.end().unwrap().offset, log.executed().to_string().as_str()), (whole, "0-1-5"));
        // The receiver asks by GTID.
        writer.start(Start::New(Origin::new(Flavor::MariaDb, "server-1".to_owned())), Checksum::Off).unwrap();
        run(&mut writer, &next.sent).unwrap();
        assert_eq!((log.files().len(), log.executed().to_string().as_str()), (2, "0-1-6"));
    }
}
