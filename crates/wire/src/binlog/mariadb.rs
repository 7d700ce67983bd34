//! MariaDB's GTID and GTID_LIST.
//! Source: <https://mariadb.com/kb/en/gtid_event/>, <https://mariadb.com/kb/en/gtid_list_event/>.

use std::fmt;

use super::Header;
use crate::{Malformed, Put, Reader};

/// The number of a transaction on MariaDB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MariaDbGtid {
    /// The replication domain.
    pub domain: u32,
    /// The server that wrote it first.
    pub server_id: u32,
    /// Its number in the domain.
    pub sequence: u64,
}

impl fmt::Display for MariaDbGtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.domain, self.server_id, self.sequence)
    }
}

const STANDALONE: u8 = 1;
const PREPARED_XA: u8 = 64;
/// XA COMMIT or XA ROLLBACK of a branch that was prepared: one statement, too.
const COMPLETED_XA: u8 = 128;

/// What MariaDB's GTID says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MariaDbGtidEvent {
    /// The number.
    pub gtid: MariaDbGtid,
    /// True if the group is one statement, without an end of its own.
    pub is_standalone: bool,
    /// True if the group ends with XA PREPARE.
    pub is_prepared: bool,
}

impl MariaDbGtidEvent {
    /// Reads the body.
    pub fn parse(header: &Header, body: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let sequence = reader.u64()?;
        let domain = reader.u32()?;
        let flags = reader.u8()?;
        Ok(Self {
            gtid: MariaDbGtid { domain, server_id: header.server_id, sequence },
            is_standalone: flags & (STANDALONE | COMPLETED_XA) != 0,
            is_prepared: flags & PREPARED_XA != 0,
        })
    }
}

/// Of the first number in GTID_LIST, the bits that are flags.
pub const GTID_LIST_UNTIL_MASK: u32 = 0xf000_0000;

/// Reads the body of GTID_LIST: the last transaction of each domain and server, the latest of a domain last.
pub fn gtid_list(body: &[u8]) -> Result<Vec<MariaDbGtid>, Malformed> {
    let mut reader = Reader::new(body);
    let count = (reader.u32()? & !GTID_LIST_UNTIL_MASK) as usize;
    if count > reader.remaining() / 16 {
        return Err(Malformed("GTID_LIST ends too early"));
    }
    (0..count)
        .map(|_| Ok(MariaDbGtid { domain: reader.u32()?, server_id: reader.u32()?, sequence: reader.u64()? }))
        .collect()
}

/// Appends the body of GTID_LIST, without flags.
pub fn put_gtid_list(out: &mut Vec<u8>, list: &[MariaDbGtid]) {
    out.put_u32(list.len() as u32 & !GTID_LIST_UNTIL_MASK);
    for gtid in list {
        out.put_u32(gtid.domain);
        out.put_u32(gtid.server_id);
        out.put_u64(gtid.sequence);
    }
    if list.is_empty() {
        // Servers write six more bytes after an empty list.
        out.extend_from_slice(&[0; 6]);
    }
}
