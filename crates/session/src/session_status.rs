//! SHOW SESSION STATUS: the counters of a session. Servers count for a connection, which is shared.
//!
//! A session that asks for counters keeps its connection from then on (pin `session_status`), and is told how far they
//! have gone since it first asked. What the proxy knows by itself it puts in for the whole session: commands about
//! prepared statements, which it passes on only in part, and TLS of the client's own connection.

use std::collections::HashMap;

use delphinus_net::Stream;
use delphinus_net::rt;
use delphinus_pool::{Checkout, PoolError};
use delphinus_sql::{Class, Statement};
use delphinus_state::{PinReason, Response};
use delphinus_wire::response::TextResult;

use crate::client_error::ProxyError;
use crate::input::Input;
use crate::serve::{Outcome, Served};
use crate::session::Session;
use crate::settle::Ran;

/// Commands about prepared statements that the client has sent, since the login or the last reset.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StatementCounts {
    pub(crate) prepare: u32,
    pub(crate) execute: u32,
    pub(crate) close: u32,
    pub(crate) reset: u32,
    pub(crate) fetch: u32,
    pub(crate) send_long_data: u32,
}

impl StatementCounts {
    fn named(&self, name: &str) -> Option<u32> {
        match name {
            "Com_stmt_prepare" => Some(self.prepare),
            "Com_stmt_execute" => Some(self.execute),
            "Com_stmt_close" => Some(self.close),
            "Com_stmt_reset" => Some(self.reset),
            "Com_stmt_fetch" => Some(self.fetch),
            "Com_stmt_send_long_data" => Some(self.send_long_data),
            _ => None,
        }
    }
}

/// What the counters of the session's connection were when it first asked.
#[derive(Debug, Default)]
pub(crate) struct Before(HashMap<Box<str>, u64>);

impl Before {
    fn new(all: &TextResult) -> Self {
        let named = all.rows.iter().filter_map(|row| {
            let name = name_of(row).filter(|name| PREFIXES.iter().any(|prefix| begins(name, prefix)))?;
            let count = number(row)?;
            (count > 0).then(|| (name.into(), count))
        });
        Self(named.collect())
    }
}

/// What the names of counters that a session has of its own begin with, in both families of servers.
const PREFIXES: [&str; 26] = [
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

fn begins(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// The name in a row of SHOW STATUS.
fn name_of(row: &[Option<Vec<u8>>]) -> Option<&str> {
    std::str::from_utf8(row.first()?.as_deref()?).ok()
}

fn number(row: &[Option<Vec<u8>>]) -> Option<u64> {
    std::str::from_utf8(row.get(1)?.as_deref()?).ok()?.parse().ok()
}

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

impl Session {
    /// `SHOW STATUS` of the session, and `FLUSH STATUS`, which sets its counters to 0.
    pub(crate) async fn session_status(&mut self, input: Input, sql: &str, statement: Statement) -> Outcome {
        let mut checkout = match self.connection_for(&statement).await {
            Ok(checkout) => checkout,
            Err(error) => return self.refuse(input, error).await,
        };
        self.skip(input).await?;
        let asked = if statement.class == Class::Flush {
            self.flush_status(&mut checkout, sql).await
        } else {
            self.show_status(&mut checkout, sql).await
        };
        let result = match asked {
            Ok(result) => result,
            // The server's own error: nothing has changed.
            Err(error @ PoolError::Refused { .. }) => {
                self.keep_or_give_back(checkout);
                return Ok(Served::Error(ProxyError::Pool(error)));
            }
            Err(error) => {
                self.worker.report_lost(checkout.backend(), &error.to_string());
                let why = error.to_string();
                let is_pinned = !self.pins.is_empty();
                return Ok(if is_pinned {
                    self.after_loss(&why)
                } else {
                    Served::Fatal(ProxyError::Pool(error))
                });
            }
        };
        let is_rows = !result.columns.is_empty();
        let response = Response {
            status: Some(self.status),
            affected_rows: (!is_rows).then_some(0),
            rows: result.rows.len() as u64,
            result_sets: u32::from(is_rows),
            ..Response::default()
        };
        let ran = Ran { statement: &statement, sql: sql.as_bytes(), response: &response };
        let settled = self.settle(checkout, ran).await;
        if is_rows {
            self.answer_rows(&result).await?;
        } else {
            self.answer_ok().await?;
        }
        Ok(self.after_settling(settled))
    }

    async fn show_status(&mut self, checkout: &mut Checkout, sql: &str) -> Result<TextResult, PoolError> {
        let counts = asks_for_counters(sql);
        if counts && self.counted_before.is_none() {
            // To ask for them does not change them, on both families of servers.
            let all = self.ask_status(checkout, "SHOW SESSION STATUS").await?;
            self.counted_before = Some(Box::new(Before::new(&all)));
        }
        let mut result = checkout.query(sql).await?;
        if counts {
            self.pins.add(PinReason::Status, rt::now(), sql.as_bytes());
        }
        for row in &mut result.rows {
            if let (Some(value), Some(cell)) = (self.own_status(row), row.get_mut(1)) {
                *cell = Some(value.into_bytes());
            }
        }
        Ok(result)
    }

    /// Asks for counters in full: servers cut the answer of SHOW STATUS short at `sql_select_limit`, too.
    pub(crate) async fn ask_status(
        &self,
        checkout: &mut Checkout,
        sql: &str,
    ) -> Result<TextResult, PoolError> {
        let Some(limit) = self.want.vars.get("sql_select_limit") else { return checkout.query(sql).await };
        let back = format!("SET SESSION sql_select_limit = {}", String::from_utf8_lossy(limit));
        checkout.query("SET SESSION sql_select_limit = 18446744073709551615").await?;
        let answer = checkout.query(sql).await;
        // Also where it was refused or killed: the limit is the client's.
        checkout.query(&back).await?;
        answer
    }

    async fn flush_status(&mut self, checkout: &mut Checkout, sql: &str) -> Result<TextResult, PoolError> {
        let result = checkout.query(sql).await?;
        // It has ended a transaction, if there was one.
        self.status = checkout.ping().await?.0;
        self.counted_before = Some(Box::default());
        self.statement_counts = StatementCounts::default();
        self.pins.add(PinReason::Status, rt::now(), sql.as_bytes());
        Ok(result)
    }

    /// What a row has to say instead of what the connection counts.
    fn own_status(&self, row: &[Option<Vec<u8>>]) -> Option<String> {
        let name = name_of(row)?;
        if let Some(count) = self.statement_counts.named(name) {
            return Some(count.to_string());
        }
        if let Some(fact) = own_connection(&self.stream, name) {
            return Some(fact);
        }
        let before = self.counted_before.as_ref()?.0.get(name)?;
        Some(number(row)?.saturating_sub(*before).to_string())
    }
}

/// What SHOW STATUS says about TLS: that of the client's connection, not of the one between proxy and backend.
fn own_connection(stream: &Stream, name: &str) -> Option<String> {
    match name {
        "Ssl_version" => Some(stream.tls_version().unwrap_or_default().to_owned()),
        "Ssl_cipher" => Some(stream.tls_cipher().unwrap_or_default()),
        _ => None,
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
    fn counters_are_remembered_and_other_values_are_not() {
        let row = |name: &str, value: &str| vec![Some(name.into()), Some(value.into())];
        let rows =
            vec![row("Com_insert", "7"), row("Com_delete", "0"), row("Uptime", "9"), row("Bytes_sent", "x")];
        let before = Before::new(&TextResult { columns: vec![], rows });
        assert_eq!(before.0.into_iter().collect::<Vec<_>>(), [("Com_insert".into(), 7)]);
    }
}
