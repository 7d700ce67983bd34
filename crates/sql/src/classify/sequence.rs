//! Sequences of MariaDB: taking their next value, and reading the last one that the session has taken.
//!
//! Owns: the forms of both, and which sequence is meant.

use super::{Classifier, Effects, Event, Keyword, Token, TokenKind, Uses, Watch, Why};
use crate::event::Qualified;
use crate::lexer::Lexer;
use crate::options::Flavor;

impl<F: FnMut(Event), W: Watch> Classifier<'_, F, W> {
    /// `NEXTVAL(s)`, at its name.
    pub(super) fn next_value(&mut self) {
        let sequence = name_at(self.cursor.lookahead());
        self.takes_value(sequence);
    }

    /// `NEXT VALUE FOR s`, at its first word.
    pub(super) fn next_value_for(&mut self) {
        match self.name_behind_for() {
            None => self.changes_sequence(),
            sequence => self.takes_value(sequence),
        }
    }

    /// `s.nextval`, at its last word.
    pub(super) fn next_value_of_member(&mut self) {
        let sequence = self.name_before_dot();
        self.takes_value(sequence);
    }

    /// `LASTVAL(s)`, at its name.
    pub(super) fn last_value(&mut self) {
        let sequence = name_at(self.cursor.lookahead());
        self.refuse(Why::Sequence);
        self.reads_value(sequence, false);
    }

    /// `PREVIOUS VALUE FOR s`, at its first word.
    pub(super) fn previous_value_for(&mut self) {
        let sequence = self.name_behind_for();
        self.refuse(Why::Sequence);
        if sequence.is_some() {
            self.reads_value(sequence, false);
        }
    }

    /// `s.currval`, at its last word.
    pub(super) fn last_value_of_member(&mut self) {
        let sequence = self.name_before_dot();
        self.refuse(Why::Sequence);
        self.reads_value(sequence, true);
    }

    /// A sequence is set, or gives its next value.
    pub(super) fn changes_sequence(&mut self) {
        self.uses |= Uses::SEQUENCES;
        self.refuse(Why::Sequence);
    }

    fn takes_value(&mut self, sequence: Option<Qualified>) {
        self.changes_sequence();
        self.effects |= Effects::TAKES_VALUE;
        if let Some(sequence) = sequence {
            self.emit(Event::TakesValue(sequence));
        }
    }

    fn reads_value(&mut self, sequence: Option<Qualified>, is_member: bool) {
        self.uses |= Uses::LAST_VALUE;
        self.emit(Event::ReadsValue { sequence, is_member });
    }

    /// The name behind `VALUE FOR`, where `VALUE` is ahead; without `FOR`, and on MySQL, that is an alias.
    fn name_behind_for(&self) -> Option<Qualified> {
        let mut lexer = self.cursor.lookahead();
        let is_form = lexer.next_token().keyword == Keyword::For;
        if is_form && self.cursor.options().flavor == Flavor::MariaDb { name_at(lexer) } else { None }
    }

    /// The name before the dot that is before the token here, where nothing is between them. It is read backwards, for nobody keeps it.
    fn name_before_dot(&self) -> Option<Qualified> {
        let dot = self.cursor.before;
        if !dot.is(TokenKind::Dot) {
            return None;
        }
        let sql = self.cursor.lookahead().sql();
        let name = token_before(sql, self.start, dot.start)?;
        let schema = match &sql[self.start..name.start] {
            [rest @ .., b'.'] => Some(token_before(sql, self.start, self.start + rest.len())?),
            _ => None,
        };
        Some(Qualified { schema, name })
    }
}

/// The name at the beginning of what is left, with its schema.
fn name_at(mut lexer: Lexer<'_>) -> Option<Qualified> {
    let first = lexer.next_token();
    let (schema, name) =
        if lexer.next_token().is(TokenKind::Dot) { (Some(first), lexer.next_token()) } else { (None, first) };
    let is_named = name.is_name() && schema.is_none_or(|schema| schema.is_name());
    is_named.then_some(Qualified { schema, name })
}

/// The name that ends there, and does not begin before `start`.
fn token_before(sql: &[u8], start: usize, end: usize) -> Option<Token> {
    let text = sql.get(start..end)?;
    let (kind, at) = if let [inner @ .., mark @ (b'`' | b'"')] = text {
        (TokenKind::Quoted, inner.iter().rposition(|byte| byte == mark)?)
    } else {
        let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..);
        let before = text.iter().rposition(|byte| !is_of_name(byte));
        (TokenKind::Name, before.map_or(0, |at| at + 1))
    };
    (at < text.len()).then_some(Token { kind, keyword: Keyword::None, start: start + at, end })
}
