//! `SHOW PROCESSLIST`: how much of each statement it shows.

use crate::LexOptions;
use crate::names::bare_words;

/// True for `SHOW FULL PROCESSLIST`.
pub fn shows_whole_statements(sql: &[u8], options: LexOptions) -> bool {
    bare_words(sql, options).any(|word| word.eq_ignore_ascii_case(b"full"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_is_a_word_of_its_own() {
        for (sql, is_whole) in [
            ("SHOW full PROCESSLIST", true),
            ("SHOW PROCESSLIST -- not full", false),
            ("/* full */ SHOW PROCESSLIST", false),
        ] {
            assert_eq!(shows_whole_statements(sql.as_bytes(), LexOptions::default()), is_whole, "{sql}");
        }
    }
}
