//! What a text says of the statements that it puts together.

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
    while !cursor.here.is(TokenKind::End) {
        let token = cursor.bump();
        match token.kind {
            TokenKind::Text => seen.extend(literal_text(token, sql, options).bytes()),
            TokenKind::UserVariable => {
                let value = value(&user_variable_name(token, sql, options)).unwrap_or_default();
                seen.extend(value.bytes().take(VALUE_MAX));
            }
            _ => continue,
        }
        if seen.windows(word.len()).any(|found| found.eq_ignore_ascii_case(word.as_bytes())) {
            return true;
        }
        // The end of it may be the beginning of the word.
        let kept = seen.len().saturating_sub(word.len().saturating_sub(1));
        seen.drain(..kept);
    }
    false
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
}
