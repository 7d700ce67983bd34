//! What is wrong in a configuration file, where, and what to write instead.

use std::fmt;
use std::ops::Range;

/// One mistake in the file. Its text never contains the value of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Name of the file, as the caller gave it.
    pub file: String,
    /// Line, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
    /// What is wrong.
    pub what: String,
    /// What to write instead.
    pub instead: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, what, instead } = self;
        write!(f, "{file}:{line}:{column}: {what}; {instead}")
    }
}

/// A range of bytes in the text of the file.
pub(crate) type Span = Range<usize>;

/// Collects the mistakes of one file.
pub(crate) struct Mistakes<'a> {
    file: &'a str,
    text: &'a str,
    found: Vec<Mistake>,
    /// Lines that are not TOML: whatever is seen there afterwards only follows from that.
    broken_lines: Vec<usize>,
}

impl<'a> Mistakes<'a> {
    pub(crate) fn new(file: &'a str, text: &'a str) -> Self {
        Self { file, text, found: Vec::new(), broken_lines: Vec::new() }
    }

    /// Adds a mistake at `span`; `instead` completes it, for example `write "replica"`.
    pub(crate) fn push(&mut self, span: &Span, what: impl Into<String>, instead: impl Into<String>) {
        let (line, column) = self.place(span.start);
        if self.broken_lines.contains(&line) {
            return;
        }
        self.found.push(Mistake {
            file: self.file.to_owned(),
            line,
            column,
            what: what.into(),
            instead: instead.into(),
        });
    }

    /// Adds a place where the text is not TOML.
    pub(crate) fn push_syntax(&mut self, span: &Span, what: &str) {
        let is_list = self.text.get(span.start.saturating_sub(2)..span.start) == Some("[[");
        let instead = if what == "duplicate key" && is_list {
            "write it with two brackets each time, or remove one of the two"
        } else if what == "duplicate key" {
            "remove one of the two"
        } else {
            "write name = value in each line, with text in quotes"
        };
        self.push(span, format!("not valid TOML: {what}"), instead);
        let line = self.place(span.start).0;
        self.broken_lines.push(line);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// All mistakes, in the order of the file.
    pub(crate) fn into_sorted(mut self) -> Vec<Mistake> {
        self.found.sort_by_key(|m| (m.line, m.column));
        // A section for all clusters is read for each of them.
        let mut told: Vec<Mistake> = Vec::with_capacity(self.found.len());
        for one in self.found {
            let is_there = |other: &&Mistake| (other.line, other.column) == (one.line, one.column);
            if !told.iter().rev().take_while(is_there).any(|other| *other == one) {
                told.push(one);
            }
        }
        told
    }

    fn place(&self, offset: usize) -> (usize, usize) {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }
}
