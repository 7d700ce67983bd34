//! FORMAT_DESCRIPTION: the head of each file.
//! Source: <https://dev.mysql.com/doc/dev/mysql-server/latest/classmysql_1_1binlog_1_1event_1_1Format__description__event.html>

use super::Checksum;
use crate::{Malformed, Reader};

const VERSION_LEN: usize = 50;
/// Version, server's version, time, length of heads.
const FIXED_LEN: usize = 2 + VERSION_LEN + 4 + 1;

/// What FORMAT_DESCRIPTION says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatDescription {
    /// `9.7.4-2`, `10.11.19-MariaDB-..`.
    pub server_version: Box<str>,
    /// When the server started, in seconds since 1970, where this is the first file since then; else 0. A source that sends from the
    /// middle of a file sends 0.
    pub created: u32,
    /// Of all other events of the file.
    pub checksum: Checksum,
}

impl FormatDescription {
    /// Reads the body (without head and checksum). Fails on logs older than MySQL 5.0 (format 4), and on checksums that are unknown.
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        if reader.u16()? != 4 {
            return Err(Malformed("binary log of an unknown format"));
        }
        let version = reader.bytes(VERSION_LEN)?;
        let version = version.split(|byte| *byte == 0).next().unwrap_or_default();
        let created = reader.u32()?;
        if usize::from(reader.u8()?) != super::HEADER_LEN {
            return Err(Malformed("binary log with heads of another length"));
        }
        debug_assert_eq!(body.len() - reader.remaining(), FIXED_LEN);
        // The lengths of the fixed parts of each kind of event, then the number of the checksum.
        let algorithm =
            *reader.rest().last().ok_or(Malformed("FORMAT_DESCRIPTION without a checksum's number"))?;
        let checksum = match algorithm {
            0 => Checksum::Off,
            1 => Checksum::Crc32,
            _ => return Err(Malformed("binary log with an unknown checksum")),
        };
        Ok(Self { server_version: String::from_utf8_lossy(version).into(), created, checksum })
    }

    /// True if MariaDB wrote it.
    pub fn is_mariadb(&self) -> bool {
        self.server_version.contains("MariaDB")
    }
}
