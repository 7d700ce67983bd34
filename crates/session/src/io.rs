//! The client's end: its stream, and what it has sent and nobody has taken yet.

use delphinus_memory::Permit;
use delphinus_net::{Buffer, Stream};

/// One client's connection.
pub(crate) struct Client {
    pub stream: Stream,
    /// What the client has sent and nobody has taken yet; empty and without room while the session is idle.
    pub buffer: Buffer,
    /// For what of the buffers is more than the ordinary size.
    pub room: Permit,
    /// Bytes at the front of the buffer that are a command already sent, kept in case it has to be sent again.
    pub kept: usize,
    /// A command whose place in the buffer the client's file has taken.
    pub before_file: Option<Box<Buffer>>,
    /// The sequence id of an error that would be sent now; `None` where part of a packet has been sent.
    pub error_seq: Option<u8>,
    /// The statement that runs may make a server ask for a file of the client's.
    pub may_send_file: bool,
}
