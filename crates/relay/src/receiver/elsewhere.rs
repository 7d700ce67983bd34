//! Whether the stream goes on in the file that the log ends with, or the source is asked by GTID, for a new folder.
//!
//! A source may know the file, and all the same not go on from its end: a relay that is followed comes to the files of another primary.
//! Owns that memory. Must not know sockets.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use delphinus_wire::gtid::GtidSet;

use crate::intake::IntakeError;
use crate::log::Log;
use crate::source::SourceError;

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

    /// What an error is here. The file that the log ends with is the source's own, by its head, and yet the source has not all of it:
    /// it had sent that, and has lost it. Numbers of what was lost may come again with something else in them, so that asking by GTID would
    /// hide it. Of a relay the same may be that it is not as far yet: it is asked again.
    pub(crate) fn judge(&self, error: SourceError, log: &Log) -> SourceError {
        let is_lost = matches!(&error, SourceError::Intake(error) if error.is_behind_end());
        let end = log.end().and_then(|end| Some((log.file(end.ordinal)?, end.offset)));
        match end.filter(|_| is_lost && !self.is_after_relay.load(Relaxed)) {
            None => error,
            Some((file, offset)) => SourceError::Stop(format!(
                "the source has lost the end of its file {}: the relay has it up to {offset}, and {error}. This \
                 happens after a crash of its machine if sync_binlog is not 1. What it has lost is in this relay, \
                 and in replicas of it: make one of them the primary; \
                 or, to go on with this source without that, set replicas of the relay up anew, and begin with an empty folder. They cannot \
                 follow it",
                file.name
            )),
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
    use std::sync::Arc;

    use delphinus_wire::binlog::Checksum;
    use delphinus_wire::response::ErrPacket;

    use super::*;
    use crate::intake::tests::Place;
    use crate::intake::tests::histories::run;
    use crate::intake::tests::recovery::first_start;
    use crate::intake::tests::stream::{GroupKind, Source};
    use crate::intake::{Files, Writer};

    /// A source that says this as its answer to the log's end.
    fn judged(elsewhere: &Elsewhere, log: &Log, text: &str) -> SourceError {
        let mut packet = b"\xff\xd4\x04#HY000".to_vec();
        packet.extend_from_slice(text.as_bytes());
        elsewhere.judge(IntakeError::Refused(ErrPacket::parse(&packet).unwrap()).into(), log)
    }

    #[test]
    fn a_source_that_has_lost_the_end_of_its_log_is_not_asked_again() {
        let place = Place::new();
        let log = Arc::new(Log::new(&place.0));
        let mut writer = Writer::new(log.clone(), Files);
        writer.start(first_start(), Checksum::Crc32).unwrap();
        let source = Source::new(&[&[GroupKind::Ddl]], Checksum::Crc32);
        run(&mut writer, &source.sends(0, 4, true)).unwrap();
        let mysql = "Client requested source to start replication from position > file size";
        let mariadb = "Client requested master to start replication from impossible position; the first event 'binlog.000001' at 900, the \
                       last event read from 'binlog.000001' at 4";
        let elsewhere = Elsewhere::default();
        for text in [mysql, mariadb] {
            let error = judged(&elsewhere, &log, text);
            assert!(error.is_final() && error.to_string().contains("binlog.000001"), "{error}");
        }
        for other in [
            "Could not find first log file name in binary log index file",
            "A replica with the same server_uuid/server_id as this replica has connected to the source",
        ] {
            assert!(!judged(&elsewhere, &log, other).is_final(), "{other}");
        }
        // A relay may only be behind.
        elsewhere.follows(true);
        assert!(!judged(&elsewhere, &log, mysql).is_final());
    }

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
