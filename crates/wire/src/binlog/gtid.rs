//! MySQL's GTID, GTID_TAGGED, ANONYMOUS_GTID and PREVIOUS_GTIDS; a group's number of either family.
//! Source: <https://dev.mysql.com/doc/dev/mysql-server/latest/classmysql_1_1binlog_1_1event_1_1Gtid__event.html>

use std::fmt;

use super::{Event, Kind, MariaDbGtid, MariaDbGtidEvent, varlen};
use crate::gtid::{GtidIntervals, uuid_text};
use crate::{Malformed, Reader};

/// The longest tag of a GTID.
const LONGEST_TAG: usize = 32;

/// A tag in lower case, without an allocation: one is read for each transaction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Tag {
    len: u8,
    bytes: [u8; LONGEST_TAG],
}

impl Tag {
    /// Fails on one that is too long, has anything but letters, digits and underscores, or begins with a digit.
    /// Source: <https://dev.mysql.com/doc/refman/9.7/en/replication-gtids-concepts.html>
    pub fn new(text: &[u8]) -> Result<Self, Malformed> {
        let is_tag = text.len() <= LONGEST_TAG
            && text.iter().all(|c| c.is_ascii_alphanumeric() || *c == b'_')
            && !text.first().is_some_and(u8::is_ascii_digit);
        if !is_tag {
            return Err(Malformed("bad tag of a GTID"));
        }
        let mut bytes = [0; LONGEST_TAG];
        bytes[..text.len()].copy_from_slice(text);
        bytes.make_ascii_lowercase();
        Ok(Self { len: text.len() as u8, bytes })
    }

    /// Its text; empty where there is none.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default()
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// The number of a transaction on MySQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MySqlGtid {
    /// Of the server that wrote it first.
    pub uuid: u128,
    /// Empty where there is none.
    pub tag: Tag,
    /// From 1.
    pub number: u64,
}

impl fmt::Display for MySqlGtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&uuid_text(self.uuid))?;
        if !self.tag.as_str().is_empty() {
            write!(f, ":{}", self.tag.as_str())?;
        }
        write!(f, ":{}", self.number)
    }
}

/// The number of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AnyGtid {
    /// It has none.
    Anonymous,
    /// MySQL's.
    MySql(MySqlGtid),
    /// MariaDB's.
    MariaDb(MariaDbGtid),
}

impl AnyGtid {
    /// Reads what a group begins with. `None` for other kinds of events.
    pub fn parse(event: &Event<'_>) -> Result<Option<Self>, Malformed> {
        let gtid = match event.header.kind {
            Kind::GTID => Self::MySql(MySqlGtid::parse(event.body)?),
            Kind::GTID_TAGGED => Self::MySql(MySqlGtid::parse_tagged(event.body)?),
            Kind::ANONYMOUS_GTID => Self::Anonymous,
            Kind::MARIADB_GTID => Self::MariaDb(MariaDbGtidEvent::parse(&event.header, event.body)?.gtid),
            _ => return Ok(None),
        };
        Ok(Some(gtid))
    }
}

impl fmt::Display for AnyGtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anonymous => f.write_str("anonymous"),
            Self::MySql(gtid) => gtid.fmt(f),
            Self::MariaDb(gtid) => gtid.fmt(f),
        }
    }
}

impl MySqlGtid {
    /// Reads the body of GTID.
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        reader.u8()?;
        let uuid = read_uuid(&mut reader)?;
        Self::new(uuid, Tag::default(), reader.u64()?)
    }

    /// Reads the body of GTID_TAGGED, as far as the tag.
    pub fn parse_tagged(body: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let version = varlen::unsigned(&mut reader)?;
        let _size = varlen::unsigned(&mut reader)?;
        let _last_needed_field = varlen::unsigned(&mut reader)?;
        if version != 1 {
            return Err(Malformed("GTID_TAGGED of an unknown version"));
        }
        let (mut uuid, mut number, mut tag) = (0, 0, Tag::default());
        while !reader.is_empty() {
            match varlen::unsigned(&mut reader)? {
                0 => drop(varlen::unsigned(&mut reader)?),
                1 => {
                    for _ in 0..16 {
                        let byte = u8::try_from(varlen::unsigned(&mut reader)?);
                        uuid = uuid << 8 | u128::from(byte.map_err(|_| Malformed("bad uuid of a GTID"))?);
                    }
                }
                2 => number = varlen::signed(&mut reader)?,
                3 => tag = read_tag(&mut reader)?,
                // Fields are in order: nothing that is needed follows.
                _ => break,
            }
        }
        Self::new(uuid, tag, u64::try_from(number).unwrap_or_default())
    }

    fn new(uuid: u128, tag: Tag, number: u64) -> Result<Self, Malformed> {
        // Beyond this there is no transaction: numbers are signed on servers.
        if number == 0 || number > i64::MAX as u64 {
            return Err(Malformed("bad number of a GTID"));
        }
        Ok(Self { uuid, tag, number })
    }
}

pub(crate) fn read_uuid(reader: &mut Reader<'_>) -> Result<u128, Malformed> {
    let bytes = reader.bytes(16)?;
    Ok(bytes.iter().fold(0, |uuid, byte| uuid << 8 | u128::from(*byte)))
}

pub(crate) fn read_tag(reader: &mut Reader<'_>) -> Result<Tag, Malformed> {
    let len = varlen::unsigned(reader)?;
    if len > LONGEST_TAG as u64 {
        return Err(Malformed("bad tag of a GTID"));
    }
    Tag::new(reader.bytes(len as usize)?)
}

/// Reads the body of PREVIOUS_GTIDS.
pub fn previous_gtids(body: &[u8]) -> Result<GtidIntervals, Malformed> {
    GtidIntervals::decode(body)
}
