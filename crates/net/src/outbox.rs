//! The outbox of a worker thread: small packets wait here until the thread has nothing else to do, and leave with one
//! system call. Each send on its own wakes its receiver, which then takes the processor from a worker that has more
//! to send; in a batch that happens once.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use delphinus_kernel::Sender;

use crate::rt;
use crate::socket::{Posted, Socket};

/// Larger ones are written at once, in bytes: copying them would cost more than it saves.
pub(crate) const LARGEST: usize = 8 * 1024;

/// The same of those that are not copied: what a socket takes at once. What it does not take is copied.
const LARGEST_SHARED: usize = 64 * 1024;

/// More than these do not wait, so that the first of them does not wait for ever.
const MOST: usize = 64;

/// Nor do more bytes.
const FULL: usize = 128 * 1024;

/// How long a peer may leave no room for what was posted, should its session not wait for it.
const PATIENCE: Duration = Duration::from_mins(1);

#[derive(Debug, Default)]
struct Outbox {
    letters: Vec<Letter>,
    bytes: Vec<u8>,
    sender: Option<Sender>,
}

#[derive(Debug)]
struct Letter {
    socket: Rc<Socket>,
    part: Part,
    is_sent: Cell<bool>,
}

/// What a letter says.
#[derive(Debug)]
enum Part {
    /// These bytes of the outbox, which are copies.
    Copied(Range<usize>),
    /// These, which are somebody else's, too.
    Shared(Arc<[u8]>),
}

impl Part {
    fn of<'a>(&'a self, copied: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Copied(range) => &copied[range.clone()],
            Self::Shared(bytes) => bytes,
        }
    }
}

thread_local! {
    /// None on a thread that does not empty it before it sleeps.
    static OUTBOX: RefCell<Option<Outbox>> = const { RefCell::new(None) };
}

/// Opens this thread's outbox. Who does so calls `flush` before the thread sleeps. With `io_uring`, packets leave with
/// one system call; without, or where the kernel does not allow it, each is sent on its own.
pub(crate) fn open(io_uring: bool) {
    let sender = if io_uring { Sender::new().ok() } else { None };
    OUTBOX.set(Some(Outbox { sender, ..Outbox::default() }));
}

/// True if packets leave with one system call.
pub(crate) fn is_batched() -> bool {
    OUTBOX.with_borrow(|outbox| outbox.as_ref().is_some_and(|outbox| outbox.sender.is_some()))
}

/// Closes the outbox.
pub(crate) fn close() {
    OUTBOX.set(None);
}

/// Takes a copy of `bytes` to be sent soon; false if they are not for the outbox and have to be written.
#[inline]
pub(crate) fn post(socket: &Rc<Socket>, bytes: &[u8]) -> bool {
    bytes.len() <= LARGEST
        && OUTBOX.with_borrow_mut(|outbox| outbox.as_mut().is_some_and(|outbox| outbox.take(socket, bytes)))
}

/// The same without a copy, unless the socket has no room for all of them.
#[inline]
pub(crate) fn post_shared(socket: &Rc<Socket>, bytes: &Arc<[u8]>) -> bool {
    bytes.len() <= LARGEST_SHARED
        && OUTBOX
            .with_borrow_mut(|outbox| outbox.as_mut().is_some_and(|outbox| outbox.take_shared(socket, bytes)))
}

/// True if a packet of up to `LARGEST` bytes for this socket would be taken now.
pub(crate) fn takes(socket: &Rc<Socket>) -> bool {
    OUTBOX.with_borrow_mut(|outbox| outbox.as_mut().is_some_and(|outbox| outbox.makes_way_for(socket)))
}

/// Sends everything.
pub(crate) fn flush() {
    OUTBOX.with_borrow_mut(|outbox| {
        if let Some(outbox) = outbox.as_mut().filter(|outbox| !outbox.letters.is_empty()) {
            outbox.send();
        }
    });
}

impl Outbox {
    fn makes_way_for(&mut self, socket: &Rc<Socket>) -> bool {
        let continues = self.letters.last().is_some_and(|last| Rc::ptr_eq(&last.socket, socket));
        if socket.posted() == Posted::InOutbox && !continues {
            // Two packets of one socket in one batch could change their order.
            self.send();
        }
        matches!(socket.posted(), Posted::Nothing | Posted::InOutbox)
    }

    fn take(&mut self, socket: &Rc<Socket>, bytes: &[u8]) -> bool {
        if !self.makes_way_for(socket) {
            return false;
        }
        let start = self.bytes.len();
        let part = start..start + bytes.len();
        match (socket.posted(), self.letters.last_mut()) {
            (Posted::InOutbox, Some(Letter { part: Part::Copied(last), .. })) => last.end = part.end,
            (Posted::InOutbox, _) => {
                // A shared one is before it: each part of a letter is one piece.
                self.send();
                return self.take(socket, bytes);
            }
            (Posted::Nothing, _) => self.push(socket, Part::Copied(part)),
            _ => return false,
        }
        self.bytes.extend_from_slice(bytes);
        self.send_if_full();
        true
    }

    fn take_shared(&mut self, socket: &Rc<Socket>, bytes: &Arc<[u8]>) -> bool {
        if socket.posted() == Posted::InOutbox {
            self.send();
        }
        if socket.posted() != Posted::Nothing {
            return false;
        }
        self.push(socket, Part::Shared(bytes.clone()));
        self.send_if_full();
        true
    }

    fn push(&mut self, socket: &Rc<Socket>, part: Part) {
        self.letters.push(Letter { socket: socket.clone(), part, is_sent: Cell::new(false) });
        socket.has_posted();
    }

    fn send_if_full(&mut self) {
        if self.letters.len() >= MOST || self.bytes.len() >= FULL {
            self.send();
        }
    }

    fn send(&mut self) {
        self.send_by_ring();
        for letter in self.letters.drain(..) {
            let socket = letter.socket;
            if !letter.is_sent.get() {
                let bytes = letter.part.of(&self.bytes);
                socket.was_sent(bytes, socket.send_now(bytes));
            }
            if socket.posted() == Posted::Stuck {
                rt::spawn_local(write_rest(socket));
            }
        }
        self.bytes.clear();
    }

    fn send_by_ring(&mut self) {
        let Self { letters, bytes, sender } = self;
        // For one packet the ring is the longer way.
        let Some(ring) = sender.as_mut().filter(|_| letters.len() > 1) else { return };
        let part = |at: usize| letters[at].part.of(bytes);
        let done = |at: usize, result| {
            letters[at].is_sent.set(true);
            letters[at].socket.was_sent(part(at), result);
        };
        if ring.send_all(letters.len(), |at| (letters[at].socket.as_fd(), part(at)), done).is_err() {
            *sender = None;
        }
    }
}

/// Writes what found no room, though the socket's session may be busy elsewhere.
async fn write_rest(socket: Rc<Socket>) {
    if rt::timeout(PATIENCE, socket.write_posted()).await.is_none() {
        socket.cut();
    }
}

#[cfg(test)]
mod tests;
