//! A hash table of words that is built when the crate is compiled.
//!
//! Owns: finding a word without regard to ASCII case, without allocation. Must not know what the words are.

/// Slots of a table over a list of words: each holds one more than the word's index, or 0.
pub(crate) struct WordTable<const SLOTS: usize>([u16; SLOTS]);

impl<const SLOTS: usize> WordTable<SLOTS> {
    /// A table over `words`, which are lower-case and at most half as many as there are slots; slots are a power of two.
    pub(crate) const fn new(words: &[&str]) -> Self {
        assert!(SLOTS.is_power_of_two() && words.len() * 2 <= SLOTS);
        let mut slots = [0; SLOTS];
        let mut index = 0;
        while index < words.len() {
            let mut slot = hash(words[index].as_bytes()) & (SLOTS - 1);
            while slots[slot] != 0 {
                slot = (slot + 1) & (SLOTS - 1);
            }
            index += 1;
            slots[slot] = index as u16;
        }
        Self(slots)
    }

    /// The index of `word` in the list, whose texts `text_of` answers.
    pub(crate) fn find(&self, word: &[u8], text_of: impl Fn(usize) -> &'static str) -> Option<usize> {
        let mut slot = hash(word) & (SLOTS - 1);
        loop {
            let index = usize::from(self.0[slot]).checked_sub(1)?;
            if text_of(index).as_bytes().eq_ignore_ascii_case(word) {
                return Some(index);
            }
            slot = (slot + 1) & (SLOTS - 1);
        }
    }
}

/// Mixes the first and the last eight bytes and the length: words of SQL differ there.
const fn hash(word: &[u8]) -> usize {
    let len = word.len();
    let head_len = if len < 8 { len } else { 8 };
    let mut head = 0_u64;
    let mut tail = 0_u64;
    let mut index = 0;
    while index < head_len {
        head = head << 8 | (word[index] | 0x20) as u64;
        tail = tail << 8 | (word[len - head_len + index] | 0x20) as u64;
        index += 1;
    }
    let mixed = (head ^ tail.rotate_left(29) ^ len as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 40) as usize
}
