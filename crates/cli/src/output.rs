//! Writes the answer of a command to standard output.

use std::io::{self, Write};

use anyhow::Context;

/// Writes `text`. A reader that has seen enough (`delphinus config reference | head`) is no failure.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("standard output cannot be written"),
    }
}
