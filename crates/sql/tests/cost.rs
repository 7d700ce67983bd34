//! No part of a text is read more than a few times, whatever stands in it.
//!
//! The texts are made from every word and every mark that the lexer and the classifier know: each is repeated, bare and in
//! the places where statements have it, closed and left open. What is counted is bytes cut into tokens, which does not
//! depend on the machine. Work on the names that were found is no reading: for that, texts full of names have a limit of
//! processor time that only squared cost can reach.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::sync::{LazyLock, Mutex, PoisonError};

use delphinus_sql::{
    Body, Catalog, CatalogBuilder, Class, CodeChange, Flavor, LexOptions, Quotes, SqlText, Statement, Stored,
    TextCharset, advisory_locks, assignments, builtin_calls, bytes_read, calls_locks_once, classify,
    classify_and_sketch, diagnostics_shown, digest, dynamic_expression, explained_route, handlers, hints,
    immediate_from, keeps_warnings, kill_target, may_list_variable, parameters, prepared_from,
    rights_changed, selected_variables, server_locks, shows_counters_of_session, shows_whole_statements,
    spells, split, sql_prepared, status_named, tables, temporary_tables, unnamed_columns, used_schemas,
    user_variables_assigned,
};

/// How often a byte may be read by one function.
const TIMES: u64 = 3;
/// Around this long are most texts: a token that looks ahead without limit reads each of them hundreds of times.
const SHORT: usize = 500;
/// A command is not longer.
const LONG: usize = 256 * 1024;
/// Processor time for one function and one text of [`LONG`], in a build without optimisation. Usual are 0.2 s.
const LONG_S: f64 = 6.0;

/// The count is of the whole process.
static TURN: Mutex<()> = Mutex::new(());

type Reading = (&'static str, fn(&[u8], LexOptions));

/// All that reads texts. Those that walk through the classifier alone differ only in what they keep.
const READINGS: [Reading; 37] = [
    ("classify", |sql, lex| _ = classify(sql, lex)),
    ("split", |sql, lex| _ = split(sql, lex).count()),
    ("classify_and_sketch", |sql, lex| _ = classify_and_sketch(sql, lex, 7)),
    ("spells", |sql, lex| _ = spells(sql, lex, "kill", |name| Some(name.repeat(200)))),
    ("dynamic_expression", |sql, lex| _ = dynamic_expression(sql, lex)),
    ("diagnostics_shown", |sql, lex| _ = diagnostics_shown(sql, lex)),
    ("selected_variables", |sql, lex| _ = selected_variables(sql, lex)),
    ("shows_counters_of_session", |sql, lex| _ = shows_counters_of_session(sql, lex)),
    ("digest", |sql, lex| _ = digest(sql, lex, &mut Vec::new())),
    ("tables", |sql, lex| _ = tables(sql, lex)),
    ("names", |sql, lex| _ = SqlText::new(sql, lex).names().statements.len()),
    ("unnamed_columns", |sql, lex| _ = unnamed_columns(sql, lex)),
    ("hints", |sql, lex| _ = hints(sql, lex)),
    ("body", |sql, lex| _ = Body::read_unescaped(sql, lex)),
    ("catalog", in_catalog),
    ("code_change", |sql, lex| _ = CodeChange::of(&DEFINITION, sql, lex, true)),
    ("rights_changed", |sql, lex| _ = rights_changed(sql, lex)),
    ("status_named", |sql, lex| _ = status_named(sql, lex)),
    ("may_list_variable", |sql, lex| _ = may_list_variable(sql, lex, "session_track_")),
    ("assignments", |sql, lex| _ = assignments(sql, lex)),
    ("user_variables_assigned", |sql, lex| _ = user_variables_assigned(sql, lex)),
    ("builtin_calls", |sql, lex| _ = builtin_calls(sql, lex)),
    ("advisory_locks", |sql, lex| _ = advisory_locks(sql, lex)),
    ("handlers", |sql, lex| _ = handlers(sql, lex)),
    ("server_locks", |sql, lex| _ = server_locks(sql, lex)),
    ("temporary_tables", |sql, lex| _ = temporary_tables(sql, lex)),
    ("sql_prepared", |sql, lex| _ = sql_prepared(sql, lex)),
    ("used_schemas", |sql, lex| _ = used_schemas(sql, lex)),
    ("kill_target", |sql, lex| _ = kill_target(sql, lex)),
    ("has_tables", |sql, lex| _ = SqlText::new(sql, lex).has_tables()),
    ("shows_whole_statements", |sql, lex| _ = shows_whole_statements(sql, lex)),
    ("keeps_warnings", |sql, lex| _ = keeps_warnings(Class::OtherDdl, &SqlText::new(sql, lex))),
    ("parameters", |sql, lex| _ = parameters(sql, lex)),
    ("prepared_from", |sql, lex| _ = prepared_from(sql, lex)),
    ("immediate_from", |sql, lex| _ = immediate_from(sql, lex)),
    ("explained_route", |sql, lex| _ = explained_route(sql, lex)),
    ("calls_locks_once", |sql, lex| _ = calls_locks_once(sql, lex)),
];

/// These differ from the walk through the classifier in how they read.
const OWN_READINGS: usize = 15;

static CATALOG: LazyLock<(Catalog, Statement)> =
    LazyLock::new(|| (catalog(), classify(b"CALL p()", LexOptions::default())));

/// So that any text is one.
static DEFINITION: LazyLock<Statement> =
    LazyLock::new(|| classify(b"CREATE VIEW v AS SELECT 1", LexOptions::default()));

fn in_catalog(sql: &[u8], lex: LexOptions) {
    _ = CATALOG.0.hidden(&CATALOG.1, sql, lex);
}

/// Code of the names that the texts below have.
fn catalog() -> Catalog {
    let mut builder = CatalogBuilder::default();
    let mut body = "BEGIN ".to_owned();
    for number in 0..200 {
        write!(body, "SET @v{number} = 1; ").unwrap();
    }
    for name in ["x", "p"] {
        builder.add(Stored::Routine(name.to_owned()), Body::read(body.as_bytes(), LexOptions::default()));
    }
    builder.build()
}

fn options() -> [LexOptions; 4] {
    let mysql = LexOptions { server_version: 90_700, ..LexOptions::default() };
    let maria = LexOptions { flavor: Flavor::MariaDb, server_version: 101_119, ..mysql };
    [
        maria,
        mysql,
        LexOptions { charset: TextCharset::Gb18030, ansi_quotes: Quotes::Ansi, ..maria },
        LexOptions { charset: TextCharset::AsciiSafe, ..mysql },
    ]
}

/// Every word in quotes of a list in the code.
fn words(source: &'static str) -> impl Iterator<Item = &'static str> {
    source.split('"').skip(1).step_by(2).flat_map(str::split_whitespace).filter(|word| word.is_ascii())
}

/// Every keyword, and one function of each kind.
fn known_words() -> Vec<&'static str> {
    let mut all: Vec<_> = words(include_str!("../src/keyword.rs")).filter(|word| word.len() > 1).collect();
    all.extend(words(include_str!("../src/classify/functions/table.rs")).step_by(20));
    all.extend([
        "get_lock",
        "release_lock",
        "connection_id",
        "found_rows",
        "row_count",
        "nextval",
        "x",
        "`x`",
    ]);
    assert!(all.len() > 250, "the lists are not where they were");
    all
}

/// What is no word: marks, literals, comments, each whole and left open.
const MARKS: [&str; 78] = [
    "'",
    "''",
    "'a'",
    "'a' ",
    "'\\",
    "\"",
    "\"a\"",
    "`",
    "``",
    "`a`",
    "`a`.",
    "@",
    "@a",
    "@`a",
    "@'a",
    "@@",
    "@@a",
    "@@a.b",
    "@@session.",
    "n'",
    "N'a'",
    "x'",
    "x'1",
    "x'1f'",
    "b'",
    "b'01'",
    "0x",
    "0x1f",
    "0b01",
    "1",
    "1.",
    "1e",
    "1.5e-",
    ".5",
    "1a",
    "$",
    "$$",
    "$a$",
    "$a",
    "$a$ $b",
    "(",
    ")",
    "()",
    ",",
    "(,",
    ".",
    "a.",
    ". ",
    ";",
    ";;",
    "; ;",
    "=",
    ":=",
    ":",
    "a:",
    "?",
    "\\N",
    "\\",
    "--",
    "-- ",
    "-- \n",
    "#",
    "#\n",
    "/*",
    "/**/",
    "/*/",
    "*/",
    "/*!",
    "/*!99999 ",
    "/*!99999 /*",
    "/*!99999 /**/",
    "/*!40000 a*/",
    "/*M!",
    "/*+",
    "/*+ delphinus(",
    "/*#mode=",
    "\u{e9}",
    "\0",
];

/// How a word is repeated; `$` is the word.
const SHAPES: [&str; 18] = [
    "$ ",
    "$(",
    "$(a, ",
    "($ ",
    ", $(",
    ", $(a, a, ",
    "$; ",
    "; $ ",
    "$ a ",
    "a $ ",
    "a.$ ",
    "$.a ",
    "$ = ",
    "$ $(1) ",
    "$ 'a' ",
    "$ end ",
    "end $ ",
    "$ a b; ",
];

/// Where it is repeated.
const PLACES: [&str; 30] = [
    "",
    "SELECT ",
    "SELECT 1, ",
    "CREATE PROCEDURE p() ",
    "CREATE PROCEDURE p() BEGIN ",
    "CREATE FUNCTION f() RETURNS INT ",
    "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO ",
    "BEGIN NOT ATOMIC ",
    "CASE ",
    "l: ",
    "SET ",
    "SET @a = ",
    "SET NAMES ",
    "SET STATEMENT a = 1 FOR ",
    "WITH ",
    "INSERT INTO t ",
    "UPDATE t SET ",
    "DELETE ",
    "CREATE TABLE t (",
    "DROP TABLE ",
    "EXPLAIN ",
    "SHOW ",
    "LOAD DATA INFILE 'x' INTO TABLE t ",
    "CALL p(",
    "GET DIAGNOSTICS ",
    "PREPARE s FROM ",
    "EXECUTE s USING ",
    "FLUSH TABLES ",
    "/*! ",
    "/*+ delphinus(",
];

fn repeated(place: &str, unit: &str, len: usize) -> String {
    place.to_owned() + &unit.repeat((len / unit.len()).max(1))
}

/// Adds what reads too much.
fn look(found: &mut Vec<String>, (name, read): Reading, sql: &[u8], lex: LexOptions) {
    LazyLock::force(&CATALOG);
    let before = bytes_read();
    read(sql, lex);
    let times = (bytes_read() - before) / (sql.len() as u64 + 16);
    if times >= TIMES {
        let shown = String::from_utf8_lossy(&sql[..sql.len().min(60)]).into_owned();
        found.push(format!("{name} reads {times} times: {shown:?}"));
    }
}

fn expect_none(found: &[String]) {
    let shown = &found[..found.len().min(30)];
    assert!(found.is_empty(), "{} texts are read too often\n{}", found.len(), shown.join("\n"));
}

#[test]
fn words_that_are_repeated_are_read_a_few_times() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut found, options) = (Vec::new(), options());
    for (at, word) in known_words().into_iter().enumerate() {
        let pairs = SHAPES.iter().flat_map(|shape| PLACES.iter().map(move |place| (shape, place)));
        // Each shape is in every place with a third of the words.
        for (shape, place) in pairs.skip(at % 3).step_by(3) {
            let text = repeated(place, &shape.replace('$', word), SHORT);
            let lex = options[at % 2];
            // The others walk as `classify` does.
            for reading in &READINGS[..2] {
                look(&mut found, *reading, text.as_bytes(), lex);
            }
        }
    }
    expect_none(&found);
}

#[test]
fn marks_that_are_repeated_are_read_a_few_times() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut found, options) = (Vec::new(), options());
    for mark in MARKS {
        for unit in [mark.to_owned(), format!("{mark} "), format!("a{mark}"), format!("x({mark}")] {
            for (at, place) in PLACES.iter().enumerate() {
                let text = repeated(place, &unit, SHORT);
                for reading in &READINGS[..OWN_READINGS] {
                    look(&mut found, *reading, text.as_bytes(), options[at % options.len()]);
                }
            }
        }
    }
    expect_none(&found);
}

/// Two words in turns: blocks that one opens and the other closes, more or less often.
#[test]
fn words_in_turns_are_read_a_few_times() {
    const BLOCKS: [&str; 24] = [
        "begin",
        "end",
        "if",
        "case",
        "then",
        "else",
        "loop",
        "while",
        "do",
        "repeat",
        "for",
        "end if",
        "end case",
        ";",
        "(",
        ")",
        "if(",
        "case when",
        "x",
        "not",
        "exists",
        "a:",
        "select",
        ",",
    ];
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut found = Vec::new();
    let heads = ["CREATE PROCEDURE p() ", "BEGIN NOT ATOMIC ", "IF ", "CASE ", "SELECT "];
    for first in BLOCKS {
        for second in BLOCKS {
            for (many, few) in [(1, 1), (2, 1), (1, 2), (70, 64), (100, 63), (63, 100)] {
                let unit = format!("{first} ").repeat(many) + &format!("{second} ").repeat(few);
                for head in heads {
                    let text = repeated(head, &unit, 3 * SHORT);
                    for reading in &READINGS[..2] {
                        look(&mut found, *reading, text.as_bytes(), options()[0]);
                    }
                }
            }
        }
    }
    expect_none(&found);
}

/// Texts with as many different names as fit.
fn full_of_names() -> Vec<String> {
    let named = |place: &str, unit: &str| {
        let mut text = place.to_owned();
        for number in 0.. {
            if text.len() + unit.len() + 8 > LONG {
                break;
            }
            text += &unit.replace('#', &number.to_string());
        }
        text
    };
    [
        ("SELECT 1", ",@a#:=1"),
        ("SET @x = 1", ",@a#=1"),
        ("SET @x = 1", ",a#=1"),
        ("SELECT * FROM t", ",a#"),
        ("SELECT * FROM t", ",s.a#"),
        ("DROP TABLE t", ",a#"),
        ("SELECT 1", ",get_lock('a#',0)"),
        ("SELECT 1", ",release_lock('a#')"),
        ("SELECT 1", ",connection_id()"),
        ("DO 1", ";handler a# close"),
        ("DO 1", ";prepare a# from 'x'"),
        ("EXECUTE s USING @x", ",@a#"),
        ("EXECUTE IMMEDIATE CONCAT(@a", ",@a"),
        ("DO 1", ";use a#"),
        ("INSERT INTO t VALUES (1)", ",(#)"),
        ("SELECT p(), x()", ",p(x)"),
        ("/*+ delphinus(a", ",a#=1"),
        ("CREATE PROCEDURE p()", " IF"),
        ("SELECT 1", ";;a#"),
    ]
    .into_iter()
    .map(|(place, unit)| named(place, unit))
    .collect()
}

#[test]
fn many_names_cost_no_more_than_their_number() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut found = Vec::new();
    for text in full_of_names() {
        for reading in READINGS {
            let before = processor_s();
            look(&mut found, reading, text.as_bytes(), options()[0]);
            let spent = processor_s() - before;
            if spent > LONG_S {
                found.push(format!("{} takes {spent:.1} s: {:?}", reading.0, &text[..40]));
            }
        }
    }
    expect_none(&found);
}

/// Code that runs code that runs code, from the first to the last and the other way round.
#[test]
fn a_chain_of_code_costs_no_more_than_its_length() {
    const PIECES: usize = 3_000;
    // It reads, too, and what is read is counted for all threads.
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for next in [1, PIECES - 1] {
        let mut builder = CatalogBuilder::default();
        for number in 0..PIECES {
            let text = match (number + next) % PIECES {
                0 => "SET @a = 1, @b = 2".to_owned(),
                next => format!("CALL p{next}()"),
            };
            let body = Body::read(text.as_bytes(), LexOptions::default());
            builder.add(Stored::Routine(format!("p{number}")), body);
        }
        let before = processor_s();
        let catalog = builder.build();
        let spent = processor_s() - before;
        assert!(spent < LONG_S, "{spent:.1} s");
        let statement = classify(b"CALL p5()", LexOptions::default());
        assert_eq!(catalog.hidden(&statement, b"CALL p5()", LexOptions::default()).variables.len(), 2);
    }
}

/// Processor time of this thread.
fn processor_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    stat.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1e9
}
