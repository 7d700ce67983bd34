//! Rows of an answer, and LIKE.

use delphinus_tables::{Answer, Cell, Kind};
use delphinus_wire::response::{Column, TextResult};

/// utf8mb4_general_ci, which every client knows.
const COLLATION: u16 = 45;
/// The flag for columns that are never NULL.
const NOT_NULL: u16 = 1;

/// The type of a column of numbers with a fraction: DOUBLE.
const DOUBLE: u8 = 5;

/// Columns and rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Table {
    columns: Vec<Head>,
    rows: Vec<Vec<Cell>>,
}

/// The head of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Head {
    name: String,
    kind: Kind,
}

impl Table {
    /// A table with these columns; those that begin with `#` hold numbers.
    pub(crate) fn new<'a>(columns: impl IntoIterator<Item = &'a str>) -> Self {
        let head = |name: &str| match name.strip_prefix('#') {
            Some(name) => Head { name: name.to_owned(), kind: Kind::Integer },
            None => Head { name: name.to_owned(), kind: Kind::Text },
        };
        Self { columns: columns.into_iter().map(head).collect(), rows: Vec::new() }
    }

    /// With the columns that a table has by itself.
    pub(crate) fn of(table: &delphinus_tables::Table, rows: Vec<Vec<Cell>>) -> Self {
        let head =
            |column: &delphinus_tables::Column| Head { name: column.name.to_owned(), kind: column.kind };
        Self { columns: table.stored().iter().map(head).collect(), rows }
    }

    /// The same with rows.
    #[must_use]
    pub(crate) fn with(mut self, rows: impl IntoIterator<Item = Vec<Cell>>) -> Self {
        self.rows.extend(rows);
        self
    }

    /// Keeps the rows whose value in `column` is like `pattern`.
    pub(crate) fn keep_like(&mut self, column: &str, pattern: &str) {
        let at = self.columns.iter().position(|head| head.name == column).unwrap_or(0);
        self.rows.retain(|row| is_like(&row.get(at).and_then(Cell::to_text).unwrap_or_default(), pattern));
    }

    /// True if there is a column of this name.
    #[cfg(test)]
    pub(crate) fn has_column(&self, name: &str) -> bool {
        self.columns.iter().any(|head| head.name == name)
    }

    #[cfg(test)]
    pub(crate) fn rows(&self) -> &[Vec<Cell>] {
        &self.rows
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Its columns with their types, and its rows.
    pub(crate) fn into_parts(self) -> (Vec<(String, Kind)>, Vec<Vec<Cell>>) {
        (self.columns.into_iter().map(|head| (head.name, head.kind)).collect(), self.rows)
    }

    /// As it is sent.
    pub(crate) fn into_result(self) -> TextResult {
        let (columns, rows) = (self.columns, self.rows);
        let rows: Vec<Vec<_>> = rows
            .into_iter()
            .map(|row| row.into_iter().map(|cell| cell.to_text().map(String::into_bytes)).collect())
            .collect();
        let width = |at: usize| rows.iter().filter_map(|row| row.get(at)?.as_ref()).map(Vec::len).max();
        let column = |(at, head): (usize, &Head)| {
            let chars = u32::try_from(width(at).unwrap_or(0)).unwrap_or(u32::MAX / 4).clamp(1, u32::MAX / 4);
            definition(head, chars)
        };
        TextResult { columns: columns.iter().enumerate().map(column).collect(), rows }
    }

    /// The definitions of its columns.
    pub(crate) fn definitions(&self) -> Vec<Column> {
        self.columns.iter().map(|head| definition(head, 1)).collect()
    }
}

impl From<Answer> for Table {
    fn from(answer: Answer) -> Self {
        let head = |(name, kind)| Head { name, kind };
        Self { columns: answer.columns.into_iter().map(head).collect(), rows: answer.rows }
    }
}

fn definition(head: &Head, chars: u32) -> Column {
    let name = head.name.as_bytes();
    let column = match head.kind {
        Kind::Integer => Column::integer(name),
        Kind::Real => Column { kind: DOUBLE, decimals: 31, ..Column::integer(name) },
        Kind::Text => Column::text(name, chars, COLLATION),
    };
    Column { flags: column.flags & !NOT_NULL, ..column }
}

/// A text that is there.
#[expect(clippy::needless_pass_by_value, reason = "rows are lists of cells, most of them made here")]
pub(crate) fn text(value: impl ToString) -> Cell {
    Cell::Text(value.to_string())
}

/// A number that is there; one that is too large for the type is the largest.
pub(crate) fn number(value: impl TryInto<i64>) -> Cell {
    Cell::Integer(value.try_into().unwrap_or(i64::MAX))
}

/// YES or NO.
pub(crate) fn yes_or_no(is: bool) -> Cell {
    text(if is { "YES" } else { "NO" })
}

/// SQL's LIKE, with `%`, `_` and `\` before them; capitals do not count.
pub(crate) fn is_like(value: &str, pattern: &str) -> bool {
    let value: Vec<char> = value.to_lowercase().chars().collect();
    let pattern = parts(&pattern.to_lowercase());
    // Where to go on with one character more under the last `%`.
    let mut retry = None;
    let (mut at, mut part) = (0, 0);
    while at < value.len() {
        match pattern.get(part) {
            Some(Part::Any) => {
                retry = Some((at, part + 1));
                part += 1;
            }
            Some(Part::One) => (at, part) = (at + 1, part + 1),
            Some(Part::Is(wanted)) if *wanted == value[at] => (at, part) = (at + 1, part + 1),
            _ => {
                let Some((from, then)) = retry else { return false };
                retry = Some((from + 1, then));
                (at, part) = (from + 1, then);
            }
        }
    }
    pattern[part..].iter().all(|part| matches!(part, Part::Any))
}

enum Part {
    Any,
    One,
    Is(char),
}

fn parts(pattern: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut chars = pattern.chars();
    while let Some(one) = chars.next() {
        parts.push(match one {
            '%' => Part::Any,
            '_' => Part::One,
            '\\' => Part::Is(chars.next().unwrap_or('\\')),
            one => Part::Is(one),
        });
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_is_that_of_sql() {
        for (value, pattern) in [
            ("", ""),
            ("", "%"),
            ("abc", "abc"),
            ("ABC", "aBc"),
            ("abc", "a%"),
            ("abc", "%c"),
            ("abc", "%b%"),
            ("abc", "a_c"),
            ("abab", "%ab"),
            ("aXbXc", "a%b%c"),
            ("100%", "100\\%"),
            ("a_b", "a\\_b"),
            ("äöü", "Ä_Ü"),
        ] {
            assert!(is_like(value, pattern), "{value} like {pattern}");
        }
        for (value, pattern) in [
            ("abc", ""),
            ("", "_"),
            ("abc", "ab"),
            ("abc", "%b"),
            ("axb", "a\\_b"),
            ("1000", "100\\%"),
            ("abc", "abcd%"),
        ] {
            assert!(!is_like(value, pattern), "{value} not like {pattern}");
        }
        // Many wildcards must not take forever.
        assert!(!is_like(&"a".repeat(5000), &("%a".repeat(200) + "b")));
    }

    #[test]
    fn a_pattern_looks_at_its_column() {
        let mut table =
            Table::new(["#id", "user"]).with([vec![text(1), text("app")], vec![text(2), Cell::Null]]);
        table.keep_like("user", "a%");
        assert_eq!(table.rows(), [vec![text(1), text("app")]]);
        let result = table.into_result();
        assert_eq!(
            (result.columns[0].kind, result.columns[1].kind, result.columns[0].flags & 1),
            (8, 253, 0)
        );
    }
}
