//! Integers whose length is in the low bits of their first byte, as GTID_TAGGED and tagged sets have them.
//! Source: <https://dev.mysql.com/doc/dev/mysql-server/latest/PageLibsMysqlSerialization.html>

use crate::{Malformed, Reader};

/// Reads an unsigned integer: the number of ones at the low end of the first byte is the number of bytes that follow it.
pub(crate) fn unsigned(reader: &mut Reader<'_>) -> Result<u64, Malformed> {
    let first = reader.u8()?;
    let more = first.trailing_ones() as usize;
    let mut bytes = [0_u8; 8];
    bytes[..more].copy_from_slice(reader.bytes(more)?);
    let rest = u64::from_le_bytes(bytes);
    if more >= 7 {
        // No bits of the value are left in the first byte (7: its high bit is the zero that ends the ones).
        return Ok(rest);
    }
    let own = u32::from(first) >> (more + 1);
    // `7 - more` bits are in the first byte.
    rest.checked_shl(7 - more as u32).map(|rest| rest | u64::from(own)).ok_or(Malformed("integer too long"))
}

/// Reads a signed integer: the low bit of the unsigned one is the sign.
pub(crate) fn signed(reader: &mut Reader<'_>) -> Result<i64, Malformed> {
    let value = unsigned(reader)?;
    let magnitude = (value >> 1).cast_signed();
    Ok(if value & 1 == 0 { magnitude } else { !magnitude })
}

/// Appends an unsigned integer.
pub(crate) fn put_unsigned(out: &mut Vec<u8>, value: u64) {
    let bits = 64 - value.leading_zeros();
    let more = (bits.saturating_sub(1) / 7).min(8);
    if more >= 7 {
        out.push(if more == 7 { 0x7f } else { 0xff });
        out.extend_from_slice(&value.to_le_bytes()[..more as usize]);
        return;
    }
    let first = (value << (more + 1)) as u8 | ((1_u16 << more) - 1) as u8;
    out.push(first);
    out.extend_from_slice(&(value >> (7 - more)).to_le_bytes()[..more as usize]);
}
