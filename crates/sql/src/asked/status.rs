//! `SHOW STATUS`: whose counters it asks for.

use super::{is_at_end, is_word};
use crate::LexOptions;
use crate::cursor::Cursor;
use crate::keyword::Keyword;
use crate::lexer::TokenKind;
use crate::names::literal_text;

/// What the names of counters that a session has of its own begin with, in both families of servers.
const PREFIXES: [&str; 27] = [
    "Access_denied_errors",
    "Binlog_bytes_written",
    "Busy_time",
    "Bytes_",
    "Com_",
    "Count_hit_tmp_",
    "Cpu_time",
    "Created_tmp_",
    "Delete_scan",
    "Empty_queries",
    "Executed_",
    "Feature_",
    "Handler_",
    "Max_execution_time_",
    "Max_statement_time_exceeded",
    "Memory_used",
    "Opened_",
    "Optimizer_join_",
    "Questions",
    "Rows_",
    "Secondary_engine_",
    "Select_",
    "Slow_queries",
    "Sort_",
    "Subquery_cache_",
    "Table_open_cache_",
    "Update_scan",
];

/// True if the answer to a `SHOW STATUS` may hold counters of the session. `SHOW STATUS LIKE 'Threads%'` and its kin ask for
/// what the server as a whole does.
pub fn shows_counters_of_session(sql: &[u8], options: LexOptions) -> bool {
    let mut cursor = Cursor::new(sql, options);
    let mut has_pattern = false;
    while !cursor.here.is(TokenKind::End) {
        if is_word(&cursor, "rlike") || is_word(&cursor, "regexp") {
            return true;
        }
        if matches!(cursor.here.kind, TokenKind::Text | TokenKind::Quoted) {
            has_pattern = true;
            let pattern = literal_text(cursor.here, sql, options);
            if PREFIXES.iter().any(|prefix| may_match(&pattern, prefix)) {
                return true;
            }
        }
        cursor.bump();
    }
    !has_pattern
}

/// True if a name that begins with `prefix` may match a pattern of LIKE.
fn may_match(pattern: &str, prefix: &str) -> bool {
    let mut letters = pattern.bytes();
    for wanted in prefix.bytes() {
        match letters.next() {
            Some(b'%') => return true,
            Some(b'\\') if letters.next().is_some_and(|one| one.eq_ignore_ascii_case(&wanted)) => {}
            Some(one) if one == b'_' || one.eq_ignore_ascii_case(&wanted) => {}
            Some(_) | None => return false,
        }
    }
    true
}

/// The pattern that `SHOW [SESSION] STATUS LIKE '..'` asks for.
pub fn status_named(sql: &[u8], options: LexOptions) -> Option<String> {
    let mut cursor = Cursor::new(sql, options);
    if !cursor.eat(Keyword::Show) {
        return None;
    }
    cursor.eat_any(&[Keyword::Session, Keyword::Local]);
    if !cursor.eat(Keyword::Status) || !is_word(&cursor, "like") {
        return None;
    }
    cursor.bump();
    let pattern = cursor.bump();
    (pattern.is(TokenKind::Text) && is_at_end(cursor)).then(|| literal_text(pattern, sql, options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_a_session_are_told_from_those_of_a_server() {
        let shows = |sql: &str| shows_counters_of_session(sql.as_bytes(), LexOptions::default());
        for sql in [
            "SHOW STATUS",
            "SHOW SESSION STATUS LIKE 'Com_insert'",
            "show local status like '%'",
            "SHOW STATUS LIKE 'handler\\_read%'",
            "SHOW STATUS LIKE \"Bytes%\"",
            "SHOW STATUS LIKE 'Memory_used'",
            "SHOW STATUS WHERE Variable_name IN ('Uptime', 'Questions')",
            "SHOW STATUS WHERE Variable_name RLIKE '^H'",
        ] {
            assert!(shows(sql), "{sql}");
        }
        for sql in [
            "SHOW STATUS LIKE 'Threads_connected'",
            "SHOW STATUS LIKE 'Ssl_cipher'",
            "SHOW STATUS LIKE 'wsrep%'",
            "SHOW STATUS WHERE Variable_name = 'Uptime' -- not 'Questions'",
            "SHOW STATUS LIKE 'Com'",
        ] {
            assert!(!shows(sql), "{sql}");
        }
    }

    #[test]
    fn one_name_is_read() {
        for (sql, name) in [
            ("SHOW STATUS LIKE 'Ssl_cipher'", Some("Ssl_cipher")),
            ("show session status like \"ssl_version\";", Some("ssl_version")),
            ("SHOW STATUS LIKE 'Ssl%'", Some("Ssl%")),
            ("SHOW STATUS LIKE 'a'; DO 1", None),
            ("SHOW STATUS", None),
            ("SHOW GLOBAL STATUS LIKE 'Ssl_cipher'", None),
        ] {
            assert_eq!(status_named(sql.as_bytes(), LexOptions::default()).as_deref(), name, "{sql}");
        }
    }
}
