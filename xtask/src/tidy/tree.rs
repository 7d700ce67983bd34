//! The project's text files, read once for all rules.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::rust_file::RustFile;

/// What is made by tools and not committed, or not text of ours.
const NOT_OURS: [&str; 7] = [".git", "target", "corpus", "artifacts", "seeds", "node_modules", "__pycache__"];

/// A text file. Its path is relative to the root, with `/`.
#[derive(Debug)]
pub(crate) struct TextFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// All text files.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) files: Vec<TextFile>,
    pub(crate) rust: Vec<RustFile>,
}

impl Tree {
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut files = Vec::new();
        read_folder(root, "", &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self::new(files))
    }

    fn new(files: Vec<TextFile>) -> Self {
        let sources = files
            .iter()
            .filter(|file| Path::new(&file.path).extension().is_some_and(|ending| ending == "rs"));
        let rust = sources.map(|file| RustFile::new(&file.path, &file.text)).collect();
        Self { files, rust }
    }

    /// The text of one file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }

    /// Rust files below a folder.
    pub(crate) fn rust_below<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a RustFile> {
        self.rust.iter().filter(move |file| {
            file.path.strip_prefix(folder).is_some_and(|rest| folder.is_empty() || rest.starts_with('/'))
        })
    }

    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let file = |&(path, text): &(&str, &str)| TextFile { path: path.to_owned(), text: text.to_owned() };
        Self::new(files.iter().map(file).collect())
    }
}

fn read_folder(folder: &Path, prefix: &str, files: &mut Vec<TextFile>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if entry.file_type()?.is_dir() {
            if !NOT_OURS.contains(&name.as_str()) {
                read_folder(&entry.path(), &format!("{path}/"), files)?;
            }
        } else if let Ok(text) = fs::read_to_string(entry.path()) {
            // What is not UTF-8 is not text.
            files.push(TextFile { path, text });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_not_its_longer_namesake() {
        let tree = Tree::of(&[
            ("crates/net/src/a.rs", ""),
            ("crates/network/src/b.rs", ""),
            ("crates/net/c.md", ""),
        ]);
        let below: Vec<_> = tree.rust_below("crates/net").map(|file| file.path.as_str()).collect();
        assert_eq!(below, ["crates/net/src/a.rs"]);
        assert_eq!(tree.rust_below("").count(), 2);
    }

    #[test]
    fn this_file_is_in_the_tree_and_what_is_built_is_not() {
        let tree = Tree::read(&crate::cargo::root()).unwrap();
        assert!(tree.text("xtask/src/tidy/tree.rs").is_some());
        assert!(tree.files.iter().all(|file| !file.path.starts_with("target/")));
    }
}
