//! Tokens to the names and strings that they stand for.
//!
//! Owns: removing quotes, doubling and escapes. Bytes that are not UTF-8 become replacement characters.

use crate::lexer::{Token, TokenKind};
use crate::options::{Backslash, LexOptions};

/// The name that an identifier stands for.
pub(crate) fn name_text(token: Token, sql: &[u8], _options: LexOptions) -> String {
    let text = &sql[token.start..token.end];
    match (token.kind, text) {
        (TokenKind::Quoted, [mark, inner @ .., _]) => undoubled(inner, *mark, Backslash::Literal, None),
        _ => String::from_utf8_lossy(text).into_owned(),
    }
}

/// The string that a literal stands for.
pub(crate) fn literal_text(token: Token, sql: &[u8], options: LexOptions) -> String {
    match &sql[token.start..token.end] {
        [b'n' | b'N', mark @ b'\'', inner @ .., _] | [mark, inner @ .., _] => {
            undoubled(inner, *mark, options.backslash, Some(options))
        }
        text => String::from_utf8_lossy(text).into_owned(),
    }
}

/// The name of a user variable, lower-case and without `@` and quotes.
pub(crate) fn user_variable_name(token: Token, sql: &[u8], options: LexOptions) -> String {
    let name = Token { start: token.start + 1, ..token };
    let text = match sql.get(name.start) {
        Some(b'`') => name_text(Token { kind: TokenKind::Quoted, ..name }, sql, options),
        Some(b'\'' | b'"') => literal_text(name, sql, options),
        _ => name_text(name, sql, options),
    };
    text.to_lowercase()
}

fn undoubled(inner: &[u8], mark: u8, backslash: Backslash, charset: Option<LexOptions>) -> String {
    let mut out = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(&byte) = rest.first() {
        let len = charset.map_or(1, |options| options.charset.char_len(rest)).min(rest.len());
        if byte == b'\\' && backslash == Backslash::Escapes && rest.len() > 1 {
            push_escaped(&mut out, rest[1]);
            rest = &rest[2..];
        } else if byte == mark && rest.get(1) == Some(&mark) {
            out.push(mark);
            rest = &rest[2..];
        } else {
            out.extend_from_slice(&rest[..len]);
            rest = &rest[len..];
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn push_escaped(out: &mut Vec<u8>, byte: u8) {
    match byte {
        b'n' => out.push(b'\n'),
        b't' => out.push(b'\t'),
        b'r' => out.push(b'\r'),
        b'b' => out.push(8),
        b'0' => out.push(0),
        b'Z' => out.push(26),
        // These two keep their backslash, for the patterns of LIKE.
        b'%' | b'_' => out.extend_from_slice(&[b'\\', byte]),
        other => out.push(other),
    }
}
