//! What the targets share: taking a fuzzer's bytes apart into choices and packets.

/// A fuzzer's bytes, read from the front. Reads past the end give zeros and nothing.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    /// Starts at the first byte.
    pub fn new(data: &'a [u8]) -> Self {
        Self { rest: data }
    }

    /// One byte, to choose with.
    pub fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    /// Up to `n` bytes.
    pub fn bytes(&mut self, n: usize) -> &'a [u8] {
        let (head, tail) = self.rest.split_at(n.min(self.rest.len()));
        self.rest = tail;
        head
    }

    /// 8 bytes, as flags.
    pub fn flags(&mut self) -> u64 {
        let mut flags = [0; 8];
        let given = self.bytes(8);
        flags[..given.len()].copy_from_slice(given);
        u64::from_le_bytes(flags)
    }

    /// The next packet: a length of 2 bytes, and as many bytes as that, or fewer at the end.
    pub fn packet(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let len = u16::from_le_bytes([self.byte(), self.byte()]);
        Some(self.bytes(usize::from(len)))
    }

    /// Everything that is left.
    pub fn rest(self) -> &'a [u8] {
        self.rest
    }
}
