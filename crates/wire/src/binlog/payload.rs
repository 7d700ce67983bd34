//! What is compressed inside of events: MySQL's TRANSACTION_PAYLOAD, MariaDB's QUERY_COMPRESSED.
//! Source: <https://dev.mysql.com/doc/dev/mysql-server/latest/classmysql_1_1binlog_1_1event_1_1Transaction__payload__event.html>,
//! <https://mariadb.com/kb/en/compressing-events-to-reduce-size-of-the-binary-log/>.

use std::io::{self, BufReader, Read};

use flate2::{Decompress, FlushDecompress};

use super::{HEADER_LEN, Header, PREFIX_LEN};
use crate::{Malformed, Reader};

const FIELD_END: u64 = 0;
const FIELD_SIZE: u64 = 1;
const FIELD_COMPRESSION: u64 = 2;
const FIELD_UNPACKED_SIZE: u64 = 3;
const ZSTD: u64 = 0;
const UNCOMPRESSED: u64 = 255;
/// The fields take no more than this.
pub const PAYLOAD_FRONT_LEN: usize = 64;

/// What stands before the bytes of a TRANSACTION_PAYLOAD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PayloadFront {
    /// Bytes of the fields: the transaction's events follow them.
    pub len: usize,
    /// Bytes of what follows.
    pub size: u64,
    /// False: as they are.
    pub is_compressed: bool,
    /// Bytes of the events when they are unpacked.
    pub unpacked_size: u64,
}

impl PayloadFront {
    /// Reads it from the front of the body, of which `PAYLOAD_FRONT_LEN` bytes are enough. Fails on an algorithm that is unknown.
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let mut front = Self { len: 0, size: 0, is_compressed: true, unpacked_size: 0 };
        loop {
            let field = reader.lenenc_int()?;
            if field == FIELD_END {
                break;
            }
            let value = reader.lenenc_bytes()?;
            let number = || Reader::new(value).lenenc_int();
            match field {
                FIELD_SIZE => front.size = number()?,
                FIELD_UNPACKED_SIZE => front.unpacked_size = number()?,
                FIELD_COMPRESSION => {
                    front.is_compressed = match number()? {
                        ZSTD => true,
                        UNCOMPRESSED => false,
                        _ => return Err(Malformed("transaction compressed in an unknown way")),
                    }
                }
                _ => {}
            }
        }
        front.len = body.len() - reader.remaining();
        Ok(front)
    }
}

/// Goes through the events of a TRANSACTION_PAYLOAD: `input` gives what follows the front. Of each event the head and the first bytes are
/// shown, at most `PREFIX_LEN`: no row is kept. Events in a payload have no checksums.
///
/// Takes no more memory than that and the window of the algorithm. Fails if there is more to unpack than `most` bytes, or than the front
/// says.
pub fn each_event(
    front: PayloadFront,
    input: impl Read,
    most: u64,
    mut see: impl FnMut(&Header, &[u8]),
) -> io::Result<()> {
    let bad = |what: &'static str| io::Error::new(io::ErrorKind::InvalidData, what);
    if front.unpacked_size > most {
        return Err(bad("a transaction that is too large when it is unpacked"));
    }
    let input = input.take(front.size);
    let mut events: Box<dyn Read + '_> = if front.is_compressed {
        Box::new(zstd::stream::read::Decoder::new(input)?.take(front.unpacked_size.saturating_add(1)))
    } else {
        Box::new(BufReader::new(input))
    };
    let (mut bytes, mut read) = (Vec::new(), 0_u64);
    loop {
        bytes.clear();
        let len = (&mut events).take(HEADER_LEN as u64).read_to_end(&mut bytes)?;
        if len == 0 && read == front.unpacked_size {
            return Ok(());
        }
        let header = Header::parse(&bytes).map_err(|malformed| bad(malformed.0))?;
        read += u64::from(header.size);
        if read > front.unpacked_size {
            return Err(bad("a transaction that is larger than it says"));
        }
        let body = u64::from(header.size) - HEADER_LEN as u64;
        let kept = body.min((PREFIX_LEN - HEADER_LEN) as u64);
        let there = (&mut events).take(kept).read_to_end(&mut bytes)? as u64;
        let passed = io::copy(&mut (&mut events).take(body - kept), &mut io::sink())?;
        if there + passed < body {
            return Err(bad("a transaction that ends too early"));
        }
        see(&header, &bytes[HEADER_LEN..]);
    }
}

/// Unpacks the text of a QUERY_COMPRESSED, if it has no more than `most` bytes.
pub fn unpack_query(text: &[u8], most: usize) -> Result<Vec<u8>, Malformed> {
    let mut reader = Reader::new(text);
    // The algorithm (zlib is 0, with the high bit set), and the number of bytes of the length.
    let first = reader.u8()?;
    let count = usize::from(first & 0x07);
    if first & 0xf0 != 0x80 || !(1..=4).contains(&count) {
        return Err(Malformed("statement compressed in an unknown way"));
    }
    let len = reader.bytes(count)?.iter().fold(0, |len, byte| len << 8 | usize::from(*byte));
    if len > most {
        return Err(Malformed("very long statement"));
    }
    let mut out = Vec::with_capacity(len);
    let unpacked = Decompress::new(true).decompress_vec(reader.rest(), &mut out, FlushDecompress::Finish);
    if unpacked.is_err() || out.len() != len {
        return Err(Malformed("compressed statement that zlib cannot read"));
    }
    Ok(out)
}
