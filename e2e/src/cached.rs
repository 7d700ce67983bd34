//! Folders that are built once from some files and kept until those change.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use delphinus_sandbox::cache_dir;

/// The folder `<cache>/e2e/<name>-<hash of sources>`, filled by `build` if that has not been done. Two processes that
/// want the same one at the same time build it once. What an older version was built from stays until the cache is
/// removed; it is small.
pub(crate) fn folder(
    name: &str,
    sources: &[PathBuf],
    build: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let root = cache_dir()?.join("e2e");
    fs::create_dir_all(&root)?;
    let dir = root.join(format!("{name}-{:016x}", hash(sources)?));
    let done = dir.join(".done");
    if done.exists() {
        return Ok(dir);
    }
    let lock = File::create(root.join(format!("{name}.lock")))?;
    lock.lock()?;
    if !done.exists() {
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        fs::create_dir_all(&dir)?;
        build(&dir).with_context(|| format!("cannot prepare {name}"))?;
        File::create(&done)?;
    }
    Ok(dir)
}

/// All files below a folder, in a fixed order.
pub(crate) fn files_below(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(files_below(&path)?);
        } else {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn hash(sources: &[PathBuf]) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    for path in sources {
        path.file_name().hash(&mut hasher);
        fs::read(path).with_context(|| format!("cannot read {}", path.display()))?.hash(&mut hasher);
    }
    Ok(hasher.finish())
}
