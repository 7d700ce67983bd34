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

/// What stands for a secret that this process cannot have.
pub(crate) const NOT_HERE: &str = "-----BEGIN NOT HERE-----";

/// The same for somebody who does not run the proxy: secrets that only the proxy can have do not matter.
struct Visitor;

impl Environment for Visitor {
    fn variable(&self, name: &str) -> Option<String> {
        Some(ThisMachine.variable(name).unwrap_or_else(|| NOT_HERE.to_owned()))
    }

    fn read_file(&self, path: &Path) -> io::Result<String> {
        Ok(ThisMachine.read_file(path).unwrap_or_else(|_| NOT_HERE.to_owned()))
    }
}

/// The configuration in a file, or all mistakes in it. An error if the file cannot be read at all.
pub(crate) fn load(file: &Path) -> anyhow::Result<Result<Config, Vec<Mistake>>> {
    load_with(file, &ThisMachine)
}

/// The same where secrets need not be there: they are `NOT_HERE` then.
pub(crate) fn load_as_visitor(file: &Path) -> anyhow::Result<Result<Config, Vec<Mistake>>> {
    load_with(file, &Visitor)
}

fn load_with(file: &Path, environment: &dyn Environment) -> anyhow::Result<Result<Config, Vec<Mistake>>> {
    let bytes = std::fs::read(file).with_context(|| format!("{} cannot be read", file.display()))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let line = error.as_bytes()[..error.utf8_error().valid_up_to()].split(|byte| *byte == b'\n').count();
        anyhow::anyhow!("{}:{line}: not UTF-8; save the file as UTF-8", file.display())
    })?;
    Ok(parse(&text, &file.to_string_lossy(), environment))
}

/// Prints mistakes to standard error, one in each line, and how many there are.
pub(crate) fn print_mistakes(file: &Path, mistakes: &[Mistake]) {
    for mistake in mistakes {
        eprintln!("{mistake}");
    }
    let noun = if mistakes.len() == 1 { "mistake" } else { "mistakes" };
    eprintln!("{}: {} {noun}", file.display(), mistakes.len());
}
