//! Why nothing more can be taken in on a connection.

use std::io;
use std::path::PathBuf;

use delphinus_wire::Malformed;
use delphinus_wire::error_code::ER_SOURCE_FATAL_ERROR_READING_BINLOG;
use delphinus_wire::response::ErrPacket;
use thiserror::Error;

/// What is wrong.
#[derive(Debug, Error)]
pub(crate) enum IntakeError {
    /// The disk. Nothing that was acknowledged is concerned.
    #[error("cannot write {}: {error}; the relay tries again, and the source keeps what is missing", .path.display())]
    Disk {
        /// What was written.
        path: PathBuf,
        /// The system's word.
        error: io::Error,
    },
    /// The source ends the stream with an error.
    #[error("the source ends the stream with error {}: {}", .0.code, .0.text())]
    Refused(ErrPacket),
    /// The source ends the stream.
    #[error("the source has ended the stream")]
    Ended,
    /// Bytes that are no events, or a wrong checksum.
    #[error("the source has sent what cannot be read: {0}")]
    Malformed(#[from] Malformed),
    /// A position that does not follow the one before.
    #[error(
        "the source's position {log_pos} in {name} does not follow {at}: events are missing between them"
    )]
    Gap {
        /// The file.
        name: Box<str>,
        /// Where the next event had to begin, plus its size.
        at: u64,
        /// What the event says.
        log_pos: u32,
    },
    /// The file at the source is another one than here.
    #[error("the source's file {0} is not the one that the relay has: the source has another history")]
    OtherHistory(Box<str>),
    /// The source has only a part of a group, and nothing more in that file: MariaDB does not cut that off when it starts after a crash.
    #[error(
        "the source's file {name} breaks off inside of a group ({said}): the source was killed while it wrote that; the relay asks it by \
         GTID for what follows"
    )]
    Torn {
        /// The file.
        name: Box<str>,
        /// What the source says.
        said: String,
    },
    /// The source goes on with a file that does not come after the one before.
    #[error(
        "the source goes on with file {name} after {last}: that is a file of another history; the relay asks it by GTID for what it lacks"
    )]
    NoNextFile {
        /// What the source says.
        name: Box<str>,
        /// The file of the log's end.
        last: Box<str>,
    },
    /// A file of another source begins behind the end of the log.
    #[error(
        "the source's file {name} begins after {previous}, and the relay lacks some of that: the source has two files of this name; let \
         the relay follow the primary itself, or begin with an empty folder"
    )]
    BeginsLate {
        /// The file.
        name: Box<str>,
        /// What is before it.
        previous: String,
    },
}

impl IntakeError {
    /// True if the source does not go on where the log ends: it has another history, or its file breaks off.
    pub(crate) fn is_other_history(&self) -> bool {
        matches!(self, Self::OtherHistory(_) | Self::NoNextFile { .. } | Self::Torn { .. })
    }

    /// True if the source's file ends before the position that it was asked for.
    pub(crate) fn is_behind_end(&self) -> bool {
        let Self::Refused(packet) = self else { return false };
        let text = packet.text();
        // MySQL and relays; MariaDB. Error 1236 has many other causes.
        let words = ["from position > file size", "from impossible position"];
        packet.code == ER_SOURCE_FATAL_ERROR_READING_BINLOG && words.iter().any(|word| text.contains(word))
    }

    pub(crate) fn disk(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |error| Self::Disk { path, error }
    }
}
