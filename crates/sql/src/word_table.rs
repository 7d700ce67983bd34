//! A hash table of words that is built when the crate is compiled.
//!
//! Owns: finding a word without regard to ASCII case, without allocation. Must not know what the words are.

/// Slots of a table over a list of words: each holds one more than the word's index in its lower half, and a part of
/// the word's hash in its upper half; or 0.
pub(crate) struct WordTable<const SLOTS: usize>([u32; SLOTS]);

impl<const SLOTS: usize> WordTable<SLOTS> {
    /// A table over `words`, which are lower-case and at most half as many as there are slots; slots are a power of two.
    pub(crate) const fn new(words: &[&str]) -> Self {
        assert!(SLOTS.is_power_of_two() && words.len() * 2 <= SLOTS && words.len() < INDEX as usize);
        let mut slots = [0; SLOTS];
        let mut index = 0;
        while index < words.len() {
            let hash = hash(words[index].as_bytes());
            let mut slot = Self::slot(hash);
            while slots[slot] != 0 {
                slot = (slot + 1) & (SLOTS - 1);
            }
            index += 1;
            slots[slot] = hash & !INDEX | index as u32;
        }
        Self(slots)
    }

    /// The index of `word` in the list, whose texts `text_of` answers.
    #[inline]
    pub(crate) fn find(&self, word: &[u8], text_of: impl Fn(usize) -> &'static str) -> Option<usize> {
        let hash = hash(word);
        let mut slot = Self::slot(hash);
        loop {
            let held = self.0[slot];
            let index = (held & INDEX).checked_sub(1)? as usize;
            // Most words are in no table: what only shares a slot with one that is need not be compared with it.
            if (held ^ hash) & !INDEX == 0 && is_in_small(text_of(index).as_bytes(), word) {
                return Some(index);
            }
            slot = (slot + 1) & (SLOTS - 1);
        }
    }

    const fn slot(hash: u32) -> usize {
        hash as usize & (SLOTS - 1)
    }
}

/// The half of a slot with the index.
const INDEX: u32 = 0xffff;

/// Mixes the ends of a word and its length: words of SQL differ there.
#[inline]
const fn hash(word: &[u8]) -> u32 {
    let (head, tail) = ends(word);
    // Capitals and small letters differ in this bit. So do other bytes, which then share a slot.
    let (head, tail) = (head | SMALL, tail | SMALL);
    let mixed = (head ^ tail.rotate_left(29) ^ word.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u32
}

const SMALL: u64 = u64::from_ne_bytes([0x20; 8]);

/// Whether `word` is `small`, which is in small letters, digits and underscores.
#[inline]
fn is_in_small(small: &[u8], word: &[u8]) -> bool {
    if small.len() != word.len() {
        return false;
    }
    if word.len() > LONGEST_OF_ENDS {
        return small.eq_ignore_ascii_case(word);
    }
    let ((small_head, small_tail), (head, tail)) = (ends(small), ends(word));
    is_same(small_head, head) && is_same(small_tail, tail)
}

/// The same of eight bytes: they may differ in the bit of capitals, where the small one is a letter.
#[inline]
const fn is_same(small: u64, bytes: u64) -> bool {
    // Of the bytes in question, letters alone have both this bit and the next one.
    let letters = small & (small >> 1) & SMALL;
    (small ^ bytes) & !letters == 0
}

/// In words that are not longer, each byte is in one of the ends.
const LONGEST_OF_ENDS: usize = 16;

/// The first and the last bytes of a word, up to eight of each.
#[inline]
const fn ends(word: &[u8]) -> (u64, u64) {
    match (word.first_chunk(), word.last_chunk()) {
        (Some(head), Some(tail)) => (u64::from_le_bytes(*head), u64::from_le_bytes(*tail)),
        _ => short(word),
    }
}

/// The first and the last bytes of a word of less than eight.
const fn short(word: &[u8]) -> (u64, u64) {
    match (word.first_chunk(), word.last_chunk()) {
        (Some(head), Some(tail)) => (u32::from_le_bytes(*head) as u64, u32::from_le_bytes(*tail) as u64),
        _ => match word {
            [] => (0, 0),
            [first, .., last] => (*first as u64, (word[word.len() / 2] as u64) << 8 | *last as u64),
            [only] => (*only as u64, 0),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: &[&str] = &[
        "a",
        "as",
        "and",
        "from",
        "group",
        "select",
        "truncate",
        "last_insert_id",
        "a_word_of_more_than_16_x",
    ];
    static TABLE: WordTable<32> = WordTable::new(WORDS);

    fn find(word: &[u8]) -> Option<usize> {
        TABLE.find(word, |index| WORDS[index])
    }

    #[test]
    fn words_are_found_in_every_case() {
        for (index, word) in WORDS.iter().enumerate() {
            assert_eq!(find(word.as_bytes()), Some(index), "{word}");
            assert_eq!(find(word.to_ascii_uppercase().as_bytes()), Some(index), "{word}");
        }
    }

    #[test]
    fn one_other_byte_makes_another_word() {
        for word in WORDS {
            for at in 0..word.len() {
                for byte in 0..=255 {
                    let mut other = word.as_bytes().to_vec();
                    other[at] = byte;
                    let is_word = WORDS.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(&other));
                    assert_eq!(find(&other).is_some(), is_word, "{other:?}");
                }
            }
            assert_eq!(find(format!("{word}_").as_bytes()), None);
        }
        assert_eq!(find(b""), None);
    }
}
