//! Prepared statements: their texts, and the values that come with COM_STMT_EXECUTE.

use std::collections::HashMap;

use delphinus_tables::Cell;
use delphinus_wire::command::ClientStmtId;
use delphinus_wire::response::{Column, EofPacket, Status};
use delphinus_wire::{
    Capabilities, Malformed, Put, Reader, begin_packet, end_packet, error_code, execute_params,
};

use crate::answer::Refused;

/// Prepared statements of one connection.
const MAX: usize = 256;

/// The prepared statements of a connection.
#[derive(Default)]
pub(crate) struct Prepared {
    last_id: u32,
    statements: HashMap<ClientStmtId, Statement>,
}

/// One of them.
struct Statement {
    text: String,
    parameters: u16,
    /// Two bytes for each parameter, as they came last.
    types: Vec<u8>,
    /// A parameter came by COM_STMT_SEND_LONG_DATA, which has no answer: the next execution is refused.
    has_long_data: bool,
}

impl Prepared {
    /// Keeps a text; its id.
    pub(crate) fn keep(&mut self, text: String, parameters: u16) -> Result<ClientStmtId, Refused> {
        if self.statements.len() == MAX {
            let text =
                format!("Can't create more than {MAX} prepared statements on this connection; close some");
            return Err(Refused {
                code: error_code::ER_MAX_PREPARED_STMT_COUNT_REACHED,
                state: *b"42000",
                text,
            });
        }
        self.last_id = self.last_id.wrapping_add(1);
        let id = ClientStmtId(self.last_id);
        let statement = Statement { text, parameters, types: Vec::new(), has_long_data: false };
        self.statements.insert(id, statement);
        Ok(id)
    }

    /// Forgets one.
    pub(crate) fn close(&mut self, id: ClientStmtId) {
        self.statements.remove(&id);
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.statements.clear();
    }

    /// A parameter has come in pieces.
    pub(crate) fn long_data(&mut self, id: ClientStmtId) {
        if let Some(statement) = self.statements.get_mut(&id) {
            statement.has_long_data = true;
        }
    }

    /// Forgets what came in pieces.
    pub(crate) fn reset(&mut self, id: ClientStmtId) -> Result<(), Refused> {
        let statement = self.statements.get_mut(&id).ok_or_else(|| unknown(id))?;
        statement.has_long_data = false;
        Ok(())
    }

    /// The text and the values of a COM_STMT_EXECUTE.
    pub(crate) fn executed(
        &mut self,
        id: ClientStmtId,
        payload: &[u8],
    ) -> Result<(String, Vec<Cell>), Refused> {
        let statement = self.statements.get_mut(&id).ok_or_else(|| unknown(id))?;
        if std::mem::take(&mut statement.has_long_data) {
            return Err(Refused::because(
                "parameters in pieces are not supported here; send them with the execution",
            ));
        }
        let values = values(statement, payload);
        let values =
            values.map_err(|malformed| Refused::because(format!("COM_STMT_EXECUTE: {malformed}")))?;
        Ok((statement.text.clone(), values))
    }
}

fn unknown(id: ClientStmtId) -> Refused {
    let text = format!("Unknown prepared statement handler ({}) given to mysqld_stmt_execute", id.0);
    Refused { code: error_code::ER_UNKNOWN_STMT_HANDLER, state: *b"HY000", text }
}

fn values(statement: &mut Statement, payload: &[u8]) -> Result<Vec<Cell>, Malformed> {
    // Query attributes are not offered.
    let Some(found) = execute_params(payload, statement.parameters, Capabilities::default())? else {
        return Ok(Vec::new());
    };
    let count = usize::from(statement.parameters);
    let at = match found.types {
        Some(types) => {
            payload[types.clone()].clone_into(&mut statement.types);
            types.end
        }
        None => found.types_flag_at + 1,
    };
    let nulls = &payload[found.types_flag_at - count.div_ceil(8)..found.types_flag_at];
    let mut reader = Reader::new(&payload[at..]);
    let value = |index: usize| {
        let kind =
            statement.types.get(index * 2..index * 2 + 2).ok_or(Malformed("no types of parameters"))?;
        if nulls[index / 8] & (1 << (index % 8)) != 0 {
            return Ok(Cell::Null);
        }
        value(&mut reader, kind[0], kind[1] & 0x80 != 0)
    };
    (0..count).map(value).collect()
}

/// One value of the binary protocol.
/// <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_binary_resultset.html>
fn value(reader: &mut Reader<'_>, kind: u8, is_unsigned: bool) -> Result<Cell, Malformed> {
    Ok(match kind {
        1 => {
            let byte = reader.u8()?;
            Cell::Integer(if is_unsigned { byte.into() } else { byte.cast_signed().into() })
        }
        2 | 13 => {
            let short = reader.u16()?;
            Cell::Integer(if is_unsigned { short.into() } else { short.cast_signed().into() })
        }
        3 | 9 => {
            let long = reader.u32()?;
            Cell::Integer(if is_unsigned { long.into() } else { long.cast_signed().into() })
        }
        8 => {
            let long = reader.u64()?;
            // What does not fit is a number larger than all that the tables have.
            Cell::Integer(if is_unsigned {
                i64::try_from(long).unwrap_or(i64::MAX)
            } else {
                long.cast_signed()
            })
        }
        4 => Cell::Real(f32::from_bits(reader.u32()?).into()),
        5 => Cell::Real(f64::from_bits(reader.u64()?)),
        6 => Cell::Null,
        7 | 10 | 12 => moment(reader)?,
        11 => return Err(Malformed("TIME is not supported here: send it as text")),
        _ => Cell::Text(String::from_utf8_lossy(reader.lenenc_bytes()?).into_owned()),
    })
}

/// DATE, DATETIME and TIMESTAMP as the tables write them.
fn moment(reader: &mut Reader<'_>) -> Result<Cell, Malformed> {
    let len = reader.u8()?;
    let mut parts = Reader::new(reader.bytes(len.into())?);
    if len == 0 {
        return Ok(Cell::Text("0000-00-00 00:00:00".to_owned()));
    }
    let (year, month, day) = (parts.u16()?, parts.u8()?, parts.u8()?);
    let date = format!("{year:04}-{month:02}-{day:02}");
    if len == 4 {
        return Ok(Cell::Text(date));
    }
    Ok(Cell::Text(format!("{date} {:02}:{:02}:{:02}", parts.u8()?, parts.u8()?, parts.u8()?)))
}

/// The answer to COM_STMT_PREPARE.
pub(crate) fn put_answer(
    out: &mut Vec<u8>,
    id: ClientStmtId,
    (parameters, columns): (u16, &[Column]),
    capabilities: Capabilities,
) {
    let mut seq = 1;
    let mut packet = |out: &mut Vec<u8>, write: &dyn Fn(&mut Vec<u8>)| {
        let at = begin_packet(out);
        write(out);
        end_packet(out, at, seq);
        seq = seq.wrapping_add(1);
    };
    packet(out, &|out| {
        out.put_u8(delphinus_wire::response::OK);
        out.put_u32(id.0);
        out.put_u16(columns.len() as u16);
        out.put_u16(parameters);
        out.put_u8(0);
        out.put_u16(0);
    });
    let parameter = Column::text(b"?", 0, 45);
    let of_parameters = vec![parameter; parameters.into()];
    for list in [&of_parameters[..], columns].into_iter().filter(|list| !list.is_empty()) {
        for column in list {
            packet(out, &|out| column.put(out, capabilities));
        }
        if !capabilities.contains(Capabilities::DEPRECATE_EOF) {
            packet(out, &|out| EofPacket { warnings: 0, status: Status::AUTOCOMMIT }.put(out));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(nulls: u8, types: &[u8], values: &[u8]) -> Vec<u8> {
        let mut payload = vec![0x17, 1, 0, 0, 0, 0, 1, 0, 0, 0, nulls];
        payload.push(u8::from(!types.is_empty()));
        payload.extend_from_slice(types);
        payload.extend_from_slice(values);
        payload
    }

    #[test]
    fn values_are_read_and_types_remembered() {
        let mut prepared = Prepared::default();
        let id = prepared.keep("SELECT ?, ?, ?".to_owned(), 3).unwrap();
        let first = payload(0b100, &[8, 0, 253, 0, 6, 0], b"\xff\xff\xff\xff\xff\xff\xff\xff\x02ab");
        let read = prepared.executed(id, &first).unwrap();
        assert_eq!(read.1, [Cell::Integer(-1), Cell::from("ab"), Cell::Null]);
        let again = payload(0b110, &[], &7_u64.to_le_bytes());
        assert_eq!(prepared.executed(id, &again).unwrap().1, [Cell::Integer(7), Cell::Null, Cell::Null]);
        for cut in 0..first.len() {
            assert!(prepared.executed(id, &first[..cut]).is_err(), "{cut}");
        }
        prepared.long_data(id);
        assert!(prepared.executed(id, &first).is_err() && prepared.executed(id, &first).is_ok());
        prepared.close(id);
        assert_eq!(prepared.executed(id, &first).unwrap_err().code, 1243);
    }

    #[test]
    fn every_kind_of_number_and_moment() {
        let read = |kind, unsigned, bytes: &[u8]| value(&mut Reader::new(bytes), kind, unsigned).unwrap();
        assert_eq!(read(1, false, &[255]), Cell::Integer(-1));
        assert_eq!(read(1, true, &[255]), Cell::Integer(255));
        assert_eq!(read(2, false, &[254, 255]), Cell::Integer(-2));
        assert_eq!(read(3, true, &[255; 4]), Cell::Integer(u32::MAX.into()));
        assert_eq!(read(8, true, &[255; 8]), Cell::Integer(i64::MAX));
        assert_eq!(read(5, false, &1.5_f64.to_le_bytes()), Cell::Real(1.5));
        assert_eq!(read(10, false, &[4, 0xea, 7, 11, 25]), Cell::from("2026-11-25"));
        assert_eq!(read(12, false, &[7, 0xea, 7, 11, 25, 1, 2, 3]), Cell::from("2026-11-25 01:02:03"));
    }

    #[test]
    fn there_is_a_limit() {
        let mut prepared = Prepared::default();
        let last = (0..MAX).map(|_| prepared.keep("SELECT 1".to_owned(), 0).unwrap()).last().unwrap();
        assert_eq!(prepared.keep("SELECT 1".to_owned(), 0).unwrap_err().code, 1461);
        prepared.close(last);
        assert!(prepared.keep("SELECT 1".to_owned(), 0).is_ok());
    }
}
