//! A window of three tokens that moves over a text: the one before, the one here, the one ahead.
//!
//! Owns: moving and looking, alone or watched. Must not know statements.

use std::ops::Deref;

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

    pub(crate) fn has_skipped_comment(&self) -> bool {
        self.lexer.has_skipped_comment()
    }

    pub(crate) fn has_hint(&self) -> bool {
        self.lexer.has_hint()
    }

    pub(crate) fn is_doubtful(&self) -> bool {
        self.lexer.is_doubtful()
    }
}

/// Whoever sees each token as a walk leaves it: so that one walk over a text serves two.
pub(crate) trait Watch {
    fn leaves(&mut self, cursor: &Cursor<'_>);

    /// What follows may be cut into other tokens by a server: it is not to be trusted.
    fn stops(&mut self);
}

/// Nobody: the walk costs no more than a cursor's.
impl Watch for () {
    #[inline(always)]
    fn leaves(&mut self, _: &Cursor<'_>) {}

    fn stops(&mut self) {}
}

/// A cursor that is watched. To look ahead, copy what it points to.
pub(crate) struct Walk<'a, W> {
    cursor: Cursor<'a>,
    watch: W,
}

impl<'a, W: Watch> Walk<'a, W> {
    pub(crate) fn new(sql: &'a [u8], options: LexOptions, watch: W) -> Self {
        Self { cursor: Cursor::new(sql, options), watch }
    }

    /// See [`Cursor::eat`].
    pub(crate) fn eat(&mut self, keyword: Keyword) -> bool {
        let is_here = self.here.keyword == keyword;
        if is_here {
            self.bump();
        }
        is_here
    }

    /// See [`Cursor::eat_any`].
    pub(crate) fn eat_any(&mut self, keywords: &[Keyword]) {
        while keywords.contains(&self.here.keyword) {
            self.bump();
        }
    }

    /// Tells the watch that what follows is not to be trusted.
    pub(crate) fn stop_watching(&mut self) {
        self.watch.stops();
    }

    /// See [`Cursor::bump`].
    pub(crate) fn bump(&mut self) -> Token {
        self.watch.leaves(&self.cursor);
        self.cursor.bump()
    }
}

impl<'a, W> Deref for Walk<'a, W> {
    type Target = Cursor<'a>;

    fn deref(&self) -> &Cursor<'a> {
        &self.cursor
    }
}

/// What can go on by one token, watched or not.
pub(crate) trait Forward<'a>: Deref<Target = Cursor<'a>> {
    fn forward(&mut self);
}

impl<'a, W: Watch> Forward<'a> for Walk<'a, W> {
    fn forward(&mut self) {
        self.bump();
    }
}

impl<'a> Forward<'a> for &mut Cursor<'a> {
    fn forward(&mut self) {
        self.bump();
    }
}
