//! The 19 bytes at the front of each event.
//! Source: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_replication_binlog_event.html>

use super::Kind;
use crate::{Malformed, Put, Reader};

/// Bytes of the head of an event.
pub const HEADER_LEN: usize = 19;
/// In FORMAT_DESCRIPTION: the file was not closed. A source clears it in what it sends.
pub const FLAG_IN_USE: u16 = 0x1;
/// The statement uses temporary tables of its thread.
pub const FLAG_THREAD_SPECIFIC: u16 = 0x4;
/// Made for this connection; is in no file.
pub const FLAG_ARTIFICIAL: u16 = 0x20;
/// Those who do not know the event may ignore it.
pub const FLAG_IGNORABLE: u16 = 0x80;
/// MariaDB: written with `skip_replication` on.
pub const FLAG_SKIP_REPLICATION: u16 = 0x8000;

/// What is at the front of each event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// When the statement began, in seconds since 1970; 0 in events made for a connection.
    pub timestamp: u32,
    /// What it is.
    pub kind: Kind,
    /// Who wrote it first.
    pub server_id: u32,
    /// Bytes, with this head and the checksum.
    pub size: u32,
    /// Where the next event begins in the file of the server that sent it, modulo 2^32; 0 in events that are in no file.
    pub log_pos: u32,
    /// `FLAG_..`
    pub flags: u16,
}

impl Header {
    /// Reads it. Fails if there are fewer than `HEADER_LEN` bytes, or if `size` is less than the head itself.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let header = Self {
            timestamp: reader.u32()?,
            kind: Kind(reader.u8()?),
            server_id: reader.u32()?,
            size: reader.u32()?,
            log_pos: reader.u32()?,
            flags: reader.u16()?,
        };
        if (header.size as usize) < HEADER_LEN {
            return Err(Malformed("event shorter than its head"));
        }
        Ok(header)
    }

    /// Appends it.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.put_u32(self.timestamp);
        out.put_u8(self.kind.0);
        out.put_u32(self.server_id);
        out.put_u32(self.size);
        out.put_u32(self.log_pos);
        out.put_u16(self.flags);
    }

    /// True if it says that it ends here. Inside of a group, MariaDB since 11.7 leaves the place out (`binlog_legacy_event_pos = OFF`,
    /// its default): `is_inside` says that the event may be such a one. The group's first and last event always have it.
    /// Source: <https://mariadb.com/docs/server/ha-and-performance/standard-replication/replication-and-binary-log-system-variables>
    pub fn ends_at(&self, end: u64, is_inside: bool) -> bool {
        self.log_pos == end as u32 || is_inside && self.log_pos == 0
    }

    /// True if it was made for a connection, and is in no file: a ROTATE that names the file which follows, a GTID_LIST after
    /// skipped groups, a heartbeat.
    pub fn is_artificial(&self) -> bool {
        self.flags & FLAG_ARTIFICIAL != 0 || self.kind.is_heartbeat()
    }

    /// True if those who do not know the event may ignore it.
    pub fn is_ignorable(&self) -> bool {
        self.flags & FLAG_IGNORABLE != 0
    }
}
