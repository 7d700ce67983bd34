//! String literals and quoted identifiers.
//!
//! Owns: where the closing quote is: doubling, backslashes, multi-byte characters.

use super::{Lexer, Token, TokenKind, is_word_byte};
use crate::options::Backslash;

impl Lexer<'_> {
    /// The string whose opening quote is at `quote`; the token begins at `start` and is of `kind`.
    pub(super) fn text_token(&mut self, kind: TokenKind, start: usize, quote: usize) -> Token {
        match self.text_end(quote) {
            Some(end) => self.token(kind, start, end),
            None => self.token(TokenKind::Error, start, self.sql.len()),
        }
    }

    fn text_end(&self, quote: usize) -> Option<usize> {
        let mark = self.sql[quote];
        if self.options.charset.has_ascii_trail() {
            return self.text_end_by_character(quote, mark);
        }
        let mut at = quote + 1;
        loop {
            let rest = self.sql.get(at..)?;
            let found = match self.options.backslash {
                Backslash::Escapes => memchr::memchr2(mark, b'\\', rest),
                Backslash::Literal => memchr::memchr(mark, rest),
            };
            at += found?;
            if self.sql[at] == b'\\' || self.byte(at + 1) == mark {
                at += 2;
            } else {
                return Some(at + 1);
            }
        }
    }

    /// The same for encodings in which the second byte of a character may be a backslash.
    fn text_end_by_character(&self, quote: usize, mark: u8) -> Option<usize> {
        let mut at = quote + 1;
        loop {
            let &byte = self.sql.get(at)?;
            if byte >= 0x80 {
                at += self.options.charset.char_len(&self.sql[at..]);
            } else if byte == b'\\' && self.options.backslash == Backslash::Escapes {
                // Servers skip one byte, whatever character begins with it.
                at += 2;
            } else if byte != mark {
                at += 1;
            } else if self.byte(at + 1) == mark {
                at += 2;
            } else {
                return Some(at + 1);
            }
        }
    }

    /// The quoted identifier at `start`. A NUL byte inside is an error for every server.
    pub(super) fn quoted_token(&mut self, start: usize) -> Token {
        let mark = self.sql[start];
        let mut at = start + 1;
        loop {
            let Some(&byte) = self.sql.get(at) else {
                return self.token(TokenKind::Error, start, self.sql.len());
            };
            if byte >= 0x80 {
                at += self.quoted_letter_len(at);
            } else if byte == 0 {
                return self.token(TokenKind::Error, start, at);
            } else if byte != mark {
                at += 1;
            } else if self.byte(at + 1) == mark {
                at += 2;
            } else {
                return self.token(TokenKind::Quoted, start, at + 1);
            }
        }
    }

    /// Some servers skip as many bytes as the first one promises, even past the closing quote: a broken character in
    /// an identifier is doubtful.
    fn quoted_letter_len(&mut self, at: usize) -> usize {
        let len = self.options.charset.char_len(&self.sql[at..]);
        self.flags.doubtful |= len == 1 && self.options.charset != crate::options::TextCharset::AsciiSafe;
        len
    }

    /// `$$..$$` and `$tag$..$tag$`, which MySQL reads as strings. `None` where it is a word.
    pub(super) fn dollar_quoted(&mut self, start: usize) -> Option<Token> {
        if !self.has_dollar_quotes() {
            return None;
        }
        let tag = self.sql[start + 1..]
            .iter()
            .take_while(|byte| (is_word_byte(**byte) || **byte >= 0x80) && **byte != b'$')
            .count();
        let body = start + tag + 2;
        if self.byte(body - 1) != b'$' {
            return None;
        }
        // Versions differ in whether and with which tags they know these.
        self.flags.doubtful = true;
        let rest = &self.sql[body..];
        let token = match memchr::memmem::find(rest, &self.sql[start..body]) {
            Some(at) => self.token(TokenKind::Text, start, body + at + body - start),
            None => self.token(TokenKind::Error, start, self.sql.len()),
        };
        Some(token)
    }
}
