//! The catalogue of a database, row by row, as a [`Reach`].
//!
//! Owns: what each row says, and how much is kept. Must not know where the rows come from.

use std::collections::HashMap;

use super::{Reach, TableKey, Touched, Unknown};
use crate::classify::{classify, functions};
use crate::names::{Mentioned, Word};
use crate::{Effects, Flavor, LexOptions};

/// More tables than a server has that anybody can look after, and more text of views and triggers.
const MOST_TABLES: usize = 200_000;
const MOST_TEXT: usize = 32 << 20;

/// What a table is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Its rows are its own, and others see them when they are committed.
    Plain,
    /// The same; but others see them at once.
    WithoutTransactions,
    /// What is read there is elsewhere, or changes by itself.
    Strange,
}

/// Text of a view or a trigger that is looked at when all tables are known.
#[derive(Debug)]
struct Text {
    of: TableKey,
    schema: Box<str>,
    sql: Box<[u8]>,
    lex: LexOptions,
    is_view: bool,
}

/// Collects the rows of a catalogue.
#[derive(Debug, Default)]
pub struct ReachBuilder {
    reach: Reach,
    texts: Vec<Text>,
    /// Bytes of texts.
    taken: usize,
    /// By the number of a name, the tables that are called so in any schema.
    by_name: HashMap<u64, Vec<TableKey>>,
    /// A table whose name is more than one word.
    has_odd_names: bool,
    is_too_large: bool,
}

impl ReachBuilder {
    /// A table; a view is `Plain`, and told again with its text.
    pub fn table(&mut self, schema: &str, name: &str, kind: Kind) {
        if self.reach.known.len() >= MOST_TABLES {
            self.is_too_large = true;
            return;
        }
        let key = TableKey::new(schema, name);
        self.reach.known.insert(key.table);
        self.reach.has_wide_names |= !name.is_ascii();
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..);
        self.has_odd_names |= !name.bytes().all(is_word);
        self.by_name.entry(super::number(&name.to_lowercase())).or_default().push(key);
        match kind {
            Kind::Plain => {}
            Kind::WithoutTransactions => _ = self.reach.at_once.insert(key.table),
            Kind::Strange => {
                self.reach.reads.insert(key.table, Touched::everything());
                self.reach.writes.insert(key.table, Touched::everything());
            }
        }
    }

    /// A view and its text; one that is empty may read anything.
    pub fn view(&mut self, (schema, name): (&str, &str), text: &[u8], lex: LexOptions) {
        let key = TableKey::new(schema, name);
        if text.is_empty() {
            self.reach.reads.insert(key.table, Touched::everything());
            self.reach.writes.insert(key.table, Touched::everything());
            return;
        }
        self.text(key, (schema, text), lex, true);
    }

    /// A trigger of this table, and its text; one that is empty may do anything.
    pub fn trigger(&mut self, (schema, table): (&str, &str), text: &[u8], lex: LexOptions) {
        let key = TableKey::new(schema, table);
        if text.is_empty() {
            self.reach.writes.insert(key.table, Touched::everything());
            return;
        }
        self.text(key, (schema, text), lex, false);
    }

    fn text(&mut self, of: TableKey, (schema, text): (&str, &[u8]), lex: LexOptions, is_view: bool) {
        self.taken += text.len();
        if self.taken > MOST_TEXT {
            self.is_too_large = true;
            return;
        }
        self.texts.push(Text { of, schema: schema.into(), sql: text.into(), lex, is_view });
    }

    /// A change of the rows of `parent` changes rows of `child`.
    pub fn cascade(&mut self, parent: (&str, &str), child: (&str, &str)) {
        let (parent, child) = (TableKey::new(parent.0, parent.1), TableKey::new(child.0, child.1));
        add(&mut self.reach.writes, parent, &Touched { tables: [child].into(), ..Touched::default() });
    }

    /// What was collected; `None` if there was too much.
    pub fn build(mut self) -> Option<Reach> {
        if self.is_too_large {
            return None;
        }
        for text in std::mem::take(&mut self.texts) {
            let touched = self.touched(&text);
            if text.is_view {
                add(&mut self.reach.reads, text.of, &touched);
            }
            // What is written to a view is written to its tables.
            add(&mut self.reach.writes, text.of, &touched);
        }
        Some(self.reach)
    }

    fn touched(&self, text: &Text) -> Touched {
        let mut found = Mentioned::read(&text.sql, text.lex);
        if text.is_view {
            // A view may stand in a comment that servers run.
            let statement = classify(&text.sql, text.lex);
            if statement.effects.intersects(Effects::OPAQUE) {
                return Touched::everything();
            }
            return self.reach.named(&found, Some(&text.schema), Unknown::Read);
        }
        // A list of columns behind a table's name looks like a call.
        let calls = found.has_call || self.calls(text, &found);
        // https://github.com/mysql/mysql-server: body_utf8_append_literal in sql/sql_lex.cc. From the first string on, what looks
        // like one may be code.
        let has_lost_escapes = text.lex.flavor == Flavor::MySql && found.has_text;
        if calls || has_lost_escapes && self.has_odd_names {
            return Touched::everything();
        }
        // All words are looked at, wherever they seem to stand.
        found.is_doubtful &= !has_lost_escapes;
        // NEW.a and OLD.a are no tables.
        found.tables.retain(|(schema, _)| !is_row(schema.as_deref()));
        let mut touched = self.reach.named(&found, Some(&text.schema), Unknown::Harmless);
        if has_lost_escapes {
            self.add_any_words(&text.sql, text.lex, &mut touched);
        }
        touched
    }

    /// True if something is called that is neither built in nor a table.
    fn calls(&self, text: &Text, found: &Mentioned) -> bool {
        let is_table = |(schema, name): &Word| {
            let key = TableKey::new(schema.as_deref().unwrap_or(&text.schema), name);
            self.reach.known.contains(&key.table)
        };
        found.called.iter().any(|word| !is_table(word))
    }

    /// Takes in all words, in strings and comments, too.
    fn add_any_words(&self, text: &[u8], lex: LexOptions, touched: &mut Touched) {
        let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..);
        let mut rest = text;
        while let Some(start) = rest.iter().position(is_of_word) {
            let len = rest[start..].iter().position(|byte| !is_of_word(byte)).unwrap_or(rest.len() - start);
            let (word, behind) = rest[start..].split_at(len);
            let name = String::from_utf8_lossy(word).to_lowercase();
            let tables = self.by_name.get(&super::number(&name));
            touched.tables.extend(tables.into_iter().flatten());
            let is_called = behind.trim_ascii_start().first() == Some(&b'(');
            let is_own = tables.is_some() || functions::find(word, lex).is_some() || is_keyword(&name);
            touched.is_everything |= is_called && !is_own || name == "call";
            rest = behind;
        }
        touched.limit();
    }
}

/// Words of bodies before a parenthesis that are neither functions nor names.
fn is_keyword(word: &str) -> bool {
    ["and", "or", "not", "then", "when", "else", "return", "set", "where", "on", "select", "by", "as", "from"]
        .contains(&word)
}

fn is_row(schema: Option<&str>) -> bool {
    schema.is_some_and(|schema| schema.eq_ignore_ascii_case("new") || schema.eq_ignore_ascii_case("old"))
}

fn add(map: &mut HashMap<u64, Touched>, to: TableKey, more: &Touched) {
    map.entry(to.table).or_default().add(more);
}
