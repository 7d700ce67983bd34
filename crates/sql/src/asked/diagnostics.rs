//! `SHOW WARNINGS`, `SHOW ERRORS` and their counts.

use super::is_at_end;
use crate::LexOptions;
use crate::cursor::Cursor;
use crate::keyword::Keyword;
use crate::lexer::TokenKind;

/// What is shown of the warnings of the statement before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiagnosticsShown {
    /// `SHOW WARNINGS` and `SHOW ERRORS`, with or without a limit.
    List {
        /// The errors among them.
        only_errors: bool,
        /// So many are passed over.
        skip: usize,
        /// No more than these are listed.
        most: usize,
    },
    /// `SHOW COUNT(*) WARNINGS` and `SHOW COUNT(*) ERRORS`.
    Count {
        /// The errors among them.
        only_errors: bool,
    },
}

/// What a text shows that is one such statement.
pub fn diagnostics_shown(sql: &[u8], options: LexOptions) -> Option<DiagnosticsShown> {
    let mut cursor = Cursor::new(sql, options);
    if !cursor.eat(Keyword::Show) {
        return None;
    }
    let counts = cursor.eat(Keyword::Count);
    if counts {
        let expected = [&b"("[..], b"*", b")"];
        if !expected.into_iter().all(|text| sql.get(next(&mut cursor)) == Some(text)) {
            return None;
        }
    }
    let only_errors = match cursor.keyword() {
        Keyword::Warnings => false,
        Keyword::Errors => true,
        _ => return None,
    };
    cursor.bump();
    let shown = if counts {
        DiagnosticsShown::Count { only_errors }
    } else {
        let (skip, most) = if cursor.eat(Keyword::Limit) { limit(&mut cursor)? } else { (0, usize::MAX) };
        DiagnosticsShown::List { only_errors, skip, most }
    };
    is_at_end(cursor).then_some(shown)
}

fn next(cursor: &mut Cursor<'_>) -> std::ops::Range<usize> {
    let token = cursor.bump();
    token.start..token.end
}

/// `most`, `skip, most`, `most OFFSET skip`.
fn limit(cursor: &mut Cursor<'_>) -> Option<(usize, usize)> {
    let first = number(cursor)?;
    if cursor.here.is(TokenKind::Comma) {
        cursor.bump();
        return Some((first, number(cursor)?));
    }
    if cursor.eat(Keyword::Offset) {
        return Some((number(cursor)?, first));
    }
    Some((0, first))
}

fn number(cursor: &mut Cursor<'_>) -> Option<usize> {
    let token = cursor.bump();
    std::str::from_utf8(cursor.text(token)).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_forms_are_read() {
        let shown = |sql: &str| diagnostics_shown(sql.as_bytes(), LexOptions::default());
        let list = |only_errors, skip, most| Some(DiagnosticsShown::List { only_errors, skip, most });
        for (sql, expected) in [
            ("SHOW WARNINGS", list(false, 0, usize::MAX)),
            (" show /* all */ errors ; ", list(true, 0, usize::MAX)),
            ("SHOW WARNINGS LIMIT 5", list(false, 0, 5)),
            ("SHOW WARNINGS LIMIT 1,5", list(false, 1, 5)),
            ("SHOW ERRORS LIMIT 1 OFFSET 2", list(true, 2, 1)),
            ("SHOW COUNT ( * ) WARNINGS", Some(DiagnosticsShown::Count { only_errors: false })),
            ("show count(*) errors", Some(DiagnosticsShown::Count { only_errors: true })),
            ("SHOW WARNINGS LIMIT ?", None),
            ("SHOW WARNINGS; SELECT 1", None),
            ("SHOW COUNT(1) ERRORS", None),
            ("SHOW COUNT(", None),
            ("SHOW TABLES", None),
            ("GET DIAGNOSTICS @a = NUMBER", None),
        ] {
            assert_eq!(shown(sql), expected, "{sql}");
        }
    }
}
