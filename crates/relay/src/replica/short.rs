//! What a replica has sent, in errors and in the log: not more than one wants to read, and nothing that a terminal takes for an order.

use std::fmt::{self, Write};

/// The longest text, in bytes.
const MOST: usize = 1024;

/// The front of a text, control characters escaped.
#[derive(Debug, Clone, Copy)]
pub(super) struct Short<'a>(pub(super) &'a str);

impl fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, character) in self.0.char_indices() {
            if at >= MOST {
                return f.write_str("..");
            }
            if character.is_control() {
                write!(f, "{}", character.escape_default())?;
            } else {
                f.write_char(character)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_and_control_characters_escaped() {
        assert_eq!(Short("binlog.\u{1b}[1m\n7 'ä'").to_string(), "binlog.\\u{1b}[1m\\n7 'ä'");
        assert_eq!(Short(&"ä".repeat(1 << 20)).to_string().len(), MOST + 2);
    }
}
