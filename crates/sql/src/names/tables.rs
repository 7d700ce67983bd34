//! The tables that a text names.

use std::collections::HashSet;
use std::ops::Range;

use super::name_text;
use super::temporary_tables::TableName;
use crate::LexOptions;
use crate::cursor::Cursor;
use crate::keyword::Keyword;
use crate::lexer::TokenKind;

/// The tables that stand in a text where tables stand: behind `FROM`, `JOIN`, `INTO`, `UPDATE`, `TABLE`, `DESCRIBE`, and
/// in the lists there. Each once, in the order of the text. Names of common table expressions are among them; what a
/// view or a routine reads is not.
pub fn tables(sql: &[u8], options: LexOptions) -> Vec<TableName> {
    Reader::read(sql, options).found
}

/// What a text is about, as far as single words and their places tell.
#[derive(Debug)]
pub(crate) struct Objects {
    /// Where something stands in the place of a table: one with a name, a query in parentheses, `JSON_TABLE`. `DUAL` is none.
    /// Of each statement the first.
    places: Vec<usize>,
}

impl Objects {
    pub(crate) fn read(sql: &[u8], options: LexOptions) -> Self {
        Self { places: Reader::read(sql, options).places }
    }

    pub(crate) fn any_in(&self, statement: &Range<usize>) -> bool {
        let next = self.places.partition_point(|place| *place < statement.start);
        self.places.get(next).is_some_and(|place| *place < statement.end)
    }
}

/// One level of parentheses.
#[derive(Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one level")]
struct Level {
    /// A table is what comes next.
    expects: bool,
    /// A comma brings another one.
    is_list: bool,
    /// The arguments of a function: `EXTRACT(YEAR FROM a)` names no table.
    is_call: bool,
}

struct Reader<'a> {
    cursor: Cursor<'a>,
    open: Vec<Level>,
    found: Vec<TableName>,
    seen: HashSet<TableName>,
    /// See [`Objects`].
    places: Vec<usize>,
    /// The statement here has none there yet.
    has_no_place: bool,
}

impl<'a> Reader<'a> {
    /// Reads the whole text.
    fn read(sql: &'a [u8], options: LexOptions) -> Self {
        let cursor = Cursor::new(sql, options);
        let mut reader = Self {
            cursor,
            open: vec![Level::default()],
            found: Vec::new(),
            seen: HashSet::new(),
            places: Vec::new(),
            has_no_place: true,
        };
        while !reader.cursor.here.is(TokenKind::End) {
            reader.step(sql, options);
        }
        reader
    }

    fn step(&mut self, sql: &[u8], options: LexOptions) {
        let here = self.cursor.here;
        let mut level = self.open.last().copied().unwrap_or_default();
        match here.kind {
            TokenKind::Open => {
                let begins_query = matches!(
                    self.cursor.ahead.keyword,
                    Keyword::Select | Keyword::With | Keyword::Values | Keyword::Table
                );
                let is_call = !level.expects && !begins_query && self.cursor.before.is_name();
                if level.expects && begins_query {
                    self.note_place(here.start);
                }
                let inner = Level { expects: level.expects, is_list: level.expects, is_call };
                // `INSERT INTO t (a, b)`: the list of names ends the list of tables.
                if let Some(outer) = self.open.last_mut() {
                    outer.expects = false;
                }
                self.open.push(inner);
            }
            TokenKind::Close => {
                if self.open.len() > 1 {
                    self.open.pop();
                }
            }
            TokenKind::Semicolon => {
                self.open = vec![Level::default()];
                self.has_no_place = true;
            }
            // `FROM { OJ a LEFT JOIN b ON .. }`; servers take any name for `OJ`.
            TokenKind::Operator if level.expects && self.cursor.text(here) == b"{" => {}
            _ if level.expects && here.is_name() && self.follows(b"{") => {}
            TokenKind::Comma if level.is_list => self.set(Level { expects: true, ..level }),
            TokenKind::Word if self.keyword(&mut level) => self.set(level),
            // `FROM .t` is `FROM t`.
            TokenKind::Dot if level.expects => {}
            TokenKind::Word | TokenKind::Quoted | TokenKind::Name if level.expects => {
                self.set(Level { expects: false, ..level });
                self.take(sql, options);
                return;
            }
            _ => self.set(Level { expects: false, ..level }),
        }
        self.cursor.bump();
    }

    fn note_place(&mut self, at: usize) {
        if std::mem::take(&mut self.has_no_place) {
            self.places.push(at);
        }
    }

    fn set(&mut self, level: Level) {
        if let Some(top) = self.open.last_mut() {
            *top = level;
        }
    }

    /// What a word does to the level; false if it is none of the grammar's.
    fn keyword(&self, level: &mut Level) -> bool {
        let is = |words: &[&str]| {
            let text = self.cursor.text(self.cursor.here);
            words.iter().any(|word| text.eq_ignore_ascii_case(word.as_bytes()))
        };
        let before = self.cursor.before.keyword;
        match self.cursor.keyword() {
            // `USE INDEX FOR JOIN (..)`, and so of two others.
            Keyword::Join | Keyword::Group | Keyword::None
                if before == Keyword::For && is(&["join", "group", "order"]) =>
            {
                return false;
            }
            Keyword::From => (level.expects, level.is_list) = (!level.is_call, !level.is_call),
            Keyword::Into => (level.expects, level.is_list) = (true, false),
            Keyword::Update if before != Keyword::For && !self.follows(b"on") && !self.follows(b"key") => {
                (level.expects, level.is_list) = (true, true);
            }
            // FLUSH TABLES WITH READ LOCK names none.
            Keyword::With if before == Keyword::Tables => (level.expects, level.is_list) = (false, false),
            Keyword::Table | Keyword::Tables => (level.expects, level.is_list) = (true, true),
            Keyword::Describe | Keyword::Desc | Keyword::Truncate if before == Keyword::None => {
                (level.expects, level.is_list) = (true, false);
            }
            Keyword::Insert | Keyword::Replace if !self.cursor.ahead.is(TokenKind::Open) => {
                (level.expects, level.is_list) = (true, false);
            }
            Keyword::Where
            | Keyword::Set
            | Keyword::Values
            | Keyword::Select
            | Keyword::Group
            | Keyword::Union => (level.expects, level.is_list) = (false, false),
            // Not `FOR SYSTEM_TIME ..`, `USE INDEX FOR ..`: behind those the list goes on.
            Keyword::For
                if level.expects || matches!(self.cursor.ahead.keyword, Keyword::Update | Keyword::Share) =>
            {
                (level.expects, level.is_list) = (false, false);
            }
            // Words between the keyword and the name.
            Keyword::If
            | Keyword::Not
            | Keyword::Exists
            | Keyword::Ignore
            | Keyword::LowPriority
            | Keyword::Quick
            | Keyword::Delayed
            | Keyword::HighPriority => {}
            Keyword::Join | Keyword::StraightJoin => level.expects = true,
            Keyword::None if is(&["order", "limit", "having", "window", "on", "using"]) => {
                level.expects = false;
                level.is_list &= is(&["on", "using"]);
            }
            Keyword::None if is(&["only", "lateral"]) && level.expects => {}
            _ => return false,
        }
        true
    }

    fn follows(&self, word: &[u8]) -> bool {
        self.cursor.text(self.cursor.before).eq_ignore_ascii_case(word)
    }

    /// `name` or `schema.name`, and the cursor behind it.
    fn take(&mut self, sql: &[u8], options: LexOptions) {
        let first = self.cursor.bump();
        let table = if self.cursor.here.is(TokenKind::Dot) && self.cursor.ahead.is_name() {
            self.cursor.bump();
            let name = self.cursor.bump();
            TableName { schema: Some(name_text(first, sql, options)), name: name_text(name, sql, options) }
        } else {
            TableName { schema: None, name: name_text(first, sql, options) }
        };
        let is_call = self.cursor.here.is(TokenKind::Open) && table.name.eq_ignore_ascii_case("json_table");
        if table.schema.is_some() || !table.name.eq_ignore_ascii_case("dual") {
            self.note_place(first.start);
        }
        if !is_call && self.seen.insert(table.clone()) {
            self.found.push(table);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SqlText;

    fn named(sql: &str) -> String {
        let text = |table: TableName| table.schema.map_or(String::new(), |schema| schema + ".") + &table.name;
        tables(sql.as_bytes(), LexOptions::default()).into_iter().map(text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn tables_are_found_where_they_stand() {
        for (sql, expected) in [
            ("SELECT 1", ""),
            ("SELECT a FROM t WHERE b IN (1, 2)", "t"),
            ("SELECT a, b FROM s.t AS x, `u` y, (v, w) ORDER BY a, b", "s.t u v w"),
            ("SELECT * FROM a JOIN b ON a.i = b.i LEFT JOIN c USING (i, j), d LIMIT 1, 2", "a b c d"),
            ("SELECT * FROM (SELECT a, b FROM t) x, u", "t u"),
            ("SELECT (SELECT MAX(a) FROM t), EXTRACT(YEAR FROM d), TRIM(BOTH 'x' FROM y) FROM u", "t u"),
            ("(SELECT a FROM t) UNION (SELECT b FROM u)", "t u"),
            ("WITH c AS (SELECT a FROM t) SELECT * FROM c", "t c"),
            ("INSERT INTO t (a, b) VALUES (1, 2) ON DUPLICATE KEY UPDATE a = 1", "t"),
            ("INSERT IGNORE t SELECT a FROM u", "t u"),
            ("REPLACE INTO s.t SET a = REPLACE(a, 'x', 'y')", "s.t"),
            ("UPDATE LOW_PRIORITY t, u SET t.a = 1, u.b = 2 WHERE t.c = 3", "t u"),
            ("DELETE QUICK FROM t WHERE a = 1", "t"),
            ("SELECT a FROM t FOR UPDATE", "t"),
            ("SELECT a FROM t, u FOR SHARE OF t, u", "t u"),
            ("SELECT 1 FROM { OJ s.t LEFT JOIN u ON 1 }, v", "s.t u v"),
            ("SELECT 1 FROM t JOIN {oj (u JOIN `v` ON 1)}, {`oj` w}", "t u v w"),
            ("SELECT 1 FROM t USE INDEX FOR JOIN (PRIMARY), s.u", "t s.u"),
            ("SELECT 1 FROM t FORCE INDEX FOR ORDER BY (a, b), u IGNORE KEY FOR GROUP BY (c), v", "t u v"),
            ("SELECT 1 FROM t FOR SYSTEM_TIME AS OF NOW(), s.u ORDER BY a, b", "t s.u"),
            ("SELECT 1 FROM t FOR SYSTEM_TIME BETWEEN '1' AND '2' JOIN u ON 1, v FOR UPDATE", "t u v"),
            ("DESCRIBE FOR CONNECTION 5", ""),
            ("CREATE TABLE IF NOT EXISTS s.t (a INT, b INT)", "s.t"),
            ("DROP TABLE t, u", "t u"),
            ("SELECT 1 FROM .t, .`u` JOIN . v ON .5", "t u v"),
            ("INSERT INTO .t SELECT 1 FROM s.u", "t s.u"),
            ("UPDATE .t SET a = 1", "t"),
            ("TRUNCATE t", "t"),
            ("FLUSH TABLES WITH READ LOCK", ""),
            ("FLUSH TABLES t, u WITH READ LOCK", "t u"),
            ("UNLOCK TABLES", ""),
            ("DESC t", "t"),
            ("SELECT 'FROM x' FROM t; SELECT 1 FROM u", "t u"),
            ("SELECT * FROM JSON_TABLE('[]', '$' COLUMNS (a INT PATH '$')) j, t", "t"),
            ("SELECT a FROM t ORDER BY a DESC, b", "t"),
        ] {
            assert_eq!(named(sql), expected, "{sql}");
        }
    }

    #[test]
    fn what_stands_for_a_table_is_one() {
        for (sql, has) in [
            ("SELECT 1", false),
            ("SELECT 1 FROM DUAL", false),
            ("SELECT 1 FROM t", true),
            ("SELECT 1 FROM s.dual", true),
            ("SELECT a FROM (SELECT 1 AS a) AS x", true),
            ("SELECT (SELECT 1), (1), EXTRACT(YEAR FROM NOW()), TRIM('x' FROM 'xy')", false),
            ("SELECT * FROM JSON_TABLE('[]', '$' COLUMNS (a INT PATH '$')) j", true),
            ("SET @a = 1, @b = (SELECT MAX(a) FROM t)", true),
            ("SET @from = 1", false),
            ("DO 1", false),
            ("BEGIN", false),
        ] {
            let text = SqlText::new(sql.as_bytes(), LexOptions::default());
            assert_eq!(text.has_tables(), has, "{sql}");
        }
    }
}
