//! What a text says of the statements that it puts together.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::{literal_text, user_variable_name};
use crate::LexOptions;
use crate::cursor::Cursor;
use crate::keyword::Keyword;
use crate::lexer::TokenKind;

/// The expression whose value is run by a text that is one `EXECUTE IMMEDIATE`, or prepared by one `PREPARE`.
pub fn dynamic_expression(sql: &[u8], options: LexOptions) -> Option<&[u8]> {
    let mut cursor = Cursor::new(sql, options);
    if cursor.eat(Keyword::Prepare) {
        cursor.bump();
        cursor.eat(Keyword::From).then_some(())?;
    } else if !cursor.eat(Keyword::Execute) || !cursor.eat(Keyword::Immediate) {
        return None;
    }
    let start = cursor.here.start;
    let mut depth = 0_usize;
    while !cursor.at_end() {
        match cursor.here.kind {
            TokenKind::Open => depth += 1,
            TokenKind::Close => depth = depth.checked_sub(1)?,
            // CONVERT(.. USING ..) has it, too.
            _ if depth == 0 && cursor.keyword() == Keyword::Using => break,
            _ => {}
        }
        cursor.bump();
    }
    // Not the comment behind it, which something may follow then.
    let found = sql.get(start..cursor.before.end)?.trim_ascii();
    (!found.is_empty()).then_some(found)
}

/// How much of a variable's value counts: what kills is short.
const VALUE_MAX: usize = 256;

/// True if the literals of a text, and the values of its user variables, spell `word` one behind the other, in letters of either
/// case, without what is between them.
pub fn spells(sql: &[u8], options: LexOptions, word: &str, value: impl Fn(&str) -> Option<String>) -> bool {
    let mut cursor = Cursor::new(sql, options);
    let mut seen: Vec<u8> = Vec::new();
    // A name may stand in a text as often as it has room, and a value has to be decoded.
    let mut values: HashMap<String, Vec<u8>> = HashMap::new();
    let has_word =
        |text: &[u8]| text.windows(word.len()).any(|one| one.eq_ignore_ascii_case(word.as_bytes()));
    while !cursor.here.is(TokenKind::End) {
        let token = cursor.bump();
        match token.kind {
            TokenKind::Text => seen.extend(literal_text(token, sql, options).bytes()),
            TokenKind::UserVariable => match values.entry(user_variable_name(token, sql, options)) {
                Entry::Occupied(known) => seen.extend(known.get()),
                Entry::Vacant(place) => {
                    let mut value = value(place.key()).unwrap_or_default().into_bytes();
                    value.truncate(VALUE_MAX);
                    if has_word(&value) {
                        return true;
                    }
                    seen.extend(&*place.insert(ends(value, word.len() - 1)));
                }
            },
            _ => continue,
        }
        if has_word(&seen) {
            return true;
        }
        // The end of it may be the beginning of the word.
        let kept = seen.len().saturating_sub(word.len().saturating_sub(1));
        seen.drain(..kept);
    }
    false
}

/// The beginning and the end of a value, so much of each, which no word reaches over.
fn ends(mut value: Vec<u8>, each: usize) -> Vec<u8> {
    if value.len() > 2 * each {
        value.splice(each..value.len() - each, [0]);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expression_that_is_run_or_prepared() {
        for (sql, expression) in [
            ("EXECUTE IMMEDIATE CONCAT('a', @b);", Some("CONCAT('a', @b)")),
            ("EXECUTE IMMEDIATE CONVERT(@a USING utf8mb4) USING 5, @b", Some("CONVERT(@a USING utf8mb4)")),
            ("PREPARE s FROM @a", Some("@a")),
            ("prepare `s` from /* x */ UPPER('kill 5')", Some("UPPER('kill 5')")),
            ("EXECUTE IMMEDIATE CONCAT('a') -- b", Some("CONCAT('a')")),
            ("PREPARE s FROM @a # b", Some("@a")),
            ("EXECUTE s USING @a", None),
            ("EXECUTE IMMEDIATE", None),
            ("PREPARE s", None),
            ("EXECUTE IMMEDIATE 'a') + (1", None),
        ] {
            let found = dynamic_expression(sql.as_bytes(), LexOptions::default());
            assert_eq!(found.map(|found| std::str::from_utf8(found).expect("UTF-8")), expression, "{sql}");
        }
    }

    #[test]
    fn words_that_are_put_together() {
        let value = |name: &str| (name == "k").then(|| "kill 5".to_owned());
        let spells = |sql: &str| spells(sql.as_bytes(), LexOptions::default(), "kill", value);
        assert!(spells("BEGIN NOT ATOMIC EXECUTE IMMEDIATE CONCAT('k', 'I', \"LL\", 5); END"));
        assert!(spells("BEGIN NOT ATOMIC EXECUTE IMMEDIATE @k; END"));
        assert!(!spells("BEGIN NOT ATOMIC EXECUTE IMMEDIATE @other; KILL; SELECT 'kil', 1; END"));
    }

    #[test]
    fn a_value_is_decoded_once_and_read_once() {
        let decoded = std::cell::Cell::new(0);
        let spells = |sql: &str| {
            let value = |name: &str| {
                decoded.set(decoded.get() + 1);
                Some(match name {
                    "ll" => format!("ll{}", "x".repeat(200)),
                    "ki" => format!("{}ki", "x".repeat(200)),
                    "in" => format!("{}kill{}", "x".repeat(100), "x".repeat(100)),
                    "late" => format!("{}kill", "x".repeat(VALUE_MAX)),
                    short => short.to_owned(),
                })
            };
            super::spells(sql.as_bytes(), LexOptions::default(), "kill", value)
        };
        assert!(!spells(&format!("EXECUTE IMMEDIATE CONCAT({}1)", "@abc,".repeat(50_000))));
        assert_eq!(decoded.get(), 1, "times");
        for sql in ["CONCAT(@ki, @ll)", "CONCAT(@ll, @ki, 'LL')", "@in", "CONCAT('K', @i, @l, @l)", "@kill"] {
            assert!(spells(&format!("EXECUTE IMMEDIATE {sql}")), "{sql}");
        }
        for sql in ["CONCAT(@ll, @ki)", "CONCAT(@ki, @ki)", "@late", "CONCAT(@ki, @x, @ll)"] {
            assert!(!spells(&format!("EXECUTE IMMEDIATE {sql}")), "{sql}");
        }
    }
}
