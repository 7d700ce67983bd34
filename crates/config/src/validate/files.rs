//! Files that the proxy writes: each has one writer. A log cuts off what a torn write has left at its end, and with that what another one has
//! written behind.

use std::path::{Component, Path, PathBuf};

use super::Check;
use crate::mistake::Span;
use crate::parse::WrittenFile;

/// What the proxy has in `data_dir`.
const IN_DATA_DIR: [&str; 2] = ["activity", "config-history"];

impl Check<'_, '_> {
    /// No log is another one, nor what another one's file is called when it is moved away.
    pub(super) fn log_files(&mut self, file: &WrittenFile) {
        let slow = file.slow_log.as_ref().and_then(|log| Some((log.value.file.as_ref()?, log.at("file"))));
        let sql = file.sql_log.as_ref().and_then(|log| Some((log.value.file.as_ref()?, log.at("file"))));
        let own = file.log.as_ref().and_then(|log| Some((log.value.file.as_ref()?, log.at("file"))));
        let all = [("slow_log", slow), ("sql_log", sql), ("log", own)];
        let all: Vec<(&str, PathBuf, &Span)> = all
            .into_iter()
            .filter_map(|(name, log)| log.map(|(path, at)| (name, plain(&self.resolve(path)), at)))
            .collect();
        for (index, (name, path, at)) in all.iter().enumerate() {
            let shares = |(_, other, _): &&(&str, PathBuf, &Span)| {
                path == other || is_older(path, other) || is_older(other, path)
            };
            if let Some((other, ..)) = all[..index].iter().find(shares) {
                let what =
                    format!("{name}.file = {:?} is a file of [{other}], too", path.display().to_string());
                self.mistakes.push(at, what, format!("write another file than that of [{other}]"));
            }
        }
    }

    /// No relay writes where the proxy keeps something else, or another relay writes.
    pub(super) fn relay_folders(&mut self, file: &WrittenFile) {
        let data_dir = file.proxy.as_ref().and_then(|proxy| proxy.value.data_dir.as_ref());
        let taken: Vec<PathBuf> = data_dir
            .map(|dir| IN_DATA_DIR.map(|name| plain(&self.resolve(dir).join(name))).to_vec())
            .unwrap_or_default();
        let folder = |row: &crate::schema::RelaySection| plain(&self.directory.join(&row.folder));
        let folders: Vec<_> = file.relays.iter().map(|relay| folder(&relay.section.value)).collect();
        for (index, (relay, own)) in file.relays.iter().zip(&folders).enumerate() {
            let shown = own.display().to_string();
            let at = relay.section.at("folder");
            if folders[..index].contains(own) {
                let what = format!("folder {shown:?} is there twice");
                self.mistakes.push(at, what, "write another folder, or remove one of the two");
            } else if taken.contains(own) {
                let what = format!("folder {shown:?} is one that the proxy keeps its own files in");
                self.mistakes.push(at, what, "write a folder for this relay alone");
            }
        }
    }
}

/// Without `.`, so that two ways to write a path are one.
fn plain(path: &Path) -> PathBuf {
    path.components().filter(|part| *part != Component::CurDir).collect()
}

/// True if a file of a log is called so after it was moved away.
fn is_older(log: &Path, other: &Path) -> bool {
    let rest =
        other.to_str().zip(log.to_str()).and_then(|(other, log)| other.strip_prefix(log)?.strip_prefix('.'));
    rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|one| one.is_ascii_digit()))
}
