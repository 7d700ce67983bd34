//! Where the text stands in a COM_QUERY, and the parameter types in a COM_STMT_EXECUTE, with and without query
//! attributes.
//! Sources: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_query.html>,
//! <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_stmt_execute.html>

use std::ops::Range;

use crate::capability::Capabilities;
use crate::command::Code;
use crate::cursor::{Malformed, Reader};

/// Where the SQL text of a COM_QUERY begins in its payload.
pub fn query_text_at(payload: &[u8], capabilities: Capabilities) -> Result<usize, Malformed> {
    if !capabilities.contains(Capabilities::QUERY_ATTRIBUTES) {
        return Ok(1);
    }
    let mut reader = Reader::new(payload);
    reader.u8()?;
    let count = reader.lenenc_int()?;
    let _sets = reader.lenenc_int()?;
    if count > 0 {
        skip_values(&mut reader, count)?;
    }
    Ok(payload.len() - reader.remaining())
}

/// Names and values.
pub type QueryAttributes = Vec<(Vec<u8>, Vec<u8>)>;

/// The query attributes of a COM_QUERY: names, and values as text. Those of kinds without a plain text (times, NULL) are
/// left out; so are all where something is malformed.
pub fn query_attributes(payload: &[u8], capabilities: Capabilities) -> QueryAttributes {
    let read = || -> Result<_, Malformed> {
        if !capabilities.contains(Capabilities::QUERY_ATTRIBUTES) {
            return Ok(Vec::new());
        }
        let mut reader = Reader::new(payload);
        reader.u8()?;
        let count = reader.lenenc_int()?;
        reader.lenenc_int()?;
        if count == 0 { Ok(Vec::new()) } else { named_values(&mut reader, count) }
    };
    read().unwrap_or_default()
}

/// The same of a COM_STMT_EXECUTE, of which `params` values belong to the statement.
pub fn execute_attributes(payload: &[u8], params: u16, capabilities: Capabilities) -> QueryAttributes {
    let read = || -> Result<_, Malformed> {
        if !capabilities.contains(Capabilities::QUERY_ATTRIBUTES) {
            return Ok(Vec::new());
        }
        let mut reader = Reader::new(payload);
        reader.bytes(10)?;
        let count = reader.lenenc_int()?;
        if count <= u64::from(params) { Ok(Vec::new()) } else { named_values(&mut reader, count) }
    };
    let mut found = read().unwrap_or_default();
    // Parameters have no names.
    found.retain(|(name, _)| !name.is_empty());
    found
}

fn skip_values(reader: &mut Reader<'_>, count: u64) -> Result<(), Malformed> {
    each_value(reader, count, |_, _, _| {})
}

fn named_values(reader: &mut Reader<'_>, count: u64) -> Result<QueryAttributes, Malformed> {
    let mut found = Vec::new();
    each_value(reader, count, |name, kind, value| {
        let little = |value: &[u8]| value.iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
        match kind {
            1 | 2 | 3 | 8 | 9 | 13 => found.push((name.to_vec(), little(value).to_string().into_bytes())),
            0 | 15 | 16 | 245..=255 => found.push((name.to_vec(), value.to_vec())),
            _ => {}
        }
    })?;
    Ok(found)
}

/// Passes over `count` values with names, and hands out those that are there: name, kind, bytes.
fn each_value<'a>(
    reader: &mut Reader<'a>,
    count: u64,
    mut take: impl FnMut(&'a [u8], u8, &'a [u8]),
) -> Result<(), Malformed> {
    let count = usize::try_from(count).map_err(|_| Malformed("too many attributes"))?;
    let nulls = reader.bytes(count.div_ceil(8))?;
    if reader.u8()? != 1 {
        return Err(Malformed("attributes without types"));
    }
    // The payload bounds the count: each type takes at least three bytes of it.
    let mut kinds = Vec::with_capacity(count.min(reader.remaining()));
    for _ in 0..count {
        let kind = reader.u16()? as u8;
        kinds.push((kind, reader.lenenc_bytes()?));
    }
    for (at, (kind, name)) in kinds.into_iter().enumerate() {
        if nulls[at / 8] & (1 << (at % 8)) == 0 {
            let value = read_value(reader, kind)?;
            take(name, kind, value);
        }
    }
    Ok(())
}

/// One value of the binary protocol.
fn read_value<'a>(reader: &mut Reader<'a>, kind: u8) -> Result<&'a [u8], Malformed> {
    let len = match kind {
        1 => 1,
        2 | 13 => 2,
        3 | 4 | 9 => 4,
        5 | 8 => 8,
        6 => 0,
        7 | 10 | 11 | 12 => usize::from(reader.u8()?),
        _ => return reader.lenenc_bytes(),
    };
    reader.bytes(len)
}

/// The parameter part of a COM_STMT_EXECUTE, or of MariaDB's COM_STMT_BULK_EXECUTE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecuteParams {
    /// Where the flag stands that says whether types follow.
    pub types_flag_at: usize,
    /// The types (and names, with query attributes), if they are there.
    pub types: Option<Range<usize>>,
}

impl ExecuteParams {
    /// The command that these were found in, which has no types, with these ones.
    pub fn with_types(&self, payload: &[u8], types: &[u8]) -> Vec<u8> {
        let (before, behind) = payload.split_at(self.types_flag_at);
        if payload[0] == Code::StmtBulkExecute as u8 {
            // The types stand behind the second byte of the flags.
            return [before, &[behind[0] | BULK_HAS_TYPES, behind[1]], types, &behind[2..]].concat();
        }
        [before, &[1], types, &behind[1..]].concat()
    }
}

/// Finds the parameter types of a COM_STMT_EXECUTE of a statement with `params` parameters; `None` if there is
/// nothing to bind. Values may be cut off.
pub fn execute_params(
    payload: &[u8],
    params: u16,
    capabilities: Capabilities,
) -> Result<Option<ExecuteParams>, Malformed> {
    const PARAMETER_COUNT_AVAILABLE: u8 = 8;
    let attributes = capabilities.contains(Capabilities::QUERY_ATTRIBUTES);
    let mut reader = Reader::new(payload);
    reader.bytes(5)?;
    let flags = reader.u8()?;
    reader.u32()?;
    let mut count = usize::from(params);
    if count == 0 && !(attributes && flags & PARAMETER_COUNT_AVAILABLE != 0) {
        return Ok(None);
    }
    if attributes {
        count = usize::try_from(reader.lenenc_int()?).map_err(|_| Malformed("too many parameters"))?;
        if count == 0 {
            return Ok(None);
        }
    }
    reader.bytes(count.div_ceil(8))?;
    let types_flag_at = payload.len() - reader.remaining();
    if reader.u8()? == 0 {
        return Ok(Some(ExecuteParams { types_flag_at, types: None }));
    }
    let start = types_flag_at + 1;
    for _ in 0..count {
        reader.u16()?;
        if attributes {
            reader.lenenc_bytes()?;
        }
    }
    Ok(Some(ExecuteParams { types_flag_at, types: Some(start..payload.len() - reader.remaining()) }))
}

/// STMT_BULK_FLAG_CLIENT_SEND_TYPES, in the first byte of the flags of a COM_STMT_BULK_EXECUTE.
const BULK_HAS_TYPES: u8 = 128;

/// The same of a COM_STMT_BULK_EXECUTE, behind whose id stand two bytes of flags, the types, if they are there, and the rows.
/// Source: <https://mariadb.com/docs/server/reference/clientserver-protocol/3-binary-protocol-prepared-statements/com_stmt_bulk_execute>
pub fn bulk_params(payload: &[u8], params: u16) -> Result<Option<ExecuteParams>, Malformed> {
    let mut reader = Reader::new(payload);
    reader.bytes(5)?;
    let types_flag_at = payload.len() - reader.remaining();
    let [flags, _] = reader.u16()?.to_le_bytes();
    if params == 0 {
        return Ok(None);
    }
    if flags & BULK_HAS_TYPES == 0 {
        return Ok(Some(ExecuteParams { types_flag_at, types: None }));
    }
    let start = types_flag_at + 2;
    let len = reader.bytes(2 * usize::from(params))?.len();
    Ok(Some(ExecuteParams { types_flag_at, types: Some(start..start + len) }))
}

/// The value of the first parameter, if it is a whole number, or the digits of one; without its sign. `types`: those that the client has
/// sent, in this execution or before.
pub fn first_integer(payload: &[u8], params: &ExecuteParams, types: &[u8]) -> Option<u64> {
    let [kind, ..] = *types else { return None };
    let nulls = *payload.get(params.types_flag_at.checked_sub(1)?)?;
    let at = params.types.as_ref().map_or(params.types_flag_at + 1, |types| types.end);
    if nulls & 1 != 0 {
        return None;
    }
    let mut reader = Reader::new(payload.get(at..)?);
    // As the types of columns are numbered: integers of 1, 2, 4 and 8 bytes, and what is sent as text.
    match kind {
        1 => reader.u8().ok().map(u64::from),
        2 => reader.u16().ok().map(u64::from),
        3 => reader.u32().ok().map(u64::from),
        8 => reader.u64().ok(),
        15 | 246 | 252..=254 => std::str::from_utf8(reader.lenenc_bytes().ok()?).ok()?.trim().parse().ok(),
        _ => None,
    }
}

/// The class of each of the first `params` parameters in the types of a COM_STMT_EXECUTE: `i` for integers, `f` for
/// floating point, `d` for decimals, `t` for times and dates, `s` for everything else. A NULL, which has a type of its
/// own, keeps the class that the parameter had in `before`. What is malformed counts as text.
/// <https://dev.mysql.com/doc/dev/mysql-server/latest/field__types_8h.html>
pub fn param_classes(types: &[u8], params: usize, capabilities: Capabilities, before: &[u8]) -> Vec<u8> {
    let attributes = capabilities.contains(Capabilities::QUERY_ATTRIBUTES);
    let mut reader = Reader::new(types);
    let mut next = || {
        let [kind, _flags] = reader.u16().ok()?.to_le_bytes();
        if attributes {
            reader.lenenc_bytes().ok()?;
        }
        Some(kind)
    };
    (0..params)
        .map(|at| match next() {
            Some(1 | 2 | 3 | 8 | 9 | 13 | 16) => b'i',
            Some(4 | 5) => b'f',
            Some(0 | 246) => b'd',
            Some(7 | 10 | 11 | 12 | 17 | 18 | 19) => b't',
            Some(6) => before.get(at).copied().unwrap_or(b's'),
            _ => b's',
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::Put;

    const WITH: Capabilities = Capabilities::QUERY_ATTRIBUTES;

    #[test]
    fn classes_of_parameters() {
        let plain = Capabilities::default();
        assert_eq!(param_classes(&[8, 128, 253, 0, 5, 0, 12, 0], 4, plain, b""), b"isft");
        assert_eq!(param_classes(&[6, 0, 6, 0], 2, plain, b"i"), b"is");
        assert_eq!(param_classes(&[3, 0, 0, 254, 0, 1, b'a'], 1, WITH, b""), b"i");
        assert_eq!(param_classes(&[3], 2, plain, b""), b"ss");
    }

    #[test]
    fn the_text_of_a_query_is_found() {
        assert_eq!(query_text_at(b"\x03SELECT 1", Capabilities::default()), Ok(1));
        assert_eq!(query_text_at(b"\x03\x00\x01SELECT 1", WITH), Ok(3));
        let mut payload = vec![3, 2, 1, 0b10, 1];
        payload.put_u16(253);
        payload.put_lenenc_bytes(b"traceparent");
        payload.put_u16(8);
        payload.put_lenenc_bytes(b"x");
        payload.put_lenenc_bytes(b"00-ab");
        let at = payload.len();
        payload.extend_from_slice(b"SELECT 1");
        assert_eq!(query_text_at(&payload, WITH), Ok(at));
        for cut in 0..at {
            let _ = query_text_at(&payload[..cut], WITH);
        }
        let huge = b"\x03\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\x01\x00";
        assert!(query_text_at(huge, WITH).is_err());
    }

    #[test]
    fn attributes_are_read() {
        let mut payload = vec![3, 3, 1, 0b010, 1];
        for (kind, name) in [(254, "a"), (8, "null"), (3, "n")] {
            payload.put_u16(kind);
            payload.put_lenenc_bytes(name.as_bytes());
        }
        payload.put_lenenc_bytes(b"value");
        payload.extend_from_slice(&[7, 1, 0, 0]);
        payload.extend_from_slice(b"SELECT 1");
        let pair = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        assert_eq!(query_attributes(&payload, WITH), [pair("a", "value"), pair("n", "263")]);
        assert_eq!(query_attributes(&payload, Capabilities::default()), []);
        assert_eq!(query_attributes(b"\x03\x00\x01SELECT 1", WITH), []);
        for cut in 0..payload.len() - 8 {
            assert_eq!(query_attributes(&payload[..cut], WITH), []);
        }
        let mut payload = vec![0x17, 1, 0, 0, 0, 8, 1, 0, 0, 0, 2, 0, 1, 8, 0, 0, 253, 0, 1, b'x'];
        payload.extend_from_slice(&[9, 0, 0, 0, 0, 0, 0, 0, 1, b'y']);
        assert_eq!(execute_attributes(&payload, 1, WITH), [pair("x", "y")]);
        assert_eq!(execute_attributes(&payload, 2, WITH), []);
    }

    #[test]
    fn the_types_of_parameters_are_found() {
        let mut payload = vec![0x17, 1, 0, 0, 0, 0, 1, 0, 0, 0];
        assert_eq!(execute_params(&payload, 0, Capabilities::default()), Ok(None));
        payload.extend_from_slice(&[0, 1, 8, 0, 253, 0, 9, 9]);
        let found = ExecuteParams { types_flag_at: 11, types: Some(12..16) };
        assert_eq!(execute_params(&payload, 2, Capabilities::default()), Ok(Some(found)));
        payload[11] = 0;
        let found = ExecuteParams { types_flag_at: 11, types: None };
        assert_eq!(execute_params(&payload, 2, Capabilities::default()), Ok(Some(found)));
        let mut payload = vec![0x17, 1, 0, 0, 0, 8, 1, 0, 0, 0, 1, 0, 1, 8, 0, 1, b'x', 9];
        let found = ExecuteParams { types_flag_at: 12, types: Some(13..17) };
        assert_eq!(execute_params(&payload, 0, WITH), Ok(Some(found)));
        payload[5] = 0;
        assert_eq!(execute_params(&payload, 0, WITH), Ok(None));
    }

    #[test]
    fn the_types_of_an_array_are_found_and_put_in() {
        let with = [0xfa, 1, 0, 0, 0, 128, 1, 8, 0, 253, 0, 0, 9, 9];
        let without = [0xfa, 1, 0, 0, 0, 0, 1, 0, 9, 9];
        let found = ExecuteParams { types_flag_at: 5, types: Some(7..11) };
        assert_eq!(bulk_params(&with, 2), Ok(Some(found)));
        let found = ExecuteParams { types_flag_at: 5, types: None };
        assert_eq!(found.with_types(&without, &with[7..11]), with);
        assert_eq!(bulk_params(&without, 2), Ok(Some(found)));
        assert_eq!(bulk_params(&without, 0), Ok(None));
        for cut in [&without[..6], &with[..10]] {
            assert!(bulk_params(cut, 2).is_err(), "{cut:?}");
        }
    }
}
