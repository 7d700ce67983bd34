//! A part of a page that a program writes, between two marks.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

const END: &str = "<!-- end -->\n";

/// Puts a text between the marks of a page: those of `cargo xtask bench --only WHAT --docs`.
pub fn write_marked(file: &Path, what: &str, text: &str) -> Result<()> {
    let page = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let begin = format!("<!-- Written by `cargo xtask bench --only {what} --docs`: begin -->\n");
    let (before, rest) = page.split_once(&begin).with_context(|| format!("the page has no mark {begin}"))?;
    let (_, after) = rest.split_once(END).context("the page has no mark for the end")?;
    fs::write(file, format!("{before}{begin}\n{text}\n{END}{after}"))?;
    Ok(())
}
