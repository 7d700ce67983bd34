//! HEARTBEAT and HEARTBEAT_V2: nothing new, and where the source is.
//! Source: <https://dev.mysql.com/doc/dev/mysql-server/latest/classmysql_1_1binlog_1_1event_1_1Heartbeat__event__v2.html>

use super::{Header, Kind};
use crate::{Malformed, Put, Reader};

const FIELD_END: u8 = 0;
const FIELD_NAME: u8 = 1;
const FIELD_POSITION: u8 = 2;

/// Where the source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeat<'a> {
    /// The file's name.
    pub name: &'a [u8],
    /// Where the last event that was sent or skipped ends.
    pub position: u64,
}

impl<'a> Heartbeat<'a> {
    /// Reads the body of either kind; the position of the old one is in the head.
    pub fn parse(header: &Header, body: &'a [u8]) -> Result<Self, Malformed> {
        if header.kind == Kind::HEARTBEAT {
            return Ok(Self { name: body, position: u64::from(header.log_pos) });
        }
        let mut reader = Reader::new(body);
        let mut heartbeat = Self { name: b"", position: 0 };
        while !reader.is_empty() {
            let field = reader.u8()?;
            if field == FIELD_END {
                break;
            }
            let value = reader.lenenc_bytes()?;
            match field {
                FIELD_NAME => heartbeat.name = value,
                FIELD_POSITION => heartbeat.position = Reader::new(value).lenenc_int()?,
                _ => {}
            }
        }
        Ok(heartbeat)
    }
}

/// Appends the body of HEARTBEAT. Its position is in the head.
pub fn heartbeat(out: &mut Vec<u8>, name: &[u8]) {
    out.extend_from_slice(name);
}

/// Appends the body of HEARTBEAT_V2.
pub fn heartbeat_v2(out: &mut Vec<u8>, heartbeat: Heartbeat<'_>) {
    out.put_u8(FIELD_NAME);
    out.put_lenenc_bytes(heartbeat.name);
    let mut position = Vec::with_capacity(9);
    position.put_lenenc_int(heartbeat.position);
    out.put_u8(FIELD_POSITION);
    out.put_lenenc_bytes(&position);
    out.put_u8(FIELD_END);
}
