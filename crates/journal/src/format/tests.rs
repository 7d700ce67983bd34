//! Entries as they are written.

use std::time::{Duration, UNIX_EPOCH};

use super::*;

pub(crate) fn entry(text: &str) -> Entry {
    Entry {
        ended: UNIX_EPOCH + Duration::from_micros(1_764_115_200_123_456),
        took_us: 1_234_567,
        at_us: [("queue", 0), ("pool", 120), ("sync", 0), ("backend", 1_234_447), ("client", 0)],
        user: "app".into(),
        host: "10.0.0.7".to_owned(),
        session: 42,
        schema: Some("shop".to_owned()),
        error: 0,
        was_killed: false,
        rows_sent: 10,
        rows_affected: 0,
        bytes_received: 64,
        bytes_sent: 2048,
        backend: Some("db2".into()),
        route: "replica",
        digest: Some(0x8f3a),
        text: text.to_owned(),
    }
}

#[test]
fn an_entry_as_mysql_has_it() {
    let (mut schema, mut out) = (None, String::new());
    put_mysql(&entry("SELECT ?"), &mut schema, &mut out);
    let first = "# Time: 2025-11-26T00:00:00.123456Z\n\
                 # User@Host: app[app] @  [10.0.0.7]  Id: 42\n\
                 # Schema: shop  Last_errno: 0  Killed: 0\n\
                 # Query_time: 1.234567  Lock_time: 0.000000  Rows_sent: 10  Rows_examined: 0  Rows_affected: 0\n\
                 # Bytes_sent: 2048  Bytes_received: 64\n\
                 # Backend: db2  Route: replica  Queue_wait: 0.000000  Pool_wait: 0.000120  Sync_wait: 0.000000  Client_wait: 0.000000  Digest: 0000000000008f3a\n\
                 use shop;\nSET timestamp=1764115198;\nSELECT ?;\n";
    assert_eq!(out, first);
    out.clear();
    // The schema is the same: it is not said again.
    put_mysql(&entry("SELECT ?;"), &mut schema, &mut out);
    assert!(!out.contains("use shop") && out.ends_with("\nSELECT ?;\n"), "{out}");
}

#[test]
fn nothing_in_a_text_or_a_name_is_taken_for_a_line_of_the_log() {
    let mut forged = entry("SELECT 1\n# Time: 2030-01-01T00:00:00Z\n# Query_time: 9999\nSELECT 2");
    forged.user = "a]\n# Killed: 1 [".into();
    forged.schema = Some("x;\nuse y".to_owned());
    let mut out = String::new();
    put_mysql(&forged, &mut None, &mut out);
    let lines = |what: &str| out.lines().filter(|line| line.starts_with(what)).count();
    assert_eq!(
        (lines("# Time"), lines("# Query_time"), lines("# Killed"), lines("use ")),
        (1, 1, 0, 1),
        "{out}"
    );
    out.clear();
    put_json(&forged, &mut out);
    assert_eq!(out.lines().count(), 1);
    let line: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(line["statement"], forged.text);
    assert_eq!((&line["query_time_us"], &line["pool_us"]), (&1_234_567.into(), &120.into()));
}
