//! What others choose (names of users and schemas, addresses, errors of servers) makes no lines of its own in the log, no
//! sequences that a terminal obeys, and no lines without end.

use std::fmt::{self, Write};
use std::io;

use serde_json::Value;
use tracing::field::Field;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

/// The longest value in a line of text, in bytes, before what is escaped.
const MOST_OF_VALUE: usize = 2048;
/// A longer line of JSON is cut in its values, in bytes.
const MOST_OF_JSON: usize = 8192;
/// The longest value then.
const MOST_OF_JSON_VALUE: usize = 1024;

/// Writes a field of a line of text.
pub(super) fn field(writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    if field.name() != "message" {
        write!(writer, "{}=", field.name())?;
    }
    let mut out = Escaping { writer, left: MOST_OF_VALUE };
    write!(out, "{value:?}")
}

/// Passes text on: escapes what is no plain character, and stops at a limit.
struct Escaping<'a, 'w> {
    writer: &'a mut Writer<'w>,
    left: usize,
}

impl Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            if self.left == 0 {
                return Ok(());
            }
            self.left = self.left.saturating_sub(character.len_utf8());
            match character {
                '\n' | '\r' | '\t' => write!(self.writer, "{}", character.escape_default())?,
                other if is_unseen(other) => write!(self.writer, "{}", other.escape_unicode())?,
                other => self.writer.write_char(other)?,
            }
            if self.left == 0 {
                self.writer.write_str("...")?;
            }
        }
        Ok(())
    }
}

/// Control characters, what ends a line elsewhere, and what turns the direction of the text around.
fn is_unseen(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A writer of lines of JSON, which escapes by itself.
pub(super) struct Bounded(pub(super) BoxMakeWriter);

impl<'a> MakeWriter<'a> for Bounded {
    type Writer = BoundedLine<<BoxMakeWriter as MakeWriter<'a>>::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        BoundedLine(self.0.make_writer())
    }
}

/// Writes one line.
pub(super) struct BoundedLine<W>(W);

impl<W: io::Write> io::Write for BoundedLine<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let is_short = line.len() <= MOST_OF_JSON;
        if is_short && line.iter().all(|byte| byte.is_ascii() && *byte != DELETE) {
            return self.0.write(line);
        }
        let text = String::from_utf8_lossy(line);
        let text = if is_short { text.into_owned() } else { shortened(&text) };
        self.0.write_all(escaped(&text).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

const DELETE: u8 = 0x7f;

fn shortened(line: &str) -> String {
    let Ok(mut value) = serde_json::from_str::<Value>(line) else { return String::new() };
    if let Value::Object(fields) = &mut value {
        for text in fields.values_mut() {
            if let Value::String(text) = text {
                cut(text);
            }
        }
    }
    format!("{value}\n")
}

/// JSON leaves some of these as they are; the end of the line is the only one that has to stay.
fn escaped(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    for character in line.chars() {
        if is_unseen(character) && character != '\n' {
            let _ = write!(out, "\\u{:04x}", u32::from(character));
        } else {
            out.push(character);
        }
    }
    out
}

fn cut(text: &mut String) {
    if text.len() > MOST_OF_JSON_VALUE {
        let end = text.floor_char_boundary(MOST_OF_JSON_VALUE);
        text.truncate(end);
        text.push_str("...");
    }
}
