//! SHOW WARNINGS, SHOW ERRORS and their counts, answered from what was saved of the statement before.

use delphinus_wire::response::{Column, TextResult};

/// The answer to `sql` if it is one of the plain forms; `None` for those with LIMIT and for GET DIAGNOSTICS.
pub(crate) fn answer(sql: &[u8], warnings: Option<&TextResult>) -> Option<TextResult> {
    let text = String::from_utf8_lossy(sql).to_ascii_lowercase();
    let words: Vec<&str> = text.trim().trim_end_matches(';').split_whitespace().collect();
    let joined = words.join(" ").replace(" (", "(").replace("( ", "(").replace(" )", ")");
    match joined.as_str() {
        "show warnings" => Some(rows(warnings, |_| true)),
        "show errors" => Some(rows(warnings, is_error)),
        "show count(*) warnings" => Some(count("@@session.warning_count", &rows(warnings, |_| true))),
        "show count(*) errors" => Some(count("@@session.error_count", &rows(warnings, is_error))),
        "select @@warning_count" => Some(count("@@warning_count", &rows(warnings, |_| true))),
        "select @@error_count" => Some(count("@@error_count", &rows(warnings, is_error))),
        _ => None,
    }
}

fn is_error(row: &[Option<Vec<u8>>]) -> bool {
    row.first().is_some_and(|level| level.as_deref() == Some(b"Error"))
}

fn rows(warnings: Option<&TextResult>, wanted: impl Fn(&[Option<Vec<u8>>]) -> bool) -> TextResult {
    let columns =
        vec![Column::text(b"Level", 7, 45), Column::integer(b"Code"), Column::text(b"Message", 512, 45)];
    let rows = warnings.map(|saved| saved.rows.iter().filter(|row| wanted(row)).cloned().collect());
    TextResult { columns, rows: rows.unwrap_or_default() }
}

fn count(name: &str, of: &TextResult) -> TextResult {
    let value = of.rows.len().to_string().into_bytes();
    TextResult { columns: vec![Column::integer(name.as_bytes())], rows: vec![vec![Some(value)]] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved() -> TextResult {
        let row = |level: &str, code: &str| {
            [level, code, "text"].map(|cell| Some(cell.as_bytes().to_vec())).to_vec()
        };
        TextResult { columns: vec![], rows: vec![row("Warning", "1265"), row("Error", "1062")] }
    }

    #[test]
    fn plain_forms_are_answered() {
        let rows = |sql: &str| answer(sql.as_bytes(), Some(&saved())).map(|result| result.rows.len());
        assert_eq!(rows("SHOW WARNINGS;"), Some(2));
        assert_eq!(rows("show  errors"), Some(1));
        assert_eq!(rows("SHOW WARNINGS LIMIT 1"), None);
        let count = answer(b"SHOW COUNT(*) WARNINGS", Some(&saved())).expect("a count");
        assert_eq!(count.rows, [[Some(b"2".to_vec())]]);
        assert_eq!(answer(b"SHOW WARNINGS", None).expect("none").rows.len(), 0);
    }
}
