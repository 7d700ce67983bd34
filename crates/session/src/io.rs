//! The client's end: its stream, and what it has sent and nobody has taken yet.

mod attended_command;
mod beside;
mod broken;
mod cut_short;
mod input;
mod passage;
mod relay;
mod renumbering;
mod send;
mod text;

use std::rc::Rc;
use std::sync::Arc;

use crate::spent::Spent;
use delphinus_memory::Permit;
use delphinus_net::{Buffer, BufferPool, Stream};
use delphinus_state::Ages;
use delphinus_telemetry::ClusterCounters;
use delphinus_wire::command::{BackendStmtId, STMT_ID_AT};
use delphinus_wire::{Capabilities, Frame, HEADER_LEN, put_packet};

pub(crate) use beside::{Beside, Break, while_wanted};
pub(crate) use broken::Cut;
pub(crate) use cut_short::Ending;
pub(crate) use input::{BUFFER_SIZE, HELD, Input, Waited};
pub(crate) use relay::{Heard, LastBytes, Relayed};
pub(crate) use text::Text;

use renumbering::Renumbering;

/// What the clients of one worker share.
pub(crate) struct Equipment {
    /// Spare buffers of its thread.
    pub buffers: BufferPool,
    /// Those of its cluster.
    pub counters: Arc<ClusterCounters>,
    /// How long it may take for the rest of a command, for a server to take a piece of one, and for a client to take an answer, in seconds.
    pub net_timeout_s: u64,
    /// Commands are no longer than this, in bytes.
    pub max_command: std::cell::Cell<u64>,
}

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
    /// The backend was sent a packet more than the client has sent, and numbers its answer by that.
    renumbering: Option<Box<Renumbering>>,
    /// What the client and the proxy agreed on.
    pub capabilities: Capabilities,
    pub equipment: Rc<Equipment>,
    /// The statement that runs may make a server ask for a file of the client's.
    pub may_send_file: bool,
    /// What it is told of ages by the backend that the statement runs on.
    pub ages: Ages,
    /// Bytes that were sent to it.
    sent: u64,
    /// Bytes that came from it.
    received: u64,
    spent: Rc<Spent>,
}

impl Client {
    /// One that has logged in; `buffer` has what it has sent behind its login.
    pub(crate) fn new(
        stream: Stream,
        buffer: Buffer,
        room: Permit,
        capabilities: Capabilities,
        (equipment, spent): (Rc<Equipment>, Rc<Spent>),
    ) -> Self {
        let received = buffer.len() as u64;
        Self {
            stream,
            buffer,
            room,
            kept: 0,
            before_file: None,
            error_seq: Some(1),
            renumbering: None,
            capabilities,
            equipment,
            may_send_file: false,
            ages: Ages::Hidden,
            sent: 0,
            received,
            spent,
        }
    }

    /// Puts another command in the place of the one at the front of the buffer. It fits into one packet.
    pub(crate) fn replace_command(&mut self, input: Input, payload: &[u8]) -> Input {
        let mut packet = Vec::with_capacity(payload.len() + HEADER_LEN);
        put_packet(&mut packet, 0, payload);
        self.replace_packet(input, &packet);
        Input { frame: Frame { len: payload.len(), seq: 0 }, held: packet.len(), shift: 0 }
    }

    /// The same with a packet, or the first one of several.
    pub(crate) fn replace_packet(&mut self, input: Input, packet: &[u8]) {
        let rest = self.buffer.data()[input.held..].to_vec();
        self.received = (self.received + packet.len() as u64).wrapping_sub(input.held as u64);
        self.buffer.clear();
        self.buffer.extend(packet);
        self.buffer.extend(&rest);
    }

    /// How many bytes were sent to it.
    #[inline]
    pub(crate) fn given(&self) -> u64 {
        self.sent
    }

    /// How many of the bytes that came were commands that have been taken.
    #[inline]
    pub(crate) fn taken(&self) -> u64 {
        self.received + self.kept as u64 - self.buffer.len() as u64
    }

    /// Forgets the command that was kept to be sent again.
    #[inline]
    pub(crate) fn drop_kept(&mut self) {
        self.before_file = None;
        self.buffer.consume(std::mem::take(&mut self.kept));
    }

    /// Puts the backend's id into the command at the front of the buffer.
    #[inline]
    pub(crate) fn write_stmt_id(&mut self, id: BackendStmtId) {
        let at = HEADER_LEN + STMT_ID_AT.start..HEADER_LEN + STMT_ID_AT.end;
        self.buffer.data_mut()[at].copy_from_slice(&id.0.to_le_bytes());
    }

    /// The command that was sent last, if it is kept.
    pub(crate) fn kept_command(&self) -> Option<&[u8]> {
        match &self.before_file {
            Some(command) => Some(command.data()),
            None => self.buffer.data().get(..self.kept).filter(|command| !command.is_empty()),
        }
    }

    /// Counts bytes that go to the client.
    #[inline]
    pub(crate) fn count_sent(&mut self, bytes: usize) {
        self.sent += bytes as u64;
        self.equipment.counters.client_bytes_out.add(bytes as u64);
    }

    /// Posts the last bytes of a response, if they are few, as of most; false if they have to be written.
    #[inline]
    pub(crate) fn post_last(&mut self, rest: &mut Buffer, len: usize) -> bool {
        let is_posted = self.stream.post(&rest.data()[..len]);
        if is_posted {
            self.count_sent(len);
            self.equipment.buffers.give(std::mem::take(rest));
        }
        is_posted
    }
}
