//! What a replica asks with, and semi-sync's two bytes in front of an event and its acknowledgement.
//! Source: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_binlog_dump_gtid.html>,
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_binlog_dump.html>,
//! <https://mariadb.com/kb/en/com_register_slave/>; acknowledgements: <https://mariadb.com/kb/en/semisynchronous-replication/> and
//! captured conversations.

use crate::gtid::GtidIntervals;
use crate::{Malformed, Put, Reader};

/// The first byte of COM_BINLOG_DUMP.
pub const COM_BINLOG_DUMP: u8 = 0x12;
/// The first byte of COM_REGISTER_SLAVE.
pub const COM_REGISTER_SLAVE: u8 = 0x15;
/// The first byte of COM_BINLOG_DUMP_GTID.
pub const COM_BINLOG_DUMP_GTID: u8 = 0x1e;
/// In a dump's flags: an EOF at the end instead of waiting.
pub const NON_BLOCKING: u16 = 1;
/// MariaDB, in a dump's flags: ANNOTATE_ROWS too. MySQL's replicas set the same bit, with another meaning that has no effect.
pub const SEND_ANNOTATE_ROWS: u16 = 2;

const SEMI_SYNC: u8 = 0xef;
const WANTS_ACK: u8 = 1;

/// COM_BINLOG_DUMP: from a file and a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dump<'a> {
    /// Where in the file; 4 or more.
    pub position: u32,
    /// `NON_BLOCKING`, `SEND_ANNOTATE_ROWS`.
    pub flags: u16,
    /// Who asks.
    pub server_id: u32,
    /// Without a folder; empty for the first.
    pub name: &'a [u8],
}

impl<'a> Dump<'a> {
    /// Reads the payload, with its first byte.
    pub fn parse(payload: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = command(payload, COM_BINLOG_DUMP)?;
        let (position, flags, server_id) = (reader.u32()?, reader.u16()?, reader.u32()?);
        Ok(Self { position, flags, server_id, name: reader.rest() })
    }

    /// Appends the payload.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.put_u8(COM_BINLOG_DUMP);
        out.put_u32(self.position);
        out.put_u16(self.flags);
        out.put_u32(self.server_id);
        out.extend_from_slice(self.name);
    }
}

/// COM_BINLOG_DUMP_GTID: all that is not in a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DumpGtid {
    /// `NON_BLOCKING`
    pub flags: u16,
    /// Who asks.
    pub server_id: u32,
    /// What it has.
    pub executed: GtidIntervals,
}

impl DumpGtid {
    /// Reads the payload, with its first byte. The file's name and position in it are not looked at, as by servers.
    pub fn parse(payload: &[u8]) -> Result<Self, Malformed> {
        let mut reader = command(payload, COM_BINLOG_DUMP_GTID)?;
        let (flags, server_id) = (reader.u16()?, reader.u32()?);
        let name_len = reader.u32()? as usize;
        reader.bytes(name_len)?;
        reader.u64()?;
        let len = reader.u32()? as usize;
        let executed = GtidIntervals::decode(reader.bytes(len)?)?;
        Ok(Self { flags, server_id, executed })
    }

    /// Appends the payload.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.put_u8(COM_BINLOG_DUMP_GTID);
        out.put_u16(self.flags);
        out.put_u32(self.server_id);
        out.put_u32(0);
        out.put_u64(4);
        let mut set = Vec::new();
        self.executed.encode(&mut set);
        out.put_u32(set.len() as u32);
        out.extend_from_slice(&set);
    }
}

/// COM_REGISTER_SLAVE: who a replica is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Register<'a> {
    /// `server_id`
    pub server_id: u32,
    /// `report_host`
    pub host: &'a [u8],
    /// `report_port`
    pub port: u16,
}

impl<'a> Register<'a> {
    /// Reads the payload, with its first byte.
    pub fn parse(payload: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = command(payload, COM_REGISTER_SLAVE)?;
        let server_id = reader.u32()?;
        let mut text = || {
            let len = usize::from(reader.u8()?);
            reader.bytes(len)
        };
        let (host, _user, _password) = (text()?, text()?, text()?);
        Ok(Self { server_id, host, port: reader.u16()? })
    }

    /// Appends the payload. No user, no password: a source shows them in SHOW REPLICAS.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.put_u8(COM_REGISTER_SLAVE);
        out.put_u32(self.server_id);
        let host = &self.host[..self.host.len().min(60)];
        out.put_u8(host.len() as u8);
        out.extend_from_slice(host);
        out.put_u8(0);
        out.put_u8(0);
        out.put_u16(self.port);
        out.put_u32(0);
        out.put_u32(0);
    }
}

fn command(payload: &[u8], first: u8) -> Result<Reader<'_>, Malformed> {
    let mut reader = Reader::new(payload);
    if reader.u8()? != first {
        return Err(Malformed("another command"));
    }
    Ok(reader)
}

/// Takes the two bytes of semi-sync off the front of what follows a packet's OK byte: the rest, and whether an acknowledgement is
/// wanted.
pub fn take_semi_sync(bytes: &[u8]) -> Result<(&[u8], bool), Malformed> {
    match bytes {
        [SEMI_SYNC, flag @ (0 | WANTS_ACK), event @ ..] => Ok((event, *flag == WANTS_ACK)),
        _ => Err(Malformed("event without the mark of semi-sync")),
    }
}

/// Appends the payload of an acknowledgement of all up to `position` of the file. Its packet has the sequence number 0.
pub fn put_ack(out: &mut Vec<u8>, name: &[u8], position: u64) {
    out.put_u8(SEMI_SYNC);
    out.put_u64(position);
    out.extend_from_slice(name);
}

/// Reads the payload of an acknowledgement: the file's name and the position.
pub fn parse_ack(payload: &[u8]) -> Result<(&[u8], u64), Malformed> {
    let mut reader = command(payload, SEMI_SYNC)?;
    let position = reader.u64()?;
    Ok((reader.rest(), position))
}
