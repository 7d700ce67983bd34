//! `SELECT @@name, ..`: nothing but system variables.

use super::{is_at_end, is_word};
use crate::LexOptions;
use crate::cursor::Cursor;
use crate::keyword::Keyword;
use crate::lexer::TokenKind;
use crate::names::{literal_text, name_text};

/// One column of such a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectedVariable {
    /// The variable, lower-case, without `@@`, `SESSION.` or `LOCAL.`, and quotes; with any other scope before it.
    pub name: String,
    /// What the column is called.
    pub column: String,
}

/// The columns of a text that is one `SELECT` of system variables, with or without aliases.
pub fn selected_variables(sql: &[u8], options: LexOptions) -> Option<Vec<SelectedVariable>> {
    let mut cursor = Cursor::new(sql, options);
    if !cursor.eat(Keyword::Select) {
        return None;
    }
    let mut columns = Vec::new();
    loop {
        columns.push(column(&mut cursor, sql)?);
        if !cursor.here.is(TokenKind::Comma) {
            break;
        }
        cursor.bump();
    }
    is_at_end(cursor).then_some(columns)
}

fn column(cursor: &mut Cursor<'_>, sql: &[u8]) -> Option<SelectedVariable> {
    let options = cursor.options();
    let start = cursor.here.start;
    if !cursor.bump().is(TokenKind::SystemVariable) {
        return None;
    }
    // A word before a dot is no keyword.
    let has_scope = is_word(cursor, "session") || is_word(cursor, "local");
    if has_scope && cursor.ahead.is(TokenKind::Dot) {
        cursor.bump();
        cursor.bump();
    }
    let mut name = String::new();
    loop {
        if !cursor.here.is_name() {
            return None;
        }
        name.push_str(&name_text(cursor.bump(), sql, options).to_lowercase());
        if !cursor.here.is(TokenKind::Dot) {
            break;
        }
        cursor.bump();
        name.push('.');
    }
    let end = cursor.before.end;
    let is_named = cursor.eat(Keyword::As);
    let column = match cursor.here.kind {
        TokenKind::Word | TokenKind::Quoted => name_text(cursor.bump(), sql, options),
        TokenKind::Text => literal_text(cursor.bump(), sql, options),
        _ if is_named => return None,
        _ => String::from_utf8_lossy(&sql[start..end]).into_owned(),
    };
    Some(SelectedVariable { name, column })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_variables_and_what_they_are_called() {
        let read = |sql: &str| {
            let columns = selected_variables(sql.as_bytes(), LexOptions::default())?;
            Some(
                columns
                    .into_iter()
                    .map(|one| [one.name, one.column].join(" "))
                    .collect::<Vec<_>>()
                    .join(", "),
            )
        };
        for (sql, expected) in [
            ("SELECT @@warning_count", Some("warning_count @@warning_count")),
            ("select @@Session.ERROR_count AS e, @@local.`a` `b c`;", Some("error_count e, a b c")),
            ("SELECT @@x.mode 'm', /* why */ @@x.`trace`", Some("x.mode m, x.trace @@x.`trace`")),
            ("SELECT @@global.x.mode", Some("global.x.mode @@global.x.mode")),
            ("SELECT @@a + 1", None),
            ("SELECT @@a FROM t", None),
            ("SELECT @@a, 1", None),
            ("SELECT @@a AS", None),
            ("SELECT @@a LIMIT 1", None),
            ("SELECT @@a; SELECT @@b", None),
            ("SELECT @a", None),
            ("SELECT @@", None),
            ("(SELECT @@a)", None),
        ] {
            assert_eq!(read(sql).as_deref(), expected, "{sql}");
        }
    }
}
