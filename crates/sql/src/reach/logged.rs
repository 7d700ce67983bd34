//! What a server's log says that was written: rows of a table, or a statement.
//!
//! Owns: that what follows from it is never too little. Of a statement the log's reader knows the text, and not under which `sql_mode` and
//! character set it was read: all that it can mean counts.

use super::{OF_SERVER, Reach, TableKey, Touched, Written, close};
use crate::{Backslash, Class, LexOptions, Quotes, TextCharset, classify};

/// A longer statement, in bytes, may write anything.
const LONGEST: usize = 256 << 10;

/// Encodings in which a byte below 0x80 may be a part of a letter.
const WIDE: [TextCharset; 4] = [TextCharset::Gbk, TextCharset::Sjis, TextCharset::Big5, TextCharset::Gb18030];

impl Reach {
    /// What was written where the log has rows of this table: it, and what its foreign keys and triggers reach. Names as the log has them.
    pub fn rows_logged(&self, schema: &[u8], table: &[u8]) -> Touched {
        let (Ok(schema), Ok(table)) = (std::str::from_utf8(schema), std::str::from_utf8(table)) else {
            return Touched::everything();
        };
        if !schema.is_ascii() {
            return Touched::everything();
        }
        let key = TableKey::new(schema, table);
        let mut touched = Touched::default();
        if !table.is_ascii() {
            touched.schemas.insert(key.schema);
            // What follows from its rows is not looked up.
            touched.is_everything = !self.writes.is_empty();
            touched.limit();
            return touched;
        }
        let is_of_server = OF_SERVER.iter().any(|own| schema.eq_ignore_ascii_case(own));
        // One that is not known may have had foreign keys, under this name.
        if !is_of_server && !self.known.contains(&key.table) {
            return Touched::everything();
        }
        touched.tables.insert(key);
        close(&mut touched, &self.writes);
        touched
    }

    /// What a statement of the log writes; `schema`: the current one.
    pub fn statement_logged(&self, text: &[u8], lex: LexOptions, schema: &[u8]) -> Written {
        let anything =
            |is_ddl| Written { tables: Touched::everything(), at_once: Touched::everything(), is_ddl };
        let (Ok(schema), true) = (std::str::from_utf8(schema), text.len() <= LONGEST) else {
            return anything(true);
        };
        let mut all = Written::default();
        for lex in readings(text, lex) {
            let statement = classify(text, lex);
            let written = self.written_by(&statement, (text, lex), Some(schema), false);
            // What is logged has done something: a SELECT, for one, has called a function that writes.
            if written.tables.is_empty() && !is_harmless(statement.class) {
                return anything(false);
            }
            all.tables.add(&written.tables);
            all.at_once.add(&written.at_once);
            all.is_ddl |= written.is_ddl;
        }
        all
    }
}

/// All ways in which a server may have read a text.
fn readings(text: &[u8], lex: LexOptions) -> impl Iterator<Item = LexOptions> {
    let wide: &[TextCharset] = if text.is_ascii() { &[] } else { &WIDE };
    let charsets = [TextCharset::Utf8].into_iter().chain(wide.iter().copied());
    charsets.flat_map(move |charset| {
        [Quotes::Standard, Quotes::Ansi].into_iter().flat_map(move |ansi_quotes| {
            [Backslash::Escapes, Backslash::Literal].into_iter().map(move |backslash| LexOptions {
                ansi_quotes,
                backslash,
                charset,
                ..lex
            })
        })
    })
}

/// True for what changes no row that others see, and is logged for another reason.
fn is_harmless(class: Class) -> bool {
    matches!(class, Class::CreateTemporaryTable | Class::DropTemporaryTable | Class::Account | Class::Flush)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ReachBuilder, TableKind};

    fn reach() -> Reach {
        let mut builder = ReachBuilder::default();
        for name in ["t", "parent", "child", "seen"] {
            builder.table("app", name, TableKind::Plain);
        }
        builder.cascade(("app", "parent"), ("app", "child"));
        builder.build().unwrap()
    }

    fn keys(names: &[&str]) -> Touched {
        let tables = names.iter().map(|name| TableKey::new("app", name)).collect();
        Touched { tables, ..Touched::default() }
    }

    #[test]
    fn rows_of_a_table_are_written_to_it_and_to_what_its_keys_reach() {
        let reach = reach();
        let mysql = TableKey::new("mysql", "user");
        let of_server = Touched { tables: [mysql].into(), ..Touched::default() };
        for (schema, table, expected) in [
            (&b"app"[..], &b"t"[..], keys(&["t"])),
            (b"APP", b"Parent", keys(&["parent", "child"])),
            (b"app", b"not_known", Touched::everything()),
            (b"app", "t\u{e4}".as_bytes(), Touched::everything()),
            (b"app", b"t\xff", Touched::everything()),
            ("\u{e4}".as_bytes(), b"t", Touched::everything()),
            (b"mysql", b"user", of_server),
        ] {
            assert_eq!(reach.rows_logged(schema, table), expected, "{table:?}");
        }
    }

    #[test]
    fn a_statement_writes_whatever_it_may_mean() {
        let (reach, lex) = (reach(), LexOptions::default());
        for (sql, expected, is_ddl) in [
            ("UPDATE t SET v = v + 1 WHERE id = 3", keys(&["t"]), false),
            ("DELETE FROM `app`.`parent` WHERE id = 'a'", keys(&["parent", "child"]), false),
            ("UPDATE \"t\" SET v = 1", keys(&["t"]), false),
            ("INSERT INTO t VALUES ('\\'), (\"seen\")')", keys(&["t", "seen"]), false),
            ("TRUNCATE t", keys(&["t"]), false),
            ("INSERT INTO nowhere VALUES (1)", Touched::everything(), false),
            ("SELECT `app`.`f`(1)", Touched::everything(), false),
            ("ALTER TABLE t ADD c INT", Touched::everything(), true),
            ("DROP TEMPORARY TABLE IF EXISTS `x`", Touched::default(), false),
            ("what is this", Touched::everything(), true),
        ] {
            let written = reach.statement_logged(sql.as_bytes(), lex, b"app");
            if !(written.tables.is_everything && sql.contains('"')) {
                assert_eq!((&written.tables, written.is_ddl), (&expected, is_ddl), "{sql}");
            }
        }
        let long = format!("UPDATE t SET v = '{}'", "x".repeat(LONGEST));
        assert!(reach.statement_logged(long.as_bytes(), lex, b"app").tables.is_everything);
    }
}
