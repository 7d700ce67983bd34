//! What a catalogue finds in statements.

use super::*;
use crate::{CodeChange, Flavor, classify};

const LEX: LexOptions = LexOptions {
    ansi_quotes: crate::Quotes::Standard,
    backslash: crate::Backslash::Escapes,
    flavor: Flavor::MySql,
    charset: crate::TextCharset::Utf8,
    server_version: 80_036,
};

fn catalog() -> Catalog {
    let mut builder = CatalogBuilder::default();
    let mut add = |stored, text: &str| builder.add(stored, Body::read(text.as_bytes(), LEX));
    let routine = |name: &str| Stored::Routine(name.to_owned());
    let trigger = |table: &str| Stored::Trigger(table.to_owned());
    let view = |name: &str| Stored::View(name.to_owned());
    add(routine("Locks"), "BEGIN DO GET_LOCK('a', 1); END");
    add(routine("outer"), "BEGIN IF 1 THEN CALL app.`locks`(); END IF; END");
    add(routine("outermost"), "CALL outer()");
    add(routine("circle_a"), "BEGIN CALL circle_b(); SET @a = 1; END");
    add(routine("circle_b"), "BEGIN CALL circle_a(); SELECT 1 INTO @`b c`; END");
    add(routine("harmless"), "RETURN 'GET_LOCK(1)' /* @x PREPARE */");
    add(routine("dynamic"), "BEGIN PREPARE s FROM @text; EXECUTE s; END");
    add(routine("next"), "SET TRANSACTION ISOLATION LEVEL READ COMMITTED");
    add(routine("writes"), "INSERT INTO fired VALUES (1)");
    add(routine("broken"), "BEGIN SELECT 'never ends; END");
    add(trigger("fired"), "SELECT 1 INTO @fired");
    add(trigger("calm"), "SET NEW.a = 1");
    add(view("looks"), "select `a`.`harmless`() AS `x` from `a`.`t`");
    add(view("takes"), "select `a`.`Locks`() AS `x` from `a`.`t`");
    add(view("over"), "select * from `takes`");
    add(view("of_fired"), "select * from `a`.`fired`");
    add(view("plain"), "select * from t");
    builder.build()
}

/// What is found: "r" for what is never done on a replica, "c" for a call, and what is hidden.
fn found(sql: &str) -> String {
    found_in(&catalog(), sql)
}

fn found_in(catalog: &Catalog, sql: &str) -> String {
    let mut statement = classify(sql.as_bytes(), LEX);
    let _ = catalog.uncover(&mut statement, sql.as_bytes(), LEX);
    let hidden = catalog.hidden(&statement, sql.as_bytes(), LEX);
    assert_eq!(!hidden.is_empty(), statement.effects.contains(Effects::HIDDEN), "{sql}");
    let mut text = String::new();
    for (is_so, word) in [
        (statement.access == Access::Read, "read "),
        (hidden.locks, "locks "),
        (hidden.next_transaction, "next "),
        (hidden.executes, "executes "),
        (hidden.is_unknown, "unknown "),
    ] {
        text += if is_so { word } else { "" };
    }
    for name in &hidden.variables {
        text.extend(["@", name, " "]);
    }
    text
}

#[test]
fn what_code_leaves_behind_is_known_by_its_text_and_by_what_it_runs() {
    for (sql, wanted) in [
        ("CALL locks()", "locks "),
        ("CALL `LOCKS`()", "locks "),
        ("CALL app.outermost()", "locks "),
        ("CALL harmless()", ""),
        ("SELECT harmless()", ""),
        ("SELECT locks()", "locks "),
        ("INSERT INTO t VALUES (locks())", "locks "),
        ("CALL circle_a()", "@a @b c "),
        ("CALL circle_b()", "@a @b c "),
        ("CALL dynamic()", "executes unknown @text "),
        ("CALL broken()", "unknown "),
        ("CALL next()", "next "),
        ("CALL writes()", "@fired "),
        ("CALL unheard_of()", ""),
        ("INSERT INTO fired VALUES (1)", "@fired "),
        ("UPDATE app.Fired SET a = 1", "@fired "),
        ("INSERT INTO of_fired VALUES (1)", "@fired "),
        ("SELECT * FROM of_fired", "read "),
        ("SELECT * FROM fired", "read "),
        ("INSERT INTO calm VALUES (1)", ""),
        ("SELECT * FROM plain", "read "),
        ("SELECT * FROM looks", ""),
        ("SELECT * FROM takes", "locks "),
        ("SELECT 1 FROM t JOIN over USING (a)", "locks "),
        // A column or a word in a string is no call.
        ("SELECT locks FROM t WHERE a = 'fired'", "read "),
    ] {
        assert_eq!(found(sql), wanted, "{sql}");
    }
}

#[test]
fn views_that_call_are_calls() {
    let mut statement = classify(b"SELECT * FROM looks", LEX);
    assert_eq!((statement.access, statement.effects), (Access::Read, Effects::default()));
    let _ = catalog().uncover(&mut statement, b"SELECT * FROM looks", LEX);
    assert_eq!((statement.access, statement.why), (Access::Write, Why::UnknownFunction));
    assert_eq!((statement.class, statement.effects), (Class::Select, Effects::CALLS_ROUTINE));
}

/// As servers keep their texts, and as `CREATE VIEW` has them.
#[test]
fn views_of_what_is_not_the_same_everywhere_are_read_where_calls_run() {
    let maria = LexOptions { flavor: Flavor::MariaDb, server_version: 101_119, ..LEX };
    for (text, options, is_read) in [
        ("select last_insert_id() AS `i`", LEX, false),
        ("select found_rows() AS `i`", LEX, false),
        ("select is_used_lock('a') AS `i`", LEX, false),
        ("select connection_id() AS `i`", LEX, false),
        ("select source_pos_wait('a',1) AS `i`", LEX, false),
        ("select default(`t`.`a`) AS `a` from `t`", LEX, true),
        ("select nextval(`app`.`s`) AS `n`", maria, false),
        ("select default(`t`.`a`) AS `a` from `t`", maria, false),
        ("SELECT NEXT VALUE FOR s", maria, false),
        ("SELECT PREVIOUS VALUE FOR s", maria, false),
        ("SELECT s.nextval", maria, false),
        ("SELECT `s`.`CURRVAL`", maria, false),
        ("select `t`.`value` AS `next` from `t`", maria, true),
        ("select count(0) AS `a`,now() AS `b`,rand() AS `c` from `t`", maria, true),
    ] {
        let mut builder = CatalogBuilder::default();
        builder.add(Stored::View("own".to_owned()), Body::read(text.as_bytes(), options));
        let over = b"select `own`.`i` AS `i` from `own`";
        builder.add(Stored::View("over".to_owned()), Body::read(over, options));
        let known = builder.build();
        assert_eq!(known.has_views(), !is_read, "{text}");
        // The same before anybody has read it.
        let made = format!("CREATE VIEW own AS {text}");
        let change = CodeChange::of(&classify(made.as_bytes(), options), made.as_bytes(), options, true);
        let mut changes = Changes::default();
        changes.add(&change.unwrap(), 1);
        let changed = Catalog::default().with(changes);
        let reads =
            [(&known, "SELECT * FROM own"), (&known, "SELECT * FROM over"), (&changed, "SELECT * FROM own")];
        for (catalog, sql) in reads {
            let mut statement = classify(sql.as_bytes(), options);
            let _ = catalog.uncover(&mut statement, sql.as_bytes(), options);
            assert_eq!(statement.access == Access::Read, is_read, "{text}: {sql}");
            assert_eq!(statement.uses.contains(Uses::LAST_INSERT_ID), !is_read, "{text}: {sql}");
        }
    }
}

/// To a procedure it is brought in any case, and a column of this name is none.
#[test]
fn what_reads_the_last_id_by_code_has_it() {
    let mut builder = CatalogBuilder::default();
    let mut add = |stored, text: &str| builder.add(stored, Body::read(text.as_bytes(), LEX));
    let routine = |name: &str| Stored::Routine(name.to_owned());
    add(routine("reads"), "RETURN LAST_INSERT_ID()");
    add(routine("reads_variable"), "RETURN @@session.identity");
    add(routine("above"), "RETURN 1 + reads()");
    add(routine("harmless"), "RETURN 'last_insert_id()'");
    add(Stored::Trigger("noted".to_owned()), "SET NEW.a = above()");
    add(Stored::View("named".to_owned()), "select `t`.`last_insert_id` AS `last_insert_id` from `t`");
    let known = builder.build();
    assert!(known.has_triggers() && !known.has_views());
    let change = b"CREATE FUNCTION made() RETURNS INT RETURN above()";
    let mut changes = Changes::default();
    changes.add(&CodeChange::of(&classify(change, LEX), change, LEX, true).unwrap(), 1);
    let changed = known.with(changes);
    let unreadable = Catalog::default().without_routines();
    for (catalog, sql, wanted) in [
        (&known, "SELECT reads()", true),
        (&known, "DO reads_variable()", true),
        (&known, "SELECT above()", true),
        (&known, "INSERT INTO noted VALUES (1)", true),
        (&known, "INSERT INTO other VALUES (1)", false),
        (&known, "SELECT harmless()", false),
        (&known, "CALL above()", false),
        (&known, "SELECT * FROM named", false),
        (&changed, "SELECT made()", true),
        (&unreadable, "SELECT f()", true),
        (&unreadable, "SELECT NOW()", false),
    ] {
        let mut statement = classify(sql.as_bytes(), LEX);
        let access = statement.access;
        let _ = catalog.uncover(&mut statement, sql.as_bytes(), LEX);
        assert_eq!(statement.uses.contains(Uses::LAST_INSERT_ID), wanted, "{sql}");
        let is_unknown = catalog.is_unreadable() && wanted;
        assert_eq!(statement.effects.contains(Effects::HIDDEN), is_unknown, "{sql}: nothing is left behind");
        assert_eq!(statement.access, access, "{sql}");
    }
}

#[test]
fn a_text_that_is_gone_may_have_been_any() {
    let call = classify(b"CALL harmless()", LEX);
    let hidden = catalog().hidden(&call, b"", LEX);
    assert!(hidden.locks && hidden.next_transaction && hidden.is_unknown && hidden.variables.len() == 4);
    assert_eq!(Catalog::default().hidden(&call, b"", LEX), Hidden::default());
}

#[test]
fn what_nobody_may_read_may_be_anything() {
    let catalog = Catalog::default().without_routines();
    assert!(catalog.has_routines() && !catalog.has_triggers() && !catalog.has_views());
    for (sql, is_unknown) in [
        ("CALL p()", true),
        ("SELECT f()", true),
        ("SELECT NOW()", false),
        ("INSERT INTO t VALUES (1)", false),
    ] {
        let mut statement = classify(sql.as_bytes(), LEX);
        let _ = catalog.uncover(&mut statement, sql.as_bytes(), LEX);
        assert_eq!(statement.effects.contains(Effects::HIDDEN), is_unknown, "{sql}");
        assert_eq!(catalog.hidden(&statement, sql.as_bytes(), LEX).is_unknown, is_unknown, "{sql}");
    }
}

/// Its function is among the routines that nobody may read.
#[test]
fn a_view_that_calls_what_is_not_built_in_is_a_call_where_nobody_may_read_the_routines() {
    let read = |is_unreadable: bool, sql: &str| {
        let mut builder = CatalogBuilder::default();
        for (name, text) in [
            ("calls", "select `a`.`f`(`a`.`t`.`b`) AS `x` from `a`.`t`"),
            ("over", "select `calls`.`x` AS `x` from `a`.`calls`"),
            (
                "computes",
                "select count(0) AS `count(*)`,concat(`t`.`b`,'f(1)') AS `c` from (`a`.`t` join `a`.`u` on((`t`.`id` = `u`.`id`))) \
                 where ((`t`.`b` in (1,2)) and (not((`t`.`c` like 'x')))) group by `t`.`b` having (max(`t`.`c`) > 1)",
            ),
        ] {
            builder.add(Stored::View(name.to_owned()), Body::read(text.as_bytes(), LEX));
        }
        if is_unreadable {
            builder.without_routines();
        }
        let mut catalog = builder.build();
        assert_eq!(catalog.is_unreadable(), is_unreadable);
        if sql.contains("made") {
            let mut changes = Changes::default();
            let made = b"CREATE VIEW made AS SELECT g(1) AS x";
            changes.add(&CodeChange::of(&classify(made, LEX), made, LEX, true).unwrap(), 1);
            catalog = catalog.with(changes);
        }
        let mut statement = classify(sql.as_bytes(), LEX);
        let _ = catalog.uncover(&mut statement, sql.as_bytes(), LEX);
        statement.access == Access::Read
    };
    for (sql, calls) in [
        ("SELECT * FROM calls", true),
        ("SELECT * FROM over", true),
        ("SELECT * FROM computes", false),
        ("SELECT * FROM made", true),
        ("SELECT * FROM t", false),
    ] {
        assert!(read(false, sql), "{sql}: there is no such function");
        assert_eq!(read(true, sql), !calls, "{sql}");
    }
}

#[test]
fn words_that_hold_what_no_server_reports() {
    for (text, wanted) in [
        ("SET ROLE r", true),
        ("SELECT role FROM t", false),
        ("FLUSH TABLES WITH READ LOCK", true),
        ("EXECUTE IMMEDIATE 'SET @a = 1'", true),
        ("SELECT 'PREPARE', \"EXECUTE\" -- FLUSH", false),
        ("DO SERVICE_GET_READ_LOCKS('a', 'b', 1)", true),
        ("SET TRANSACTION READ ONLY", false),
    ] {
        assert_eq!(Body::read(text.as_bytes(), LEX).own.is_unknown, wanted, "{text}");
    }
    let ansi = LexOptions { ansi_quotes: crate::Quotes::Ansi, ..LEX };
    assert_eq!(Body::read(b"CALL \"p\"()", ansi).words.len(), 2);
    assert_eq!(Body::read(b"CALL \"p\"()", LEX).words.len(), 1);
}

#[test]
fn literals_without_their_escapes_hide_nothing() {
    let found = |text: &str| Body::read_unescaped(text.as_bytes(), LEX).own;
    // 'don''t', and then 'can''t'
    let between = found("BEGIN SET a = 'don't'; DO GET_LOCK('x', 0); SELECT 1 INTO @v; SET a = 'can't'; END");
    assert!(between.locks && between.variables.contains("v"));
    assert!(found("BEGIN SET a = '\\'; SET @@tx_isolation = 'x'; SET a = '\\'; END").next_transaction);
    assert!(found("BEGIN SET a = 'don't'; PREPARE s FROM @v; SET a = 'can't'; END").is_unknown);
    assert!(found("BEGIN SET a = 'a'b', @`c d` = 1; END").is_unknown);
    assert!(found("BEGIN SET a = '--'; CALL p(); END").is_empty());
    assert!(found("BEGIN /* GET_LOCK */ RETURN 1; END").is_empty());
    let words = |text: &str| Body::read_unescaped(text.as_bytes(), LEX).words;
    assert!(
        words("BEGIN SET a = 'don't'; CALL b.p(); SET a = 'can't'; END").is_superset(&words("CALL b.p()"))
    );
}

#[test]
fn a_name_in_another_encoding_may_be_any() {
    let latin1 = LexOptions { charset: crate::TextCharset::AsciiSafe, ..LEX };
    for (sql, locks) in [
        (&b"CALL `pr\xfcfe`()"[..], true),
        (b"CALL pr\xfcfe", true),
        (b"SELECT `pr\xfcfe`(1)", true),
        (b"SELECT f(1), '\xfc'", false),
        (b"SELECT f(1), \xfc FROM t", false),
    ] {
        let statement = classify(sql, latin1);
        assert_eq!(
            catalog().hidden(&statement, sql, latin1).locks,
            locks,
            "{}",
            String::from_utf8_lossy(sql)
        );
    }
}

#[test]
fn what_runs_a_procedure_may_change_rights() {
    for (body, changes) in [
        ("GRANT SELECT ON a.* TO b", true),
        ("REVOKE SELECT ON a.* FROM b", true),
        ("CREATE OR REPLACE USER b", true),
        ("DROP USER IF EXISTS b", true),
        ("DROP ROLE b", true),
        ("SET PASSWORD FOR b = 'x'", true),
        ("SET DEFAULT ROLE r TO b", true),
        ("FLUSH PRIVILEGES", true),
        ("PREPARE s FROM @a", true),
        ("SET GLOBAL sql_mode = ''", true),
        ("SET @a = 1, @@global.sql_mode = ''", true),
        ("BEGIN SET @@persist.sql_mode = ''; END", true),
        ("SET @a = @@global.sql_mode; SHOW GLOBAL STATUS", false),
        ("SELECT user, password, role FROM t", false),
        ("SELECT 'GRANT', GET_LOCK('a', 1)", false),
    ] {
        let mut builder = CatalogBuilder::default();
        builder.add(Stored::Routine("p".to_owned()), Body::read(body.as_bytes(), LEX));
        let catalog = builder.build();
        let effects = |sql: &str| {
            let mut statement = classify(sql.as_bytes(), LEX);
            let _ = catalog.uncover(&mut statement, sql.as_bytes(), LEX);
            statement.effects
        };
        assert_eq!(effects("CALL p()").contains(Effects::CHANGES_RIGHTS), changes, "{body}");
        assert_eq!(effects("DO 1; CALL p()").contains(Effects::CHANGES_RIGHTS), changes, "{body}");
        assert!(!effects("SELECT p()").contains(Effects::CHANGES_RIGHTS), "a function cannot");
        assert!(!effects("CALL q()").contains(Effects::CHANGES_RIGHTS), "another one");
    }
}

#[test]
fn what_is_kept_of_code_is_limited() {
    let names = |from: usize, to: usize| {
        let list: Vec<String> = (from..to).map(|number| format!("@v{number} = 1")).collect();
        format!("BEGIN SET {}; CALL p(); CALL q(); END", list.join(", "))
    };
    let mut builder = CatalogBuilder::default();
    for (name, body) in [("p", names(0, 200)), ("q", names(200, 400)), ("many", names(0, 300))] {
        let body = Body::read(body.as_bytes(), LexOptions::default());
        builder.add(Stored::Routine(name.to_owned()), body);
    }
    let catalog = builder.build();
    for name in ["p", "q", "many"] {
        let hidden = catalog.hidden_in(format!("CALL {name}()").as_bytes(), LexOptions::default());
        assert!(hidden.is_unknown && hidden.variables.len() <= 256, "{name}");
    }
    let mut builder = CatalogBuilder::default();
    for number in 0..2800 {
        let body = names(number * 200, number * 200 + 200);
        builder
            .add(Stored::Routine(format!("r{number}")), Body::read(body.as_bytes(), LexOptions::default()));
    }
    let catalog = builder.build();
    assert!(catalog.bytes() < 40 << 20, "{}", catalog.bytes());
    assert!(catalog.hidden_in(b"CALL r2799()", LexOptions::default()).is_unknown);
}

/// The catalogue after these statements.
fn after(statements: &[&str]) -> Catalog {
    let (catalog, mut changes) = (catalog(), Changes::default());
    for (number, sql) in (1..).zip(statements) {
        let sql = sql.as_bytes();
        changes.add(&CodeChange::of(&classify(sql, LEX), sql, LEX, true).unwrap(), number);
    }
    catalog.with(changes)
}

#[test]
fn code_that_changes_does_what_it_did_and_what_its_statement_says() {
    let locks = "CREATE PROCEDURE harmless() DO GET_LOCK('a', 1)";
    for (changes, sql, wanted) in [
        (&[locks][..], "CALL harmless()", "locks "),
        // Also by what was there before.
        (&[locks], "SELECT * FROM looks", "locks "),
        (&[locks], "SELECT a FROM plain", "read "),
        (&[locks, "CREATE FUNCTION g() RETURNS INT RETURN harmless()"], "SELECT g()", "locks "),
        (&["CREATE FUNCTION g() RETURNS INT RETURN harmless()", locks], "SELECT g()", "locks "),
        (&["CREATE PROCEDURE new() CALL outermost()"], "CALL new()", "locks "),
        (&["CREATE PROCEDURE new() SELECT 1 INTO @n"], "CALL new()", "@n "),
        (&["CREATE PROCEDURE new() SELECT 1"], "CALL new()", ""),
        (&["DROP PROCEDURE locks", "CREATE PROCEDURE locks() SELECT 1"], "CALL outer()", "locks "),
        (
            &["CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW SELECT 1 INTO @t"],
            "INSERT INTO t VALUES (1)",
            "@t ",
        ),
        (
            &["CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW SELECT 1 INTO @t"],
            "UPDATE plain SET a = 1",
            "@t ",
        ),
        (
            &["CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW SELECT 1 INTO @t"],
            "SELECT * FROM plain",
            "read ",
        ),
        (&["RENAME TABLE fired TO other"], "INSERT INTO other VALUES (1)", "@fired "),
        (&["RENAME TABLE fired TO other"], "SELECT * FROM other", "read "),
        (&["RENAME TABLE looks TO other"], "SELECT * FROM other", ""),
        (&["CREATE VIEW n AS SELECT harmless() AS a"], "SELECT * FROM n", ""),
        (&["CREATE VIEW n AS SELECT * FROM looks"], "SELECT * FROM n", ""),
        (&["CREATE VIEW n AS SELECT * FROM takes"], "SELECT * FROM n", "locks "),
        (&["CREATE VIEW n AS SELECT COUNT(*) FROM t WHERE harmless"], "SELECT * FROM n", "read "),
        (&["CREATE OR REPLACE VIEW plain AS SELECT outer()"], "SELECT * FROM plain", "locks "),
    ] {
        assert_eq!(found_in(&after(changes), sql), wanted, "{changes:?} {sql}");
    }
}

#[test]
fn what_is_kept_of_changes_is_limited() {
    let add = |changes: &mut Changes, sql: String, number| {
        let sql = sql.as_bytes();
        changes.add(&CodeChange::of(&classify(sql, LEX), sql, LEX, true).unwrap(), number);
        assert!(changes.bytes() < 6 << 20, "{}", changes.bytes());
    };
    let words: Vec<String> = (0..20_000).map(|at| format!("word{at}")).collect();
    let words = words.join(" ");
    let mut long = Changes::default();
    for number in 1..30 {
        add(&mut long, format!("CREATE PROCEDURE p{number}() BEGIN {words} END"), number);
    }
    let mut many = Changes::default();
    for number in 1..2100 {
        add(&mut many, format!("CREATE PROCEDURE p{number}() SELECT 1"), number);
    }
    for (changes, known, unknown) in [(&long, "p1", "p29"), (&many, "p1", "p2099")] {
        let catalog = Catalog::default().with(changes.clone());
        assert_eq!(found_in(&catalog, &format!("CALL {known}()")), "");
        assert_eq!(found_in(&catalog, &format!("CALL {unknown}()")), "unknown ");
        assert_eq!(found_in(&catalog, "SELECT a FROM t"), "read ");
    }
    many.keep_from(2099);
    assert!(!many.is_empty());
    many.keep_from(2100);
    assert!(many.is_empty() && many.bytes() == 0);
}

#[test]
fn a_changed_name_in_another_encoding_may_be_any_that_is_not_ascii() {
    let latin1 = LexOptions { charset: crate::TextCharset::AsciiSafe, ..LEX };
    let mut changes = Changes::default();
    let sql = b"CREATE PROCEDURE pr\xfcfe() DO GET_LOCK('a', 1)";
    changes.add(&CodeChange::of(&classify(sql, latin1), sql, latin1, true).unwrap(), 1);
    changes.add(
        &CodeChange::of(
            &classify(b"CREATE PROCEDURE x() CALL \xc3\xbc()", LEX),
            b"CREATE PROCEDURE x() CALL \xc3\xbc()",
            LEX,
            true,
        )
        .unwrap(),
        2,
    );
    let catalog = catalog().with(changes);
    for (sql, wanted) in [("CALL `prüfe`()", true), ("CALL harmless()", false), ("CALL x()", true)] {
        assert_eq!(found_in(&catalog, sql).contains("locks"), wanted, "{sql}");
    }
}

#[test]
fn a_long_way_is_not_gone_to_its_end() {
    let words: Vec<String> = (0..20_000).map(|at| format!("word{at}")).collect();
    let words = words.join(" ");
    let make = |name: &str, then: &str| format!("CREATE PROCEDURE {name}() BEGIN {words} CALL {then}(); END");
    let (a, b) = (make("a", "b"), make("b", "c"));
    let catalog = after(&[&a, &b]);
    assert_eq!(found_in(&catalog, "CALL b()"), "");
    assert_eq!(found_in(&catalog, "CALL a()"), "unknown ");
}

#[test]
fn code_that_kills_is_found_by_what_runs_it() {
    let mut builder = CatalogBuilder::default();
    let mut add = |stored, text: &str| builder.add(stored, Body::read_unescaped(text.as_bytes(), LEX));
    let routine = |name: &str| Stored::Routine(name.to_owned());
    add(routine("ends"), "KILL n");
    add(routine("ends_some"), "BEGIN IF n > 'it's' THEN KILL n; END IF; END");
    add(routine("calls"), "BEGIN CALL app.ends; END");
    add(routine("calls_with"), "BEGIN CALL ends (5); END");
    add(routine("only_names"), "BEGIN SELECT ends FROM u WHERE a = 'it's kill'; END");
    add(routine("speaks"), "BEGIN SELECT 'kill 5'; /* KILL 5 */ SELECT u.kill, `kill` FROM u; END");
    add(Stored::Trigger("t".to_owned()), "KILL NEW.a");
    let catalog = builder.build();
    let kills = |sql: &str| {
        let mut statement = classify(sql.as_bytes(), LEX);
        catalog.uncover(&mut statement, sql.as_bytes(), LEX)
    };
    for sql in [
        "CALL ends(5)",
        "CALL app.ends_some(5)",
        "CALL calls()",
        "CALL calls_with",
        "INSERT INTO t VALUES (5)",
    ] {
        assert!(kills(sql), "{sql}");
    }
    for sql in [
        "CALL only_names()",
        "CALL speaks()",
        "SELECT ends FROM u",
        "CREATE PROCEDURE p() CALL ends(5)",
        "DROP PROCEDURE ends",
        "SHOW CREATE PROCEDURE ends",
    ] {
        assert!(!kills(sql), "{sql}");
    }
    let sql = b"CREATE PROCEDURE new(n INT) KILL n";
    let change = CodeChange::of(&classify(sql, LEX), sql, LEX, true).expect("it makes code");
    let mut changes = catalog.changes().clone();
    changes.add(&change, 1);
    let sql = b"CALL new(5)";
    assert!(catalog.with(changes).uncover(&mut classify(sql, LEX), sql, LEX), "before it was read");
}
