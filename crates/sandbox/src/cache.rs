//! Where the sandbox keeps what is worth keeping between runs: the MySQL prefix and the templates.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The cache folder: `$DELPHINUS_CACHE`, else `$XDG_CACHE_HOME/delphinus`, else `~/.cache/delphinus`.
/// It is created when it is not there.
pub fn cache_dir() -> Result<PathBuf> {
    let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let dir = from("DELPHINUS_CACHE")
        .or_else(|| from("XDG_CACHE_HOME").map(|dir| dir.join("delphinus")))
        .or_else(|| from("HOME").map(|dir| dir.join(".cache/delphinus")))
        .context("no place for the cache: set DELPHINUS_CACHE to a folder")?;
    fs::create_dir_all(&dir).with_context(|| format!("cannot make the cache folder {}", dir.display()))?;
    // Server wrappers and configuration files hold absolute paths.
    fs::canonicalize(&dir).with_context(|| format!("cannot use {}", dir.display()))
}

/// Waits until no other process holds the lock `name` in `dir`. It ends when the file is dropped,
/// and with the process, however that ends.
pub(crate) fn lock(dir: &Path, name: &str) -> Result<File> {
    let path = dir.join(name);
    let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
    Ok(file)
}
