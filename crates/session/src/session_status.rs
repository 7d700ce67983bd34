//! SHOW SESSION STATUS: the counters of a session. Servers count for a connection, which is shared.
//!
//! A session that asks for counters keeps its connection from then on (pin `session_status`), and sees what the server counts
//! there. What the server says of TLS is about the connection between proxy and backend: the proxy answers for the client's own.

use delphinus_net::rt;
use delphinus_sql::{Class, Statement, Uses};
use delphinus_state::PinReason;
use delphinus_wire::response::{Column, TextResult};

use crate::io::Input;
use crate::serve::{Outcome, Served};
use crate::session::Session;

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

/// True if the answer may hold counters of the session. `SHOW STATUS LIKE 'Threads%'` and its kin, which ask for
/// what the server as a whole does, need no connection of their own.
fn asks_for_counters(sql: &str) -> bool {
    let patterns: Vec<&str> = sql.split(['\'', '"']).skip(1).step_by(2).collect();
    let has_word = |word: &str| sql.to_ascii_lowercase().contains(word);
    patterns.is_empty()
        || has_word("rlike")
        || has_word("regexp")
        || patterns.iter().any(|pattern| PREFIXES.iter().any(|prefix| may_match(pattern, prefix)))
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

/// The one variable about TLS that `SHOW [SESSION] STATUS LIKE 'name'` asks for, as the server writes it.
fn tls_variable(sql: &[u8]) -> Option<&'static str> {
    let text = std::str::from_utf8(sql).ok()?.trim().trim_end_matches(';').to_ascii_lowercase();
    let mut words = text.split_ascii_whitespace().filter(|word| !matches!(*word, "session" | "local"));
    let name = match (words.next()?, words.next()?, words.next()?, words.next()?, words.next()) {
        ("show", "status", "like", name, None) => name.trim_matches(['\'', '"']),
        _ => return None,
    };
    ["Ssl_version", "Ssl_cipher"].into_iter().find(|one| one.eq_ignore_ascii_case(name))
}

/// True for a statement after which its session keeps the connection whose counters it has seen, or has set to 0.
pub(crate) fn shows_counters(statement: &Statement, sql: &[u8]) -> bool {
    statement.uses.contains(Uses::SESSION_STATUS)
        && (statement.class != Class::Show || std::str::from_utf8(sql).is_ok_and(asks_for_counters))
}

impl Session {
    /// The session has seen the counters of its connection.
    pub(crate) fn pin_for_counters(&mut self, sql: &[u8]) {
        self.state.pins.add(PinReason::Status, rt::now(), sql);
    }

    /// What SHOW STATUS says of the client's own TLS; `None` if the statement asks for something else.
    pub(crate) async fn answer_about_tls(
        &mut self,
        input: Input,
        sql: &[u8],
        statement: &Statement,
    ) -> Option<Outcome> {
        let name = tls_variable(sql).filter(|_| statement.class == Class::Show)?;
        let value = match name {
            "Ssl_version" => self.client.stream.tls_version().unwrap_or_default().to_owned(),
            _ => self.client.stream.tls_cipher().unwrap_or_default(),
        };
        let collation = self.text_shape().collation;
        let columns =
            vec![Column::text(b"Variable_name", 64, collation), Column::text(b"Value", 2048, collation)];
        let rows = vec![vec![Some(name.into()), Some(value.into_bytes())]];
        if let Err(error) = self.client.skip(input).await {
            return Some(Err(error));
        }
        let answered = self.answer_rows(&TextResult { columns, rows }).await;
        Some(answered.map(|()| Served::Answered))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_counters_of_a_session_need_its_own_connection() {
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
            assert!(asks_for_counters(sql), "{sql}");
        }
        for sql in [
            "SHOW STATUS LIKE 'Threads_connected'",
            "SHOW STATUS LIKE 'Ssl_cipher'",
            "SHOW STATUS LIKE 'wsrep%'",
            "SHOW STATUS WHERE Variable_name = 'Uptime'",
            "SHOW STATUS LIKE 'Com'",
        ] {
            assert!(!asks_for_counters(sql), "{sql}");
        }
    }

    #[test]
    fn tls_is_asked_for_by_one_name() {
        for (sql, name) in [
            ("SHOW STATUS LIKE 'Ssl_cipher'", Some("Ssl_cipher")),
            ("show session status like \"ssl_version\";", Some("Ssl_version")),
            ("SHOW STATUS LIKE 'Ssl%'", None),
            ("SHOW STATUS", None),
            ("SHOW GLOBAL STATUS LIKE 'Ssl_cipher'", None),
        ] {
            assert_eq!(tls_variable(sql.as_bytes()), name, "{sql}");
        }
    }
}
