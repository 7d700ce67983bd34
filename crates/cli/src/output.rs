//! Writes the answer of a command to standard output.

use std::io::{self, Write};

use anyhow::Context;

/// Writes `text`. A reader that has seen enough (`delphinus config reference | head`) is no failure.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    print_on(text).map(|_| ())
}

/// The same where more will follow; false if the reader has seen enough.
pub(crate) fn print_on(text: &str) -> anyhow::Result<bool> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true).context("standard output cannot be written"),
    }
}
