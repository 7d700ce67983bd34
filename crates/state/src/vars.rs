//! Session variables, by name, as text; and how such a text is written in SQL.

use std::collections::BTreeMap;
use std::rc::Rc;

/// Session variables and their values as the server reports them. A variable that is not here has the
/// server's default. Beside them stand [`CLIENT_COLLATION`] and [`RESULTS_COLLATION`], which no server shows.
pub type Vars = BTreeMap<Box<str>, Box<[u8]>>;

/// The collation that servers keep behind `character_set_client`: parameters of prepared statements have it on MariaDB.
/// It is not here where it is what setting the variable by name gives.
pub const CLIENT_COLLATION: &str = "character_set_client.collation";

/// The collation that servers keep behind `character_set_results`: columns of results are said to have it. It is not here
/// where it is what setting the variable by name gives.
pub const RESULTS_COLLATION: &str = "character_set_results.collation";

/// A collation that hides behind a character set. `MySQL` takes its number in the place of the character set's name. It must
/// not be looked up in the statement that sets it: a server that reads a table while it turns autocommit off loses the
/// transactions that follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HiddenCollation<'a> {
    /// As `utf8mb4_bin`.
    pub name: &'a str,
    /// As 46.
    pub number: u16,
}

impl<'a> HiddenCollation<'a> {
    /// As it stands among the variables.
    pub fn to_value(self) -> Box<[u8]> {
        format!("{} {}", self.name, self.number).into_bytes().into()
    }

    /// What stands there.
    pub fn from_value(value: &'a [u8]) -> Option<Self> {
        let (name, number) = std::str::from_utf8(value).ok()?.split_once(' ')?;
        Some(Self { name, number: number.parse().ok()? })
    }
}

/// Makes `collation` the hidden one of both character sets, as a login and SET NAMES do; `None` for the one that
/// setting the variables by name gives.
pub fn set_names_collation(vars: &mut Vars, collation: Option<HiddenCollation<'_>>) {
    for name in [CLIENT_COLLATION, RESULTS_COLLATION] {
        match collation {
            Some(collation) => drop(vars.insert(name.into(), collation.to_value())),
            None => drop(vars.remove(name)),
        }
    }
}

/// A variable that the server reported or that was set by its name: no other collation hides behind it any more.
pub fn set_reported(vars: &mut Vars, name: &str, value: &[u8]) {
    shows_itself(vars, name);
    vars.insert(name.into(), value.into());
}

/// Forgets the collation that hides behind a variable, if there is one.
pub(crate) fn shows_itself(vars: &mut Vars, name: &str) {
    match name {
        "character_set_client" => drop(vars.remove(CLIENT_COLLATION)),
        "character_set_results" => drop(vars.remove(RESULTS_COLLATION)),
        _ => {}
    }
}

/// Variables that belong to one connection: setting them on another one would mean something else. A session
/// that sets one of them keeps its connection.
const FIXED: &[&str] = &[
    // These follow the schema, until they are set: no other connection of the same schema has that then.
    "character_set_database",
    "collation_database",
    "gtid_next",
    "gtid_seq_no",
    "insert_id",
    "optimizer_trace",
    "profiling",
    "pseudo_replica_mode",
    "pseudo_slave_mode",
    "pseudo_thread_id",
    "rand_seed1",
    "rand_seed2",
    // `WHERE id IS NULL` finds the row inserted last then, by what only the connection knows.
    "sql_auto_is_null",
];

/// Variables under which the server keeps records of the session's statements on the connection, also when they are set back.
const KEEP_RECORDS: [&str; 2] = ["optimizer_trace", "profiling"];

/// Variables that entering a schema sets.
pub(crate) const OF_SCHEMA: [&str; 2] = ["character_set_database", "collation_database"];

/// Variables that the server reports though nobody set them, or that follow from others.
const DERIVED: &[&str] = &[
    "character_set_connection",
    "error_count",
    "identity",
    "in_transaction",
    "last_gtid",
    "last_insert_id",
    "statement_id",
    "warning_count",
];

/// Variables that play no part in what a statement is prepared to. Some cannot be set in a transaction, and `autocommit` ends
/// one.
const NOT_PREPARED: &[&str] = &[
    "autocommit",
    "binlog_direct_non_transactional_updates",
    "binlog_format",
    "binlog_row_image",
    "completion_type",
    "gtid_domain_id",
    "innodb_lock_wait_timeout",
    "interactive_timeout",
    "lock_wait_timeout",
    "long_query_time",
    "max_execution_time",
    "max_statement_time",
    "net_read_timeout",
    "net_write_timeout",
    "session_track_gtids",
    "session_track_schema",
    "session_track_state_change",
    "session_track_system_variables",
    "session_track_transaction_info",
    "skip_parallel_replication",
    "skip_replication",
    "sql_log_bin",
    "transaction_isolation",
    "transaction_read_only",
    "tx_isolation",
    "tx_read_only",
    "wait_timeout",
];

/// What these take, in bytes.
pub fn bytes_of_vars(vars: &Vars) -> usize {
    const EACH: usize = 48;
    vars.iter().map(|(name, value)| EACH + name.len() + value.len()).sum()
}

/// Those of the variables that a statement is prepared under.
pub fn prepared_under(vars: &Rc<Vars>) -> Rc<Vars> {
    let plays_no_part = |name: &str| NOT_PREPARED.contains(&name);
    if !vars.keys().any(|name| plays_no_part(name)) {
        return vars.clone();
    }
    let part = vars.iter().filter(|(name, _)| !plays_no_part(name));
    Rc::new(part.map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// The variables that a statement was prepared under, and all others as they are `now`.
pub fn as_prepared(prepared: &Rc<Vars>, now: &Vars) -> Rc<Vars> {
    let others = now.iter().filter(|(name, _)| NOT_PREPARED.contains(&&***name));
    let mut others = others.map(|(name, value)| (name.clone(), value.clone())).peekable();
    if others.peek().is_none() {
        return prepared.clone();
    }
    let mut all = (**prepared).clone();
    all.extend(others);
    Rc::new(all)
}

/// True if a value can be set on another connection with the same effect.
pub fn is_movable(name: &str) -> bool {
    !FIXED.contains(&name)
}

/// True if the connection has something of the session's once the variable was set, whatever it is set to later.
pub(crate) fn keeps_records(name: &str) -> bool {
    KEEP_RECORDS.contains(&name)
}

/// True if the variable follows from other state and is not to be set by itself.
pub fn is_derived(name: &str) -> bool {
    DERIVED.contains(&name)
}

/// True for a character set in which ASCII is no single byte.
pub fn is_wide(charset: &[u8]) -> bool {
    ["ucs2", "utf16", "utf16le", "utf32"].iter().any(|wide| charset.eq_ignore_ascii_case(wide.as_bytes()))
}

/// True if the session's transactions cannot write, as `SET SESSION TRANSACTION READ ONLY` has it.
pub fn reads_only(vars: &Vars) -> bool {
    ["transaction_read_only", "tx_read_only"]
        .iter()
        .filter_map(|name| vars.get(*name))
        .any(|value| matches!(&**value, b"1" | b"ON"))
}

/// True if the session has set an isolation level.
pub fn sets_isolation(vars: &Vars) -> bool {
    ["transaction_isolation", "tx_isolation"].iter().any(|name| vars.contains_key(*name))
}

/// True if the session has set one of these isolation levels.
pub fn isolation_is(vars: &Vars, levels: &[&str]) -> bool {
    ["transaction_isolation", "tx_isolation"]
        .iter()
        .filter_map(|name| vars.get(*name))
        .any(|value| levels.iter().any(|level| level.as_bytes().eq_ignore_ascii_case(value)))
}

/// `value` as a literal: numbers bare, NULL for the only variable that can be NULL, everything else as text.
pub(crate) fn put_value(out: &mut String, name: &str, value: &[u8]) {
    if value.is_empty() && name == "character_set_results" {
        out.push_str("NULL");
    } else if is_number(value) {
        out.push_str(&String::from_utf8_lossy(value));
    } else {
        out.push_str(&quote_text(value));
    }
}

fn is_number(value: &[u8]) -> bool {
    let digits = value.strip_prefix(b"-").unwrap_or(value);
    digits.first().is_some_and(u8::is_ascii_digit)
        && digits.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.')
        && digits.split(|byte| *byte == b'.').count() <= 2
}

/// A string literal that means the same in every character set and `sql_mode`: plain text in quotes where that
/// is safe, hexadecimal otherwise.
pub fn quote_text(value: &[u8]) -> String {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'\\' | b'\'');
    if value.iter().all(is_plain) {
        return format!("'{}'", String::from_utf8_lossy(value));
    }
    format!("_utf8mb4 X'{}'", hex(value))
}

/// `name` in backticks.
pub fn quote_identifier(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        let _ = write!(out, "{byte:02X}");
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_their_kind() {
        let write = |name: &str, value: &[u8]| {
            let mut out = String::new();
            put_value(&mut out, name, value);
            out
        };
        assert_eq!(write("wait_timeout", b"100"), "100");
        assert_eq!(write("timestamp", b"1700000000.25"), "1700000000.25");
        assert_eq!(write("time_zone", b"-05:00"), "'-05:00'");
        assert_eq!(write("sql_mode", b""), "''");
        assert_eq!(write("character_set_results", b""), "NULL");
        assert_eq!(write("x", b"a'b\\"), "_utf8mb4 X'6127625C'");
        assert_eq!(write("x", "\u{e9}".as_bytes()), "_utf8mb4 X'C3A9'");
        assert_eq!(write("x", b"-"), "'-'");
    }
}
