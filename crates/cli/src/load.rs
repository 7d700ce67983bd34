//! Reads a configuration file of the operating system, with the variables and files it refers to.

use std::io;
use std::path::Path;

use anyhow::Context;
use delphinus_config::{Config, Environment, Mistake, parse};

/// The variables of this process and the files of this machine.
struct ThisMachine;

impl Environment for ThisMachine {
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn read_file(&self, path: &Path) -> io::Result<String> {
        std::fs::read_to_string(path)
    }
}

/// The configuration in a file, or all mistakes in it. An error if the file cannot be read at all.
pub(crate) fn load(file: &Path) -> anyhow::Result<Result<Config, Vec<Mistake>>> {
    let bytes = std::fs::read(file).with_context(|| format!("{} cannot be read", file.display()))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()].split(|byte| *byte == b'\n').count();
        anyhow::anyhow!("{}:{line}: not UTF-8; save the file as UTF-8", file.display())
    })?;
    Ok(parse(&text, &file.to_string_lossy(), &ThisMachine))
}

/// Prints mistakes to standard error, one in each line, and how many there are.
pub(crate) fn print_mistakes(file: &Path, mistakes: &[Mistake]) {
    for mistake in mistakes {
        eprintln!("{mistake}");
    }
    let noun = if mistakes.len() == 1 { "mistake" } else { "mistakes" };
    eprintln!("{}: {} {noun}", file.display(), mistakes.len());
}
