//! Every table that a text may be about: those that stand where tables stand, and every other word, for whoever knows which
//! words are tables.
//!
//! Owns: collecting them without a grammar that could be wrong. Must not know which tables there are.

use std::collections::BTreeSet;

use super::{name_text, tables};
use crate::LexOptions;
use crate::classify::functions;
use crate::keyword::Keyword;
use crate::lexer::{Lexer, Token, TokenKind};

/// A name with its schema, where the text has one; both in lower case.
pub(crate) type Word = (Option<Box<str>>, Box<str>);

/// So many different words of one text are looked at; one with more may be about anything.
const MOST_WORDS: usize = 4096;

/// What a text is about.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one text")]
pub(crate) struct Mentioned {
    /// What stands where tables stand.
    pub(crate) tables: BTreeSet<Word>,
    /// Every name, with what stands before its dot.
    pub(crate) words: BTreeSet<Word>,
    /// Names behind `AS`, but for those of the table that stands before it.
    pub(crate) aliases: BTreeSet<Box<str>>,
    /// Names of common table expressions, and of windows.
    pub(crate) expressions: BTreeSet<Box<str>>,
    /// Of these, what stands before a parenthesis and is not built in: a routine, or a table before a list of columns.
    pub(crate) called: BTreeSet<Word>,
    /// It has CALL.
    pub(crate) has_call: bool,
    /// It cannot be read with certainty, or has too many words.
    pub(crate) is_doubtful: bool,
    /// It has a string, in which a server may have left out escapes.
    pub(crate) has_text: bool,
}

impl Mentioned {
    pub(crate) fn read(sql: &[u8], options: LexOptions) -> Self {
        let mut found = Self::default();
        for table in tables(sql, options) {
            let schema = table.schema.map(|schema| schema.to_lowercase().into());
            found.tables.insert((schema, table.name.to_lowercase().into()));
        }
        found.read_words(sql, options);
        found
    }

    fn read_words(&mut self, sql: &[u8], options: LexOptions) {
        let mut lexer = Lexer::new(sql, options);
        // The name that was last, if it may be called.
        let mut before: Option<Word> = None;
        let mut qualifier: Option<Box<str>> = None;
        let mut last_name: Option<Box<str>> = None;
        // Where that ended, and that what is before a dot need not be a schema: `FROM .t` is `FROM t`.
        let (mut last_end, mut is_loose) = (0, false);
        // The name before `AS`, and that this was the last word.
        let (mut named, mut is_as): (Option<Box<str>>, bool) = (None, false);
        loop {
            let token = lexer.next_token();
            match token.kind {
                TokenKind::End => break,
                TokenKind::Error => self.is_doubtful = true,
                TokenKind::Text => self.has_text = true,
                TokenKind::Open => {
                    self.called.extend(before.take());
                    self.expressions.extend(named.take().filter(|_| is_as));
                }
                TokenKind::Dot => {
                    qualifier = last_name.take();
                    is_loose = qualifier.is_none() || last_end != token.start;
                }
                _ => {}
            }
            if token.is_name() {
                self.has_call |= token.is(TokenKind::Word) && token.keyword == Keyword::Call;
                let name: Box<str> = name_text(token, sql, options).to_lowercase().into();
                let word = (qualifier.take(), name.clone());
                before = may_be_call(token, sql, options).then(|| word.clone());
                if std::mem::take(&mut is_loose) {
                    self.words.insert((None, name.clone()));
                }
                self.words.insert(word);
                last_end = token.end;
                if std::mem::take(&mut is_as) && named.as_ref() != Some(&name) {
                    self.aliases.insert(name.clone());
                }
                is_as = token.is(TokenKind::Word) && token.keyword == Keyword::As;
                if !is_as {
                    named = Some(name.clone());
                }
                last_name = Some(name);
                if self.words.len() > MOST_WORDS {
                    self.is_doubtful = true;
                    return;
                }
            } else if !token.is(TokenKind::Dot) {
                (qualifier, last_name, before, is_loose) = (None, None, None, false);
                (named, is_as) = (None, false);
            }
        }
        self.is_doubtful |= lexer.is_doubtful() || lexer.has_version_comment();
    }
}

/// True if a parenthesis behind this makes it a call of what no server brings along.
pub(crate) fn may_be_call(name: Token, sql: &[u8], options: LexOptions) -> bool {
    name.is(TokenKind::Quoted) || functions::find(&sql[name.start..name.end], options).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text((schema, name): &Word) -> String {
        match schema {
            Some(schema) => format!("{schema}.{name}"),
            None => name.to_string(),
        }
    }

    fn words(sql: &str) -> String {
        let found = Mentioned::read(sql.as_bytes(), LexOptions::default());
        found.words.iter().map(text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_name_is_a_word_with_what_stands_before_its_dot() {
        for (sql, wanted) in [
            ("DELETE FROM x USING t AS x, s.u", "as delete from s t using x s.u"),
            ("SELECT `A`.`B`.`C` FROM `A`.`B`", "a from select a.b b.c"),
            ("SELECT 'x', @y, 1 FROM t", "from select t"),
            // A dot before a table's name means nothing, on MariaDB and on MySQL before 8.0.
            ("SELECT .5 FROM .t, . u JOIN`s`.v", "from join s select t u from.t s.v"),
            ("SELECT 1 FROM s . t", "from s select t s.t"),
        ] {
            assert_eq!(words(sql), wanted, "{sql}");
        }
    }

    #[test]
    fn names_that_a_text_defines_are_told() {
        let list =
            |names: &BTreeSet<Box<str>>| names.iter().map(|name| &**name).collect::<Vec<_>>().join(" ");
        for (sql, aliases, expressions) in [
            ("WITH c AS (SELECT 1) SELECT * FROM c", "", "c"),
            ("DELETE FROM y USING t AS y, s.u v", "y", ""),
            ("SELECT CAST(a AS CHAR), b FROM t", "char", ""),
            ("UPDATE t AS T, s.u AS `u`, v AS w SET a = 1", "w", ""),
        ] {
            let found = Mentioned::read(sql.as_bytes(), LexOptions::default());
            assert_eq!((&*list(&found.aliases), &*list(&found.expressions)), (aliases, expressions), "{sql}");
        }
    }

    #[test]
    fn what_is_called_and_not_built_in_is_noticed() {
        for (sql, wanted) in [
            ("UPDATE t SET a = CONCAT(a, 'x') WHERE b IN (1, 2)", ""),
            ("UPDATE t SET a = f(a)", "f"),
            ("UPDATE t SET a = `s`.`f`(a)", "s.f"),
            ("INSERT INTO t (a) VALUES (1), (2)", "t"),
            ("CALL p", "CALL"),
            ("BEGIN IF (NEW.a > 1) THEN UPDATE t SET a = (1); END IF; END", ""),
        ] {
            let found = Mentioned::read(sql.as_bytes(), LexOptions::default());
            let mut called: Vec<String> = found.called.iter().map(text).collect();
            called.extend(found.has_call.then(|| "CALL".to_owned()));
            assert_eq!(called.join(" "), wanted, "{sql}");
        }
    }
}
