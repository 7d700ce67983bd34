//! Events that a source makes for one connection, and that are in no file: where the stream is, that it lives, what was left out.
//!
//! Owns their bytes, into a buffer that is used again. Must not know when they are due.
//! Source: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_replication_binlog_event.html>,
//! <https://mariadb.com/kb/en/fake-rotate-event/>, <https://mariadb.com/kb/en/fake-gtid_list/>; captured conversations.

use delphinus_wire::Malformed;
use delphinus_wire::binlog::{
    Checksum, Crc, FLAG_ARTIFICIAL, FLAG_IN_USE, Header, Heartbeat, Kind, MariaDbGtid, Rotate, build,
    heartbeat, heartbeat_v2, put_gtid_list, put_rotate,
};

/// Where `created` is in FORMAT_DESCRIPTION, head included.
const CREATED_AT: usize = 19 + 2 + 50;
/// Where the next event's position is in a head.
const LOG_POS_AT: usize = 13;
/// Where the flags are.
const FLAGS_AT: usize = 17;

/// Where a replica is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spot<'a> {
    /// `server_id` that made events have: that of the server which wrote the file.
    pub(crate) server_id: u32,
    /// The file.
    pub(crate) name: &'a str,
    /// The position behind the last event that was sent or left out.
    pub(crate) position: u64,
}

fn head(kind: Kind, server_id: u32, log_pos: u32, flags: u16) -> Header {
    Header { timestamp: 0, kind, server_id, size: 0, log_pos, flags }
}

/// Which file follows, and from where.
pub(crate) fn fake_rotate(out: &mut Vec<u8>, spot: Spot<'_>, checksum: Checksum) {
    let mut body = Vec::new();
    put_rotate(&mut body, Rotate { position: spot.position, name: spot.name });
    build(out, head(Kind::ROTATE, spot.server_id, 0, FLAG_ARTIFICIAL), &body, checksum);
}

/// A sign of life, with the position.
pub(crate) fn heartbeat_of(out: &mut Vec<u8>, spot: Spot<'_>, is_v2: bool, checksum: Checksum) {
    let (mut body, name) = (Vec::new(), spot.name.as_bytes());
    let log_pos = spot.position as u32;
    let kind = if is_v2 {
        heartbeat_v2(&mut body, Heartbeat { name, position: spot.position });
        Kind::HEARTBEAT_V2
    } else {
        heartbeat(&mut body, name);
        Kind::HEARTBEAT
    };
    build(out, head(kind, spot.server_id, log_pos, 0), &body, checksum);
}

/// MariaDB: what the replica has by now, where groups were left out.
pub(crate) fn fake_gtid_list(out: &mut Vec<u8>, spot: Spot<'_>, list: &[MariaDbGtid], checksum: Checksum) {
    let mut body = Vec::new();
    put_gtid_list(&mut body, list);
    let head = head(Kind::GTID_LIST, spot.server_id, spot.position as u32, FLAG_ARTIFICIAL);
    build(out, head, &body, checksum);
}

/// The head of a file as it is sent: never as of a file that is open. Where a replica begins, or begins again, it must not believe
/// that the source has just started: it would drop temporary tables (`created` is 0 where it `goes_on`). In the middle of a file it is at no
/// position.
pub(crate) fn format_description(
    out: &mut Vec<u8>,
    whole: &[u8],
    (goes_on, is_inside): (bool, bool),
) -> Result<(), Malformed> {
    let header = Header::parse(whole)?;
    if header.kind != Kind::FORMAT_DESCRIPTION || whole.len() < CREATED_AT + 4 + 4 {
        return Err(Malformed("no FORMAT_DESCRIPTION at the front of a file"));
    }
    let start = out.len();
    out.extend_from_slice(whole);
    let event = &mut out[start..];
    event[FLAGS_AT..FLAGS_AT + 2].copy_from_slice(&(header.flags & !FLAG_IN_USE).to_le_bytes());
    if goes_on {
        event[CREATED_AT..CREATED_AT + 4].fill(0);
    }
    if is_inside {
        event[LOG_POS_AT..LOG_POS_AT + 4].fill(0);
    }
    let (covered, sum) = event.split_at_mut(whole.len() - 4);
    sum.copy_from_slice(&Crc::of(covered).to_le_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use delphinus_wire::binlog::{Event, FormatDescription};

    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or_default() as u8;
        digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
    }

    const BINLOG_1: Spot<'_> = Spot { server_id: 1001, name: "binlog.000001", position: 4 };

    #[test]
    fn made_events_are_those_of_mysql() {
        let mut out = Vec::new();
        fake_rotate(&mut out, BINLOG_1, Checksum::Crc32);
        // Captured from MySQL 9.7.4.
        let body = bytes("040000000000000062696e6c6f672e303030303031d63724a0");
        assert_eq!(out.len(), 44);
        assert_eq!(&out[19..], body);
        out.clear();
        heartbeat_of(&mut out, Spot { position: 401, ..BINLOG_1 }, true, Checksum::Crc32);
        assert_eq!(&out[19..], bytes("010d62696e6c6f672e3030303030310203fc9101002c58edf7"));
        assert_eq!(Header::parse(&out).map(|header| header.log_pos), Ok(401));
    }

    #[test]
    fn made_events_are_those_of_mariadb() {
        let spot = Spot { server_id: 3001, name: "binlog.000002", position: 625 };
        let mut out = Vec::new();
        heartbeat_of(&mut out, spot, false, Checksum::Crc32);
        // Captured from MariaDB 10.11.19.
        assert_eq!(&out[19..], bytes("62696e6c6f672e3030303030327c2c6f60"));
        out.clear();
        let list = [MariaDbGtid { domain: 5, server_id: 3001, sequence: 2 }];
        fake_gtid_list(&mut out, Spot { position: 585, ..spot }, &list, Checksum::Crc32);
        assert_eq!(&out[19..], bytes("0100000005000000b90b00000200000000000000147bf996"));
        out.clear();
        fake_rotate(&mut out, Spot { position: 4, ..spot }, Checksum::Off);
        assert_eq!(out.len(), 40);
    }

    #[test]
    fn the_head_of_a_file_is_of_a_closed_one_and_of_no_start() {
        let mut body = vec![4, 0];
        body.extend_from_slice(b"9.7.4");
        body.resize(52, 0);
        body.extend_from_slice(&1_795_503_401_u32.to_le_bytes());
        body.extend_from_slice(&[19, 0, 13, 1]);
        let header = Header {
            timestamp: 7,
            kind: Kind::FORMAT_DESCRIPTION,
            server_id: 1,
            size: 0,
            log_pos: 127,
            flags: 1,
        };
        let mut whole = Vec::new();
        build(&mut whole, header, &body, Checksum::Crc32);
        for (goes_on, is_inside) in [(false, false), (true, false), (true, true)] {
            let mut out = Vec::new();
            format_description(&mut out, &whole, (goes_on, is_inside)).expect("a whole event");
            let event = Event::parse(&out, Checksum::Crc32).expect("a right checksum");
            let read = FormatDescription::parse(event.body).expect("a body");
            assert_eq!(event.header.flags, 0);
            assert_eq!(event.header.log_pos, if is_inside { 0 } else { 127 });
            assert_eq!(read.created, if goes_on { 0 } else { 1_795_503_401 });
        }
        assert!(format_description(&mut Vec::new(), &whole[..40], (true, true)).is_err());
    }
}
