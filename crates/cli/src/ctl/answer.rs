//! How an answer looks: a table, a list of columns for each row, or JSON.

use std::fmt::Write;

use delphinus_admin::Asked;
use serde_json::{Map, Number, Value, json};

/// The ways to show an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    Table,
    Vertical,
    /// A list of objects, for people and programs.
    Json,
    /// The same in one line, for programs that read line by line.
    JsonLine,
}

impl Look {
    /// The text of an answer. One without rows has none.
    pub(super) fn text(self, asked: &Asked) -> anyhow::Result<String> {
        let Asked::Rows(columns, rows) = asked else { return Ok(String::new()) };
        Ok(match self {
            Self::Table => as_table(columns, rows),
            Self::Vertical => as_lists(columns, rows),
            Self::Json => serde_json::to_string_pretty(&as_json(columns, rows))? + "\n",
            Self::JsonLine => serde_json::to_string(&as_json(columns, rows))? + "\n",
        })
    }
}

type Row = Vec<Option<String>>;

fn as_json(columns: &[(String, bool)], rows: &[Row]) -> Value {
    let value = |(value, is_number): (&Option<String>, bool)| match value {
        None => Value::Null,
        Some(text) if is_number => text.parse::<Number>().map_or_else(|_| json!(text), Value::Number),
        Some(text) => json!(text),
    };
    let object = |row: &Row| {
        let pairs = columns.iter().zip(row);
        Value::Object(
            pairs.map(|((name, number), one)| (name.clone(), value((one, *number)))).collect::<Map<_, _>>(),
        )
    };
    rows.iter().map(object).collect()
}

/// A text without what terminals obey.
fn shown(text: &str) -> String {
    text.chars().map(|one| if one.is_control() { ' ' } else { one }).collect()
}

/// Each row with its columns one below the other.
fn as_lists(columns: &[(String, bool)], rows: &[Row]) -> String {
    let width = columns.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut out = String::new();
    for (number, row) in (1..).zip(rows) {
        let _ = writeln!(out, "{:*<27} {number}. row {:*<27}", "", "");
        for ((name, _), value) in columns.iter().zip(row) {
            let value = value.as_deref().map_or("NULL".to_owned(), shown);
            let _ = writeln!(out, "{name:>width$}: {value}");
        }
    }
    out
}

/// Columns side by side, numbers to the right; without lines, so that it can be cut and searched.
fn as_table(columns: &[(String, bool)], rows: &[Row]) -> String {
    let shown = |value: &Option<String>| value.as_deref().map_or("-".to_owned(), shown);
    let mut lines = vec![columns.iter().map(|(name, _)| name.to_uppercase()).collect::<Vec<_>>()];
    lines.extend(rows.iter().map(|row| row.iter().map(shown).collect()));
    let width =
        |at: usize| lines.iter().filter_map(|line| line.get(at)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns.len()).map(|at| width(at).unwrap_or(0)).collect();
    let mut out = String::new();
    for line in &lines {
        let cells =
            line.iter().zip(&widths).zip(columns).map(|((cell, width), (_, is_number))| match is_number {
                true => format!("{cell:>width$}"),
                false => format!("{cell:<width$}"),
            });
        out += cells.collect::<Vec<_>>().join("  ").trim_end();
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> (Vec<(String, bool)>, Vec<Row>) {
        let columns = vec![("name".to_owned(), false), ("weight".to_owned(), true)];
        let row = |name: Option<&str>, weight: &str| vec![name.map(str::to_owned), Some(weight.to_owned())];
        (columns, vec![row(Some("db1"), "100"), row(None, "7"), row(Some("d\u{1b}[1m"), "0")])
    }

    #[test]
    fn tables_are_aligned_and_hold_no_control_characters() {
        let (columns, rows) = answer();
        assert_eq!(as_table(&columns, &rows), "NAME   WEIGHT\ndb1       100\n-           7\nd [1m       0\n");
    }

    #[test]
    fn lists_have_a_line_for_each_column() {
        let (columns, rows) = answer();
        let text = as_lists(&columns, &rows[1..]);
        let stars = "*".repeat(27);
        assert_eq!(
            text,
            format!(
                "{stars} 1. row {stars}\n  name: NULL\nweight: 7\n{stars} 2. row {stars}\n  name: d [1m\nweight: 0\n"
            )
        );
    }

    #[test]
    fn json_has_numbers_and_nulls() {
        let (columns, rows) = answer();
        let list = as_json(&columns, &rows);
        assert_eq!(list[0], json!({ "name": "db1", "weight": 100 }));
        assert_eq!(list[1], json!({ "name": null, "weight": 7 }));
        let line = Look::JsonLine.text(&Asked::Rows(columns, rows)).unwrap();
        assert_eq!((line.matches('\n').count(), line.ends_with("}]\n")), (1, true));
        let numbers = vec![("n".to_owned(), true)];
        let row = |value: &str| vec![Some(value.to_owned())];
        let list = as_json(&numbers, &[row("-7"), row("0.25"), row("x")]);
        assert_eq!(list, json!([{ "n": -7 }, { "n": 0.25 }, { "n": "x" }]));
    }
}
