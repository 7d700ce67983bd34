//! Statements to tokens: only what replicas write.

/// A token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A word: a keyword, a name.
    Word(&'a str),
    /// `@name`, without `@`.
    User(&'a str),
    /// `@@global.name`, without `@@`.
    System(&'a str),
    /// A literal.
    Text(String),
    /// Digits.
    Number(&'a str),
    /// Any other character.
    Mark(char),
    /// The end.
    End,
}

/// Cuts a text into tokens.
#[derive(Debug, Clone)]
pub(super) struct Tokens<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Where the next token begins.
    pub(super) fn position(&mut self) -> usize {
        self.skip_blanks();
        self.at
    }

    /// The text from a position to here, without blanks at its end.
    pub(super) fn since(&self, from: usize) -> &'a str {
        self.text[from..self.at].trim_end()
    }

    /// The next one, which stays.
    pub(super) fn peek(&self) -> Token<'a> {
        self.clone().next()
    }

    /// The next one.
    pub(super) fn next(&mut self) -> Token<'a> {
        self.skip_blanks();
        let Some(first) = self.text[self.at..].chars().next() else { return Token::End };
        match first {
            '\'' | '"' => self.literal(first),
            '`' => self.quoted(),
            '@' => {
                let is_system = self.text[self.at..].starts_with("@@");
                self.at += if is_system { 2 } else { 1 };
                let name = self.word(|c| is_of_word(c) || c == '.');
                if is_system { Token::System(name) } else { Token::User(name) }
            }
            c if c.is_ascii_digit() => Token::Number(self.word(|c| c.is_ascii_digit())),
            c if is_of_word(c) => Token::Word(self.word(is_of_word)),
            c => {
                self.at += c.len_utf8();
                Token::Mark(c)
            }
        }
    }

    fn skip_blanks(&mut self) {
        loop {
            let rest = &self.text[self.at..];
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if !trimmed.starts_with("/*") || trimmed.starts_with("/*!") {
                return;
            }
            self.at += trimmed.find("*/").map_or(trimmed.len(), |end| end + 2);
        }
    }

    fn word(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let rest = &self.text[self.at..];
        let len = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    fn quoted(&mut self) -> Token<'a> {
        self.at += 1;
        let name = self.word(|c| c != '`');
        self.at = (self.at + 1).min(self.text.len());
        Token::Word(name)
    }

    /// Both ways of a quote inside: doubled, and behind a backslash. One without an end is an unknown mark.
    fn literal(&mut self, quote: char) -> Token<'a> {
        let (mut value, mut chars) = (String::new(), self.text[self.at + 1..].char_indices().peekable());
        let from = self.at + 1;
        while let Some((at, c)) = chars.next() {
            if c == quote {
                if chars.peek().is_some_and(|(_, next)| *next == quote) {
                    chars.next();
                } else {
                    self.at = from + at + 1;
                    return Token::Text(value);
                }
            }
            match (c, chars.peek().copied()) {
                ('\\', Some((_, next))) => {
                    chars.next();
                    value.push(next);
                }
                _ => value.push(c),
            }
        }
        self.at = self.text.len();
        Token::Mark(quote)
    }
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}
