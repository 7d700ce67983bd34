//! A buffer that is filled at its end and emptied at its front, and the pool that idle ones return to: a
//! session that waits for its client holds none.

use std::cell::RefCell;
use std::rc::Rc;

use zeroize::{Zeroize, Zeroizing};

/// Bytes read and not yet consumed.
#[derive(Debug, Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

impl Buffer {
    /// An empty buffer with room for `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { bytes: Vec::with_capacity(capacity), start: 0 }
    }

    /// The unconsumed bytes.
    #[inline]
    pub fn data(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// The unconsumed bytes, to change in place.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }

    /// How many bytes are unconsumed.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// True if nothing is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops the first `n` unconsumed bytes.
    #[inline]
    pub fn consume(&mut self, n: usize) {
        debug_assert!(n <= self.len());
        self.start += n;
        if self.start >= self.bytes.len() {
            self.clear();
        }
    }

    /// Keeps the first `n` unconsumed bytes.
    #[inline]
    pub fn truncate(&mut self, n: usize) {
        self.bytes.truncate(self.start + n);
    }

    /// Drops everything.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.start = 0;
    }

    /// Overwrites everything but the unconsumed bytes: a login leaves passwords.
    pub fn wipe(&mut self) {
        let rest = Zeroizing::new(self.data().to_vec());
        self.bytes.zeroize();
        self.bytes.extend_from_slice(&rest);
        self.start = 0;
    }

    /// The unconsumed bytes in a buffer that has room for nothing else; this one is empty then.
    #[must_use]
    pub fn take_exactly(&mut self) -> Self {
        let bytes = self.data().to_vec();
        self.clear();
        Self { bytes, start: 0 }
    }

    /// Makes room for at least `n` more bytes, first by moving what is left to the front.
    pub fn reserve(&mut self, n: usize) {
        if self.bytes.capacity() - self.bytes.len() >= n {
            return;
        }
        if self.start > 0 {
            self.bytes.copy_within(self.start.., 0);
            self.bytes.truncate(self.bytes.len() - self.start);
            self.start = 0;
        }
        self.bytes.reserve(n);
    }

    /// Moves what is left to the front, if there is anything in front of it.
    #[inline]
    pub fn compact(&mut self) {
        self.reserve(self.bytes.capacity() - self.len());
    }

    /// Room at the end, in bytes.
    pub fn spare(&self) -> usize {
        self.bytes.capacity() - self.bytes.len()
    }

    /// How large it has grown.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// The vector to append to. What was consumed stays in front of it: nothing but appending is allowed.
    pub fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Appends `bytes`.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        self.bytes.extend_from_slice(bytes);
    }
}

/// One worker's spare buffers.
#[derive(Debug, Clone)]
pub struct BufferPool {
    spare: Rc<RefCell<Vec<Buffer>>>,
    size: usize,
    keep: usize,
}

impl BufferPool {
    /// Buffers of `size` bytes, of which at most `keep` wait for the next user.
    pub fn new(size: usize, keep: usize) -> Self {
        Self { spare: Rc::new(RefCell::new(Vec::with_capacity(keep))), size, keep }
    }

    /// An empty buffer.
    #[inline]
    pub fn take(&self) -> Buffer {
        self.spare.borrow_mut().pop().unwrap_or_else(|| Buffer::with_capacity(self.size))
    }

    /// Gives a buffer back. Those that a large packet has made grow are freed instead.
    #[inline]
    pub fn give(&self, mut buffer: Buffer) {
        let mut spare = self.spare.borrow_mut();
        if spare.len() < self.keep && buffer.capacity() >= self.size && buffer.capacity() <= 4 * self.size {
            buffer.clear();
            spare.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consuming_and_reserving_keep_the_rest() {
        let mut buffer = Buffer::with_capacity(8);
        buffer.extend(b"abcdefgh");
        buffer.consume(6);
        buffer.reserve(6);
        assert_eq!((buffer.data(), buffer.capacity()), (&b"gh"[..], 8));
        buffer.extend(b"ij");
        assert_eq!(buffer.data(), b"ghij");
        buffer.consume(2);
        buffer.compact();
        assert_eq!((buffer.data(), buffer.capacity(), buffer.spare()), (&b"ij"[..], 8, 6));
        buffer.consume(2);
        buffer.compact();
        assert!(buffer.is_empty());
        assert_eq!(buffer.spare(), 8);
    }

    #[test]
    fn wiping_leaves_what_is_to_come_and_nothing_else() {
        let mut buffer = Buffer::with_capacity(16);
        buffer.extend(b"secret\0next");
        buffer.consume(7);
        buffer.wipe();
        assert_eq!((buffer.data(), buffer.capacity()), (&b"next"[..], 16));
        buffer.consume(4);
        buffer.wipe();
        // What safe code can see of the room: it is written again with what is there.
        buffer.tail().resize(16, 0);
        assert_eq!(buffer.data(), [0; 16]);
    }

    #[test]
    fn the_pool_keeps_no_more_and_no_larger_than_told() {
        let pool = BufferPool::new(16, 1);
        pool.give(Buffer::with_capacity(1024));
        assert_eq!(pool.spare.borrow().len(), 0);
        pool.give(Buffer::with_capacity(16));
        pool.give(Buffer::with_capacity(16));
        assert_eq!(pool.spare.borrow().len(), 1);
    }
}
