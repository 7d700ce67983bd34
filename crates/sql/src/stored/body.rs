//! One body: what it does itself, and the words by which it may run other code.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::Hidden;
use super::change::FOREIGN;
use crate::classify::functions;
use crate::lexer::{Lexer, Token, TokenKind};
use crate::names::{may_be_call, name_text, user_variable_name};
use crate::{Flavor, LexOptions};

/// The number among calls that stands for any that is not built in.
pub(super) const NOT_BUILT_IN: u64 = 1;

/// The number that stands for a call of what is built in and whose value is its session's or its server's own, or that changes a sequence.
pub(super) const OF_PLACE: u64 = 2;

/// Statements whose effect is not in the text that has them, or that hold what no server reports (`FLUSH TABLES WITH READ LOCK`, `LOCK
/// INSTANCE FOR BACKUP`). `LOCK TABLES`, `HANDLER` and `USE` are not allowed in routines.
const UNKNOWN: [&[u8]; 5] = [b"prepare", b"immediate", b"flush", b"backup", b"xa"];

/// The locks of the locking service, whose names are arguments.
const SERVICE_LOCKS: [&[u8]; 2] = [b"service_get_read_locks", b"service_get_write_locks"];

/// A body as far as it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// What it does by itself.
    pub(super) own: Hidden,
    /// Every word in it that may be a name, as numbers: two words with the same one only make it do more.
    pub(super) words: BTreeSet<u64>,
    /// Those with a parenthesis right behind them. As servers keep the text of a view, every call looks so.
    pub(super) calls: BTreeSet<u64>,
}

impl Body {
    /// Reads the text of a body, as it is read by the server.
    pub fn read(text: &[u8], options: LexOptions) -> Self {
        Self::read_sure(text, options, text.len())
    }

    /// The same where a literal may be taken for code behind `sure`.
    fn read_sure(text: &[u8], options: LexOptions, sure: usize) -> Self {
        let mut body = Self { own: Hidden::default(), words: BTreeSet::new(), calls: BTreeSet::new() };
        let mut lexer = Lexer::new(text, options);
        let (mut before, mut last): (&[u8], Option<(u64, Token)>) = (b"", None);
        let mut earlier: &[u8] = b"";
        // Behind CALL, which needs no parenthesis.
        let mut is_called = false;
        loop {
            let token = lexer.next_token();
            let word = token.is_name().then(|| word(token, text, options));
            if word.as_ref().is_some_and(|word| !word.is_ascii()) {
                body.words.insert(FOREIGN);
                body.calls.insert(FOREIGN);
            }
            let name = word.map(|word| number(&word));
            match token.kind {
                TokenKind::End => break,
                TokenKind::Error => body.own.is_unknown = true,
                // Each one may be assigned: by SET, `:=`, INTO, as an argument, by GET DIAGNOSTICS.
                TokenKind::UserVariable => {
                    body.own.variables.insert(user_variable_name(token, text, options).into());
                }
                TokenKind::Open => {
                    body.calls.extend(last.map(|(name, _)| name));
                    let is_foreign = |(_, name): &(u64, Token)| may_be_call(*name, text, options);
                    body.calls.extend(last.filter(is_foreign).map(|_| NOT_BUILT_IN));
                    let is_own = |(_, name): &(u64, Token)| is_of_place(bare(*name, text), options);
                    body.calls.extend(last.filter(is_own).map(|_| OF_PLACE));
                }
                _ if token.is_name() => {
                    let word = &text[token.start..token.end];
                    body.calls.extend(name.filter(|_| is_called));
                    let is_kill = token.is(TokenKind::Word) && word.eq_ignore_ascii_case(b"kill");
                    body.own.kills |= is_kill && is_statement(before, token.start < sure);
                    note_word(&mut body.own, word, before);
                    note_scope(&mut body.own, word, if before == b"@@" { earlier } else { before });
                    if options.flavor == Flavor::MariaDb && is_of_sequence(bare(token, text), before) {
                        body.calls.insert(OF_PLACE);
                    }
                }
                _ => {}
            }
            let is_call =
                token.is(TokenKind::Word) && text[token.start..token.end].eq_ignore_ascii_case(b"call");
            is_called = is_call || is_called && (token.is_name() || token.is(TokenKind::Dot));
            body.words.extend(name);
            let named = name.map(|name| (name, token));
            (earlier, before, last) = (before, &text[token.start..token.end], named);
        }
        body.own.is_unknown |= lexer.is_doubtful();
        body.own.limit();
        body
    }

    /// Reads a text whose literals have lost their escapes, as MySQL shows those of routines and triggers: `'don''t'` is `'don't'`. From
    /// the first quote on, anything may be code.
    pub fn read_unescaped(text: &[u8], options: LexOptions) -> Self {
        let quote = text.iter().position(|byte| matches!(byte, b'\'' | b'"'));
        let mut body = Self::read_sure(text, options, quote.unwrap_or(text.len()));
        if let Some(at) = quote {
            body.add_any_words(&text[at..]);
            body.own.limit();
        }
        body
    }

    /// Takes in all words, in literals and comments, too.
    fn add_any_words(&mut self, text: &[u8]) {
        let is_of_word =
            |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.' | 0x80..);
        let (mut before, mut rest): (&[u8], _) = (b"", text);
        while let Some(start) = rest.iter().position(is_of_word) {
            let len = rest[start..].iter().position(|byte| !is_of_word(byte)).unwrap_or(rest.len() - start);
            let (gap, found) = (&rest[..start], &rest[start..start + len]);
            if gap.ends_with(b"@") && !gap.ends_with(b"@@") {
                self.own.variables.insert(String::from_utf8_lossy(found).to_lowercase().into());
            }
            // `@'a'` is a variable, or the end of a literal.
            self.own.is_unknown |= [&b"@'"[..], b"@\"", b"@`"].iter().any(|quoted| gap.ends_with(quoted));
            let word_before = before;
            let is_kill = found.eq_ignore_ascii_case(b"kill");
            self.own.kills |= is_kill
                && match gap.trim_ascii() {
                    b"" => is_statement(before, false),
                    gap => gap.ends_with(b";") || gap.ends_with(b":"),
                };
            for (part, word) in found.split(|byte| *byte == b'.').enumerate() {
                let before = match part {
                    0 if gap.ends_with(b"@@") => b"@@",
                    0 => before,
                    _ => b".",
                };
                note_word(&mut self.own, word, before);
                note_scope(&mut self.own, word, if gap.contains(&b',') { b"," } else { word_before });
                self.words.insert(number(&String::from_utf8_lossy(word).to_lowercase()));
            }
            (before, rest) = (found, &rest[start + len..]);
        }
    }

    /// True if what is done by this text itself may change rights.
    pub fn may_change_rights(&self) -> bool {
        self.own.may_change_rights()
    }

    /// True if it has, where this text has ended well.
    pub fn has_changed_rights(&self) -> bool {
        self.own.has_changed_rights()
    }

    /// What it takes while a catalogue is made, in bytes.
    pub(super) fn bytes(&self) -> usize {
        const EACH_WORD: usize = 16;
        self.own.bytes() + EACH_WORD * (self.words.len() + self.calls.len())
    }

    /// Takes in what another one does that goes by the same name.
    pub(super) fn add(&mut self, other: Self) {
        self.own.add(&other.own);
        self.words.extend(other.words);
        self.calls.extend(other.calls);
    }

    /// One that nobody may read, or that there is no room for.
    pub fn unreadable() -> Self {
        Self {
            own: Hidden { is_unknown: true, ..Hidden::default() },
            words: BTreeSet::new(),
            calls: BTreeSet::new(),
        }
    }
}

/// The name without its quotes.
fn bare(name: Token, text: &[u8]) -> &[u8] {
    match (name.kind, &text[name.start..name.end]) {
        (TokenKind::Quoted, [_, inner @ .., _]) => inner,
        (_, whole) => whole,
    }
}

fn is_of_place(called: &[u8], options: LexOptions) -> bool {
    functions::find(called, options).is_some_and(|call| call.is_of_place(options.flavor))
}

/// `seq.nextval`, `seq.currval`, `NEXT VALUE FOR seq`, `PREVIOUS VALUE FOR seq`: calls without parentheses, until the server has made
/// them such with.
fn is_of_sequence(word: &[u8], before: &[u8]) -> bool {
    let is_one_of = |text: &[u8], words: [&[u8]; 2]| words.iter().any(|one| text.eq_ignore_ascii_case(one));
    before == b"." && is_one_of(word, [b"nextval", b"currval"])
        || word.eq_ignore_ascii_case(b"value") && is_one_of(before, [b"next", b"previous"])
}

/// What stands before a statement in a body.
const BEFORE_STATEMENTS: [&[u8]; 9] =
    [b"", b";", b":", b"begin", b"then", b"else", b"do", b"loop", b"repeat"];

/// True if a word that is reserved, behind this one, is a statement: it can be nothing else where it is `sure` that it is code.
fn is_statement(before: &[u8], sure: bool) -> bool {
    let is_name = matches!(before, b"." | b"@" | b"@@");
    !is_name && (sure || BEFORE_STATEMENTS.iter().any(|one| before.eq_ignore_ascii_case(one)))
}

/// Without a word for the scope, `@@` and one of these is about the next transaction only.
const NEXT_TRANSACTION: [&[u8]; 4] =
    [b"transaction_isolation", b"transaction_read_only", b"tx_isolation", b"tx_read_only"];

/// What is done to accounts; `DROP USER IF EXISTS`, `CREATE OR REPLACE USER`, `SET DEFAULT ROLE`.
const TO_ACCOUNTS: [&[u8]; 7] = [b"create", b"alter", b"drop", b"rename", b"exists", b"replace", b"default"];

/// Words of what runs a statement only under a condition, again and again, or goes on after an error. Every `IF` and every `CASE` has
/// `THEN`; `IF EXISTS` has not.
const BRANCHES: [&[u8]; 9] =
    [b"then", b"loop", b"while", b"repeat", b"until", b"handler", b"goto", b"leave", b"return"];

fn note_word(own: &mut Hidden, word: &[u8], before: &[u8]) {
    let is_one_of = |words: &[&[u8]]| words.iter().any(|one| word.eq_ignore_ascii_case(one));
    let is_set = before.eq_ignore_ascii_case(b"set");
    own.locks |= is_one_of(&[b"get_lock"]);
    own.executes |= is_one_of(&[b"execute"]);
    // `@@identity`, `@@session.identity`
    let is_variable = matches!(before, b"@@" | b".");
    own.reads_last_id |= is_one_of(&[b"last_insert_id"]) || is_variable && is_one_of(&[b"identity"]);
    // `FOR i IN 1..0 DO .. END FOR`
    let ends_for = before.eq_ignore_ascii_case(b"end") && is_one_of(&[b"for"]);
    own.branches |= ends_for || is_one_of(&BRANCHES);
    let is_done_to = TO_ACCOUNTS.iter().any(|one| before.eq_ignore_ascii_case(one));
    own.rights |= is_one_of(&[b"grant", b"revoke"])
        || is_done_to && is_one_of(&[b"user", b"role"])
        || is_set && is_one_of(&[b"password"]);
    own.next_transaction |=
        is_set && is_one_of(&[b"transaction"]) || before == b"@@" && is_one_of(&NEXT_TRANSACTION);
    own.is_unknown |= is_one_of(&UNKNOWN) || is_one_of(&SERVICE_LOCKS) || is_set && is_one_of(&[b"role"]);
}

/// `SET GLOBAL`, `SET @@global.x`, or so in a list: sessions that begin later are other ones, as after a change of rights.
fn note_scope(own: &mut Hidden, word: &[u8], before: &[u8]) {
    let is_global = word.eq_ignore_ascii_case(b"global") || word.eq_ignore_ascii_case(b"persist");
    own.rights |= is_global && (before == b"," || before.eq_ignore_ascii_case(b"set"));
}

/// The name that a token may stand for. Servers compare names of routines, and many of tables, without regard to case.
pub(super) fn word(token: Token, text: &[u8], options: LexOptions) -> String {
    name_text(token, text, options).to_lowercase()
}

/// The number of a word in lower case.
pub(super) fn number(word: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    word.hash(&mut hasher);
    hasher.finish()
}
