//! Equal rows in parentheses, side by side, to one row and `...`.
//!
//! Owns: remembering where the parentheses of each depth are in the normalised text.

/// Deeper parentheses are written as they are.
const DEPTH_MAX: usize = 16;

/// Offsets into the normalised text.
pub(super) struct Groups {
    /// Where the text begins.
    start: usize,
    depth: usize,
    open: [usize; DEPTH_MAX],
    /// The last closed group of each depth: its range, and where the text behind it (and its `...`) ends.
    last: [(usize, usize, usize); DEPTH_MAX],
}

impl Groups {
    pub(super) fn new(start: usize) -> Self {
        Self { start, depth: 0, open: [0; DEPTH_MAX], last: [(0, 0, 0); DEPTH_MAX] }
    }

    /// An opening parenthesis is about to be written at `at`.
    pub(super) fn open(&mut self, at: usize) {
        if let Some(open) = self.open.get_mut(self.depth) {
            *open = at;
        }
        self.depth += 1;
        if let Some(last) = self.last.get_mut(self.depth) {
            *last = (0, 0, 0);
        }
    }

    /// A closing parenthesis has just been written. A group equal to the one before it is taken out again.
    pub(super) fn close(&mut self, out: &mut Vec<u8>) {
        let Some(depth) = self.depth.checked_sub(1) else { return };
        self.depth = depth;
        if depth >= DEPTH_MAX {
            return;
        }
        let start = self.open[depth];
        let (last_start, last_end, tail) = self.last[depth];
        let is_list = last_end > 0
            && out[tail..start] == *b", "
            && !self.is_call(out, last_start)
            && out[last_start..last_end] == out[start..];
        if !is_list {
            self.last[depth] = (start, out.len(), out.len());
            return;
        }
        out.truncate(tail);
        if tail == last_end {
            out.extend_from_slice(b", ...");
            self.last[depth].2 = out.len();
        }
    }

    /// Whether the parenthesis at `at` holds the arguments of a call: nothing stands between it and a name.
    fn is_call(&self, out: &[u8], at: usize) -> bool {
        at > self.start && !matches!(out[at - 1], b' ' | b'(')
    }
}
