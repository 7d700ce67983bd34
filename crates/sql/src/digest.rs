//! The normalised text of a statement and its hash.
use crate::LexOptions;

/// The hash of a normalised text: the same for statements that differ only in literals, comments, case and white space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub u64);

/// Appends the normalised text to `out` and returns its hash.
pub fn digest(sql: &[u8], options: LexOptions, out: &mut Vec<u8>) -> Digest {
    let _ = (sql, options, out);
    Digest(0)
}
