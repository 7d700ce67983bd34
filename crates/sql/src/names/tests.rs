//! Names that statements mention.

use super::*;
use crate::{Backslash, LexOptions, Quotes, TextCharset};

const DEFAULT: LexOptions = LexOptions {
    ansi_quotes: Quotes::Standard,
    backslash: Backslash::Escapes,
    flavor: crate::Flavor::MySql,
    charset: TextCharset::Utf8,
    server_version: 80_036,
};

const MARIADB: LexOptions = LexOptions { flavor: crate::Flavor::MariaDb, server_version: 101_119, ..DEFAULT };

fn table(schema: Option<&str>, name: &str) -> TableName {
    TableName { schema: schema.map(str::to_owned), name: name.to_owned() }
}

#[test]
fn user_variables_are_named_without_case_and_quotes() {
    let assigned = |sql: &str| user_variables_assigned(sql.as_bytes(), DEFAULT);
    assert_eq!(
        assigned("SET @A = 1, @`b c` := 2, @'D''e' = 3, @\"f\" = 4, @A = 5"),
        ["a", "b c", "d'e", "f"]
    );
    assert_eq!(assigned("SELECT @x := @y, @z FROM t WHERE @w := 1"), ["x", "w"]);
    assert_eq!(assigned("SELECT a, b FROM t INTO @p, @q"), ["p", "q"]);
    assert_eq!(assigned("SELECT a INTO @p FROM t WHERE b = @q"), ["p"]);
    assert_eq!(assigned("CALL p(1, @out, @inout)"), ["out", "inout"]);
    assert_eq!(assigned("LOAD DATA INFILE 'x' INTO TABLE t (a, @b) SET c = @d"), ["b"]);
    assert_eq!(assigned("GET DIAGNOSTICS CONDITION @i @m = MESSAGE_TEXT"), ["m"]);
    assert_eq!(assigned("EXECUTE s USING @a"), [""; 0]);
    assert_eq!(assigned("SET @a = 1; SELECT 1; SET @b = 2"), ["a", "b"]);
    assert_eq!(assigned("SET @a.b = 1, @$c = 2, @ÄÖ = 3"), ["a.b", "$c", "äö"]);
    assert_eq!(assigned("SELECT '@a := 1' /* @b := 1 */"), [""; 0]);
}

#[test]
fn temporary_tables_keep_their_case_and_schema() {
    let tables = |sql: &str| temporary_tables(sql.as_bytes(), DEFAULT);
    let made = tables("CREATE TEMPORARY TABLE IF NOT EXISTS `My``DB`.T (a INT)");
    assert_eq!(made, [TableChange::Creates(table(Some("My`DB"), "T"))]);
    assert!(tables("CREATE TABLE t (a INT)").is_empty());
    let dropped = tables("DROP TABLE IF EXISTS a, `b`.`c`, d CASCADE");
    let names = [table(None, "a"), table(Some("b"), "c"), table(None, "d")];
    assert_eq!(dropped, names.map(TableChange::Drops));
    let both = tables("DROP TEMPORARY TABLE t; CREATE TEMPORARY TABLE u SELECT 1");
    assert_eq!(both, [TableChange::Drops(table(None, "t")), TableChange::Creates(table(None, "u"))]);
    let replaced = temporary_tables(b"CREATE OR REPLACE TEMPORARY TABLE t LIKE u", MARIADB);
    assert_eq!(replaced, [TableChange::Creates(table(None, "t"))]);
    let sequences =
        temporary_tables(b"DROP TEMPORARY SEQUENCE IF EXISTS s; DROP TEMPORARY SEQUENCE r", MARIADB);
    assert_eq!(sequences, [TableChange::Drops(table(None, "r"))]);
}

#[test]
fn tables_are_renamed_in_two_forms() {
    for (sql, renames) in [
        ("ALTER TABLE t RENAME TO u", true),
        ("ALTER TABLE s.t ADD a INT, RENAME `column`", true),
        ("ALTER TABLE t RENAME COLUMN a TO b, RENAME INDEX i TO j", false),
        ("ALTER TABLE t RENAME KEY i TO j, RENAME u", true),
        ("ALTER TABLE t ADD a INT", false),
        ("RENAME TABLE t TO u", true),
        ("RENAME USER a TO b", false),
    ] {
        let changes = temporary_tables(sql.as_bytes(), DEFAULT);
        assert_eq!(changes.contains(&TableChange::Renames), renames, "{sql}");
    }
}

#[test]
fn advisory_locks_are_named_where_the_name_is_a_literal() {
    let locks = |sql: &str| advisory_locks(sql.as_bytes(), DEFAULT);
    let name = |name: &str| Some(name.to_owned());
    let found = locks("SELECT GET_LOCK('a''b', 1), RELEASE_LOCK('e'), GET_LOCK(\"c\\\"d\", 1)");
    let calls = [LockCall::Takes(name("a'b")), LockCall::Releases(name("e")), LockCall::Takes(name("c\"d"))];
    assert_eq!(found, calls);
    let unnamed =
        locks("SELECT GET_LOCK(@x, 1), GET_LOCK('a' 'b', 1), get_lock(concat('a'), 1), RELEASE_LOCK(?)");
    assert_eq!(unnamed[..3], [const { LockCall::Takes(None) }; 3]);
    assert_eq!(unnamed[3..], [LockCall::Releases(None)]);
    assert_eq!(locks("SELECT IS_FREE_LOCK('a'), RELEASE_ALL_LOCKS()"), [LockCall::ReleasesAll]);
}

#[test]
fn a_lock_call_is_surely_run_once_where_it_is_an_item_without_rows() {
    for (sql, is_once) in [
        ("SELECT GET_LOCK('a', 1)", true),
        ("select release_lock('a') as x, GET_LOCK('b', 1) 'y', GET_LOCK('c', 1) z;", true),
        (
            "DO GET_LOCK('a', 1), `RELEASE_LOCK`('b'); SET @a = GET_LOCK('a', 1), @b = RELEASE_ALL_LOCKS()",
            true,
        ),
        ("SELECT @a := GET_LOCK('a', (SELECT 1 FROM t))", true),
        ("SELECT GET_LOCK('a', 1) FROM DUAL", true),
        ("SELECT GET_LOCK('a', 1) INTO @a", true),
        ("SELECT 1 FROM t LIMIT 1; DO GET_LOCK('a', 1)", true),
        ("SELECT IF(0, 1, 2) LIMIT 0", true),
        ("SELECT GET_LOCK('a', 1) FROM t", false),
        ("SELECT GET_LOCK('a', 1) FROM `dual`", false),
        ("SELECT GET_LOCK('a', 1) FROM DUAL WHERE 0", false),
        ("DO GET_LOCK('a', 1); SELECT RELEASE_LOCK('a') LIMIT 0", false),
        ("SELECT GET_LOCK('a', 1) AS x HAVING x", false),
        ("SELECT GET_LOCK('a', 1) x GROUP BY x", false),
        ("SELECT NULLIF(GET_LOCK('a', 1), 2)", false),
        ("SELECT BENCHMARK(3, GET_LOCK('a', 1))", false),
        ("SELECT IF(0, RELEASE_LOCK('a'), 1)", false),
        ("SELECT 0 AND RELEASE_LOCK('a')", false),
        ("SELECT NULL = RELEASE_LOCK('a')", false),
        ("SELECT GET_LOCK('a', 1) IN (1, 2)", false),
        ("SELECT CASE 1 WHEN 2 THEN RELEASE_LOCK('a') END", false),
        ("SELECT (SELECT RELEASE_LOCK('a') FROM t)", false),
        ("INSERT INTO t VALUES (GET_LOCK('a', 1))", false),
        ("EXPLAIN SELECT RELEASE_LOCK('a')", false),
        ("SELECT 1, @a := RELEASE_LOCK('a')", true),
        ("SET @a := RELEASE_LOCK('a'), @@session.b = RELEASE_LOCK('b'), SESSION c = GET_LOCK('c', 1)", true),
        ("SELECT 0 AND @a := RELEASE_LOCK('a')", false),
        ("DO 1, 1 OR @a := RELEASE_LOCK('a')", false),
        ("SET @a = 0 AND 1 = RELEASE_LOCK('a')", false),
        ("SET @b = 1, @a = @c = RELEASE_LOCK('a')", false),
        ("SET STATEMENT sql_select_limit = 0 FOR SELECT RELEASE_LOCK('a')", false),
        ("BEGIN NOT ATOMIC IF 0 THEN SELECT 1; SELECT RELEASE_LOCK('a'); END IF; END", false),
        ("IF 0 THEN SELECT 1; DO RELEASE_LOCK('a'); END IF", false),
    ] {
        assert_eq!(calls_locks_once(sql.as_bytes(), DEFAULT), is_once, "{sql}");
    }
}

#[test]
fn each_lock_on_the_server_has_its_end() {
    use ServerLock::{Backup, Binlog, Instance, Stage, Tables};
    for (sql, change) in [
        ("FLUSH TABLES WITH READ LOCK", Some(ServerLockChange::Takes(Tables))),
        ("LOCK TABLES FOR BACKUP", Some(ServerLockChange::Takes(Tables))),
        ("UNLOCK TABLES", Some(ServerLockChange::Ends(Tables))),
        ("LOCK INSTANCE FOR BACKUP", Some(ServerLockChange::Takes(Instance))),
        ("UNLOCK INSTANCE", Some(ServerLockChange::Ends(Instance))),
        ("LOCK BINLOG FOR BACKUP", Some(ServerLockChange::Takes(Binlog))),
        ("UNLOCK BINLOG", Some(ServerLockChange::Ends(Binlog))),
        ("BACKUP STAGE BLOCK_DDL", Some(ServerLockChange::Takes(Stage))),
        ("BACKUP STAGE END", Some(ServerLockChange::Ends(Stage))),
        ("BACKUP LOCK t", Some(ServerLockChange::Takes(Backup))),
        ("BACKUP UNLOCK", Some(ServerLockChange::Ends(Backup))),
        // Locks on tables, which a transaction ends.
        ("FLUSH TABLES t WITH READ LOCK", None),
        ("LOCK TABLES t READ", None),
        ("BEGIN", None),
    ] {
        let found = server_locks(sql.as_bytes(), MARIADB);
        assert_eq!(found, change.into_iter().collect::<Vec<_>>(), "{sql}");
    }
}

#[test]
fn sql_prepared_statements_and_handlers_are_named_without_case() {
    let prepared =
        sql_prepared(b"PREPARE `S1` FROM 'x'; PREPARE s2 FROM @y; DROP PREPARE S1; EXECUTE s2", DEFAULT);
    let changes = vec![
        PreparedChange::Makes("s1".into()),
        PreparedChange::Makes("s2".into()),
        PreparedChange::Drops("s1".into()),
    ];
    assert_eq!(prepared, SqlPrepared { changes, run: vec!["s2".into()] });
    let opened =
        handlers(b"HANDLER db.T OPEN AS H; HANDLER u OPEN; HANDLER h READ NEXT; HANDLER u CLOSE", DEFAULT);
    let name = |name: &str| name.to_owned();
    assert_eq!(
        opened,
        [
            HandlersChange::Opens(name("h")),
            HandlersChange::Opens(name("u")),
            HandlersChange::Closes(name("u"))
        ]
    );
}

#[test]
fn what_is_prepared_is_known_where_it_is_a_literal_or_a_variable() {
    let literal = |text: &str| Some(PreparedFrom::Literal(text.to_owned()));
    let variable = |name: &str| Some(PreparedFrom::Variable(name.to_owned()));
    for (sql, from) in [
        ("PREPARE s FROM 'SELECT ''a'''", literal("SELECT 'a'")),
        ("prepare /* x */ `s` from \"SELECT 1\" ; ", literal("SELECT 1")),
        ("PREPARE s FROM @`V`", variable("v")),
        ("PREPARE s FROM @v;", variable("v")),
        ("PREPARE s FROM CONCAT('a', 'b')", None),
        ("PREPARE s FROM 'a' 'b'", None),
        ("PREPARE s FROM N'a'", None),
        ("PREPARE s FROM 'SELECT 1'; DO 1", None),
        ("PREPARE s", None),
        ("PREPARE s FRO 'SELECT 1'", None),
        ("EXECUTE s", None),
    ] {
        assert_eq!(prepared_from(sql.as_bytes(), DEFAULT), from, "{sql}");
    }
}

#[test]
fn parameters_are_counted_as_servers_do() {
    for (sql, count) in [
        ("SELECT 1", 0),
        ("SELECT ?, '?', \"?\", `?`, ? + ?", 3),
        ("SELECT ? -- ?\n /* ? */ # ?\n", 1),
        ("SELECT a FROM t WHERE b IN (?,?)", 2),
    ] {
        assert_eq!(parameters(sql.as_bytes(), DEFAULT), count, "{sql}");
    }
}

#[test]
fn kill_has_a_target_only_where_it_is_a_number() {
    let kill = |sql: &str| kill_target(sql.as_bytes(), MARIADB);
    let target = |id, scope| Some(Kill { target: KillTarget::Connection(id), scope });
    assert_eq!(kill("KILL 5"), target(5, KillScope::Connection));
    assert_eq!(kill("kill connection 18446744073709551615;"), target(u64::MAX, KillScope::Connection));
    assert_eq!(kill("KILL /* x */ QUERY 7"), target(7, KillScope::Query));
    assert_eq!(kill("KILL HARD QUERY 7"), target(7, KillScope::Query));
    for other in [
        "KILL",
        "KILL 5 + 1",
        "KILL @a + 1",
        "KILL @a := 5",
        "KILL 5; KILL 6",
        "KILL 1e3",
        "KILL 99999999999999999999",
        "SELECT 'KILL 5'",
        "BEGIN NOT ATOMIC KILL 5; KILL 6; END",
        "BEGIN NOT ATOMIC DO 1; KILL 5; END",
        "BEGIN NOT ATOMIC KILL 5; END; KILL 6",
        "BEGIN; KILL 5",
    ] {
        assert_eq!(kill(other), None, "{other}");
    }
    let user = |name: &str, host: Option<&str>| KillTarget::User(name.to_owned(), host.map(str::to_owned));
    for (sql, target) in [
        ("KILL CONNECTION_ID()", KillTarget::Own),
        ("KILL @@pseudo_thread_id", KillTarget::Own),
        ("KILL @@session.pseudo_thread_id;", KillTarget::Own),
        ("KILL ?", KillTarget::Parameter),
        ("KILL QUERY @A", KillTarget::Variable("a".to_owned())),
        ("KILL @`a b`;", KillTarget::Variable("a b".to_owned())),
        ("KILL SOFT CONNECTION USER 'u'", user("u", None)),
        ("KILL USER u@'h'", user("u", Some("h"))),
        ("KILL USER u@'%'", user("u", None)),
        ("KILL USER CURRENT_USER()", KillTarget::OwnUser),
        ("KILL QUERY ID 7", KillTarget::QueryId),
        ("BEGIN NOT ATOMIC KILL QUERY 7; END;", KillTarget::Connection(7)),
        ("begin not atomic kill @a; end", KillTarget::Variable("a".to_owned())),
    ] {
        assert_eq!(kill(sql).map(|kill| kill.target), Some(target), "{sql}");
    }
    assert_eq!(kill_target(b"KILL USER u", DEFAULT), None);
}

#[test]
fn kill_is_seen_in_bodies() {
    for (sql, kills) in [
        ("BEGIN NOT ATOMIC DO 1; KILL 5; END", true),
        ("IF 1 THEN KILL QUERY 5; END IF", true),
        // What runs it is told.
        ("CREATE PROCEDURE p(n INT) KILL n", false),
        ("CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO KILL 5", false),
        ("ALTER EVENT e DO BEGIN KILL 5; END", false),
        ("CREATE PROCEDURE p() DO 1; KILL 5", true),
        ("CREATE PROCEDURE p() BEGIN SELECT 'KILL 5', `kill`; END", false),
        ("DO 1; KILL 5", true),
    ] {
        let effects = crate::classify(sql.as_bytes(), MARIADB).effects;
        assert_eq!(effects.contains(crate::Effects::KILLS), kills, "{sql}");
    }
    for (sql, executes) in [
        ("CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO EXECUTE IMMEDIATE 'KILL 5'", false),
        ("CREATE PROCEDURE event() EXECUTE IMMEDIATE 'KILL 5'", true),
    ] {
        let effects = crate::classify(sql.as_bytes(), MARIADB).effects;
        assert_eq!(effects.contains(crate::Effects::BODY_EXECUTES), executes, "{sql}");
    }
}

#[test]
fn every_use_is_found() {
    for (sql, expected) in [
        ("USE `My DB`", &["My DB"][..]),
        ("/* to */ use\nb -- now", &["b"]),
        ("/*!40000 USE `c` */", &["c"]),
        ("USE a; SELECT 'USE x'; USE B;", &["a", "B"]),
        ("USE `a``b`", &["a`b"]),
        ("SELECT 1", &[]),
        ("SELECT * FROM t USE INDEX (i)", &[]),
    ] {
        assert_eq!(used_schemas(sql.as_bytes(), DEFAULT), expected, "{sql}");
    }
}

#[test]
fn session_functions_are_found_with_their_parentheses() {
    let sql = "SELECT last_insert_id ( ), LAST_INSERT_ID(5), 'ROW_COUNT()', FOUND_ROWS(), /* CONNECTION_ID() */ `row_count`()";
    let found: Vec<(&str, SessionFunction)> = builtin_calls(sql.as_bytes(), DEFAULT)
        .iter()
        .map(|span| (&sql[span.start..span.end], span.function))
        .collect();
    assert_eq!(
        found,
        [
            ("last_insert_id ( )", SessionFunction::LastInsertId),
            ("FOUND_ROWS()", SessionFunction::FoundRows),
            ("`row_count`()", SessionFunction::RowCount),
        ]
    );
    let update = b"UPDATE t SET a = CONNECTION_ID()";
    assert_eq!(builtin_calls(update, DEFAULT).len(), 1);
    let sql = "SET @had = @@warning_count != 0, @b = @@session . `error_count`, @c = '@@warning_count'";
    let found = builtin_calls(sql.as_bytes(), DEFAULT);
    let found: Vec<_> = found.iter().map(|span| (&sql[span.start..span.end], span.function)).collect();
    assert_eq!(
        found,
        [
            ("@@warning_count", SessionFunction::WarningCount),
            ("@@session . `error_count`", SessionFunction::ErrorCount)
        ]
    );
}

#[test]
fn literals_are_read_as_the_session_reads_them() {
    let taken = |sql: &[u8], options| match advisory_locks(sql, options).remove(0) {
        LockCall::Takes(Some(name)) => name,
        other => panic!("{other:?}"),
    };
    assert_eq!(taken(br"SELECT GET_LOCK('a\nb\%c\\d\x', 1)", DEFAULT), "a\nb\\%c\\dx");
    let literal = LexOptions { backslash: Backslash::Literal, ..DEFAULT };
    assert_eq!(taken(br"SELECT GET_LOCK('a\', 1)", literal), "a\\");
    assert_eq!(taken(b"SELECT GET_LOCK(N'a', 1)", DEFAULT), "a");
    // The second byte of this character is a backslash.
    let gbk = LexOptions { charset: TextCharset::Gbk, ..DEFAULT };
    assert_eq!(taken(b"SELECT GET_LOCK('\x81\x5c', 1)", gbk), "\u{fffd}\\");
}

#[test]
fn words_are_those_outside_of_quotes_and_comments() {
    let words = |sql: &str| {
        bare_words(sql.as_bytes(), MARIADB)
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        words("/* event */ CREATE DEFINER = `server`@'h' VIEW a.table AS SELECT 'function' -- x"),
        ["CREATE", "DEFINER", "VIEW", "a", "AS", "SELECT"]
    );
    assert_eq!(words("/* only this */"), [""; 0]);
}

#[test]
fn what_is_run_at_once() {
    let literal = |text: &str| Some(PreparedFrom::Literal(text.to_owned()));
    for (sql, from) in [
        ("EXECUTE IMMEDIATE 'CALL p()'", literal("CALL p()")),
        ("execute immediate \"it's\" USING 1, @b;", literal("it's")),
        ("EXECUTE IMMEDIATE @Text", Some(PreparedFrom::Variable("text".to_owned()))),
        ("EXECUTE IMMEDIATE CONCAT('a', 'b')", None),
        ("EXECUTE IMMEDIATE 'a' 'b'", None),
        ("EXECUTE s", None),
        ("PREPARE s FROM 'a'", None),
    ] {
        assert_eq!(immediate_from(sql.as_bytes(), MARIADB), from, "{sql}");
    }
}

#[test]
fn whose_rights_are_changed() {
    let none = || RightsChanged::default();
    let own = || RightsChanged { own: true, ..none() };
    let named = |name: &str| RightsChanged { named: vec![name.to_owned()], ..none() };
    let anybody = || RightsChanged { anybody: true, ..none() };
    for (sql, expected) in [
        ("SET PASSWORD = 'x'", own()),
        ("SET @a = 1, PASSWORD = 'x'", own()),
        ("ALTER USER USER() IDENTIFIED BY 'x'", own()),
        ("ALTER USER IF EXISTS CURRENT_USER IDENTIFIED BY 'x' REPLACE 'y'", own()),
        ("SET DEFAULT ROLE r", own()),
        ("SET DEFAULT ROLE r, s TO CURRENT_USER()", own()),
        ("SET PASSWORD FOR 'bob'@'%' = 'x'", named("bob")),
        ("ALTER USER bob@localhost IDENTIFIED BY 'x'", named("bob")),
        ("ALTER USER `bob`@'%' ACCOUNT LOCK", named("bob")),
        ("SET DEFAULT ROLE r FOR bob@'%'", named("bob")),
        ("SET PASSWORD = 'x'; ALTER USER bob IDENTIFIED BY 'x'", RightsChanged { own: true, ..named("bob") }),
        ("ALTER USER USER() IDENTIFIED BY 'x', bob IDENTIFIED BY 'y'", anybody()),
        ("SET DEFAULT ROLE r TO bob, carl", anybody()),
        ("ALTER USER 'b\u{e9}'@'%' ACCOUNT LOCK", anybody()),
        ("ALTER ROLE r", anybody()),
        ("CREATE USER bob", anybody()),
        ("DROP USER bob", anybody()),
        ("GRANT SELECT ON a.* TO bob", anybody()),
        ("SELECT 1; REVOKE ALL ON *.* FROM bob", anybody()),
        ("FLUSH PRIVILEGES", anybody()),
        ("FLUSH LOCAL HOSTS, PRIVILEGES", anybody()),
        ("FLUSH TABLES, PRIVILEGES", anybody()),
        ("SET GLOBAL mandatory_roles = 'r'", anybody()),
        ("SET PERSIST mandatory_roles = 'r'", anybody()),
        ("SET GLOBAL max_connections = 1", none()),
        ("FLUSH TABLES", none()),
        ("SET ROLE r", none()),
        ("SELECT 1", none()),
        ("CREATE TABLE user (password TEXT)", none()),
    ] {
        let options = LexOptions::default();
        let changed = rights_changed(sql.as_bytes(), options);
        assert_eq!(changed, expected, "{sql}");
        let effects = crate::classify(sql.as_bytes(), options).effects;
        assert_eq!(effects.contains(crate::Effects::CHANGES_RIGHTS), changed != none(), "{sql}");
    }
}

#[test]
fn the_variables_that_are_asked_for_are_found() {
    let ansi = LexOptions { ansi_quotes: Quotes::Ansi, ..DEFAULT };
    let may_list = |sql: &str, options| may_list_variable(sql.as_bytes(), options, "session_track_");
    for sql in [
        "SHOW VARIABLES",
        "show session variables like 'session%'",
        "SHOW VARIABLES LIKE '%track%'",
        "SHOW LOCAL VARIABLES WHERE Variable_name = 'session_track_schema'",
        "SHOW VARIABLES WHERE Variable_name LIKE 'x%' OR Variable_name LIKE 's%'",
        r"SHOW VARIABLES LIKE 'SESSION\_track\_gtids'",
        "SHOW VARIABLES LIKE ?",
    ] {
        assert!(may_list(sql, DEFAULT), "{sql}");
    }
    for sql in [
        "SHOW VARIABLES LIKE 'sql_mode'",
        "SHOW VARIABLES LIKE \"max%\"",
        "SHOW VARIABLES /* it's session_track_schema */ LIKE 'max%'",
    ] {
        assert!(!may_list(sql, DEFAULT), "{sql}");
    }
    assert!(may_list("SHOW VARIABLES WHERE \"Variable_name\" LIKE @a", ansi), "a name is no string");
}
