//! Which variables a SHOW VARIABLES may list.

use super::literal_text;
use crate::LexOptions;
use crate::lexer::{Lexer, TokenKind};

/// True if the list may have a variable whose name begins with `prefix`: where no string says what is asked for, or one may stand for
/// such a name, also as the pattern of a LIKE.
///
/// In a pattern `_` is any character: of `prefix` and of the strings, only what is before the first one is compared.
pub fn may_list_variable(sql: &[u8], options: LexOptions, prefix: &str) -> bool {
    let mut lexer = Lexer::new(sql, options);
    let mut is_limited = false;
    loop {
        let token = lexer.next_token();
        match token.kind {
            TokenKind::End => return !is_limited,
            TokenKind::Parameter => return true,
            TokenKind::Text if may_begin(&literal_text(token, sql, options), prefix) => return true,
            TokenKind::Text => is_limited = true,
            _ => {}
        }
    }
}

fn may_begin(pattern: &str, prefix: &str) -> bool {
    let fixed = |text: &str| text.split(['%', '_', '\\']).next().unwrap_or_default().to_ascii_lowercase();
    let (pattern, prefix) = (fixed(pattern), fixed(prefix));
    pattern.starts_with(&prefix) || prefix.starts_with(&pattern)
}
