//! Numbers, and the words that begin like one.
//!
//! Owns: `12`, `1.5e-3`, `.5`, `0x1f`, `0b01`, `x'1f'`, `b'01'`; `1a` and `0xfg` are words.

use super::{Lexer, Token, TokenKind, is_word_byte};

impl Lexer<'_> {
    /// What begins with a digit: a number, or a word where letters follow that no number has.
    pub(super) fn number_or_word(&mut self, start: usize) -> Token {
        if self.flags.place.after_dot {
            return self.word(start, start);
        }
        if let Some(end) = self.radix_end(start) {
            return self.token(TokenKind::Number, start, end);
        }
        let end = self.digits_end(start);
        match self.byte(end) {
            b'.' => self.fraction(start, end + 1),
            b'e' | b'E' => match self.exponent_end(end) {
                Some(end) => self.token(TokenKind::Number, start, end),
                None => self.word(start, end),
            },
            byte if is_word_byte(byte) || byte >= 0x80 => self.word(start, end),
            _ => self.token(TokenKind::Number, start, end),
        }
    }

    /// The digits after a decimal point, which is at `from - 1`, and the exponent.
    pub(super) fn fraction(&mut self, start: usize, from: usize) -> Token {
        let end = self.digits_end(from);
        if matches!(self.byte(end), b'e' | b'E') {
            return match self.exponent_end(end) {
                Some(end) => self.token(TokenKind::Number, start, end),
                // `1.e` is an error for every server.
                None => self.token(TokenKind::Error, start, end + 1),
            };
        }
        self.token(TokenKind::Number, start, end)
    }

    fn digits_end(&self, from: usize) -> usize {
        let digits = self.sql.get(from..).unwrap_or(&[]).iter().take_while(|byte| byte.is_ascii_digit());
        from + digits.count()
    }

    /// The end of the exponent whose `e` is at `at`; `None` where no digit follows.
    fn exponent_end(&self, at: usize) -> Option<usize> {
        let first = at + 1 + usize::from(matches!(self.byte(at + 1), b'+' | b'-'));
        self.byte(first).is_ascii_digit().then(|| self.digits_end(first))
    }

    /// The end of `0x..` or `0b..`: only with a small letter, and only where no other letter follows.
    fn radix_end(&self, start: usize) -> Option<usize> {
        if self.byte(start) != b'0' {
            return None;
        }
        let is_digit: fn(&u8) -> bool = match self.byte(start + 1) {
            b'x' => u8::is_ascii_hexdigit,
            b'b' => |byte| matches!(byte, b'0' | b'1'),
            _ => return None,
        };
        let count = self.sql[start + 2..].iter().take_while(|byte| is_digit(byte)).count();
        let end = start + 2 + count;
        let next = self.byte(end);
        (count > 0 && !is_word_byte(next) && next < 0x80).then_some(end)
    }

    /// `x'1f'` and `b'01'`; with anything else inside they are an error for every server.
    pub(super) fn quoted_number(&mut self, start: usize) -> Token {
        let is_hex = self.byte(start) | 0x20 == b'x';
        let digits = self.sql[start + 2..]
            .iter()
            .take_while(|byte| if is_hex { byte.is_ascii_hexdigit() } else { matches!(byte, b'0' | b'1') })
            .count();
        let end = start + 2 + digits;
        if self.byte(end) == b'\'' && !(is_hex && digits % 2 == 1) {
            return self.token(TokenKind::Number, start, end + 1);
        }
        // Read on as a string, so that what follows is cut where a reader expects it.
        self.text_token(TokenKind::Error, start, start + 1)
    }
}
