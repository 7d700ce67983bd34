//! What a statement leaves of FOUND_ROWS(), as far as its answer tells.

use std::ops::Range;

use delphinus_pool::RowsLeft;
use delphinus_sql::{
    Class, Effects, Flavor, Statement, Uses, may_run_explained, may_store_result, rows_are_of_queries,
    shows_tables,
};
use delphinus_state::Response;
use delphinus_wire::error_code;

use crate::state::{Ran, Wanted};

/// What becomes of FOUND_ROWS().
#[inline]
pub(crate) fn rows_left(ran: Ran<'_>, state: &mut Wanted) -> RowsLeft {
    let Ran { statement, response, .. } = ran;
    let is_plain = statement.class == Class::Select && response.is_ok() && response.result_sets > 0;
    if is_plain && !counts_otherwise(statement) && statement.effects.is_empty() && !state.limits_rows() {
        return RowsLeft::Sent;
    }
    if let Some(known) = state.ran_by_execute(statement, ran.text) {
        let (statement, text) = known.runs();
        return rows_left(Ran { statement, text: &text, ..ran }, state);
    }
    of_part(ran, &(0..ran.text.sql.len()), state.limits_rows())
}

/// False for a statement that was not begun. That a query names a table twice, or that the parts of a UNION differ, is found then, too.
fn is_begun(response: &Response) -> bool {
    let Some(code) = response.error else { return true };
    let is_misbuilt =
        matches!(code, error_code::ER_NONUNIQ_TABLE | error_code::ER_WRONG_NUMBER_OF_COLUMNS_IN_SELECT);
    !(is_misbuilt || error_code::is_not_begun(code) || error_code::is_not_resolved(code))
}

/// True if servers count other rows than those that they send.
pub(crate) fn counts_otherwise(statement: &Statement) -> bool {
    statement.effects.contains(Effects::CALC_FOUND_ROWS) || statement.uses.contains(Uses::SKIPS_ROWS)
}

/// What becomes of FOUND_ROWS(), as it was seen on MySQL 9.7 and MariaDB 10.11: docs/protocol-notes.md.
/// `part` is where the statement is in the text.
fn of_part(ran: Ran<'_>, part: &Range<usize>, is_limited: bool) -> RowsLeft {
    let Ran { statement, text, response } = ran;
    let (sql, lex) = (&text.sql[part.clone()], text.lex);
    let (is_mysql, has_rows) = (lex.flavor == Flavor::MySql, response.result_sets > 0);
    let is_counted = counts_otherwise(statement);
    let is_begun = is_begun(response);
    let when = |condition| if condition { RowsLeft::Counted } else { RowsLeft::Kept };
    let may = |condition| if condition { RowsLeft::CountedOrKept } else { RowsLeft::Kept };
    match statement.class {
        // Rows that a routine has sent are taken for those of a query.
        Class::Call | Class::Execute if has_rows => RowsLeft::Counted,
        Class::Multi if has_rows && rows_are_of_queries(sql) => RowsLeft::Counted,
        Class::Multi => several_leave(ran, is_limited),
        Class::Call | Class::Execute | Class::Unknown => may(is_begun),
        _ if !response.is_ok() && is_mysql => RowsLeft::Kept,
        Class::Select | Class::Values | Class::Table | Class::With if has_rows => {
            if response.is_ok() && (is_counted || is_limited) { RowsLeft::Counted } else { RowsLeft::Sent }
        }
        Class::With => may(is_begun),
        Class::Select | Class::Values | Class::Table => {
            when(response.error.is_none_or(|code| code == error_code::ER_TOO_MANY_ROWS))
        }
        Class::Insert | Class::Replace if is_counted => when(is_begun),
        _ if statement.effects.contains(Effects::MAY_COUNT_ROWS) => may(is_begun),
        Class::Describe => RowsLeft::Sent,
        Class::Show if shows_tables(sql, lex) => RowsLeft::Sent,
        // It counts the rows that it finds, as its answer says.
        Class::Update if is_mysql => response.matched_rows.map_or(RowsLeft::CountedOrKept, RowsLeft::Known),
        // With a query, which is not run if the table is there: that is a warning.
        Class::CreateTable | Class::CreateTemporaryTable if !is_mysql && is_counted => {
            if response.is_ok() && response.warnings == 0 { RowsLeft::Counted } else { may(is_begun) }
        }
        Class::Explain if may_run_explained(sql) => may(is_begun),
        Class::Do if is_mysql => RowsLeft::Known(1),
        Class::Do | Class::Set if !is_mysql => when(is_begun && text.has_tables_in(part)),
        Class::Explain if !is_mysql => when(is_begun && !text.has_tables_in(part)),
        _ => RowsLeft::Kept,
    }
}

/// The same of several statements. Where one of them has counted, the connection knows.
fn several_leave(ran: Ran<'_>, is_limited: bool) -> RowsLeft {
    let Ran { statement, text, response } = ran;
    let is_begun = is_begun(response);
    if !is_begun && response.status.is_none() && !statement.effects.intersects(Effects::OPAQUE) {
        return RowsLeft::Kept;
    }
    let has_rows = response.result_sets > 0;
    let left = |part: &Range<usize>, statement: &Statement| {
        let response = &Response::default();
        // One that was not begun keeps what was, and so do those behind it.
        let is_query = matches!(statement.class, Class::Select | Class::Values | Class::Table | Class::With);
        let may_be_that_one =
            !is_begun && is_query && !has_rows && !may_store_result(&text.sql[part.clone()]);
        (of_part(Ran { statement, text, response }, part, is_limited), may_be_that_one)
    };
    let counts = |left: RowsLeft| !matches!(left, RowsLeft::Kept | RowsLeft::CountedOrKept);
    // Those that were run for certain: all, or the first one.
    let certain = if response.is_ok() { usize::MAX } else { usize::from(response.status.is_some()) };
    // Of a text that was too long nothing is here.
    let mut are_kept = !text.sql.is_empty();
    for (at, (part, statement)) in text.names().statements.iter().enumerate() {
        let (left, may_be_that_one) = left(part, statement);
        if at < certain && counts(left) && !may_be_that_one {
            return RowsLeft::Counted;
        }
        are_kept &= left == RowsLeft::Kept || may_be_that_one;
    }
    if are_kept { RowsLeft::Kept } else { RowsLeft::CountedOrKept }
}

#[cfg(test)]
mod tests {
    use delphinus_sql::{LexOptions, SqlText, classify};
    use delphinus_wire::response::Status;

    use super::*;

    fn left_by(statement: &Statement, (sql, lex): (&str, LexOptions), response: &Response) -> RowsLeft {
        let text = &SqlText::new(sql.as_bytes(), lex);
        of_part(Ran { statement, text, response }, &(0..sql.len()), false)
    }

    /// What a statement leaves of FOUND_ROWS() on MariaDB and on MySQL, with `rows` sent if it sends any.
    fn left(sql: &str, rows: Option<u64>, error: Option<u16>) -> [RowsLeft; 2] {
        [Flavor::MariaDb, Flavor::MySql].map(|flavor| {
            let lex = LexOptions { flavor, ..LexOptions::default() };
            let statement = classify(sql.as_bytes(), lex);
            let result_sets = u16::from(rows.is_some());
            let response = Response { rows: rows.unwrap_or(0), result_sets, error, ..Response::default() };
            left_by(&statement, (sql, lex), &response)
        })
    }

    #[test]
    fn found_rows_are_those_that_servers_count() {
        use RowsLeft::{Counted, CountedOrKept as Unclear, Kept, Known, Sent};
        for (sql, rows, error, expected) in [
            ("SELECT a FROM t", Some(3), None, [Sent, Sent]),
            ("SELECT SQL_CALC_FOUND_ROWS a FROM t LIMIT 1", Some(1), None, [Counted, Counted]),
            ("SELECT a FROM t", None, Some(1054), [Kept, Kept]),
            ("SELECT a FROM t", Some(2), Some(1690), [Sent, Kept]),
            ("SELECT a INTO @a FROM t LIMIT 1", None, None, [Counted, Counted]),
            ("SELECT a INTO @a FROM t", None, Some(1172), [Counted, Kept]),
            ("BEGIN", None, None, [Kept, Kept]),
            ("SET @a = 1", None, None, [Kept, Kept]),
            ("SET @a = (SELECT MAX(a) FROM t)", None, None, [Counted, Kept]),
            ("DO 1", None, None, [Kept, Known(1)]),
            ("INSERT INTO t VALUES (1), ((SELECT 2))", None, None, [Unclear, Unclear]),
            ("INSERT INTO t (a) SELECT a FROM u", None, None, [Counted, Counted]),
            ("INSERT INTO t VALUES (1, (SELECT MAX(a) FROM u))", None, None, [Unclear, Unclear]),
            ("UPDATE t SET a = 1", None, None, [Kept, Unclear]),
            ("UPDATE t SET a = 1, b = 2 ORDER BY a LIMIT 2", None, None, [Kept, Unclear]),
            ("UPDATE t, u SET t.a = u.a", None, None, [Unclear, Unclear]),
            ("UPDATE t JOIN u USING (a) SET t.b = 1", None, None, [Unclear, Unclear]),
            ("UPDATE t JOIN u USING (a) SET t.b = 1", None, Some(1146), [Kept, Kept]),
            ("DELETE FROM t", None, None, [Kept, Kept]),
            ("DELETE QUICK FROM t WHERE a IN (1, 2)", None, None, [Kept, Kept]),
            ("DELETE t FROM t", None, None, [Unclear, Unclear]),
            ("DELETE FROM t WHERE a IN (SELECT a FROM u)", None, None, [Unclear, Unclear]),
            ("CREATE TABLE t (a INT)", None, None, [Kept, Kept]),
            ("CREATE TABLE t (a TEXT COMMENT 'select')", None, None, [Kept, Kept]),
            ("CREATE TABLE t SELECT 1 AS a", None, None, [Counted, Kept]),
            ("CREATE TEMPORARY TABLE t (b INT) AS (SELECT 1 AS a)", None, None, [Counted, Kept]),
            ("CREATE TABLE t SELECT 1 AS a", None, Some(1062), [Unclear, Kept]),
            ("CALL p()", None, None, [Unclear, Unclear]),
            ("CALL p()", Some(2), None, [Counted, Counted]),
            ("EXECUTE s", None, None, [Unclear, Unclear]),
            ("SET @a = 1; UPDATE t SET a = 1", None, None, [Kept, Unclear]),
            ("BEGIN; SET @a = 1; COMMIT", None, None, [Kept, Kept]),
            ("BEGIN; SET @a = 1; COMMIT", None, Some(1064), [Kept, Kept]),
            ("SET @a = 1; DO 1", None, None, [Kept, Counted]),
            ("SELECT a FROM t; SHOW WARNINGS", Some(2), None, [Counted, Counted]),
            ("CALL p(); SELECT a INTO @a FROM t", None, None, [Counted, Counted]),
            ("SELECT 1; COMMIT", Some(1), None, [Counted, Counted]),
            ("COMMIT; SHOW WARNINGS", Some(1), None, [Kept, Kept]),
            ("CALL p()", None, Some(1305), [Kept, Kept]),
            ("SHOW TABLES", Some(2), None, [Sent, Sent]),
            ("SHOW FULL COLUMNS FROM t", Some(2), None, [Sent, Sent]),
            ("SHOW WARNINGS", Some(2), None, [Kept, Kept]),
            ("SHOW COUNT(*) WARNINGS", Some(1), None, [Sent, Sent]),
            ("SHOW CREATE TABLE t", Some(1), None, [Kept, Kept]),
            ("SHOW GRANTS", Some(2), None, [Kept, Kept]),
            ("SHOW ENGINES", Some(8), None, [Sent, Kept]),
            ("EXPLAIN SELECT 1", Some(1), None, [Counted, Kept]),
            ("EXPLAIN ANALYZE SELECT a FROM t", Some(1), None, [Unclear, Unclear]),
        ] {
            assert_eq!(left(sql, rows, error), expected, "{sql} {error:?}");
        }
    }

    #[test]
    fn of_several_statements_those_before_an_error_count() {
        use RowsLeft::{Counted, CountedOrKept as Unclear, Kept};
        for (sql, error, expected) in [
            ("SET @a = 1; SELECT a FROM none; SET @b = 1", 1146, [Kept, Kept]),
            ("DO 1; SELECT a FROM none", 1146, [Kept, Counted]),
            ("SET @b = 1; DO 1; SELECT a FROM none", 1146, [Kept, Unclear]),
            ("SELECT 1 INTO @a; SELECT a FROM none", 1146, [Counted, Counted]),
            ("SELECT 1 INTO OUTFILE '/x'; SELECT a FROM none", 1146, [Counted, Counted]),
            ("CALL p(); COMMIT", 1146, [Unclear, Unclear]),
            ("SET @a = 1; UPDATE t SET a = 1", 1213, [Kept, Unclear]),
        ] {
            let found = [Flavor::MariaDb, Flavor::MySql].map(|flavor| {
                let lex = LexOptions { flavor, ..LexOptions::default() };
                let status = Some(Status::default());
                let response = Response { error: Some(error), status, ..Response::default() };
                let statement = &classify(sql.as_bytes(), lex);
                left_by(statement, (sql, lex), &response)
            });
            assert_eq!(found, expected, "{sql} {error}");
        }
        // With rows, one of the queries has counted.
        let sql = "SHOW CREATE TABLE t; SELECT a FROM t; SELECT a FROM none";
        let statement = &classify(sql.as_bytes(), LexOptions::default());
        let status = Some(Status::default());
        let response = &Response { error: Some(1146), status, result_sets: 2, ..Response::default() };
        assert_eq!(left_by(statement, (sql, LexOptions::default()), response), Unclear);
        // A text that was too long to keep.
        let statement = &classify(b"SET @a = 1; SELECT 2", LexOptions::default());
        let response = &Response { result_sets: 1, ..Response::default() };
        assert_eq!(left_by(statement, ("", LexOptions::default()), response), Unclear);
    }
}
