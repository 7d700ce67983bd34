//! How entries are written: as MySQL's slow log, which `pt-query-digest` reads, as a line of JSON, or as a line of `key=value`.
//!
//! Source of the first: <https://dev.mysql.com/doc/refman/8.4/en/slow-query-log.html>. Keys that MySQL does not have (`Backend`, `Route`,
//! `Pool_wait` and its kin, `Digest`) stand in lines of the same kind: tools take them as metrics and attributes. Source of the last:
//! <https://brandur.org/logfmt>.

mod json;
mod mysql;
mod text;

use std::time::Duration;

use delphinus_telemetry::rfc3339;

use crate::entry::{Entry, Side};
use crate::journal::Format;

/// Lines that wait to be written.
#[derive(Default)]
pub(crate) struct Lines {
    pub(crate) text: Vec<u8>,
    /// The schema that the file says the next entry is in.
    schema: Option<String>,
    clock: Clock,
}

impl Lines {
    /// What follows stands at the beginning of a file.
    pub(crate) fn begin_file(&mut self) {
        self.schema = None;
    }

    /// Appends the entry. Returns how many lines it has become.
    pub(crate) fn put(&mut self, entry: &Entry<'_>, format: Format) -> u64 {
        if format == Format::MySql {
            mysql::put(entry, self);
            return 1;
        }
        let put = |lines: &mut Self, entry: &Entry<'_>| match format {
            Format::Json => json::put(entry, lines),
            Format::Text | Format::MySql => text::put(entry, lines),
        };
        if entry.side != Side::Both {
            put(self, entry);
            return 1;
        }
        put(self, &Entry { side: Side::Client, ..*entry });
        // The backend's part of the time is its own.
        let [.., at_backend, _] = entry.at_us;
        put(self, &Entry { side: Side::Backend, took_us: at_backend.into(), ..*entry });
        2
    }

    fn number(&mut self, number: u64) {
        self.text.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }

    fn time(&mut self, since: Duration) {
        self.clock.put(since, &mut self.text);
    }
}

/// Times as RFC 3339 has them. Entries of one second are many.
#[derive(Default)]
struct Clock {
    second: u64,
    /// The time without its fraction.
    text: String,
}

impl Clock {
    fn put(&mut self, since: Duration, out: &mut Vec<u8>) {
        if self.text.is_empty() || self.second != since.as_secs() {
            self.second = since.as_secs();
            self.text = rfc3339(since);
            self.text.truncate(self.text.find('.').unwrap_or(self.text.len()));
        }
        out.extend_from_slice(self.text.as_bytes());
        let mut micros = *b".000000Z";
        let mut rest = since.subsec_micros();
        for digit in micros[1..7].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        out.extend_from_slice(&micros);
    }
}

/// A digest as it is written.
fn hex(digest: u64) -> [u8; 16] {
    std::array::from_fn(|at| b"0123456789abcdef"[(digest >> (60 - 4 * at)) as usize & 15])
}

#[cfg(test)]
pub(crate) mod tests;
