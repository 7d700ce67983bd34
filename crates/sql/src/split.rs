//! One text to the ranges of its statements.
use crate::LexOptions;
use std::ops::Range;

/// The byte ranges of the statements in the text, without their semicolons and without empty ones at the end.
pub fn split(sql: &[u8], options: LexOptions) -> impl Iterator<Item = Range<usize>> + '_ {
    let _ = options;
    std::iter::once(0..sql.len())
}
