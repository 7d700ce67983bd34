//! From the bytes of a connection to durable groups: packets become events, events become files, files are synced and published.
//!
//! Owns: what is written where, and when. Must not know sockets or which family the source is of: it gets bytes, and gives the
//! acknowledgement that is due. Blocks on the disk: the thread it runs on has nothing else to do.
//!
//! | question | file |
//! |---|---|
//! | packets and semi-sync's marks | `packets` |
//! | events: checked, stored or not, borders of groups | `writer`, `writer/event` |
//! | one write, one fdatasync, the end | `writer/commit` |
//! | a new file | `writer/begin` |
//! | the file system, as far as it matters here | `disk` |
//! | what is wrong | `error` |

pub(crate) mod disk;
pub(crate) mod error;
pub(crate) mod packets;
pub(crate) mod writer;

pub(crate) use disk::{Disk, Files};
pub(crate) use error::IntakeError;
pub(crate) use packets::{Packets, Piece};
pub(crate) use writer::{Ack, Start, Writer};

#[cfg(test)]
pub(crate) mod tests;
