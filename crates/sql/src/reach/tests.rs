//! What is read and written, by table.

use super::*;
use crate::{Flavor, classify};

fn lex() -> LexOptions {
    LexOptions { flavor: Flavor::MariaDb, server_version: 101_119, ..LexOptions::default() }
}

/// Tables of two schemas, a view of each kind, a trigger, a chain of cascades.
fn reach() -> Reach {
    let mut builder = ReachBuilder::default();
    for name in ["t", "u", "log", "parent", "child", "grandchild", "v", "w", "x", "f_view", "lost", "caller"]
    {
        builder.table("app", name, Kind::Plain);
    }
    builder.table("app", "heap", Kind::WithoutTransactions);
    builder.table("app", "far", Kind::Strange);
    builder.table("other", "t", Kind::Plain);
    builder.view(("app", "v"), b"select `app`.`t`.`id` AS `id` from `app`.`t`", lex());
    builder.view(("app", "w"), b"select 1 from `app`.`v` join `other`.`t`", lex());
    builder.view(("app", "f_view"), b"select `app`.`f`(1) AS `a` from `app`.`t`", lex());
    builder.view(("app", "x"), b"", lex());
    builder.trigger(("app", "u"), b"INSERT INTO log (a) VALUES (NEW.a)", lex());
    builder.trigger(("app", "caller"), b"CALL p(NEW.a)", lex());
    let mysql = LexOptions { flavor: Flavor::MySql, server_version: 90_700, ..LexOptions::default() };
    // As MySQL shows `SET @a = 'it''q'; UPDATE log SET a = 'z'`.
    builder.trigger(("app", "lost"), b"BEGIN SET @a = 'it'q'; UPDATE log SET a = 'z'; END", mysql);
    builder.cascade(("app", "parent"), ("app", "child"));
    builder.cascade(("app", "child"), ("app", "grandchild"));
    builder.build().unwrap()
}

fn names(touched: &Touched) -> String {
    if touched.is_everything {
        return "everything".to_owned();
    }
    let all = ["t", "u", "log", "parent", "child", "grandchild", "v", "w", "heap", "new", "lost"];
    let mut found: Vec<String> = Vec::new();
    for schema in ["app", "other"] {
        let is_there = |name: &&&str| touched.tables.contains(&TableKey::new(schema, name));
        found.extend(all.iter().filter(is_there).map(|name| format!("{schema}.{name}")));
        if touched.schemas.contains(&TableKey::new(schema, "").schema) {
            found.push(format!("{schema}.*"));
        }
    }
    assert_eq!(found.len(), touched.tables.len() + touched.schemas.len(), "{found:?}");
    found.join(" ")
}

#[test]
fn reading_reads_what_is_behind_views() {
    for (sql, wanted) in [
        ("SELECT 1", ""),
        ("SELECT a FROM t WHERE u = 1", "app.t app.u"),
        ("SELECT a FROM new", "everything"),
        ("WITH new AS (SELECT 1) SELECT a FROM new, t", "app.t app.new"),
        ("SELECT a FROM new AS new", "everything"),
        ("SELECT 1 FROM t AS new JOIN (SELECT a FROM new) AS u", "everything"),
        ("SELECT SUM(a) OVER new FROM new WINDOW new AS (ORDER BY a)", "everything"),
        ("SELECT a FROM other.t", "other.t"),
        ("SELECT a FROM .t JOIN .v", "app.t app.v"),
        ("SELECT a FROM V", "app.t app.v"),
        ("SELECT a FROM w", "app.t app.v app.w other.t"),
        ("SELECT a FROM f_view", "everything"),
        ("SELECT a FROM x", "everything"),
        ("SELECT a FROM far", "everything"),
        ("SELECT a FROM information_schema.tables", "everything"),
        ("SELECT a FROM `größe`", "app.*"),
        ("SELECT a FROM `ü`.t", "everything"),
        // No words that stand where columns do are tables of their own.
        ("SELECT name, id FROM t", "app.t"),
    ] {
        assert_eq!(names(&reach().read_by(sql.as_bytes(), lex(), Some("app"))), wanted, "{sql}");
    }
}

#[test]
fn writing_writes_what_triggers_and_foreign_keys_write() {
    for (sql, wanted, at_once, is_ddl) in [
        ("INSERT INTO t VALUES (1)", "app.t", "", false),
        ("UPDATE u SET a = 1", "app.u app.log", "", false),
        ("UPDATE .u SET a = 1", "app.u app.log", "", false),
        ("DELETE FROM parent", "app.parent app.child app.grandchild", "", false),
        ("DELETE FROM x USING t AS x, u WHERE 1", "everything", "everything", false),
        ("DELETE FROM y USING t AS y, u WHERE 1", "?", "", false),
        ("INSERT INTO v VALUES (1)", "app.t app.v", "", false),
        ("INSERT INTO heap VALUES (1)", "app.heap", "app.heap", false),
        ("INSERT INTO caller VALUES (1)", "everything", "everything", false),
        ("UPDATE lost SET a = 1", "app.log app.lost", "", false),
        ("INSERT INTO made_past_us VALUES (1)", "everything", "everything", false),
        ("UPDATE made_past_us AS made_past_us SET a = 1", "everything", "everything", false),
        ("LOAD DATA INFILE 'x' INTO TABLE other.t", "other.t", "", false),
        ("TRUNCATE TABLE t", "app.t", "", false),
        ("UPDATE t SET a = f(a)", "everything", "everything", false),
        ("SELECT f()", "everything", "everything", false),
        ("SELECT f(); DROP TABLE t", "everything", "everything", true),
        ("EXECUTE s", "everything", "everything", true),
        ("CALL p()", "everything", "everything", true),
        ("DROP TABLE t", "everything", "everything", true),
        ("UPDATE t SET a = 1; DELETE FROM child", "app.t app.child app.grandchild", "", false),
        ("BEGIN; UPDATE t SET a = 1; COMMIT", "app.t", "", false),
        ("USE other; UPDATE t SET a = 1", "everything", "everything", true),
        ("SET sql_mode = ''; UPDATE t SET a = 1", "everything", "everything", true),
        ("UPDATE t SET a = 1; DROP TABLE u", "everything", "everything", true),
        ("XA COMMIT 'x'", "everything", "everything", false),
        ("COMMIT", "", "", false),
        ("CREATE TEMPORARY TABLE z SELECT * FROM t", "", "", false),
        ("SELECT * FROM t FOR UPDATE", "", "", false),
        ("SELECT NEXTVAL(s)", "everything", "everything", false),
        ("SELECT a, NEXT VALUE FOR s FROM t", "everything", "everything", false),
        ("DO SETVAL(s, 3)", "everything", "everything", false),
        ("SET @a = s.nextval", "everything", "everything", false),
        ("INSERT INTO t VALUES (NEXTVAL(new))", "everything", "everything", false),
        ("SELECT LASTVAL(s), PREVIOUS VALUE FOR s", "", "", false),
        ("what is this", "everything", "everything", true),
    ] {
        let statement = classify(sql.as_bytes(), lex());
        let written = reach().written_by(&statement, (sql.as_bytes(), lex()), Some("app"), false);
        if wanted == "?" {
            // `y` is no table, and one more name is no harm.
            let [t, u] = ["t", "u"].map(|name| TableKey::new("app", name));
            assert!(written.tables.tables.is_superset(&[t, u].into()), "{sql}");
            continue;
        }
        assert_eq!((&*names(&written.tables), &*names(&written.at_once)), (wanted, at_once), "{sql}");
        assert_eq!(written.is_ddl, is_ddl, "{sql}");
        let unknown = Written::unknown(&statement, Some((sql.as_bytes(), lex())));
        assert!(unknown.is_ddl == is_ddl || sql.contains("TRUNCATE"), "{sql}");
        assert_eq!(unknown.tables.is_everything, !wanted.is_empty(), "{sql}");
    }
}

#[test]
fn a_table_that_is_not_known_may_be_temporary() {
    let sql = "INSERT INTO new VALUES (1)";
    let statement = classify(sql.as_bytes(), lex());
    let written = reach().written_by(&statement, (sql.as_bytes(), lex()), Some("app"), true);
    assert_eq!(names(&written.tables), "app.new");
}

#[test]
fn too_much_to_tell_is_everything() {
    let list: Vec<String> = (0..100).map(|at| format!("t{at}")).collect();
    let sql = format!("SELECT * FROM {}", list.join(", "));
    assert!(reach().read_by(sql.as_bytes(), lex(), None).is_everything);
}

/// Which bytes such a name has depends on the client, so that what is behind it cannot be looked up.
#[test]
fn names_that_are_not_ascii_may_be_views_where_there_are_such_names() {
    let mut builder = ReachBuilder::default();
    builder.table("app", "größen", Kind::Plain);
    builder.table("other", "t", Kind::Plain);
    builder.view(("app", "größen"), b"select 1 from `other`.`t`", lex());
    let reach = builder.build().unwrap();
    let read = |sql: &str| names(&reach.read_by(sql.as_bytes(), lex(), Some("app")));
    assert_eq!(read("SELECT a FROM `größen`"), "everything");
    assert_eq!(read("SELECT a FROM other.t"), "other.t");
}

/// A server that reads a quote in a hint may see more statements than the proxy.
#[test]
fn a_text_that_cannot_be_read_with_certainty_may_write_anything() {
    let sql = b"SELECT /*+ ' */ 'x */ 1; DELETE FROM t; -- '";
    let statement = classify(sql, lex());
    let written = reach().written_by(&statement, (&sql[..], lex()), Some("app"), false);
    assert!(written.tables.is_everything && written.is_ddl, "{statement:?}");
}
