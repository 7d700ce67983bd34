//! SHOW WARNINGS, SHOW ERRORS and their counts, answered from what was saved of the statement before.

use delphinus_pool::{ListCounts, Warnings};
use delphinus_state::is_wide;
use delphinus_wire::response::{Column, TextResult};

/// What the servers of this cluster say about columns of text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextShape {
    /// Id of the default collation of the client's `character_set_results`.
    pub collation: u16,
    /// "Not fixed": 31, and 39 in newer MariaDB servers.
    pub decimals: u8,
}

/// No warnings.
fn none(shape: TextShape) -> TextResult {
    let text =
        |name, chars| Column { decimals: shape.decimals, ..Column::text(name, chars, shape.collation) };
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

/// The answer to `sql` if it is one of the plain forms; `None` for GET DIAGNOSTICS and the like, and where nobody knows, or
/// only in another character set than this `character_set_results`.
pub(crate) fn answer(
    sql: &[u8],
    warnings: &Warnings,
    (shape, charset): (TextShape, Option<&[u8]>),
) -> Option<TextResult> {
    let readable = |part: TextResult| is_readable(&part, warnings, charset).then_some(part);
    let (warnings, counted) = (&list(warnings, shape)?, warnings.counts()?);
    let text = String::from_utf8_lossy(sql).to_ascii_lowercase();
    let words: Vec<&str> = text.trim().trim_end_matches(';').split_whitespace().collect();
    let joined = words.join(" ").replace(" (", "(").replace("( ", "(").replace(" )", ")");
    match joined.as_str() {
        "show warnings" => readable(rows(warnings, |_| true)),
        "show errors" => readable(rows(warnings, is_error)),
        "show count(*) warnings" => Some(count("@@session.warning_count", counted.warnings)),
        "show count(*) errors" => Some(count("@@session.error_count", counted.errors)),
        _ => match limited(&joined, warnings) {
            Some(part) => readable(part),
            None => counts(sql, counted),
        },
    }
}

/// `SHOW WARNINGS LIMIT ..` and `SHOW ERRORS LIMIT ..`.
fn limited(joined: &str, warnings: &TextResult) -> Option<TextResult> {
    let (limit, mut result) = match joined.strip_prefix("show warnings limit ") {
        Some(limit) => (limit, rows(warnings, |_| true)),
        None => (joined.strip_prefix("show errors limit ")?, rows(warnings, is_error)),
    };
    let number = |text: &str| text.trim().parse::<usize>().ok();
    let (skipped, count) = if let Some((offset, count)) = limit.split_once(',') {
        (number(offset)?, number(count)?)
    } else if let Some((count, offset)) = limit.split_once(" offset ") {
        (number(offset)?, number(count)?)
    } else {
        (0, number(limit)?)
    };
    result.rows = result.rows.into_iter().skip(skipped).take(count).collect();
    Some(result)
}

/// A SELECT of nothing but `@@warning_count` and `@@error_count`, with or without aliases.
fn counts(sql: &[u8], counted: ListCounts) -> Option<TextResult> {
    let text = std::str::from_utf8(sql).ok()?.trim().trim_end_matches(';').trim_end();
    let (first, list) = text.split_once(char::is_whitespace)?;
    if !first.eq_ignore_ascii_case("select") {
        return None;
    }
    let mut result = TextResult { columns: Vec::new(), rows: vec![Vec::new()] };
    for item in list.split(',') {
        let mut words = item.split_whitespace();
        let variable = words.next()?;
        let alias: Vec<&str> = words.filter(|word| !word.eq_ignore_ascii_case("as")).collect();
        let of = match variable
            .to_ascii_lowercase()
            .trim_start_matches("@@session.")
            .trim_start_matches("@@local.")
        {
            "warning_count" | "@@warning_count" => counted.warnings,
            "error_count" | "@@error_count" => counted.errors,
            _ => return None,
        };
        let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let name = match alias.as_slice() {
            [] => variable,
            [alias] if is_name(alias) => alias,
            _ => return None,
        };
        let mut column = count(name, of);
        result.columns.append(&mut column.columns);
        result.rows[0].append(&mut column.rows[0]);
    }
    Some(result)
}

fn is_error(row: &[Option<Vec<u8>>]) -> bool {
    row.first().is_some_and(|level| level.as_deref() == Some(b"Error"))
}

fn rows(warnings: &TextResult, wanted: impl Fn(&[Option<Vec<u8>>]) -> bool) -> TextResult {
    let rows = warnings.rows.iter().filter(|row| wanted(row)).cloned().collect();
    TextResult { columns: warnings.columns.clone(), rows }
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

    fn saved() -> TextResult {
        let row = |level: &str, code: &str| {
            [level, code, "text"].map(|cell| Some(cell.as_bytes().to_vec())).to_vec()
        };
        TextResult { columns: vec![], rows: vec![row("Warning", "1265"), row("Error", "1062")] }
    }

    #[test]
    fn plain_forms_are_answered() {
        let counts = ListCounts { warnings: 100, errors: 1 };
        let listed = Warnings::Listed(saved(), None, counts);
        let rows = |sql: &str| answer(sql.as_bytes(), &listed, (SHAPE, None)).map(|result| result.rows.len());
        assert_eq!(rows("SHOW WARNINGS;"), Some(2));
        assert_eq!(rows("show  errors"), Some(1));
        assert_eq!(rows("SHOW WARNINGS LIMIT 1"), Some(1));
        assert_eq!(rows("SHOW WARNINGS LIMIT 1, 5"), Some(1));
        assert_eq!(rows("SHOW WARNINGS LIMIT 1 OFFSET 2"), Some(0));
        assert_eq!(rows("SHOW WARNINGS LIMIT ?"), None);
        assert_eq!(rows("SELECT 1, @@warning_count"), None);
        let counts = answer(b"SELECT @@warning_count, @@session.error_count AS e;", &listed, (SHAPE, None))
            .expect("counts");
        assert_eq!(counts.rows, [[Some(b"100".to_vec()), Some(b"1".to_vec())]]);
        assert_eq!(counts.columns[0].name, b"@@warning_count");
        assert_eq!(counts.columns[1].name, b"e");
        let count = answer(b"SHOW COUNT(*) WARNINGS", &listed, (SHAPE, None)).expect("a count");
        assert_eq!(count.rows, [[Some(b"100".to_vec())]]);
        let koi8r = (SHAPE, Some(&b"koi8r"[..]));
        assert_eq!(answer(b"SHOW WARNINGS", &listed, koi8r).expect("ASCII").rows.len(), 2);
        assert_eq!(answer(b"SHOW WARNINGS", &Warnings::None, (SHAPE, None)).expect("none").rows.len(), 0);
        let own = Warnings::Own(1094, b"Unknown".to_vec());
        assert_eq!(answer(b"SHOW ERRORS", &own, (SHAPE, None)).expect("an error").rows.len(), 1);
        assert_eq!(answer(b"SHOW ERRORS", &Warnings::OnConnection, (SHAPE, None)), None);
    }

    #[test]
    fn texts_of_another_character_set_are_not_passed_on() {
        let mut list = saved();
        list.rows[0][2] = Some(vec![0xe9]);
        let listed = Warnings::Listed(list, Some((*b"latin1").into()), ListCounts::default());
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
            let found = answer(sql.as_bytes(), &listed, (SHAPE, charset.map(str::as_bytes)));
            assert_eq!(found.is_some(), is_told, "{sql} {charset:?}");
        }
        for (text, charset, is_told) in
            [("\u{e9}", "utf8", true), ("\u{e9}", "latin1", false), ("\u{1f42c}", "utf8mb3", false)]
        {
            let mut list = saved();
            list.rows[0][2] = Some(text.as_bytes().to_vec());
            let listed = Warnings::Listed(list, Some((*b"utf8mb4").into()), ListCounts::default());
            let found = answer(b"SHOW WARNINGS", &listed, (SHAPE, Some(charset.as_bytes())));
            assert_eq!(found.is_some(), is_told, "{text} {charset}");
        }
    }
}
