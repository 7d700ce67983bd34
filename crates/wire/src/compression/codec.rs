//! One frame: its header, its body, plain or compressed. Knows nothing of what comes before or after it.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use zstd::bulk::{Compressor, Decompressor};

use super::{Algorithm, FRAME_HEADER_LEN};
use crate::cursor::{Malformed, Put};
use crate::frame::MAX_PAYLOAD;

/// Shorter pieces are sent as they are: compressed they would be longer, as a rule. Servers have the same limit.
const SHORTEST: usize = 50;
/// Zlib's own default, and that of servers and clients.
const ZLIB_LEVEL: u32 = 6;
const ZSTD_LEVELS: std::ops::RangeInclusive<i32> = 1..=22;

/// What a frame's header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// Bytes of the body.
    pub(super) len: usize,
    /// Number.
    pub(super) seq: u8,
    /// Bytes of the body before compression; 0 if it is not compressed.
    pub(super) original_len: usize,
}

impl Header {
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let head = bytes.first_chunk::<FRAME_HEADER_LEN>()?;
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], 0]) as usize;
        Some(Self { len: number(0), seq: head[3], original_len: number(4) })
    }

    fn write(self, at: &mut [u8]) {
        at[..3].copy_from_slice(&(self.len as u32).to_le_bytes()[..3]);
        at[3] = self.seq;
        at[4..FRAME_HEADER_LEN].copy_from_slice(&(self.original_len as u32).to_le_bytes()[..3]);
    }
}

/// The working memory of both algorithms, made when first needed. Nothing of a frame stays in it, so one serves any
/// number of connections, one frame after another.
#[derive(Default)]
pub struct Codec {
    deflate: Option<Compress>,
    inflate: Option<Decompress>,
    zstd_in: Option<Decompressor<'static>>,
    zstd_out: Option<Compressor<'static>>,
}

impl std::fmt::Debug for Codec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Codec").finish_non_exhaustive()
    }
}

impl Codec {
    /// Appends a frame with `piece`, which has at most `MAX_PAYLOAD` bytes.
    pub(super) fn put(&mut self, out: &mut Vec<u8>, algorithm: Algorithm, seq: u8, piece: &[u8]) {
        debug_assert!(piece.len() <= MAX_PAYLOAD);
        let start = out.len();
        out.put_u32(0);
        out.put_u24(0);
        let body = start + FRAME_HEADER_LEN;
        let is_smaller = piece.len() >= SHORTEST && self.compress(out, algorithm, piece).is_some();
        let header = if is_smaller {
            Header { len: out.len() - body, seq, original_len: piece.len() }
        } else {
            out.truncate(body);
            out.extend_from_slice(piece);
            Header { len: piece.len(), seq, original_len: 0 }
        };
        header.write(&mut out[start..]);
    }

    /// Appends `piece` compressed, or gives `None` where that does not make it smaller.
    fn compress(&mut self, out: &mut Vec<u8>, algorithm: Algorithm, piece: &[u8]) -> Option<()> {
        match algorithm {
            Algorithm::Zlib => {
                let deflate =
                    self.deflate.get_or_insert_with(|| Compress::new(Compression::new(ZLIB_LEVEL), true));
                deflate.reset();
                let start = out.len();
                out.reserve(piece.len());
                let status = deflate.compress_vec(piece, out, FlushCompress::Finish).ok()?;
                (status == Status::StreamEnd && out.len() - start < piece.len()).then_some(())
            }
            Algorithm::Zstd { level } => {
                let level = i32::from(level).clamp(*ZSTD_LEVELS.start(), *ZSTD_LEVELS.end());
                if self.zstd_out.is_none() {
                    self.zstd_out = Compressor::new(level).ok();
                }
                let compressor = self.zstd_out.as_mut()?;
                compressor.set_compression_level(level).ok()?;
                let body = compressor.compress(piece).ok()?;
                out.extend_from_slice(&body);
                (body.len() < piece.len()).then_some(())
            }
        }
    }

    /// Replaces `out` by what is in the frame with this header and body.
    pub(super) fn take(
        &mut self,
        out: &mut Vec<u8>,
        algorithm: Algorithm,
        header: Header,
        body: &[u8],
    ) -> Result<(), Malformed> {
        out.clear();
        let original_len = header.original_len;
        if original_len == 0 {
            out.extend_from_slice(body);
            return Ok(());
        }
        // At most 16 MiB: the header has three bytes for it.
        out.reserve_exact(original_len);
        match algorithm {
            Algorithm::Zlib => self.inflate(out, body)?,
            Algorithm::Zstd { .. } => {
                if self.zstd_in.is_none() {
                    self.zstd_in = Decompressor::new().ok();
                }
                let decompressor = self.zstd_in.as_mut().ok_or(Malformed("no memory for zstd"))?;
                decompressor
                    .decompress_to_buffer(body, out)
                    .map_err(|_| Malformed("compressed packet that zstd cannot read"))?;
            }
        }
        if out.len() == original_len {
            Ok(())
        } else {
            Err(Malformed("compressed packet of another length than its header says"))
        }
    }

    fn inflate(&mut self, out: &mut Vec<u8>, body: &[u8]) -> Result<(), Malformed> {
        let inflate = self.inflate.get_or_insert_with(|| Decompress::new(true));
        inflate.reset(true);
        let status = inflate.decompress_vec(body, out, FlushDecompress::Finish);
        match status {
            Ok(Status::StreamEnd) if inflate.total_in() == body.len() as u64 => Ok(()),
            _ => Err(Malformed("compressed packet that zlib cannot read")),
        }
    }
}
