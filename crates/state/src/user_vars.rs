//! User variables: how their values are read back from a backend, and written on another one.

use std::collections::BTreeMap;

use delphinus_wire::response::{Column, ColumnKind};

use crate::vars::{hex, quote_identifier};

/// User variables by name, in lower case.
pub type UserVars = BTreeMap<Box<str>, UserValue>;

/// A value as the SQL expression that makes it again: type, character set and collation included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserValue(Box<str>);

/// Columns that `read_back_sql` selects for each variable.
const COLUMNS_EACH: usize = 4;

/// The longest value that is read back, in bytes: a longer one stays on the connection that has it.
const VALUE_MAX: usize = 64 * 1024;

/// What a session's user variables may take, in bytes of names and expressions, in which a string has two digits for each byte.
const ALL_MAX: usize = 512 * 1024;

/// What is added for each variable: the map has its own costs.
const EACH: usize = 64;

/// How many variables are read back by one statement. Servers have a limit on columns.
pub const READ_AT_ONCE: usize = 256;

/// How many variables a session may have.
pub const MOST_USER_VARS: usize = 4096;

/// How many bytes of values may still be added to these, where those of `names` get other values.
pub fn room_for_values(vars: &UserVars, names: &[Box<str>]) -> usize {
    let replaced: usize = names.iter().filter_map(|name| Some(bytes_of(name, vars.get(name)?))).sum();
    // An expression has two digits for each byte.
    (ALL_MAX + replaced).saturating_sub(bytes_of_user_vars(vars)) / 2
}

/// What they take, in bytes.
pub fn bytes_of_user_vars(vars: &UserVars) -> usize {
    vars.iter().map(|(name, value)| bytes_of(name, value)).sum()
}

fn bytes_of(name: &str, value: &UserValue) -> usize {
    EACH + name.len() + value.0.len()
}

/// The statement that reads variables back. It answers with no row where a value is longer than `VALUE_MAX`, or all of them
/// together are longer than `room`. The names come from a lexer, so they are quoted here.
pub fn read_back_sql<'a>(names: impl Iterator<Item = &'a str>, room: usize) -> String {
    let (mut list, mut lengths) = (Vec::new(), Vec::new());
    for name in names {
        let name = quote_identifier(name);
        list.push(format!("@{name}, CHARSET(@{name}), COLLATION(@{name}), HEX(@{name})"));
        lengths.push(format!("IFNULL(LENGTH(@{name}), 0)"));
    }
    let is_short: Vec<String> = lengths.iter().map(|length| format!("{length} <= {VALUE_MAX}")).collect();
    // With a LIMIT of its own, because the client may have set `sql_select_limit` to 0.
    format!(
        "SELECT {} FROM DUAL WHERE {} AND {} <= {room} LIMIT 1",
        list.join(", "),
        is_short.join(" AND "),
        lengths.join(" + ")
    )
}

impl UserValue {
    /// The expression.
    pub fn sql(&self) -> &str {
        &self.0
    }

    /// True if the variable is NULL, which is what an unset one is too.
    pub fn is_null(&self) -> bool {
        &*self.0 == "NULL"
    }

    /// The hexadecimal digits of a string that may be invalid in its character set, which only a server can say: it makes
    /// no literal of it then, or another one.
    pub fn unproven_digits(&self) -> Option<&str> {
        let (charset, rest) = self.0.strip_prefix('_')?.split_once(" X'")?;
        let (digits, _) = rest.split_once('\'')?;
        let is_ascii = || digits.bytes().step_by(2).all(|digit| digit < b'8');
        (MULTI_BYTE.contains(&charset) && !is_ascii()).then_some(digits)
    }

    /// The value, if it is a string of printable ASCII characters, which mean the same in every character set that they can
    /// have here.
    pub fn ascii(&self) -> Option<String> {
        let (_, rest) = self.0.split_once(" X'")?;
        let (digits, _) = rest.split_once('\'')?;
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> = digits.as_bytes().chunks(2).map(byte).collect();
        let text = String::from_utf8(bytes?).ok()?;
        text.bytes().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace()).then_some(text)
    }

    /// The value, if it is a whole number that is not negative, or the digits of one.
    pub fn integer(&self) -> Option<u64> {
        let of_unsigned = self.0.strip_prefix("CAST(").and_then(|rest| rest.strip_suffix(" AS UNSIGNED)"));
        let digits = of_unsigned.map(str::to_owned).or_else(|| self.ascii());
        digits.as_deref().unwrap_or(&self.0).parse().ok()
    }

    /// The values of a row that answers `read_back_sql`, in its order; `None` if the row is not one.
    pub fn from_row(columns: &[Column], row: &[Option<Vec<u8>>]) -> Option<Vec<Self>> {
        if columns.len() != row.len() || !row.len().is_multiple_of(COLUMNS_EACH) {
            return None;
        }
        columns
            .chunks(COLUMNS_EACH)
            .zip(row.chunks(COLUMNS_EACH))
            .map(|(c, r)| Self::from_cells(&c[0], r))
            .collect()
    }

    fn from_cells(column: &Column, cells: &[Option<Vec<u8>>]) -> Option<Self> {
        let Some(text) = &cells[0] else { return Some(Self(null_of(column).into())) };
        let number = || String::from_utf8(text.clone()).ok();
        let sql = match column.value_kind() {
            ColumnKind::Integer if column.is_unsigned() => format!("CAST({} AS UNSIGNED)", number()?),
            ColumnKind::Integer => number()?,
            ColumnKind::Decimal => {
                let text = number()?;
                // Without a point it would become an integer.
                if text.contains('.') { text } else { format!("CAST({text} AS DECIMAL(65,0))") }
            }
            ColumnKind::Real => {
                let text = number()?;
                if text.contains(['e', 'E']) { text } else { format!("{text}e0") }
            }
            ColumnKind::Null => "NULL".to_owned(),
            ColumnKind::Bytes => return Self::text(cells),
        };
        Some(Self(sql.into()))
    }

    fn text(cells: &[Option<Vec<u8>>]) -> Option<Self> {
        let word = |cell: &Option<Vec<u8>>| {
            let name = String::from_utf8(cell.clone()?).ok()?;
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_').then_some(name)
        };
        let (charset, collation) = (word(&cells[1])?, word(&cells[2])?);
        let digits = cells[3].as_ref()?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        // Servers let such a string come to be, but take no literal of it.
        if charset.starts_with("utf8") && !is_utf8(digits) {
            return None;
        }
        let digits = String::from_utf8_lossy(digits);
        if charset == "binary" {
            return Some(Self(format!("_binary X'{digits}'").into()));
        }
        Some(Self(format!("_{charset} X'{digits}' COLLATE {collation}").into()))
    }

    /// A value of raw bytes in the given character set and collation.
    pub fn from_bytes(bytes: &[u8], charset: &str, collation: &str) -> Self {
        Self(format!("_{charset} X'{}' COLLATE {collation}", hex(bytes)).into())
    }
}

/// NULL of the column's type: a prepared statement is compiled for the type that a variable has then, also of one that is
/// NULL, and converts what it is given later.
fn null_of(column: &Column) -> &'static str {
    match column.value_kind() {
        ColumnKind::Null | ColumnKind::Bytes => "NULL",
        ColumnKind::Integer if column.is_unsigned() => "CAST(NULL AS UNSIGNED)",
        ColumnKind::Integer => "CAST(NULL AS SIGNED)",
        ColumnKind::Decimal => "CAST(NULL AS DECIMAL(65,30))",
        ColumnKind::Real => "(NULL + 0e0)",
    }
}

/// Character sets of several bytes whose strings only a server can tell to be valid.
const MULTI_BYTE: [&str; 9] =
    ["big5", "cp932", "eucjpms", "euckr", "gb18030", "gb2312", "gbk", "sjis", "ujis"];

/// True if hexadecimal digits are the bytes of valid UTF-8.
fn is_utf8(digits: &[u8]) -> bool {
    let nibble = |digit: u8| char::from(digit).to_digit(16).unwrap_or_default() as u8;
    let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| nibble(pair[0]) << 4 | nibble(pair[1])).collect();
    std::str::from_utf8(&bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(kind: u8, flags: u16, cells: [Option<&str>; 4]) -> Option<Vec<UserValue>> {
        let columns: Vec<Column> = (0..4)
            .map(|at| Column { kind: if at == 0 { kind } else { 253 }, flags, ..Column::text(b"x", 9, 45) })
            .collect();
        let row: Vec<_> = cells.iter().map(|cell| cell.map(|text| text.as_bytes().to_vec())).collect();
        UserValue::from_row(&columns, &row)
    }

    #[test]
    fn values_keep_their_type() {
        let sql = |kind, cells| value(kind, 0, cells).expect("a row")[0].sql().to_owned();
        assert_eq!(sql(8, [Some("-7"), Some("binary"), Some("binary"), Some("F")]), "-7");
        let unsigned = value(8, 32, [Some("7"), None, None, None]).expect("a row");
        assert_eq!(unsigned[0].sql(), "CAST(7 AS UNSIGNED)");
        assert_eq!(value(253, 0, [Some("?"), Some("utf8mb4"), Some("utf8mb4_bin"), Some("E9")]), None);
        assert_eq!(sql(5, [Some("1.5"), None, None, None]), "1.5e0");
        assert_eq!(sql(5, [Some("1e100"), None, None, None]), "1e100");
        assert_eq!(sql(246, [Some("1.50"), None, None, None]), "1.50");
        assert_eq!(sql(246, [Some("15"), None, None, None]), "CAST(15 AS DECIMAL(65,0))");
        assert_eq!(sql(253, [None, Some("utf8mb4"), Some("utf8mb4_bin"), None]), "NULL");
        assert_eq!(sql(5, [None, Some("binary"), Some("binary"), None]), "(NULL + 0e0)");
        assert_eq!(sql(8, [None, Some("binary"), Some("binary"), None]), "CAST(NULL AS SIGNED)");
        assert_eq!(
            sql(251, [Some("a"), Some("latin1"), Some("latin1_bin"), Some("61")]),
            "_latin1 X'61' COLLATE latin1_bin"
        );
        assert_eq!(sql(252, [Some("a"), Some("binary"), Some("binary"), Some("61")]), "_binary X'61'");
    }

    #[test]
    fn whole_numbers_are_known_as_such() {
        for (kind, flags, text, digits, integer) in [
            (8, 0, "7", "37", Some(7)),
            (8, 32, "7", "37", Some(7)),
            (253, 0, "7", "37", Some(7)),
            (8, 0, "-7", "2D37", None),
            (246, 0, "7.5", "372E35", None),
            (5, 0, "7", "37", None),
            (253, 0, "x", "78", None),
        ] {
            let found = value(kind, flags, [Some(text), Some("latin1"), Some("latin1_bin"), Some(digits)]);
            assert_eq!(found.expect("a row")[0].integer(), integer, "{kind} {text}");
        }
        assert_eq!(value(8, 32, [None; 4]).expect("a row")[0].integer(), None);
    }

    #[test]
    fn strings_of_several_bytes_have_to_be_proven() {
        let text = |charset, digits| {
            let found = value(253, 0, [Some("?"), Some(charset), Some("any"), Some(digits)]);
            found.expect("a row")[0].unproven_digits().map(str::to_owned)
        };
        assert_eq!(text("sjis", "93FA"), Some("93FA".to_owned()));
        assert_eq!(text("sjis", "615C5C62"), None);
        assert_eq!(text("latin1", "E9"), None);
        assert_eq!(text("utf8mb4", "C3A9"), None);
        assert_eq!(value(8, 0, [Some("-7"), None, None, None]).expect("a row")[0].unproven_digits(), None);
    }

    #[test]
    fn names_from_the_server_that_are_not_names_are_refused() {
        assert_eq!(value(253, 0, [Some("a"), Some("x; DROP"), Some("b"), Some("61")]), None);
        assert_eq!(value(253, 0, [Some("a"), Some("utf8mb4"), Some("b"), Some("6'")]), None);
    }

    #[test]
    fn there_is_room_for_so_much() {
        let value = |len: usize| UserValue::from_bytes(&vec![b'x'; len], "utf8mb4", "utf8mb4_bin");
        let mut vars = UserVars::new();
        let all = room_for_values(&vars, &[]);
        // Half of 512 KiB: see docs/limits.md.
        assert_eq!(all, 256 << 10);
        vars.insert("a".into(), value(VALUE_MAX));
        let left = room_for_values(&vars, &["b".into()]);
        assert!(left < all - VALUE_MAX && left > all - VALUE_MAX - 100, "{all} and {left}");
        assert_eq!(room_for_values(&vars, &["a".into()]), all, "a value that goes takes no room");
        vars.extend((0..9).map(|n| (n.to_string().into(), value(VALUE_MAX))));
        assert_eq!(room_for_values(&vars, &[]), 0);
    }

    #[test]
    fn names_are_quoted() {
        assert_eq!(
            read_back_sql(["a`b"].into_iter(), 100),
            "SELECT @`a``b`, CHARSET(@`a``b`), COLLATION(@`a``b`), HEX(@`a``b`) FROM DUAL \
             WHERE IFNULL(LENGTH(@`a``b`), 0) <= 65536 AND IFNULL(LENGTH(@`a``b`), 0) <= 100 LIMIT 1"
        );
    }
}
