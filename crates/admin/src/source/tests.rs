//! All tables: whole, explained, and the same by SHOW and by SELECT.

use delphinus_tables::Kind;

use super::*;
use crate::answer::Answer;
use crate::command::tests::{run_as, texts};
use crate::users::AdminRole;

fn rows(text: &str) -> Vec<Vec<Option<String>>> {
    match run_as(AdminRole::Viewer, text) {
        Ok(Answer::Rows(table)) => texts(&table),
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn every_table_can_be_read_and_is_explained() {
    for table in catalog().iter() {
        assert!(!table.help.is_empty() && table.help.ends_with('.'), "{}", table.name);
        assert!(table.columns.iter().all(|column| !column.help.is_empty()), "{}", table.name);
        assert_eq!(table.is_view(), Source::of(table).is_none(), "{}", table.name);
        let read = run_as(AdminRole::Admin, &format!("SELECT * FROM {}", table.name));
        let Ok(Answer::Rows(read)) = read else { panic!("{}: {read:?}", table.name) };
        assert!(table.columns.iter().all(|column| read.has_column(column.name)), "{}", table.name);
        let described = rows(&format!("DESCRIBE {}", table.name));
        let names: Vec<_> = described.iter().map(|row| row[0].clone().unwrap()).collect();
        assert_eq!(names, table.columns.iter().map(|column| column.name).collect::<Vec<_>>());
        assert!(
            rows(&format!("SHOW CREATE TABLE {}", table.name))[0][1].as_ref().unwrap().contains("CREATE")
        );
    }
    assert_eq!(rows("SHOW TABLES").len(), catalog().iter().count());
    assert_eq!(rows("SHOW FULL TABLES LIKE 'backend%'")[0][1].as_deref(), Some("BASE TABLE"));
}

#[test]
fn rows_have_the_cells_of_their_columns() {
    for source in SOURCES {
        let Provider::Now(fill) = source.rows else { continue };
        for row in fill(&crate::command::tests::console()) {
            let columns = source.table.stored();
            assert_eq!(row.len(), columns.len(), "{}", source.table.name);
            for (cell, column) in row.iter().zip(columns) {
                let is_of_its_kind = matches!(
                    (cell, column.kind),
                    (Cell::Null, _) | (Cell::Integer(_), Kind::Integer) | (Cell::Text(_), Kind::Text)
                );
                assert!(is_of_its_kind, "{}.{}: {cell:?}", source.table.name, column.name);
            }
        }
    }
}

#[test]
fn show_is_short_for_a_select() {
    let same = [
        ("SHOW RULES", "rules"),
        ("SHOW USERS", "users"),
        ("SHOW CONFIG", "config"),
        ("SHOW MEMORY", "memory"),
    ];
    for (show, table) in same {
        assert_eq!(rows(show), rows(&format!("SELECT * FROM {table}")), "{show}");
    }
    let like = rows("SELECT * FROM users WHERE name LIKE 'o%'");
    assert_eq!(rows("SHOW USERS LIKE 'o%'"), like);
    assert_eq!(like.len(), 1);
}

#[test]
fn wrong_statements_are_told_what_is_wrong() {
    for (text, code, part) in [
        ("SELECT * FROM backend", 1146, "SHOW TABLES"),
        ("SELECT nme FROM backends", 1054, "DESCRIBE"),
        ("SELECT * FROM backends WHERE", 1064, "SQLite's dialect"),
        ("WITH x AS (SELECT 1) DELETE FROM backends", 1142, "read-only here"),
        ("SELECT @@nothing", 1193, "Unknown system variable"),
        ("SELECT name FROM users WHERE name = ?", 1210, "1 parameters"),
        ("DESCRIBE nothing", 1146, "SHOW TABLES"),
        ("DESCRIBE", 1064, "name of one table"),
        ("SHOW COLUMNS FROM users x", 1064, "name of one table"),
    ] {
        let refused = run_as(AdminRole::Viewer, text).expect_err(text);
        assert!(refused.code == code && refused.text.contains(part), "{text}: {refused:?}");
    }
}

/// What docs/see.md asks is answered.
#[test]
fn what_the_page_asks_is_answered() {
    let page = include_str!("../../../../docs/see.md");
    let quoted = |line: &str| {
        let (_, rest) = line.split_once("ctl --config \"$DELPHINUS_CONFIG\" ")?;
        let text = rest.trim().trim_matches(['"', '\'']);
        text.starts_with("SELECT").then(|| text.to_owned())
    };
    let texts: Vec<_> = page.lines().filter_map(quoted).collect();
    assert!(texts.len() > 10, "{texts:?}");
    for text in texts {
        let answer = run_as(AdminRole::Viewer, &text);
        assert!(matches!(answer, Ok(Answer::Rows(_))), "{text}: {answer:?}");
    }
}
