//! An answer as it is kept, and the copy that is made while it passes to the client.

use std::sync::Arc;

use delphinus_wire::response::PeerAge;

use crate::origin::Origin;

/// What a backend answered, as its client got it: whole packets, from the first one after the command.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The packets.
    pub bytes: Arc<[u8]>,
    /// Rows in it: what FOUND_ROWS() is afterwards.
    pub rows: u64,
    /// Where it comes from, and what it is sure to contain.
    pub origin: Arc<Origin>,
}

/// A copy of an answer on its way. It is given up as soon as it is longer than what may be kept.
#[derive(Debug)]
pub struct Transcript {
    bytes: Option<Vec<u8>>,
    limit: usize,
}

impl Transcript {
    /// Of an answer of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { bytes: Some(Vec::new()), limit }
    }

    /// The answer begins, perhaps once more.
    pub fn begin(&mut self) {
        self.bytes = Some(Vec::new());
    }

    /// More of the answer has passed.
    pub fn push(&mut self, more: &[u8]) {
        match &mut self.bytes {
            Some(bytes) if bytes.len() + more.len() <= self.limit => bytes.extend_from_slice(more),
            bytes => *bytes = None,
        }
    }

    /// How long it is.
    pub fn size(&self) -> usize {
        self.bytes.as_ref().map_or(0, Vec::len)
    }

    /// The answer cannot be kept.
    pub fn give_up(&mut self) {
        self.bytes = None;
    }

    /// Without what its client was told of its age.
    pub fn forget_age(&mut self) {
        self.bytes = self.bytes.take().and_then(|mut bytes| {
            PeerAge::unmarked(&mut bytes).ok()?;
            Some(bytes)
        });
    }

    /// All of it; `None` if it was given up.
    pub fn into_bytes(self) -> Option<Arc<[u8]>> {
        self.bytes.map(Arc::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_grows_too_long_is_given_up_and_takes_no_room() {
        let mut copy = Transcript::new(5);
        copy.push(b"abc");
        copy.push(b"de");
        assert_eq!(copy.into_bytes().as_deref(), Some(&b"abcde"[..]));
        let mut copy = Transcript::new(5);
        copy.push(b"abcde");
        copy.push(b"f");
        assert!(copy.bytes.is_none());
        copy.push(b"");
        assert!(copy.into_bytes().is_none(), "what is missing in the middle stays missing");
        let mut copy = Transcript::new(5);
        copy.give_up();
        copy.push(b"a");
        assert!(copy.into_bytes().is_none());
    }
}
