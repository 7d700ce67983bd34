//! From a text to words. Operators' commands are short and have no expressions, so white space and quotes are all there
//! is to know.

/// A word of a text, without its quotes, and where it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) text: String,
    pub(crate) is_quoted: bool,
    pub(crate) end: usize,
}

impl Word {
    /// True for this word, unless it is quoted.
    pub(crate) fn is(&self, word: &str) -> bool {
        !self.is_quoted && self.text.eq_ignore_ascii_case(word)
    }
}

/// The text without comments before it, white space and semicolons around it.
pub(crate) fn trimmed(text: &str) -> &str {
    let mut rest = text.trim();
    loop {
        let after = if let Some(comment) = rest.strip_prefix("/*") {
            comment.split_once("*/").map_or("", |(_, after)| after)
        } else if rest.starts_with('#') || rest.starts_with("-- ") || rest == "--" {
            rest.split_once('\n').map_or("", |(_, after)| after)
        } else {
            return rest.trim_end_matches(|c: char| c == ';' || c.is_whitespace());
        };
        rest = after.trim_start();
    }
}

/// The words of a text. Quotes are `'`, `"` and a backtick, doubled inside; a quote that is not closed ends with the text.
pub(crate) fn words(text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut chars = text.char_indices().peekable();
    while let Some((_, first)) = chars.next() {
        if first.is_whitespace() {
            continue;
        }
        let mut word = String::new();
        let is_quoted = matches!(first, '\'' | '"' | '`');
        if is_quoted {
            while let Some((_, one)) = chars.next() {
                if one == first && chars.next_if(|(_, next)| *next == first).is_none() {
                    break;
                }
                word.push(one);
            }
        } else {
            word.push(first);
            while let Some((_, one)) = chars.next_if(|(_, next)| !next.is_whitespace() && *next != '\'') {
                word.push(one);
            }
        }
        let end = chars.peek().map_or(text.len(), |(at, _)| *at);
        words.push(Word { text: word, is_quoted, end });
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<String> {
        words(text).into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn words_are_split_at_white_space_and_quotes() {
        assert_eq!(split("SET  BACKEND\t[::1]:3306\nONLINE"), ["SET", "BACKEND", "[::1]:3306", "ONLINE"]);
        assert_eq!(split("SHOW POOLS LIKE 'a b%'"), ["SHOW", "POOLS", "LIKE", "a b%"]);
        assert_eq!(split("LIKE'it''s' `b``c` \"x"), ["LIKE", "it's", "b`c", "x"]);
        assert_eq!(split("  "), [""; 0]);
        let found = words("EXPLAIN ROUTE  SELECT 'x'");
        assert_eq!(&"EXPLAIN ROUTE  SELECT 'x'"[found[1].end..], "  SELECT 'x'");
        assert!(words("'set'")[0].is_quoted && !words("'set'")[0].is("set") && words("sEt")[0].is("SET"));
    }

    #[test]
    fn comments_and_semicolons_around_a_text_do_not_count() {
        for text in ["SHOW X", " SHOW X ; ;", "/* a */ SHOW X", "-- a\nSHOW X", "# a\n/*b*//**/SHOW X;"] {
            assert_eq!(trimmed(text), "SHOW X", "{text}");
        }
        for text in ["", ";", "/* never closed", "-- a", "--"] {
            assert_eq!(trimmed(text), "", "{text}");
        }
        assert_eq!(trimmed("SHOW /* a */ X"), "SHOW /* a */ X");
    }
}
