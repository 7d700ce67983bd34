//! Entries as they are written.

use super::*;
use crate::entry::{Command, Origin, Route};

pub(crate) fn entry(text: &str) -> Entry<'_> {
    Entry {
        ended_us: 1_764_115_200_123_456,
        took_us: 1_234_567,
        at_us: [0, 120, 0, 1_234_447, 0],
        side: Side::Client,
        origin: Origin::Client,
        command: Command::Query,
        user: "app",
        host: "10.0.0.7",
        session: 42,
        schema: Some("shop"),
        error: 0,
        was_killed: false,
        rows_sent: 10,
        rows_affected: 0,
        bytes_received: 64,
        bytes_sent: 2048,
        backend: Some("db2"),
        connection: 7,
        route: Route::Replica,
        digest: Some(0x8f3a),
        text: text.as_bytes(),
    }
}

/// What the lines say of an entry, and how many there are.
fn put(entry: &Entry<'_>, format: Format) -> (String, u64) {
    let mut lines = Lines::default();
    let count = lines.put(entry, format);
    (String::from_utf8(lines.text).unwrap(), count)
}

#[test]
fn an_entry_as_mysql_has_it() {
    let mut lines = Lines::default();
    lines.put(&entry("SELECT ?"), Format::MySql);
    let first = "# Time: 2025-11-26T00:00:00.123456Z\n\
                 # User@Host: app[app] @  [10.0.0.7]  Id: 42\n\
                 # Schema: shop  Last_errno: 0  Killed: 0\n\
                 # Query_time: 1.234567  Lock_time: 0.000000  Rows_sent: 10  Rows_examined: 0  Rows_affected: 0\n\
                 # Bytes_sent: 2048  Bytes_received: 64\n\
                 # Backend: db2  Route: replica  Queue_wait: 0.000000  Pool_wait: 0.000120  Sync_wait: 0.000000  Client_wait: 0.000000  Digest: 0000000000008f3a\n\
                 use shop;\nSET timestamp=1764115198;\nSELECT ?;\n";
    assert_eq!(String::from_utf8(std::mem::take(&mut lines.text)).unwrap(), first);
    // The schema is the same: it is not said again.
    lines.put(&entry("SELECT ?;"), Format::MySql);
    let out = String::from_utf8(std::mem::take(&mut lines.text)).unwrap();
    assert!(!out.contains("use shop") && out.ends_with("\nSELECT ?;\n"), "{out}");
    // Another file says it.
    lines.begin_file();
    lines.put(&entry("SELECT ?;"), Format::MySql);
    assert!(lines.text.windows(8).any(|part| part == b"use shop"));
}

#[test]
fn an_entry_of_both_sides_is_two_lines() {
    let both = Entry { side: Side::Both, ..entry("SELECT \"x\"\n\x01") };
    let (text, count) = put(&both, Format::Text);
    let head = "time=2025-11-26T00:00:00.123456Z side=";
    let about =
        "session=42 user=app host=10.0.0.7 schema=shop command=query route=replica backend=db2 connection=7";
    let sums = "rows_sent=10 rows_affected=0 bytes_received=64 bytes_sent=2048 error=0 killed=false digest=0000000000008f3a statement=\"SELECT \\\"x\\\"\\n\\u0001\"\n";
    let client = format!(
        "{head}client {about} query_time_us=1234567 queue_us=0 pool_us=120 sync_us=0 backend_us=1234447 client_us=0 {sums}"
    );
    let backend = format!("{head}backend origin=client {about} query_time_us=1234447 {sums}");
    assert_eq!((text, count), (client + &backend, 2));
    let (json, count) = put(&both, Format::Json);
    let sides: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((count, &sides[0]["side"], &sides[1]["side"]), (2, &"client".into(), &"backend".into()));
    assert_eq!(
        (&sides[0]["query_time_us"], &sides[1]["query_time_us"]),
        (&1_234_567.into(), &1_234_447.into())
    );
    assert_eq!((&sides[1]["connection"], &sides[1]["statement"]), (&7.into(), &"SELECT \"x\"\n\u{1}".into()));
    assert_eq!(
        (&sides[1]["time"], &sides[1]["digest"]),
        (&"2025-11-26T00:00:00.123456Z".into(), &"0000000000008f3a".into())
    );
}

#[test]
fn nothing_in_a_text_or_a_name_is_taken_for_a_line_of_the_log() {
    let text = "SELECT 1\n# Time: 2030-01-01T00:00:00Z\n# Query_time: 9999\nSELECT 2";
    let forged = Entry { user: "a]\n# Killed: 1 [", schema: Some("x;\nuse y"), ..entry(text) };
    let (out, _) = put(&forged, Format::MySql);
    let lines = |what: &str| out.lines().filter(|line| line.starts_with(what)).count();
    assert_eq!(
        (lines("# Time"), lines("# Query_time"), lines("# Killed"), lines("use ")),
        (1, 1, 0, 1),
        "{out}"
    );
    let (out, _) = put(&forged, Format::Json);
    assert_eq!(out.lines().count(), 1);
    let line: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(line["statement"], text);
    assert_eq!((&line["query_time_us"], &line["pool_us"]), (&1_234_567.into(), &120.into()));
    let (out, _) = put(&forged, Format::Text);
    assert!(out.lines().count() == 1 && out.contains(" user=\"a]\\n# Killed: 1 [\" host="), "{out}");
}

#[test]
fn times_have_all_their_digits() {
    let mut clock = Clock::default();
    let mut out = Vec::new();
    for micros in [0, 1, 999_999, 1_000_000, 1_764_115_200_000_009] {
        out.clear();
        clock.put(Duration::from_micros(micros), &mut out);
        assert_eq!(String::from_utf8_lossy(&out), rfc3339(Duration::from_micros(micros)));
    }
}
