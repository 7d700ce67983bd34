//! The compressed protocol: frames with a header of 7 bytes around the stream of packets. A frame holds any piece of
//! that stream: part of a packet, or several. Owns frames and numbers; sockets are the caller's.
//!
//! ```text
//! length of the body (3 bytes) | number (1 byte) | length before compression (3 bytes; 0: the body is not compressed)
//! ```
//! Sources: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_compression.html>,
//! <https://mariadb.com/docs/server/reference/clientserver-protocol/0-packet>

mod codec;
mod link;
mod packets;

pub use codec::Codec;
pub use link::{CompressedLink, Side};

use crate::capability::Capabilities;

/// Bytes of a frame's header.
pub const FRAME_HEADER_LEN: usize = 7;

/// What packets are compressed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// Deflate with zlib's header, level 6.
    Zlib,
    /// Zstandard.
    Zstd {
        /// 1 (fast) to 22 (small); a level out of this range is brought into it.
        level: u8,
    },
}

impl Algorithm {
    /// What two sides use that agreed on these capabilities: zlib, if they could do both, as servers decide it.
    pub fn agreed(capabilities: Capabilities, zstd_level: u8) -> Option<Self> {
        if capabilities.contains(Capabilities::COMPRESS) {
            Some(Self::Zlib)
        } else if capabilities.contains(Capabilities::ZSTD_COMPRESSION) {
            Some(Self::Zstd { level: zstd_level })
        } else {
            None
        }
    }

    /// Its name in options and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zlib => "zlib",
            Self::Zstd { .. } => "zstd",
        }
    }

    /// The capability by which a client asks for it, and the level that goes with it.
    pub fn asked_for(algorithm: Option<Self>) -> (Capabilities, u8) {
        match algorithm {
            None => (Capabilities::default(), 0),
            Some(Self::Zlib) => (Capabilities::COMPRESS, 0),
            Some(Self::Zstd { level }) => (Capabilities::ZSTD_COMPRESSION, level),
        }
    }
}

#[cfg(test)]
mod tests;
