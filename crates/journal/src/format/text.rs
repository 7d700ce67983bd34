//! An entry as a line of `key=value`, as logfmt has it: values with other characters than those of names and numbers are in quotes,
//! and what would end a line is escaped in them.

use super::{Lines, hex};
use crate::entry::{Entry, PLACES, Side};

pub(super) fn put(entry: &Entry<'_>, lines: &mut Lines) {
    lines.text.extend_from_slice(b"time=");
    lines.time(entry.since_epoch());
    let word = |lines: &mut Lines, key: &str, value: &str| {
        lines.text.extend_from_slice(key.as_bytes());
        lines.text.extend_from_slice(value.as_bytes());
    };
    word(lines, " side=", entry.side.as_str());
    if entry.side == Side::Backend {
        word(lines, " origin=", entry.origin.as_str());
    }
    number(lines, " session=", entry.session.into());
    value(lines, " user=", entry.user);
    value(lines, " host=", entry.host);
    value(lines, " schema=", entry.schema.unwrap_or(""));
    word(lines, " command=", entry.command.as_str());
    word(lines, " route=", entry.route.as_str());
    value(lines, " backend=", entry.backend.unwrap_or(""));
    number(lines, " connection=", entry.connection.into());
    number(lines, " query_time_us=", entry.took_us);
    if entry.side == Side::Client {
        for (place, us) in PLACES.iter().zip(entry.at_us) {
            word(lines, " ", place);
            number(lines, "_us=", us.into());
        }
    }
    number(lines, " rows_sent=", entry.rows_sent);
    number(lines, " rows_affected=", entry.rows_affected);
    number(lines, " bytes_received=", entry.bytes_received);
    number(lines, " bytes_sent=", entry.bytes_sent);
    number(lines, " error=", entry.error.into());
    word(lines, " killed=", if entry.was_killed { "true" } else { "false" });
    lines.text.extend_from_slice(b" digest=");
    if let Some(digest) = entry.digest {
        lines.text.extend_from_slice(&hex(digest));
    }
    lines.text.extend_from_slice(b" statement=\"");
    match std::str::from_utf8(entry.text) {
        Ok(text) => escape(text, &mut lines.text),
        Err(_) => escape(&String::from_utf8_lossy(entry.text), &mut lines.text),
    }
    lines.text.extend_from_slice(b"\"\n");
}

fn number(lines: &mut Lines, key: &str, number: u64) {
    lines.text.extend_from_slice(key.as_bytes());
    lines.number(number);
}

fn value(lines: &mut Lines, key: &str, value: &str) {
    lines.text.extend_from_slice(key.as_bytes());
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:/$%@".contains(&byte);
    if value.bytes().all(is_plain) {
        lines.text.extend_from_slice(value.as_bytes());
        return;
    }
    lines.text.push(b'"');
    escape(value, &mut lines.text);
    lines.text.push(b'"');
}

/// What stands between quotes.
fn escape(text: &str, out: &mut Vec<u8>) {
    let mut plain = 0;
    for (at, byte) in text.bytes().enumerate().filter(|(_, byte)| *byte < b' ' || b"\"\\\x7f".contains(byte))
    {
        out.extend_from_slice(&text.as_bytes()[plain..at]);
        plain = at + 1;
        match byte {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            other => {
                let digit = |four: u8| b"0123456789abcdef"[usize::from(four & 15)];
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(other >> 4), digit(other)]);
            }
        }
    }
    out.extend_from_slice(&text.as_bytes()[plain..]);
}
