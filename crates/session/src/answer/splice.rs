//! Values that are written into a text in the place of functions about the session, whose answer only the proxy knows.

use std::ops::Range;

use delphinus_pool::ListCounts;
use delphinus_sql::{SessionFunction, SqlText, unnamed_columns};

/// What the proxy knows of its session, for `splice`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    pub connection_id: u32,
    /// FOUND_ROWS(), if it has to come from memory.
    pub found_rows: Option<u64>,
    /// ROW_COUNT(), likewise.
    pub row_count: Option<i64>,
    /// `@@warning_count` and `@@error_count`, likewise.
    pub list: Option<ListCounts>,
}

/// The text with the functions that the proxy knows the answer of replaced by it; `None` if there are none. A
/// column keeps its name and its type.
pub(crate) fn splice(text: &SqlText<'_>, known: Known) -> Option<Vec<u8>> {
    let sql = text.sql;
    let mut out = Vec::with_capacity(sql.len() + 64);
    let mut copied = 0;
    let mut columns = Vec::new().into_iter().peekable();
    // The column in which the last function was replaced, which gets its name behind its end.
    let mut changed: Option<Range<usize>> = None;
    for span in &text.names().builtin_calls {
        let value = match span.function {
            SessionFunction::ConnectionId => {
                Some(format!("IF(TRUE, CAST({} AS UNSIGNED), CONNECTION_ID())", known.connection_id))
            }
            SessionFunction::FoundRows => {
                known.found_rows.map(|rows| format!("IF(TRUE, {rows}, FOUND_ROWS())"))
            }
            SessionFunction::RowCount => known.row_count.map(|rows| format!("IF(TRUE, {rows}, ROW_COUNT())")),
            SessionFunction::WarningCount => {
                known.list.map(|list| counted(list.warnings, &sql[span.start..span.end]))
            }
            SessionFunction::ErrorCount => {
                known.list.map(|list| counted(list.errors, &sql[span.start..span.end]))
            }
            SessionFunction::LastInsertId => None,
        };
        let Some(value) = value else { continue };
        if copied == 0 {
            columns = unnamed_columns(sql, text.lex).into_iter().peekable();
        }
        if let Some(column) = changed.take_if(|column| column.end <= span.start) {
            put_named(&mut out, sql, copied, &column);
            copied = column.end;
        }
        out.extend_from_slice(&sql[copied..span.start]);
        out.extend_from_slice(value.as_bytes());
        copied = span.end;
        while columns.next_if(|column| column.end < span.end).is_some() {}
        changed = changed.or_else(|| columns.next_if(|column| column.start <= span.start));
    }
    if copied == 0 {
        return None;
    }
    if let Some(column) = changed {
        put_named(&mut out, sql, copied, &column);
        copied = column.end;
    }
    out.extend_from_slice(&sql[copied..]);
    Some(out)
}

/// A count in the place of `variable`, whose type it keeps.
fn counted(count: u64, variable: &[u8]) -> String {
    format!("IF(TRUE, CAST({count} AS UNSIGNED), {})", String::from_utf8_lossy(variable))
}

/// The longest alias, in bytes: servers take 256 characters.
const LONGEST_ALIAS: usize = 255;

/// The rest of a column from `copied` on, and its own text as its name.
fn put_named(out: &mut Vec<u8>, sql: &[u8], copied: usize, column: &Range<usize>) {
    out.extend_from_slice(&sql[copied..column.end]);
    let name = &sql[column.clone()];
    if name.len() <= LONGEST_ALIAS {
        out.extend_from_slice(b" AS `");
        for byte in name {
            out.push(*byte);
            out.extend((*byte == b'`').then_some(b'`'));
        }
        out.push(b'`');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use delphinus_sql::LexOptions;

    fn spliced(sql: &str, counts: Option<(u64, i64)>) -> Option<String> {
        let (found_rows, row_count) = counts.unzip();
        let known = Known { connection_id: 42, found_rows, row_count, list: None };
        splice(&SqlText::new(sql.as_bytes(), LexOptions::default()), known)
            .map(|out| String::from_utf8_lossy(&out).into_owned())
    }

    /// A text is as long as a command may be.
    #[test]
    fn many_functions_cost_no_more_than_their_number() {
        let calls = 256 * 1024 / "CONNECTION_ID(),".len();
        let sql = format!("SELECT {}1", "CONNECTION_ID(),".repeat(calls));
        let known = Known { connection_id: 42, found_rows: None, row_count: None, list: None };
        // Nanoseconds that this thread has run.
        let spent = || std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
        let spent = || spent().split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).expect("a number");
        let before = spent();
        let out = splice(&SqlText::new(sql.as_bytes(), LexOptions::default()), known);
        let spent = spent() - before;
        assert!(spent < 5_000_000_000 && out.is_some_and(|out| out.len() > sql.len()), "{spent} ns");
    }

    #[test]
    fn functions_are_replaced_and_columns_keep_their_names() {
        let id = "IF(TRUE, CAST(42 AS UNSIGNED), CONNECTION_ID())";
        let (found, count) = ("IF(TRUE, 7, FOUND_ROWS())", "IF(TRUE, -1, ROW_COUNT())");
        for (sql, counts, expected) in [
            ("SELECT CONNECTION_ID()", None, format!("SELECT {id} AS `CONNECTION_ID()`")),
            ("SELECT connection_id() AS id", None, format!("SELECT {id} AS id")),
            ("SELECT connection_id() id", None, format!("SELECT {id} id")),
            (
                "SELECT 1, ROW_COUNT(), FOUND_ROWS() + 1",
                Some((7, -1)),
                format!("SELECT 1, {count} AS `ROW_COUNT()`, {found} + 1 AS `FOUND_ROWS() + 1`"),
            ),
            (
                "SELECT DISTINCT CONCAT(CONNECTION_ID(), '`', FOUND_ROWS()), 2 FROM t ORDER BY 1",
                Some((7, -1)),
                format!(
                    "SELECT DISTINCT CONCAT({id}, '`', {found}) AS `CONCAT(CONNECTION_ID(), '``', FOUND_ROWS())`, 2 FROM t ORDER BY 1"
                ),
            ),
            (
                "CREATE TABLE t SELECT CONNECTION_ID()",
                None,
                format!("CREATE TABLE t SELECT {id} AS `CONNECTION_ID()`"),
            ),
            (
                "SELECT CONNECTION_ID() ORDER BY 1",
                None,
                format!("SELECT {id} AS `CONNECTION_ID()` ORDER BY 1"),
            ),
            ("(SELECT CONNECTION_ID())", None, format!("(SELECT {id})")),
            (
                "SELECT a FROM t WHERE a IN (SELECT CONNECTION_ID())",
                None,
                format!("SELECT a FROM t WHERE a IN (SELECT {id})"),
            ),
            (
                "SELECT (SELECT CONNECTION_ID())",
                None,
                format!("SELECT (SELECT {id}) AS `(SELECT CONNECTION_ID())`"),
            ),
        ] {
            assert_eq!(spliced(sql, counts), Some(expected), "{sql}");
        }
        assert_eq!(spliced("SELECT 'CONNECTION_ID()'", None), None);
        assert_eq!(spliced("SELECT ROW_COUNT()", None), None);
    }
}
