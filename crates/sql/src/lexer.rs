//! Bytes to tokens, as MySQL and MariaDB cut them.
//!
//! Owns: where each token begins and ends, comments included. Must not know statements or grammar: it never looks back
//! further than one token. The rules are those of the servers' own lexers; where the two differ, or where a byte can be
//! read in two ways, the doubtful reading is reported ([`Lexer::is_doubtful`]) rather than guessed.

mod comment;
mod number;
mod text;

use crate::keyword::Keyword;
use crate::options::{Flavor, LexOptions, Quotes, TextCharset};
use crate::work;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// The end of the text.
    End,
    /// An unquoted word: a keyword or a name.
    Word,
    /// An unquoted word after a dot: always a name.
    Name,
    /// A quoted identifier.
    Quoted,
    /// A string literal, its prefix (`N`) included.
    Text,
    /// A number, also `0x1f`, `x'1f'`, `0b1`, `b'1'`.
    Number,
    /// `@name` in all its forms.
    UserVariable,
    /// `@@`; the name follows as tokens of its own.
    SystemVariable,
    /// `?`
    Parameter,
    /// `(`
    Open,
    /// `)`
    Close,
    /// `,`
    Comma,
    /// `.`
    Dot,
    /// `;`
    Semicolon,
    /// `=`
    Equals,
    /// `:=`
    Assign,
    /// One byte of any other operator or punctuation.
    Operator,
    /// What no server accepts: an unterminated literal or comment, a control character.
    Error,
}

/// A token: its kind and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    /// What the word means, for [`TokenKind::Word`]; [`Keyword::None`] for all other kinds and for other words.
    pub(crate) keyword: Keyword,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Token {
    pub(crate) const fn is(&self, kind: TokenKind) -> bool {
        self.kind as u8 == kind as u8
    }

    /// Whether the statement ends here.
    pub(crate) const fn ends_statement(&self) -> bool {
        matches!(self.kind, TokenKind::End | TokenKind::Semicolon)
    }

    /// Whether the token can name a table, a column or a routine.
    pub(crate) const fn is_name(&self) -> bool {
        matches!(self.kind, TokenKind::Word | TokenKind::Name | TokenKind::Quoted)
    }
}

/// Cuts a text into tokens. Cheap to copy, which is how to look ahead.
#[derive(Clone, Copy)]
pub(crate) struct Lexer<'a> {
    sql: &'a [u8],
    at: usize,
    options: LexOptions,
    flags: Flags,
}

#[derive(Clone, Copy, Default)]
struct Flags {
    /// Inside a version comment that the server runs, or after a dot.
    place: Place,
    comments: Comments,
    /// See [`Lexer::is_doubtful`].
    doubtful: bool,
}

/// What comments have been met so far.
#[derive(Clone, Copy, Default)]
struct Comments {
    version: Versioned,
    /// See [`Lexer::has_hint`].
    hint: bool,
}

/// What version comments have been met so far.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Versioned {
    #[default]
    None,
    /// All of them are read as SQL.
    Run,
    /// One was skipped.
    Skipped,
}

#[derive(Clone, Copy, Default)]
struct Place {
    in_version_comment: bool,
    after_dot: bool,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(sql: &'a [u8], options: LexOptions) -> Self {
        Self { sql, at: 0, options, flags: Flags::default() }
    }

    pub(crate) fn sql(&self) -> &'a [u8] {
        self.sql
    }

    pub(crate) fn options(&self) -> LexOptions {
        self.options
    }

    /// Whether a comment that some server runs (`/*! */`, `/*M! */`) has been met so far.
    pub(crate) fn has_version_comment(&self) -> bool {
        self.flags.comments.version != Versioned::None
    }

    /// Whether one of them was skipped, as these servers do as far as is known: one of a newer version runs it.
    pub(crate) fn has_skipped_comment(&self) -> bool {
        self.flags.comments.version == Versioned::Skipped
    }

    /// Whether something has been met so far that a server may cut in another way.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.flags.doubtful
    }

    /// Whether a comment that may ask something of the proxy has been met so far.
    pub(crate) fn has_hint(&self) -> bool {
        self.flags.comments.hint
    }

    fn byte(&self, at: usize) -> u8 {
        self.sql.get(at).copied().unwrap_or(0)
    }

    fn token(&mut self, kind: TokenKind, start: usize, end: usize) -> Token {
        self.at = end;
        self.flags.place.after_dot = false;
        Token { kind, keyword: Keyword::None, start, end }
    }

    /// The next token; [`TokenKind::End`] for ever once the text is over.
    pub(crate) fn next_token(&mut self) -> Token {
        let from = self.at;
        let token = self.cut();
        work::note(token.end - from);
        token
    }

    #[inline]
    fn cut(&mut self) -> Token {
        // Most are words, behind a space or nothing.
        let start = self.at + usize::from(self.byte(self.at) == b' ');
        if let Some(end) = self.plain_word_end(start) {
            let keyword = Keyword::of(&self.sql[start..end]);
            return Token { keyword, ..self.token(TokenKind::Word, start, end) };
        }
        self.any_token()
    }

    /// The end of the word at `start`, if there is one of which its first and its next byte say that it is nothing else: no part
    /// of a name with dots, no beginning of a literal, no letters above 0x7f.
    #[inline]
    fn plain_word_end(&self, start: usize) -> Option<usize> {
        if !self.byte(start).is_ascii_alphabetic() || self.flags.place.after_dot {
            return None;
        }
        let end = self.word_end(start + 1);
        (!matches!(self.byte(end), b'.' | b'\'' | 0x80..)).then_some(end)
    }

    fn any_token(&mut self) -> Token {
        if let Err(start) = self.skip_blanks() {
            let end = self.at;
            return self.token(TokenKind::Error, start, end);
        }
        let start = self.at;
        let Some(&byte) = self.sql.get(start) else { return self.end_of_text(start) };
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | 0x80.. => self.word_or_prefixed(start, byte),
            b'0'..=b'9' => self.number_or_word(start),
            b'\'' => self.text_token(TokenKind::Text, start, start),
            b'"' if self.options.ansi_quotes == Quotes::Standard => {
                self.text_token(TokenKind::Text, start, start)
            }
            b'"' | b'`' => self.quoted_token(start),
            b'.' => self.dot_or_number(start),
            b'@' => self.variable(start),
            b'(' => self.token(TokenKind::Open, start, start + 1),
            b')' => self.token(TokenKind::Close, start, start + 1),
            b',' => self.token(TokenKind::Comma, start, start + 1),
            b';' => self.token(TokenKind::Semicolon, start, start + 1),
            b'=' => self.token(TokenKind::Equals, start, start + 1),
            b'?' => self.token(TokenKind::Parameter, start, start + 1),
            b':' if self.byte(start + 1) == b'=' => self.token(TokenKind::Assign, start, start + 2),
            b'\\' if self.byte(start + 1) == b'N' => self.token(TokenKind::Number, start, start + 2),
            0x21..=0x7e if byte != b'\\' => self.token(TokenKind::Operator, start, start + 1),
            _ => self.token(TokenKind::Error, start, start + 1),
        }
    }

    fn end_of_text(&mut self, start: usize) -> Token {
        // A version comment that never ends is an error for every server; say so once, then end.
        let kind = if self.flags.place.in_version_comment { TokenKind::Error } else { TokenKind::End };
        self.flags.place.in_version_comment = false;
        self.token(kind, start, start)
    }

    fn word_or_prefixed(&mut self, start: usize, byte: u8) -> Token {
        if !self.flags.place.after_dot {
            match (byte | 0x20, self.byte(start + 1)) {
                (b'n', b'\'') => return self.text_token(TokenKind::Text, start, start + 1),
                (b'x' | b'b', b'\'') => return self.quoted_number(start),
                _ => {}
            }
            if byte == b'$'
                && let Some(token) = self.dollar_quoted(start)
            {
                return token;
            }
        }
        self.word(start, start)
    }

    /// A word that begins at `start` and of which the bytes before `from` have been looked at.
    fn word(&mut self, start: usize, from: usize) -> Token {
        let mut end = self.word_end(from);
        while self.byte(end) >= 0x80 {
            end += self.letter_len(end);
            end = self.word_end(end);
        }
        let after_dot = self.flags.place.after_dot;
        let mut token = self.token(if after_dot { TokenKind::Name } else { TokenKind::Word }, start, end);
        if !after_dot && !self.is_qualifier(end) {
            token.keyword = Keyword::of(&self.sql[start..end]);
        }
        token
    }

    /// Where the letters below 0x80 end that begin at `from`.
    #[inline]
    fn word_end(&self, from: usize) -> usize {
        let rest = &self.sql[from..];
        from + rest.iter().position(|byte| !is_word_byte(*byte)).unwrap_or(rest.len())
    }

    /// Whether the word that ends at `end` qualifies a name right behind it: servers then never take it for a keyword.
    fn is_qualifier(&self, end: usize) -> bool {
        self.byte(end) == b'.' && {
            let next = self.byte(end + 1);
            is_word_byte(next) || next >= 0x80
        }
    }

    /// The length of the letter above 0x7f at `at`. In an encoding where it might be white space, that is doubtful.
    fn letter_len(&mut self, at: usize) -> usize {
        let len = self.options.charset.char_len(&self.sql[at..]);
        if self.options.charset == TextCharset::AsciiSafe || len == 1 {
            self.flags.doubtful = true;
        }
        len
    }

    fn dot_or_number(&mut self, start: usize) -> Token {
        if self.byte(start + 1).is_ascii_digit() && !self.follows_name(start) {
            return self.fraction(start, start + 1);
        }
        let token = self.token(TokenKind::Dot, start, start + 1);
        self.flags.place.after_dot = true;
        token
    }

    /// Whether the byte before `at` belongs to a name, so that a dot here qualifies it (`t.1a`).
    fn follows_name(&self, at: usize) -> bool {
        at.checked_sub(1).is_some_and(|before| {
            let byte = self.sql[before];
            is_word_byte(byte) || byte >= 0x80 || byte == b'`'
        })
    }

    /// `@name`, `` @`name` ``, `@'name'`, `@@`. A bare `@` is a variable without a name.
    fn variable(&mut self, start: usize) -> Token {
        let after = start + 1;
        match self.byte(after) {
            b'@' => self.token(TokenKind::SystemVariable, start, start + 2),
            b'`' => self.prefixed(start, |lexer| lexer.quoted_token(after)),
            b'"' if self.options.ansi_quotes == Quotes::Ansi => {
                self.prefixed(start, |lexer| lexer.quoted_token(after))
            }
            b'\'' | b'"' => self.prefixed(start, |lexer| lexer.text_token(TokenKind::Text, after, after)),
            _ => {
                let mut end = after;
                while let Some(&byte) = self.sql.get(end) {
                    if is_word_byte(byte) || byte == b'.' {
                        end += 1;
                    } else if byte >= 0x80 {
                        // Servers disagree on letters outside ASCII here.
                        self.flags.doubtful = true;
                        end += self.options.charset.char_len(&self.sql[end..]);
                    } else {
                        break;
                    }
                }
                self.token(TokenKind::UserVariable, start, end)
            }
        }
    }

    fn prefixed(&mut self, start: usize, quoted: impl FnOnce(&mut Self) -> Token) -> Token {
        let token = quoted(self);
        let kind = if token.is(TokenKind::Error) { TokenKind::Error } else { TokenKind::UserVariable };
        Token { kind, start, ..token }
    }

    fn has_dollar_quotes(&self) -> bool {
        self.options.flavor == Flavor::MySql && self.options.server_version >= 80_100
    }
}

/// Whether a byte is below 0x80 and can be inside an unquoted word.
pub(crate) fn is_word_byte(byte: u8) -> bool {
    WORD_BYTES[usize::from(byte)]
}

/// One look instead of five comparisons, for every byte of a text.
static WORD_BYTES: [bool; 256] = {
    let mut is_word_byte = [false; 256];
    let mut byte = 0;
    while byte < 0x80_u8 {
        is_word_byte[byte as usize] = byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$';
        byte += 1;
    }
    is_word_byte
};

#[cfg(test)]
mod tests;
