//! What a configuration may refer to outside its own text. The implementation that asks the
//! operating system belongs to the caller.

use std::io;
use std::path::Path;

/// Reads what a configuration refers to: variables and files.
pub trait Environment {
    /// The value of an environment variable, `None` if it is not set (or is not UTF-8).
    fn variable(&self, name: &str) -> Option<String>;

    /// The content of a small text file. Relative paths have been resolved already.
    fn read_file(&self, path: &Path) -> io::Result<String>;
}

/// No variable is set and no file exists: for texts that refer to nothing outside.
#[derive(Debug, Clone, Copy)]
pub struct NoEnvironment;

impl Environment for NoEnvironment {
    fn variable(&self, _: &str) -> Option<String> {
        None
    }

    fn read_file(&self, path: &Path) -> io::Result<String> {
        Err(io::Error::new(io::ErrorKind::NotFound, path.display().to_string()))
    }
}
