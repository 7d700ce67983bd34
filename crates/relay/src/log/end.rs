//! The published end: one cell that the writer stores and that readers load, without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

/// A place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Of the file, in the order of all files.
    pub ordinal: u32,
    /// Bytes from the file's begin.
    pub offset: u64,
}

/// A file has less than 2^40 bytes (1 TiB), and a process sees less than 2^24 files.
const OFFSET_BITS: u32 = 40;
const NONE: u64 = u64::MAX;

impl Position {
    /// The largest offset that can be published.
    pub const MOST: u64 = (1 << OFFSET_BITS) - 1;
    /// The largest ordinal that can be published.
    pub const MOST_FILES: u32 = (1 << (64 - OFFSET_BITS)) - 2;
}

/// Both numbers in one word, so that they always belong together.
#[derive(Debug)]
pub(super) struct EndCell(AtomicU64);

impl Default for EndCell {
    fn default() -> Self {
        Self(AtomicU64::new(NONE))
    }
}

impl EndCell {
    pub(super) fn load(&self) -> Option<Position> {
        // Acquire: what was written before this end was stored is seen: the list of files, the length of the file before.
        match self.0.load(Ordering::Acquire) {
            NONE => None,
            word => Some(Position { ordinal: (word >> OFFSET_BITS) as u32, offset: word & Position::MOST }),
        }
    }

    /// The writer has seen to it that both numbers fit.
    pub(super) fn store(&self, end: Position) {
        debug_assert!(end.offset <= Position::MOST && end.ordinal <= Position::MOST_FILES);
        self.0.store(u64::from(end.ordinal) << OFFSET_BITS | end.offset, Ordering::Release);
    }
}
