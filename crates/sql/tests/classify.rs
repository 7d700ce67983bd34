//! The table of statements in `test_data`: each with what `classify` has to answer.
//!
//! A file is a list of cases. A case is a statement of one or more lines and a line that begins with `=>`: class, access,
//! reason, then `+` with what it changes and `?` with what it depends on, and `= session` if it is of its session alone. `//` begins a remark. A line that begins with
//! `@` says how the statements after it are read: `mariadb` or `mysql`, a version, `ansi_quotes`,
//! `no_backslash_escapes`, the name of an encoding; it starts from the default (MySQL 8.0.36) each time.
//!
//! `UPDATE_EXPECT=1 cargo test -p delphinus-sql` writes the answers into the files: read the difference before you keep it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use delphinus_sql::{
    Backslash, Effects, Flavor, LexOptions, Quotes, Sketch, Statement, TextCharset, Uses, classify,
    classify_and_digest, classify_and_sketch, digest,
};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Fewer cases than this means that files have been lost.
const CASES_MIN: usize = 450;

struct Case {
    line: usize,
    sql: String,
    expected: String,
    options: LexOptions,
}

fn options(directive: &str) -> LexOptions {
    let mut options = LexOptions::default();
    for word in directive.split_whitespace() {
        match word {
            "mysql" => options.flavor = Flavor::MySql,
            "mariadb" => (options.flavor, options.server_version) = (Flavor::MariaDb, 101_119),
            "ansi_quotes" => options.ansi_quotes = Quotes::Ansi,
            "no_backslash_escapes" => options.backslash = Backslash::Literal,
            number if number.parse::<u32>().is_ok() => options.server_version = number.parse().unwrap(),
            name => options.charset = TextCharset::from_name(name),
        }
    }
    options
}

fn joined<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(" ")
}

fn answer(statement: Statement) -> String {
    let Statement { class, access, why, effects, uses, is_of_session, .. } = statement;
    let mut text = format!("{class:?} {access:?} {why:?}");
    if effects != Effects::empty() {
        write!(text, " + {}", joined(effects.names())).unwrap();
    }
    if uses != Uses::empty() {
        write!(text, " ? {}", joined(uses.names())).unwrap();
    }
    if is_of_session {
        text.push_str(" = session");
    }
    text
}

fn cases(text: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut read = LexOptions::default();
    let mut lines: Vec<&str> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if let Some(directive) = line.strip_prefix("@ ") {
            read = options(directive);
        } else if let Some(expected) = line.strip_prefix("=>") {
            let sql = lines.join("\n");
            let expected = expected.trim().to_owned();
            cases.push(Case { line: index + 1, sql, expected, options: read });
            lines.clear();
        } else if !(line.starts_with("//") || line.is_empty() && lines.is_empty()) {
            lines.push(line);
        }
    }
    assert!(lines.is_empty(), "a case without `=>` at the end: {lines:?}");
    cases
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("test_data");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    files.sort();
    files
}

fn rewrite(path: &Path, text: &str, cases: &[Case]) {
    let mut out = String::new();
    let mut answers = cases.iter().map(|case| answer(classify(case.sql.as_bytes(), case.options)));
    for line in text.lines() {
        if line.starts_with("=>") {
            writeln!(out, "=> {}", answers.next().unwrap()).unwrap();
        } else {
            writeln!(out, "{line}").unwrap();
        }
    }
    std::fs::write(path, out).unwrap();
}

#[test]
fn every_statement_is_classified_as_the_table_says() {
    let mut count = 0;
    let mut sketches: HashMap<Sketch, Vec<u8>> = HashMap::new();
    let mut wrong = String::new();
    for path in files() {
        let text = std::fs::read_to_string(&path).unwrap();
        let cases = cases(&text);
        count += cases.len();
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            rewrite(&path, &text, &cases);
            continue;
        }
        for Case { line, sql, expected, options } in &cases {
            let found = classify(sql.as_bytes(), *options);
            let (mut alone, mut together) = (Vec::new(), Vec::new());
            let hash = digest(sql.as_bytes(), *options, &mut alone);
            // The digest is the same whether the text is read for it alone or for its class as well.
            assert_eq!(classify_and_digest(sql.as_bytes(), *options, &mut together), (found, hash), "{sql}");
            assert_eq!(together, alone, "{sql}");
            // No two digests have one sketch.
            let (same, sketch) = classify_and_sketch(sql.as_bytes(), *options, 7);
            assert_eq!(same, found, "{sql}");
            assert_eq!(*sketches.entry(sketch).or_insert_with(|| alone.clone()), alone, "{sql}");
            let answer = answer(found);
            if answer != *expected {
                let file = path.file_name().unwrap().display();
                writeln!(wrong, "{file}:{line}: {sql}\n  expected {expected}\n  answered {answer}").unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(count >= CASES_MIN, "only {count} cases");
}
