//! SHOW WARNINGS, SHOW ERRORS and their counts, answered from what was saved of the statement before.

use delphinus_pool::{ListCounts, Memory, Warnings};
use delphinus_sql::{
    DiagnosticsShown, LexOptions, SelectedVariable, SqlText, diagnostics_shown, selected_variables,
};
use delphinus_state::{Vars, is_wide};
use delphinus_wire::response::{Column, TextResult};

use super::{Answer, Form, List, Said, TextShape};

/// What a statement asks for.
enum DiagnosticsAsked {
    Shown(DiagnosticsShown),
    /// `SELECT @@warning_count` and its kin.
    Selected(Vec<SelectedVariable>),
}

/// The answer to a statement about the warnings of the one before; `None` for GET DIAGNOSTICS and the like, and where nobody
/// knows.
pub(crate) fn show_diagnostics(
    text: &SqlText<'_>,
    form: Form,
    vars: &Vars,
    (memory, shape): (&Memory, TextShape),
) -> Option<Answer> {
    let asked = asked(text.sql, text.lex)?;
    let charset = vars.get("character_set_results").map(|name| &**name);
    let mut result = answer(&asked, &memory.warnings(), (shape, charset))?;
    let is_list = matches!(asked, DiagnosticsAsked::Shown(DiagnosticsShown::List { .. }));
    // It limits what is a SELECT to the servers; other values than 0 leave the one row of counts.
    if !is_list && vars.get("sql_select_limit").is_some_and(|limit| **limit == *b"0") {
        result.rows.clear();
    }
    let list = match asked {
        DiagnosticsAsked::Shown(_) => List::Kept,
        // A SELECT that counts them leaves the counts and not what was counted, as on a server.
        DiagnosticsAsked::Selected(_) => List::OfNoTables,
    };
    let found_rows = (!is_list).then_some(result.rows.len() as u64);
    Some(Answer { said: Said::Rows(result, form), found_rows, list })
}

fn asked(sql: &[u8], lex: LexOptions) -> Option<DiagnosticsAsked> {
    let shown = diagnostics_shown(sql, lex).map(DiagnosticsAsked::Shown);
    shown.or_else(|| selected_variables(sql, lex).map(DiagnosticsAsked::Selected))
}

/// No warnings.
fn none(shape: TextShape) -> TextResult {
    let text = |name: &[u8], chars| shape.column(name, chars);
    let code = Column { length: 4, kind: LONG, flags: 0xa1, ..Column::integer(b"Code") };
    TextResult { columns: vec![text(b"Level", 7), code, text(b"Message", 512)], rows: vec![] }
}

/// What SHOW WARNINGS lists; `None` if nobody knows it any more.
fn list(warnings: &Warnings, shape: TextShape) -> Option<TextResult> {
    let mut result = none(shape);
    match warnings {
        Warnings::None => {}
        Warnings::OnConnection | Warnings::Unclear(_) | Warnings::Gone => return None,
        // Its columns are as the session wanted results when it was saved.
        Warnings::Listed(listed, ..) => result.rows.clone_from(&listed.rows),
        Warnings::Own(code, message) => {
            let code = code.to_string().into_bytes();
            result.rows.push(vec![Some(b"Error".to_vec()), Some(code), Some(message.clone())]);
        }
    }
    Some(result)
}

/// Type code of an INT.
const LONG: u8 = 3;

/// True if a part of the texts means the same to a session that wants results in this character set.
fn is_readable(part: &TextResult, warnings: &Warnings, charset: Option<&[u8]>) -> bool {
    let Warnings::Listed(_, saved, _) = warnings else { return true };
    let saved = saved.as_deref();
    let cells = || part.rows.iter().flatten().flatten();
    let both = |is: fn(&[u8]) -> bool| [saved, charset].into_iter().all(|one| one.is_some_and(is));
    saved == charset
        || cells().next().is_none()
        || ![saved, charset].into_iter().flatten().any(is_wide) && cells().all(|cell| cell.is_ascii())
        // The longer one has four bytes for some characters.
        || both(is_utf8) && cells().all(|cell| cell.iter().all(|byte| *byte < 0xf0))
}

fn is_utf8(charset: &[u8]) -> bool {
    [&b"utf8mb4"[..], b"utf8mb3", b"utf8"].contains(&charset)
}

/// The rows that are asked for; `None` where nobody knows them, or only in another character set than this
/// `character_set_results`.
fn answer(
    asked: &DiagnosticsAsked,
    warnings: &Warnings,
    (shape, charset): (TextShape, Option<&[u8]>),
) -> Option<TextResult> {
    let listed = list(warnings, shape)?;
    match asked {
        DiagnosticsAsked::Shown(DiagnosticsShown::List { only_errors, skip, most }) => {
            let mut part = listed;
            part.rows.retain(|row| !only_errors || is_error(row));
            part.rows = part.rows.into_iter().skip(*skip).take(*most).collect();
            is_readable(&part, warnings, charset).then_some(part)
        }
        DiagnosticsAsked::Shown(DiagnosticsShown::Count { only_errors: false }) => {
            Some(count("@@session.warning_count", warnings.counts()?.warnings))
        }
        DiagnosticsAsked::Shown(DiagnosticsShown::Count { only_errors: true }) => {
            Some(count("@@session.error_count", warnings.counts()?.errors))
        }
        DiagnosticsAsked::Selected(columns) => counts(columns, warnings.counts()?),
    }
}

/// What is selected, if that is nothing but `@@warning_count` and `@@error_count`.
fn counts(columns: &[SelectedVariable], counted: ListCounts) -> Option<TextResult> {
    let mut result = TextResult { columns: Vec::new(), rows: vec![Vec::new()] };
    for selected in columns {
        let of = match selected.name.as_str() {
            "warning_count" => counted.warnings,
            "error_count" => counted.errors,
            _ => return None,
        };
        let mut column = count(&selected.column, of);
        result.columns.append(&mut column.columns);
        result.rows[0].append(&mut column.rows[0]);
    }
    Some(result)
}

fn is_error(row: &[Option<Vec<u8>>]) -> bool {
    row.first().is_some_and(|level| level.as_deref() == Some(b"Error"))
}

fn count(name: &str, value: u64) -> TextResult {
    let value = value.to_string().into_bytes();
    let column = Column { flags: 0xa0, ..Column::integer(name.as_bytes()) };
    TextResult { columns: vec![column], rows: vec![vec![Some(value)]] }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: TextShape = TextShape { collation: 45, decimals: 31 };

    fn told(sql: &str, warnings: &Warnings, charset: Option<&str>) -> Option<TextResult> {
        let asked = asked(sql.as_bytes(), LexOptions::default())?;
        answer(&asked, warnings, (SHAPE, charset.map(str::as_bytes)))
    }

    fn saved() -> TextResult {
        let row = |level: &str, code: &str| {
            [level, code, "text"].map(|cell| Some(cell.as_bytes().to_vec())).to_vec()
        };
        TextResult { columns: vec![], rows: vec![row("Warning", "1265"), row("Error", "1062")] }
    }

    #[test]
    fn plain_forms_are_answered() {
        let counts = ListCounts { warnings: 100, errors: 1 };
        let listed = Warnings::Listed(saved(), None, Some(counts));
        let rows = |sql: &str| told(sql, &listed, None).map(|result| result.rows.len());
        assert_eq!(rows("SHOW WARNINGS;"), Some(2));
        assert_eq!(rows("show  errors"), Some(1));
        assert_eq!(rows("SHOW WARNINGS LIMIT 1"), Some(1));
        assert_eq!(rows("SHOW WARNINGS LIMIT 1, 5"), Some(1));
        assert_eq!(rows("SHOW WARNINGS LIMIT 1 OFFSET 2"), Some(0));
        assert_eq!(rows("SHOW WARNINGS LIMIT ?"), None);
        assert_eq!(rows("SELECT 1, @@warning_count"), None);
        let counts =
            told("SELECT @@warning_count, @@session.error_count AS e;", &listed, None).expect("counts");
        assert_eq!(counts.rows, [[Some(b"100".to_vec()), Some(b"1".to_vec())]]);
        assert_eq!(counts.columns[0].name, b"@@warning_count");
        assert_eq!(counts.columns[1].name, b"e");
        let count = told("SHOW COUNT(*) WARNINGS", &listed, None).expect("a count");
        assert_eq!(count.rows, [[Some(b"100".to_vec())]]);
        assert_eq!(told("SHOW WARNINGS", &listed, Some("koi8r")).expect("ASCII").rows.len(), 2);
        assert_eq!(told("SHOW WARNINGS", &Warnings::None, None).expect("none").rows.len(), 0);
        let own = Warnings::Own(1094, b"Unknown".to_vec());
        assert_eq!(told("SHOW ERRORS", &own, None).expect("an error").rows.len(), 1);
        assert_eq!(told("SHOW ERRORS", &Warnings::OnConnection, None), None);
    }

    #[test]
    fn texts_of_another_character_set_are_not_passed_on() {
        let mut list = saved();
        list.rows[0][2] = Some(vec![0xe9]);
        let listed = Warnings::Listed(list, Some((*b"latin1").into()), Some(ListCounts::default()));
        for (sql, charset, is_told) in [
            ("SHOW WARNINGS", Some("latin1"), true),
            ("SHOW WARNINGS", Some("koi8r"), false),
            ("SHOW WARNINGS", None, false),
            ("SHOW WARNINGS", Some("utf16"), false),
            // The error among them is in ASCII.
            ("SHOW ERRORS LIMIT 1", None, true),
            ("SHOW ERRORS", Some("koi8r"), true),
            ("SHOW ERRORS", Some("utf16"), false),
            ("SHOW ERRORS LIMIT 0", Some("utf16"), true),
            ("SHOW WARNINGS LIMIT 1", Some("utf8mb4"), false),
            ("SHOW COUNT(*) WARNINGS", None, true),
            ("SELECT @@warning_count", None, true),
        ] {
            let found = told(sql, &listed, charset);
            assert_eq!(found.is_some(), is_told, "{sql} {charset:?}");
        }
        for (text, charset, is_told) in
            [("\u{e9}", "utf8", true), ("\u{e9}", "latin1", false), ("\u{1f42c}", "utf8mb3", false)]
        {
            let mut list = saved();
            list.rows[0][2] = Some(text.as_bytes().to_vec());
            let listed = Warnings::Listed(list, Some((*b"utf8mb4").into()), Some(ListCounts::default()));
            let found = told("SHOW WARNINGS", &listed, Some(charset));
            assert_eq!(found.is_some(), is_told, "{text} {charset}");
        }
    }
}
