//! MySQL's sets as bytes: in PREVIOUS_GTIDS and in COM_BINLOG_DUMP_GTID.
//!
//! Without tags: the number of sources, and of each its uuid and its intervals, whose ends are exclusive. With tags (8.3): the format, 1,
//! is in the first and the last of 8 bytes, the number in the 6 between them, and each source's uuid is followed by its tag.
//! Source: captured conversations of MySQL 9.7.

use super::GtidIntervals;
use super::mysql::{Source, add};
use crate::binlog::{put_unsigned, read_tag, read_uuid};
use crate::{Malformed, Put, Reader};

const TAGGED: u8 = 1;

impl GtidIntervals {
    /// Reads a set from all of `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let head = reader.u64()?;
        let is_tagged = (head >> 56) as u8 == TAGGED;
        let sources = if is_tagged { (head >> 8) & 0xffff_ffff_ffff } else { head };
        let mut set = Self::default();
        for _ in 0..sources {
            let uuid = read_uuid(&mut reader)?;
            let tag = if is_tagged { read_tag(&mut reader)?.as_str().into() } else { "".into() };
            let count = reader.u64()?;
            if count > (reader.remaining() / 16) as u64 {
                return Err(Malformed("set of GTIDs ends too early"));
            }
            let mut own = Vec::with_capacity(count as usize);
            for _ in 0..count {
                let (first, end) = (reader.u64()?, reader.u64()?);
                if first == 0 || end <= first {
                    return Err(Malformed("bad interval of GTIDs"));
                }
                // Servers write them in order. Others would take quadratic time here.
                if own.last().is_some_and(|(_, last)| first <= *last) {
                    return Err(Malformed("intervals of GTIDs out of order"));
                }
                add(&mut own, (first, end - 1));
            }
            if !own.is_empty() && set.0.insert(Source { uuid, tag }, own).is_some() {
                return Err(Malformed("a source twice in a set of GTIDs"));
            }
        }
        Ok(set)
    }

    /// Appends the set: in the old format where it has no tags, which all versions read.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let is_tagged = self.0.keys().any(|source| !source.tag.is_empty());
        let count = self.0.len() as u64;
        let tagged = u64::from(TAGGED);
        out.put_u64(if is_tagged { tagged << 56 | count << 8 | tagged } else { count });
        for (source, intervals) in &self.0 {
            out.extend_from_slice(&source.uuid.to_be_bytes());
            if is_tagged {
                put_unsigned(out, source.tag.len() as u64);
                out.extend_from_slice(source.tag.as_bytes());
            }
            out.put_u64(intervals.len() as u64);
            for &(first, last) in intervals {
                out.put_u64(first);
                out.put_u64(last.saturating_add(1));
            }
        }
    }
}
