//! A window of three tokens that moves over a text: the one before, the one here, the one ahead.
//!
//! Owns: moving and looking. Must not know statements.

use crate::keyword::Keyword;
use crate::lexer::{Lexer, Token, TokenKind};
use crate::options::LexOptions;

/// Where a reader of tokens is.
#[derive(Clone, Copy)]
pub(crate) struct Cursor<'a> {
    lexer: Lexer<'a>,
    pub(crate) before: Token,
    pub(crate) here: Token,
    pub(crate) ahead: Token,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(sql: &'a [u8], options: LexOptions) -> Self {
        let mut lexer = Lexer::new(sql, options);
        let before = Token { kind: TokenKind::Semicolon, keyword: Keyword::None, start: 0, end: 0 };
        let here = lexer.next_token();
        let ahead = lexer.next_token();
        Self { lexer, before, here, ahead }
    }

    /// Moves on by one token and answers the one it leaves.
    pub(crate) fn bump(&mut self) -> Token {
        self.before = self.here;
        self.here = self.ahead;
        self.ahead = self.lexer.next_token();
        self.before
    }

    /// Moves on where `keyword` is here, and says so.
    pub(crate) fn eat(&mut self, keyword: Keyword) -> bool {
        let is_here = self.here.keyword == keyword;
        if is_here {
            self.bump();
        }
        is_here
    }

    /// Moves on over all of `keywords` that are here, in any order.
    pub(crate) fn eat_any(&mut self, keywords: &[Keyword]) {
        while keywords.contains(&self.here.keyword) {
            self.bump();
        }
    }

    pub(crate) fn keyword(&self) -> Keyword {
        self.here.keyword
    }

    pub(crate) fn at_end(&self) -> bool {
        self.here.ends_statement()
    }

    /// The two tokens behind the one ahead.
    pub(crate) fn beyond(&self) -> (Token, Token) {
        let mut lexer = self.lexer;
        (lexer.next_token(), lexer.next_token())
    }

    /// A lexer that goes on behind the token ahead.
    pub(crate) fn lookahead(&self) -> Lexer<'a> {
        self.lexer
    }

    pub(crate) fn text(&self, token: Token) -> &'a [u8] {
        &self.lexer.sql()[token.start..token.end]
    }

    pub(crate) fn options(&self) -> LexOptions {
        self.lexer.options()
    }

    pub(crate) fn has_version_comment(&self) -> bool {
        self.lexer.has_version_comment()
    }

    pub(crate) fn has_hint(&self) -> bool {
        self.lexer.has_hint()
    }

    pub(crate) fn is_doubtful(&self) -> bool {
        self.lexer.is_doubtful()
    }
}
