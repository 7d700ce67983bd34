//! What a client asks: the first payload byte names the command.
//! Source: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_command_phase.html>

use crate::cursor::{Malformed, Reader};

/// The code of a command: the first byte of its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Code {
    /// Ends the connection.
    Quit = 0x01,
    /// Changes the current schema.
    InitDb = 0x02,
    /// Runs text SQL.
    Query = 0x03,
    /// Lists the columns of a table; obsolete, still sent by command line clients.
    FieldList = 0x04,
    /// FLUSH, obsolete.
    Refresh = 0x07,
    /// A line of statistics.
    Statistics = 0x09,
    /// SHOW PROCESSLIST, obsolete.
    ProcessInfo = 0x0a,
    /// KILL, obsolete.
    ProcessKill = 0x0c,
    /// Makes the server write debug output.
    Debug = 0x0d,
    /// Are you there?
    Ping = 0x0e,
    /// Another user on the same connection.
    ChangeUser = 0x11,
    /// Asks for the binary log by file and position.
    BinlogDump = 0x12,
    /// A replica introduces itself.
    RegisterReplica = 0x15,
    /// Prepares a statement.
    StmtPrepare = 0x16,
    /// Runs a prepared statement.
    StmtExecute = 0x17,
    /// A piece of a parameter; has no answer.
    StmtSendLongData = 0x18,
    /// Forgets a prepared statement; has no answer.
    StmtClose = 0x19,
    /// Closes a statement's cursor and drops its long data.
    StmtReset = 0x1a,
    /// Multi-statements on or off.
    SetOption = 0x1b,
    /// Rows of an open cursor.
    StmtFetch = 0x1c,
    /// Asks for the binary log by GTID.
    BinlogDumpGtid = 0x1e,
    /// A session like new.
    ResetConnection = 0x1f,
    /// MariaDB: a prepared statement with an array of parameters.
    StmtBulkExecute = 0xfa,
}

impl Code {
    /// The command of a payload's first byte; `None` for those that nobody serves any more.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            0x01 => Self::Quit,
            0x02 => Self::InitDb,
            0x03 => Self::Query,
            0x04 => Self::FieldList,
            0x07 => Self::Refresh,
            0x09 => Self::Statistics,
            0x0a => Self::ProcessInfo,
            0x0c => Self::ProcessKill,
            0x0d => Self::Debug,
            0x0e => Self::Ping,
            0x11 => Self::ChangeUser,
            0x12 => Self::BinlogDump,
            0x15 => Self::RegisterReplica,
            0x16 => Self::StmtPrepare,
            0x17 => Self::StmtExecute,
            0x18 => Self::StmtSendLongData,
            0x19 => Self::StmtClose,
            0x1a => Self::StmtReset,
            0x1b => Self::SetOption,
            0x1c => Self::StmtFetch,
            0x1e => Self::BinlogDumpGtid,
            0x1f => Self::ResetConnection,
            0xfa => Self::StmtBulkExecute,
            _ => return None,
        })
    }

    /// The name in the MySQL manual; also the metric label.
    pub fn name(self) -> &'static str {
        match self {
            Self::Quit => "COM_QUIT",
            Self::InitDb => "COM_INIT_DB",
            Self::Query => "COM_QUERY",
            Self::FieldList => "COM_FIELD_LIST",
            Self::Refresh => "COM_REFRESH",
            Self::Statistics => "COM_STATISTICS",
            Self::ProcessInfo => "COM_PROCESS_INFO",
            Self::ProcessKill => "COM_PROCESS_KILL",
            Self::Debug => "COM_DEBUG",
            Self::Ping => "COM_PING",
            Self::ChangeUser => "COM_CHANGE_USER",
            Self::BinlogDump => "COM_BINLOG_DUMP",
            Self::RegisterReplica => "COM_REGISTER_SLAVE",
            Self::StmtPrepare => "COM_STMT_PREPARE",
            Self::StmtExecute => "COM_STMT_EXECUTE",
            Self::StmtSendLongData => "COM_STMT_SEND_LONG_DATA",
            Self::StmtClose => "COM_STMT_CLOSE",
            Self::StmtReset => "COM_STMT_RESET",
            Self::SetOption => "COM_SET_OPTION",
            Self::StmtFetch => "COM_STMT_FETCH",
            Self::BinlogDumpGtid => "COM_BINLOG_DUMP_GTID",
            Self::ResetConnection => "COM_RESET_CONNECTION",
            Self::StmtBulkExecute => "COM_STMT_BULK_EXECUTE",
        }
    }
}

/// A prepared statement as the client knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientStmtId(pub u32);

/// A prepared statement as one backend connection knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BackendStmtId(pub u32);

/// Where the statement id stands in the payload of every COM_STMT_* command and of the answer to
/// COM_STMT_PREPARE: four bytes after the first.
pub const STMT_ID_AT: std::ops::Range<usize> = 1..5;

/// A command with its fixed-size arguments read. Long arguments may go on beyond the buffered bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command<'a> {
    /// COM_QUIT
    Quit,
    /// COM_INIT_DB with the schema's name.
    InitDb(&'a [u8]),
    /// COM_QUERY: everything after the code, query attributes included where they were negotiated.
    Query(&'a [u8]),
    /// COM_FIELD_LIST: table, NUL, wildcard.
    FieldList(&'a [u8]),
    /// COM_REFRESH: one bit for each thing to flush.
    Refresh(u8),
    /// COM_STATISTICS
    Statistics,
    /// COM_PROCESS_INFO
    ProcessInfo,
    /// COM_PROCESS_KILL with a connection id.
    ProcessKill(u32),
    /// COM_DEBUG
    Debug,
    /// COM_PING
    Ping,
    /// COM_CHANGE_USER: the payload after the code, for `handshake`.
    ChangeUser(&'a [u8]),
    /// COM_STMT_PREPARE with the text.
    StmtPrepare(&'a [u8]),
    /// COM_STMT_EXECUTE
    StmtExecute {
        /// Which statement.
        id: ClientStmtId,
        /// Cursor type in the low bits.
        flags: u8,
    },
    /// COM_STMT_SEND_LONG_DATA
    StmtSendLongData(ClientStmtId),
    /// COM_STMT_CLOSE
    StmtClose(ClientStmtId),
    /// COM_STMT_RESET
    StmtReset(ClientStmtId),
    /// COM_SET_OPTION: 0 is multi-statements on, 1 is off.
    SetOption(u16),
    /// COM_STMT_FETCH
    StmtFetch(ClientStmtId),
    /// COM_RESET_CONNECTION
    ResetConnection,
    /// MariaDB's COM_STMT_BULK_EXECUTE
    StmtBulkExecute(ClientStmtId),
    /// A command that is not served: a code that does not exist or replication commands.
    Unknown(u8),
}

impl<'a> Command<'a> {
    /// Reads a command. `payload` may be cut after the fixed-size arguments.
    pub fn parse(payload: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        let byte = reader.u8().map_err(|_| Malformed("empty command"))?;
        let Some(code) = Code::from_byte(byte) else { return Ok(Self::Unknown(byte)) };
        Ok(match code {
            Code::Quit => Self::Quit,
            Code::InitDb => Self::InitDb(reader.rest()),
            Code::Query => Self::Query(reader.rest()),
            Code::FieldList => Self::FieldList(reader.rest()),
            Code::Refresh => Self::Refresh(reader.u8()?),
            Code::Statistics => Self::Statistics,
            Code::ProcessInfo => Self::ProcessInfo,
            Code::ProcessKill => Self::ProcessKill(reader.u32()?),
            Code::Debug => Self::Debug,
            Code::Ping => Self::Ping,
            Code::ChangeUser => Self::ChangeUser(reader.rest()),
            Code::StmtPrepare => Self::StmtPrepare(reader.rest()),
            Code::StmtExecute => Self::StmtExecute { id: ClientStmtId(reader.u32()?), flags: reader.u8()? },
            Code::StmtSendLongData => Self::StmtSendLongData(ClientStmtId(reader.u32()?)),
            Code::StmtClose => Self::StmtClose(ClientStmtId(reader.u32()?)),
            Code::StmtReset => Self::StmtReset(ClientStmtId(reader.u32()?)),
            Code::SetOption => Self::SetOption(reader.u16()?),
            Code::StmtFetch => Self::StmtFetch(ClientStmtId(reader.u32()?)),
            Code::ResetConnection => Self::ResetConnection,
            Code::StmtBulkExecute => Self::StmtBulkExecute(ClientStmtId(reader.u32()?)),
            Code::BinlogDump | Code::RegisterReplica | Code::BinlogDumpGtid => Self::Unknown(byte),
        })
    }
}

/// Writes the payload of a COM_STMT_CLOSE, COM_STMT_RESET or another command that has only an id.
pub fn put_stmt_command(out: &mut Vec<u8>, code: Code, id: BackendStmtId) {
    out.push(code as u8);
    out.extend_from_slice(&id.0.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_comes_back_and_has_the_name_of_the_manual() {
        for byte in 0..=u8::MAX {
            if let Some(code) = Code::from_byte(byte) {
                assert_eq!(code as u8, byte);
                assert!(code.name().starts_with("COM_"));
            }
        }
    }

    #[test]
    fn commands_are_read() {
        assert_eq!(Command::parse(b"\x03select 1"), Ok(Command::Query(b"select 1")));
        assert_eq!(
            Command::parse(&[0x17, 1, 2, 0, 0, 1, 1, 0, 0, 0]),
            Ok(Command::StmtExecute { id: ClientStmtId(513), flags: 1 })
        );
        assert_eq!(Command::parse(&[0x1b, 1, 0]), Ok(Command::SetOption(1)));
        assert_eq!(Command::parse(&[0x12, 0]), Ok(Command::Unknown(0x12)));
        assert_eq!(Command::parse(&[0xee]), Ok(Command::Unknown(0xee)));
    }

    #[test]
    fn commands_that_end_too_early_are_errors() {
        for bad in [&[][..], &[0x17], &[0x17, 1, 0, 0, 0], &[0x19, 1], &[0x1b, 1], &[0x0c, 1]] {
            assert!(Command::parse(bad).is_err(), "{bad:?}");
        }
    }
}
