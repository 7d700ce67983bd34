//! An entry as MySQL's slow log has it.

use std::io::Write;
use std::time::Duration;

use super::{Lines, hex};
use crate::entry::{Entry, PLACES};

pub(super) fn put(entry: &Entry<'_>, lines: &mut Lines) {
    let since = entry.since_epoch();
    let user = word(entry.user);
    lines.text.extend_from_slice(b"# Time: ");
    lines.time(since);
    let out = &mut lines.text;
    // A vector takes all that is written.
    let _ = write!(out, "\n# User@Host: {user}[{user}] @  [{}]  Id: {}\n", word(entry.host), entry.session);
    let killed = u8::from(entry.was_killed);
    let named = entry.schema.map(word).unwrap_or_default();
    let _ = writeln!(out, "# Schema: {named}  Last_errno: {}  Killed: {killed}", entry.error);
    let _ = writeln!(
        out,
        "# Query_time: {}  Lock_time: 0.000000  Rows_sent: {}  Rows_examined: 0  Rows_affected: {}",
        Seconds(entry.took_us),
        entry.rows_sent,
        entry.rows_affected
    );
    let _ = writeln!(out, "# Bytes_sent: {}  Bytes_received: {}", entry.bytes_sent, entry.bytes_received);
    let backend = entry.backend.map_or_else(|| "none".to_owned(), word);
    let _ = write!(out, "# Backend: {backend}  Route: {}", entry.route.as_str());
    for (place, us) in PLACES.iter().zip(entry.at_us).filter(|(place, _)| **place != "backend") {
        let (first, rest) = place.split_at(1);
        let _ = write!(out, "  {}{rest}_wait: {}", first.to_ascii_uppercase(), Seconds(us.into()));
    }
    out.extend_from_slice(b"  Digest: ");
    match entry.digest {
        Some(digest) => out.extend_from_slice(&hex(digest)),
        None => out.extend_from_slice(b"none"),
    }
    out.push(b'\n');
    if entry.schema.is_some() && lines.schema.as_deref() != entry.schema {
        let _ = writeln!(out, "use {named};");
        lines.schema = entry.schema.map(str::to_owned);
    }
    let began = since.saturating_sub(Duration::from_micros(entry.took_us));
    let _ = writeln!(out, "SET timestamp={};", began.as_secs());
    put_statement(entry.text, out);
}

/// A line of a text that begins like one of the log would be taken for one.
fn put_statement(text: &[u8], out: &mut Vec<u8>) {
    let text = String::from_utf8_lossy(text);
    let text = text.trim_end().trim_end_matches(';').trim_start_matches('#');
    for (number, line) in text.split('\n').enumerate() {
        match (number, line.starts_with('#')) {
            (0, _) => {}
            (_, true) => out.extend_from_slice(b"\n "),
            (_, false) => out.push(b'\n'),
        }
        out.extend_from_slice(line.as_bytes());
    }
    out.extend_from_slice(b";\n");
}

/// Microseconds as seconds with six digits.
struct Seconds(u64);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000)
    }
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
