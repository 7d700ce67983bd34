//! An event that is whole in memory: its head, its body, its checksum.

use super::{CHECKSUM_LEN, Checksum, Crc, HEADER_LEN, Header, Kind};
use crate::{Malformed, Put};

/// A whole event.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    /// Its head.
    pub header: Header,
    /// What is between head and checksum.
    pub body: &'a [u8],
    /// All of it.
    pub bytes: &'a [u8],
}

impl<'a> Event<'a> {
    /// Reads the event that `bytes` begins with. FORMAT_DESCRIPTION always has a checksum, whatever it says of others. The checksum
    /// is compared. Fails on an event that is not whole.
    pub fn parse(bytes: &'a [u8], checksum: Checksum) -> Result<Self, Malformed> {
        let event = Self::parse_unchecked(bytes, checksum)?;
        let tail = event.bytes.len() - HEADER_LEN - event.body.len();
        if tail > 0 && !event.has_stale_checksum() {
            let (covered, sum) = event.bytes.split_at(event.bytes.len() - tail);
            if Crc::of(covered).to_le_bytes() != sum {
                return Err(Malformed("event with a wrong checksum"));
            }
        }
        Ok(event)
    }

    /// True for FORMAT_DESCRIPTION as both families send it inside of a file where `binlog_checksum` is NONE: they take its position
    /// and its time out, and leave the checksum as it was.
    fn has_stale_checksum(&self) -> bool {
        self.header.kind == Kind::FORMAT_DESCRIPTION
            && self.header.log_pos == 0
            && self.body.last() == Some(&0)
    }

    /// The same, without a look at the checksum: for bytes that were checked when they came.
    pub fn parse_unchecked(bytes: &'a [u8], checksum: Checksum) -> Result<Self, Malformed> {
        let header = Header::parse(bytes)?;
        let bytes = bytes.get(..header.size as usize).ok_or(Malformed("event ends too early"))?;
        let tail = if header.kind == Kind::FORMAT_DESCRIPTION { CHECKSUM_LEN } else { checksum.len() };
        let end = bytes.len().checked_sub(tail).filter(|end| *end >= HEADER_LEN);
        let end = end.ok_or(Malformed("event shorter than its checksum"))?;
        Ok(Self { header, body: &bytes[HEADER_LEN..end], bytes })
    }
}

/// Appends an event made of `header` and `body`: `size` is set, the checksum computed.
pub fn build(out: &mut Vec<u8>, header: Header, body: &[u8], checksum: Checksum) {
    let tail = if header.kind == Kind::FORMAT_DESCRIPTION { CHECKSUM_LEN } else { checksum.len() };
    let size = HEADER_LEN + body.len() + tail;
    let start = out.len();
    Header { size: size as u32, ..header }.put(out);
    out.extend_from_slice(body);
    if tail > 0 {
        let sum = Crc::of(&out[start..]);
        out.put_u32(sum);
    }
}
