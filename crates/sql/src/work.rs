//! How much has been read of texts: the measure by which tests find what reads a text over and over.
//!
//! Owns: the count. It is kept in builds with debug assertions only; in others nothing is counted.

use std::sync::atomic::{AtomicU64, Ordering};

static READ: AtomicU64 = AtomicU64::new(0);

/// Bytes that have been cut into tokens so far in this process, by all threads: a token that is cut twice counts twice.
/// Always 0 in a build without debug assertions.
pub fn bytes_read() -> u64 {
    READ.load(Ordering::Relaxed)
}

/// Counts a token and the blanks before it.
#[inline]
pub(crate) fn note(bytes: usize) {
    if cfg!(debug_assertions) {
        READ.fetch_add(bytes.max(1) as u64, Ordering::Relaxed);
    }
}
