//! White space and comments, and the comments that a server runs.
//!
//! Owns: what lies between tokens.

use super::{Lexer, Versioned};
use crate::hints::{is_like_hint, names_proxy};
use crate::options::Flavor;

/// MariaDB ignores version comments for these versions of MySQL, unless they are `/*M!`.
const MYSQL_ONLY: std::ops::RangeInclusive<u32> = 50_700..=99_999;

impl Lexer<'_> {
    /// Moves to the next token. `Err` holds where a comment begins that never ends.
    pub(super) fn skip_blanks(&mut self) -> Result<(), usize> {
        loop {
            match self.byte(self.at) {
                b' ' | b'\t'..=b'\r' => self.at += 1,
                b'#' => self.skip_line(),
                b'-' if self.byte(self.at + 1) == b'-' && self.is_blank_or_control(self.at + 2) => {
                    self.skip_line();
                }
                b'/' if self.byte(self.at + 1) == b'*' => self.skip_comment()?,
                b'*' if self.flags.place.in_version_comment && self.byte(self.at + 1) == b'/' => {
                    self.flags.place.in_version_comment = false;
                    self.at += 2;
                }
                _ => return Ok(()),
            }
        }
    }

    /// The byte after `--` that makes it a comment; the end of the text counts.
    fn is_blank_or_control(&self, at: usize) -> bool {
        matches!(self.byte(at), 0..=b' ' | 0x7f)
    }

    /// To the end of the line. A NUL byte ends the comment too, and is then an error of its own.
    fn skip_line(&mut self) {
        let rest = &self.sql[self.at..];
        let len = memchr::memchr2(b'\n', 0, rest).unwrap_or(rest.len());
        self.at += len;
    }

    fn skip_comment(&mut self) -> Result<(), usize> {
        let start = self.at;
        match (self.byte(start + 2), self.byte(start + 3)) {
            (b'!', _) => self.version_comment(start, start + 3, Marker::Both),
            (b'M', b'!') if self.options.flavor == Flavor::MariaDb => {
                self.version_comment(start, start + 4, Marker::MariaDbOnly)
            }
            (b'M', b'!') => {
                // No version of MySQL runs it.
                self.flags.comments.version = self.flags.comments.version.max(Versioned::Run);
                self.skip_to_close(start, start + 2)
            }
            (b'+', _) => self.skip_hints(start),
            _ => self.skip_to_close(start, start + 2),
        }
    }

    fn skip_to_close(&mut self, start: usize, from: usize) -> Result<(), usize> {
        match self.close_after(from) {
            Some(end) => {
                self.flags.comments.hint |= is_like_hint(&self.sql[from..(end - 2).max(from)]);
                self.at = end;
                Ok(())
            }
            None => self.unterminated(start),
        }
    }

    fn unterminated(&mut self, start: usize) -> Result<(), usize> {
        self.at = self.sql.len();
        Err(start)
    }

    /// The offset after the first `*/` at or after `from`.
    fn close_after(&self, from: usize) -> Option<usize> {
        let rest = self.sql.get(from..)?;
        memchr::memmem::find(rest, b"*/").map(|at| from + at + 2)
    }

    /// Optimizer hints are a comment here. Servers read quotes in them: where that moves the end, the end is in doubt.
    fn skip_hints(&mut self, start: usize) -> Result<(), usize> {
        let Some(end) = self.close_after(start + 3) else { return self.unterminated(start) };
        let hints = &self.sql[start..end];
        let is_balanced = [b'`', b'"', b'\'']
            .iter()
            .all(|quote| memchr::memchr_iter(*quote, hints).count().is_multiple_of(2));
        self.flags.doubtful |= !is_balanced;
        self.flags.comments.hint |= memchr::memmem::find(hints, b"(").is_some() && names_proxy(hints);
        self.at = end;
        Ok(())
    }

    /// `/*!80000 ..`: the body is SQL when the server is at least that version, and when no version is given.
    fn version_comment(&mut self, start: usize, digits: usize, marker: Marker) -> Result<(), usize> {
        self.flags.comments.version = self.flags.comments.version.max(Versioned::Run);
        let version_digits = self.version_digits(digits);
        if version_digits < 5 {
            self.enter_version_comment(digits);
            return Ok(());
        }
        let body = digits + version_digits;
        let version = self.sql[digits..body].iter().fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
        if self.runs(version, marker) {
            self.enter_version_comment(body);
            return Ok(());
        }
        if !self.is_for_mysql_only(version, marker) {
            self.flags.comments.version = Versioned::Skipped;
        }
        self.skip_unused_version_comment(start, body)
    }

    /// How many digits at `from` are the version: five or six. MySQL 8 takes a sixth only before white space.
    fn version_digits(&self, from: usize) -> usize {
        let digits =
            self.sql[from.min(self.sql.len())..].iter().take(6).take_while(|byte| byte.is_ascii_digit());
        let count = digits.count();
        let options = self.options;
        let is_strict = options.flavor == Flavor::MySql && options.server_version >= 80_000;
        if count == 6 && is_strict && !matches!(self.byte(from + 6), b' ' | b'\t'..=b'\r') {
            5
        } else {
            count
        }
    }

    /// True if no version of this `MariaDB` runs it.
    fn is_for_mysql_only(&self, version: u32, marker: Marker) -> bool {
        self.options.flavor == Flavor::MariaDb && marker == Marker::Both && MYSQL_ONLY.contains(&version)
    }

    fn runs(&self, version: u32, marker: Marker) -> bool {
        version <= self.options.server_version && !self.is_for_mysql_only(version, marker)
    }

    fn enter_version_comment(&mut self, body: usize) {
        // Servers do not nest these; the first `*/` ends the outer one.
        self.flags.doubtful |= self.flags.place.in_version_comment;
        self.flags.place.in_version_comment = true;
        self.at = body;
    }

    /// A version comment that is not run may hold plain comments, one level deep.
    fn skip_unused_version_comment(&mut self, start: usize, body: usize) -> Result<(), usize> {
        let mut at = body;
        loop {
            let Some(close) = self.close_after(at) else { return self.unterminated(start) };
            let Some(inner) = memchr::memmem::find(&self.sql[at..close], b"/*") else {
                self.at = close;
                return Ok(());
            };
            // `/*/` opens and does not close: the search for the inner end starts behind it.
            let Some(end) = self.close_after(at + inner + 2) else { return self.unterminated(start) };
            at = end;
        }
    }
}

/// Which servers a version comment is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Marker {
    /// `/*!`
    Both,
    /// `/*M!`
    MariaDbOnly,
}
