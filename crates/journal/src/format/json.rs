//! An entry as a line of JSON.

use serde::Serialize;

use super::{Lines, hex};
use crate::entry::{Entry, PLACES};

/// What stands behind the time.
#[derive(Serialize)]
struct Line<'a> {
    side: &'a str,
    origin: &'a str,
    command: &'a str,
    user: &'a str,
    host: &'a str,
    session: u32,
    schema: Option<&'a str>,
    query_time_us: u64,
    rows_sent: u64,
    rows_affected: u64,
    bytes_received: u64,
    bytes_sent: u64,
    error: u16,
    killed: bool,
    backend: Option<&'a str>,
    connection: Option<u32>,
    route: &'a str,
    digest: Option<&'a str>,
    statement: &'a str,
}

pub(super) fn put(entry: &Entry<'_>, lines: &mut Lines) {
    lines.text.extend_from_slice(b"{\"time\":\"");
    lines.time(entry.since_epoch());
    lines.text.push(b'"');
    for (place, us) in PLACES.iter().zip(entry.at_us) {
        for part in [",\"", place, "_us\":"] {
            lines.text.extend_from_slice(part.as_bytes());
        }
        lines.number(us.into());
    }
    let digest = entry.digest.map(hex);
    let statement = String::from_utf8_lossy(entry.text);
    let line = Line {
        side: entry.side.as_str(),
        origin: entry.origin.as_str(),
        command: entry.command.as_str(),
        user: entry.user,
        host: entry.host,
        session: entry.session,
        schema: entry.schema,
        query_time_us: entry.took_us,
        rows_sent: entry.rows_sent,
        rows_affected: entry.rows_affected,
        bytes_received: entry.bytes_received,
        bytes_sent: entry.bytes_sent,
        error: entry.error,
        killed: entry.was_killed,
        backend: entry.backend,
        connection: (entry.connection != 0).then_some(entry.connection),
        route: entry.route.as_str(),
        digest: digest.as_ref().and_then(|digest| std::str::from_utf8(digest).ok()),
        statement: &statement,
    };
    let brace = lines.text.len();
    // Strings and numbers alone: there is nothing that could fail.
    let _ = serde_json::to_writer(&mut lines.text, &line);
    lines.text[brace] = b',';
    lines.text.push(b'\n');
}
