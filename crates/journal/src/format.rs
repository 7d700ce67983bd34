//! How an entry is written: as MySQL's slow log, which `pt-query-digest` reads, or as a line of JSON.
//!
//! Source of the former: <https://dev.mysql.com/doc/refman/8.4/en/slow-query-log.html>. Keys that MySQL does not have (`Backend`, `Route`,
//! `Pool_wait` and its kin, `Digest`) stand in lines of the same kind: tools take them as metrics and attributes.

use std::fmt::Write;
use std::time::{Duration, UNIX_EPOCH};

use delphinus_telemetry::rfc3339;
use serde_json::json;

use crate::entry::Entry;

/// Appends the entry as MySQL's slow log has it. `schema` is that of the entry before, in this file.
pub(crate) fn put_mysql(entry: &Entry, schema: &mut Option<String>, out: &mut String) {
    let since = entry.ended.duration_since(UNIX_EPOCH).unwrap_or_default();
    let user = word(&entry.user);
    let _ = writeln!(out, "# Time: {}", rfc3339(since));
    let _ = writeln!(out, "# User@Host: {user}[{user}] @  [{}]  Id: {}", word(&entry.host), entry.session);
    let killed = u8::from(entry.was_killed);
    let named = entry.schema.as_deref().map(word).unwrap_or_default();
    let _ = writeln!(out, "# Schema: {named}  Last_errno: {}  Killed: {killed}", entry.error);
    let _ = writeln!(
        out,
        "# Query_time: {}  Lock_time: 0.000000  Rows_sent: {}  Rows_examined: 0  Rows_affected: {}",
        seconds(entry.took_us),
        entry.rows_sent,
        entry.rows_affected
    );
    let _ = writeln!(out, "# Bytes_sent: {}  Bytes_received: {}", entry.bytes_sent, entry.bytes_received);
    let _ = write!(
        out,
        "# Backend: {}  Route: {}",
        entry.backend.as_deref().map_or_else(|| "none".to_owned(), word),
        entry.route
    );
    for (place, us) in entry.at_us.iter().filter(|(place, _)| *place != "backend") {
        let mut key = (*place).to_owned();
        key[..1].make_ascii_uppercase();
        let _ = write!(out, "  {key}_wait: {}", seconds(u64::from(*us)));
    }
    let digest = entry.digest.map_or_else(|| "none".to_owned(), |digest| format!("{digest:016x}"));
    let _ = writeln!(out, "  Digest: {digest}");
    if entry.schema.is_some() && *schema != entry.schema {
        let _ = writeln!(out, "use {named};");
        schema.clone_from(&entry.schema);
    }
    let began = since.saturating_sub(Duration::from_micros(entry.took_us));
    let _ = writeln!(out, "SET timestamp={};", began.as_secs());
    // A line of a text that begins like one of the log would be taken for one.
    let text = entry.text.trim_end().trim_end_matches(';').replace("\n#", "\n #");
    let _ = writeln!(out, "{};", text.trim_start_matches('#'));
}

/// Appends the entry as a line of JSON.
pub(crate) fn put_json(entry: &Entry, out: &mut String) {
    let since = entry.ended.duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut line = json!({
        "time": rfc3339(since),
        "user": &*entry.user,
        "host": entry.host,
        "session": entry.session,
        "schema": entry.schema,
        "query_time_us": entry.took_us,
        "rows_sent": entry.rows_sent,
        "rows_affected": entry.rows_affected,
        "bytes_received": entry.bytes_received,
        "bytes_sent": entry.bytes_sent,
        "error": entry.error,
        "killed": entry.was_killed,
        "backend": entry.backend.as_deref(),
        "route": entry.route,
        "digest": entry.digest.map(|digest| format!("{digest:016x}")),
        "statement": entry.text,
    });
    for (place, us) in entry.at_us {
        line[format!("{place}_us")] = us.into();
    }
    let _ = writeln!(out, "{line}");
}

/// Microseconds as seconds with six digits.
fn seconds(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}

/// A name that can neither end its line nor its field.
fn word(name: &str) -> String {
    let plain = |one: char| {
        if one.is_control() || one.is_whitespace() || matches!(one, '[' | ']' | ';' | '`') {
            '?'
        } else {
            one
        }
    };
    name.chars().take(256).map(plain).collect()
}

#[cfg(test)]
pub(crate) mod tests;
