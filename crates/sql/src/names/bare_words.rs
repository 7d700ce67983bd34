//! The words of a text.

use crate::LexOptions;
use crate::cursor::Cursor;
use crate::lexer::TokenKind;

/// Keywords and unquoted names, in their order: what stands in comments and quotes is none of them.
pub(crate) fn bare_words(sql: &[u8], options: LexOptions) -> impl Iterator<Item = &[u8]> {
    let mut cursor = Cursor::new(sql, options);
    std::iter::from_fn(move || {
        while !cursor.here.is(TokenKind::End) {
            let token = cursor.bump();
            if token.is(TokenKind::Word) {
                return Some(&sql[token.start..token.end]);
            }
        }
        None
    })
}
