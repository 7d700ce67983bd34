//! Whether the stream goes on in the file that the log ends with, or the source is asked by GTID, for a new folder.
//!
//! A source may know the file, and all the same not go on from its end: a relay that is followed comes to the files of another primary.
//! Owns that memory. Must not know sockets.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use delphinus_wire::gtid::GtidSet;

use crate::intake::IntakeError;

/// What was tried.
#[derive(Debug, Default)]
pub(crate) struct Elsewhere {
    /// The file whose end the source does not go on from.
    left: Option<u32>,
    /// What the log had when a file was left last.
    had: Option<GtidSet>,
    /// The source is a relay: it ends its stream where the files of another primary begin. Servers do so when they stop.
    is_after_relay: AtomicBool,
}

impl Elsewhere {
    /// Notes what the source is.
    pub(crate) fn follows(&self, is_relay: bool) {
        self.is_after_relay.store(is_relay, Relaxed);
    }

    /// True if this error says that the source does not go on in the file that the log ends with.
    pub(crate) fn is_told_by(&self, error: &IntakeError) -> bool {
        match error {
            IntakeError::Ended => self.is_after_relay.load(Relaxed),
            error => error.is_other_history(),
        }
    }

    /// True if the source is not to be asked for what follows in this file.
    pub(crate) fn is_left(&self, ordinal: u32) -> bool {
        self.left == Some(ordinal)
    }

    /// The source does not go on in this file. It is left, unless another one was left for this with nothing won: a source that fails
    /// in each file would fill the disk with its copies.
    pub(crate) fn leave(&mut self, ordinal: u32, has: GtidSet) {
        if self.had.as_ref() != Some(&has) {
            self.left = Some(ordinal);
            self.had = Some(has);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_left_once_for_what_the_log_has() {
        let set = |text: &str| GtidSet::parse(text).unwrap();
        let mut elsewhere = Elsewhere::default();
        assert!(!elsewhere.is_told_by(&IntakeError::Ended), "a server that stops ends its streams");
        elsewhere.follows(true);
        assert!(elsewhere.is_told_by(&IntakeError::Ended));
        assert!(!elsewhere.is_left(4));
        elsewhere.leave(4, set("0-1-9"));
        assert!(elsewhere.is_left(4) && !elsewhere.is_left(5));
        // Nothing new in the next one: it is tried again and again in the same place, and no folder is made each time.
        elsewhere.leave(5, set("0-1-9"));
        assert!(!elsewhere.is_left(5));
        elsewhere.leave(5, set("0-1-10"));
        assert!(elsewhere.is_left(5));
    }
}
