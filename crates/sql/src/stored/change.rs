//! A statement that makes or changes code: the names under which that runs from then on, and what its text says of it.
//!
//! Dropped code does nothing. What is known of its name, which others may have in other schemas, stays true.

use std::collections::BTreeSet;

use super::body::{number, word};
use super::node::{Node, RunBy};
use super::{Body, Hidden};
use crate::cursor::Cursor;
use crate::lexer::{Token, TokenKind};
use crate::{Class, Effects, LexOptions, Statement};

/// What a change takes beside its words.
const EACH: usize = 160;

/// Words in statements that rename, which are not names unless they stand in quotes.
const RESERVED: [&[u8]; 11] =
    [b"rename", b"table", b"to", b"as", b"alter", b"if", b"exists", b"ignore", b"add", b"column", b"index"];

/// A name has its schema before it, and that a catalogue.
const MOST_DOTS: usize = 2;

/// The number under which names stand that are not ASCII: which bytes they have depends on the client.
pub(super) const FOREIGN: u64 = 0;

/// Code as the statement has it that makes it; or what code of several names has in common, which has a number as names have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Changed {
    pub(super) own: Hidden,
    pub(super) node: Node,
    /// It is one that is common to others.
    pub(super) is_common: bool,
}

impl Changed {
    pub(super) fn bytes(&self) -> usize {
        EACH + self.own.bytes() + self.node.bytes()
    }

    /// The same where there is no room for what it does.
    pub(super) fn unknown(&self) -> Self {
        let own = Hidden { is_unknown: true, ..Hidden::default() };
        Self { own, node: self.node.without_words(), is_common: self.is_common }
    }
}

/// What a statement changes of the code in the database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeChange {
    /// By the number of each name.
    pub(super) changed: Vec<(u64, Changed)>,
}

impl CodeChange {
    /// What `statement` changes; `None` if it is not about code. Of a text that `is_whole` only up to where it was held, the rest may do
    /// anything.
    pub fn of(statement: &Statement, sql: &[u8], options: LexOptions, is_whole: bool) -> Option<Self> {
        let is_ddl = match statement.class {
            Class::OtherDdl | Class::AlterTable => true,
            Class::Multi | Class::Unknown => {
                statement.effects.intersects(Effects::IMPLICIT_COMMIT.union(Effects::UNKNOWN))
            }
            _ => false,
        };
        if !is_ddl {
            return None;
        }
        let mut names = Names::default();
        names.read(sql, options);
        names.is_about_code.then(|| names.change(sql, options, is_whole))
    }

    /// True if code only goes.
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty()
    }

    /// Takes in what another statement changes.
    pub fn add(&mut self, other: Self) {
        self.changed.extend(other.changed);
    }

    /// Code of all these names, each with the ways to run it, does what `body` says.
    fn make(&mut self, names: &BTreeSet<u64>, common: u64, ways: &[(RunBy, bool)], body: &Body) {
        let mut add = |name, way: &(RunBy, bool), body: &Body, is_common| {
            let node = Node::new(way.0, way.1, body);
            self.changed.push((name, Changed { own: body.own.clone(), node, is_common }));
        };
        let [way, ..] = ways else { return };
        // What code of any kind but views calls, it may run in any way.
        let called = [(RunBy::Call, false)];
        let is_view = way.1;
        let inner = Body { own: Hidden::default(), words: [common].into(), calls: BTreeSet::new() };
        for name in names {
            for way in ways {
                add(*name, way, &inner, false);
            }
        }
        let ways = if is_view { ways } else { &called[..] };
        for way in ways {
            add(common, way, body, true);
        }
    }
}

/// The names in a text that makes code.
#[derive(Debug, Default)]
struct Names {
    is_about_code: bool,
    routines: BTreeSet<u64>,
    /// The tables of triggers.
    tables: BTreeSet<u64>,
    views: BTreeSet<u64>,
    /// Each list of tables and views that get the names of each other.
    renamed: Vec<BTreeSet<u64>>,
    /// The code is in a language that is not read here.
    is_foreign: bool,
}

/// What follows a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Routine,
    View,
    /// Of a trigger.
    Table,
}

impl Names {
    fn read(&mut self, sql: &[u8], options: LexOptions) {
        let mut cursor = Cursor::new(sql, options);
        let (mut makes, mut renames, mut makes_trigger) = (false, false, false);
        let mut segment = BTreeSet::new();
        loop {
            let token = cursor.bump();
            if token.is(TokenKind::End) || token.is(TokenKind::Semicolon) {
                let names = std::mem::take(&mut segment);
                if std::mem::take(&mut renames) {
                    self.renamed.push(names);
                }
                if token.is(TokenKind::End) {
                    return;
                }
            }
            if !token.is_name() {
                continue;
            }
            let is_reserved = token.is(TokenKind::Word)
                && RESERVED.iter().any(|word| cursor.text(token).eq_ignore_ascii_case(word));
            if !is_reserved && !cursor.here.is(TokenKind::Dot) {
                segment.insert(name_number(token, sql, options));
            }
            if !token.is(TokenKind::Word) {
                continue;
            }
            let text = cursor.text(token);
            let is = |one: &str| text.eq_ignore_ascii_case(one.as_bytes());
            let kind = match () {
                () if is("create") || is("alter") => {
                    makes = true;
                    continue;
                }
                () if is("drop") => {
                    makes = false;
                    continue;
                }
                () if is("rename") => {
                    (renames, self.is_about_code) = (true, true);
                    continue;
                }
                () if is("language") => {
                    let next = cursor.text(cursor.here);
                    self.is_foreign |= cursor.here.is(TokenKind::Word) && !next.eq_ignore_ascii_case(b"sql");
                    continue;
                }
                () if is("procedure") || is("function") || is("package") => Kind::Routine,
                () if is("view") => Kind::View,
                () if is("trigger") => {
                    (makes_trigger, self.is_about_code) = (makes, true);
                    continue;
                }
                () if is("on") && makes_trigger => {
                    makes_trigger = false;
                    Kind::Table
                }
                () => continue,
            };
            self.is_about_code = true;
            if makes {
                self.note(kind, cursor, sql);
            }
        }
    }

    /// Takes in the name that stands where `cursor` is.
    fn note(&mut self, kind: Kind, mut cursor: Cursor<'_>, sql: &[u8]) {
        let is_at = |cursor: &Cursor<'_>, word: &[u8]| {
            cursor.here.is(TokenKind::Word) && cursor.text(cursor.here).eq_ignore_ascii_case(word)
        };
        // PACKAGE BODY; IF NOT EXISTS.
        for word in [&b"body"[..], b"if", b"not", b"exists"] {
            if is_at(&cursor, word) && cursor.ahead.is_name() {
                cursor.bump();
            }
        }
        for _ in 0..MOST_DOTS {
            if cursor.ahead.is(TokenKind::Dot) {
                cursor.bump();
                cursor.bump();
            }
        }
        if !cursor.here.is_name() {
            return;
        }
        let number = name_number(cursor.here, sql, cursor.options());
        match kind {
            Kind::Routine => self.routines.insert(number),
            Kind::View => self.views.insert(number),
            Kind::Table => self.tables.insert(number),
        };
    }

    fn change(self, sql: &[u8], options: LexOptions, is_whole: bool) -> CodeChange {
        const VIEW: [(RunBy, bool); 2] = [(RunBy::Read, true), (RunBy::Write, true)];
        let mut change = CodeChange::default();
        if !(self.routines.is_empty() && self.tables.is_empty() && self.views.is_empty()) {
            let mut body = Body::read(sql, options);
            body.own.is_unknown |= self.is_foreign || !is_whole;
            let of = |what: &str| number(&format!("{what} {}", String::from_utf8_lossy(sql)));
            change.make(&self.routines, of("code"), &[(RunBy::Call, false)], &body);
            change.make(&self.tables, of("code"), &[(RunBy::Write, false)], &body);
            change.make(&self.views, of("view"), &VIEW, &body);
        }
        for names in self.renamed {
            // Each may be what any of them was.
            let common = number(&format!("{names:?}"));
            let body = Body { own: Hidden::default(), words: names, calls: BTreeSet::new() };
            change.make(&body.words, common, &VIEW, &body);
        }
        change
    }
}

fn name_number(token: Token, sql: &[u8], options: LexOptions) -> u64 {
    let name = word(token, sql, options);
    if name.is_ascii() { number(&name) } else { FOREIGN }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify;

    /// The names that are found, of those that are asked for, each with how it is run.
    fn found(sql: &str) -> Option<Vec<String>> {
        let lex = LexOptions::default();
        let change = CodeChange::of(&classify(sql.as_bytes(), lex), sql.as_bytes(), lex, true)?;
        let known = ["f", "p", "v", "t", "a", "b", "c"].map(|name| (number(name), name));
        let known = known.into_iter().chain([(FOREIGN, "foreign")]);
        let name = |number| known.clone().find(|(one, _)| *one == number).map_or("?", |(_, name)| name);
        let named = change.changed.iter().filter(|(_, one)| !one.is_common);
        Some(named.map(|(at, one)| format!("{} {:?}", name(*at), one.node.run_by)).collect())
    }

    #[test]
    fn what_changes_code_is_noticed_by_name() {
        let view = &["v Read", "v Write"][..];
        let swap = &["a Read", "a Write", "b Read", "b Write"][..];
        for (sql, wanted) in [
            ("CREATE PROCEDURE app.p() SELECT 1", Some(&["p Call"][..])),
            (
                "CREATE OR REPLACE DEFINER = me FUNCTION IF NOT EXISTS `a`.`F`() RETURNS INT RETURN 1",
                Some(&["f Call"]),
            ),
            ("CREATE PACKAGE BODY p AS END", Some(&["p Call"])),
            (
                "CREATE TRIGGER IF NOT EXISTS x.tr BEFORE INSERT ON app.t FOR EACH ROW SET @a = 1",
                Some(&["t Write"]),
            ),
            ("CREATE ALGORITHM = MERGE VIEW v AS SELECT f()", Some(view)),
            (
                "/*!50001 CREATE ALGORITHM=UNDEFINED */ /*!50013 DEFINER=`a`@`b` */ /*!50001 VIEW `v` AS SELECT 1 */",
                Some(view),
            ),
            ("ALTER VIEW v AS SELECT 1", Some(view)),
            ("ALTER FUNCTION f COMMENT ''", Some(&["f Call"])),
            (
                "DO 1; CREATE PROCEDURE p() SELECT 1; CREATE VIEW v AS SELECT 1",
                Some(&["p Call", "v Read", "v Write"]),
            ),
            ("BEGIN NOT ATOMIC CREATE OR REPLACE VIEW v AS SELECT 1; END", Some(view)),
            ("CREATE PROCEDURE ü() SELECT 1", Some(&["foreign Call"])),
            // What is gone does nothing.
            ("DROP TRIGGER t", Some(&[])),
            ("DROP PROCEDURE IF EXISTS p", Some(&[])),
            ("ALTER TABLE view_log ADD b INT COMMENT 'trigger'", None),
            ("BEGIN; INSERT INTO t VALUES ('procedure'); COMMIT", None),
            ("CREATE INDEX i ON t (a)", None),
            ("CREATE TABLE t (a INT)", None),
            ("INSERT INTO t VALUES ('procedure')", None),
            ("SELECT 1", None),
        ] {
            let wanted: Option<Vec<String>> =
                wanted.map(|all| all.iter().map(|one| (*one).to_owned()).collect());
            assert_eq!(found(sql), wanted, "{sql}");
        }
        for sql in
            ["RENAME TABLE a TO b", "RENAME TABLE app.a TO `app`.`b`", "ALTER TABLE IF EXISTS a RENAME TO b"]
        {
            let mut found = found(sql).unwrap();
            found.sort_unstable();
            assert_eq!(found, swap, "{sql}");
        }
    }

    #[test]
    fn what_cannot_be_read_may_be_anything() {
        let lex = LexOptions { charset: crate::TextCharset::AsciiSafe, ..LexOptions::default() };
        for (sql, is_whole, is_unknown) in [
            ("CREATE PROCEDURE p() SELECT language, 1", true, false),
            ("CREATE PROCEDURE p() LANGUAGE SQL SELECT 1", true, false),
            ("CREATE PROCEDURE p() SELECT 1", false, true),
            ("CREATE FUNCTION p() RETURNS INT LANGUAGE JAVASCRIPT AS $$ return 1 $$", true, true),
        ] {
            let statement = classify(sql.as_bytes(), lex);
            let change = CodeChange::of(&statement, sql.as_bytes(), lex, is_whole).unwrap();
            let common = change.changed.iter().find(|(_, one)| one.is_common).unwrap();
            assert_eq!(common.1.own.is_unknown, is_unknown, "{sql}");
        }
    }

    #[test]
    fn what_is_made_of_a_text_takes_as_much_as_the_text() {
        let lex = LexOptions::default();
        let list: Vec<String> = (0..2000).map(|at| format!("a{at} TO b{at}")).collect();
        let rename = format!("RENAME TABLE {}", list.join(", "));
        let make: Vec<String> = (0..2000).map(|at| format!("CREATE PROCEDURE p{at}() SELECT 1;")).collect();
        for sql in [rename, make.concat()] {
            let change = CodeChange::of(&classify(sql.as_bytes(), lex), sql.as_bytes(), lex, true).unwrap();
            let bytes: usize = change.changed.iter().map(|(_, one)| one.bytes()).sum();
            assert!(change.changed.len() >= 2000 && bytes < 60 * sql.len(), "{bytes}");
        }
    }
}
