//! What outlives the process: which replicas were there, and up to which file the archive is. Two small files in the relay's folder.
//!
//! Files are named by folder and name: ordinals are a process's own.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::memory::Memory;
use crate::log::{Log, LogFile, sync_folder};

const REPLICAS: &str = "replicas.toml";
const ARCHIVED: &str = "archived.toml";
/// When a replica was there last, and the relay itself, is written down in steps of so many seconds.
const PACE_S: u64 = 60;

/// A file, by what it is called on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileName {
    /// The number of its folder.
    folder: u32,
    file: String,
}

impl FileName {
    pub(crate) fn of(file: &LogFile) -> Self {
        Self { folder: file.folder.number, file: file.name.to_string() }
    }

    /// True if this file is behind the one of this name.
    fn is_before(&self, file: &LogFile) -> bool {
        let number = |name: &str| name.rsplit_once('.').and_then(|(_, digits)| digits.parse::<u64>().ok());
        (self.folder, number(&self.file)) < (file.folder.number, number(&file.name))
    }

    /// The ordinal of the first file behind it.
    fn next_in(&self, log: &Log) -> u32 {
        log.files().iter().find(|file| self.is_before(file)).map_or(log.next_ordinal(), |file| file.ordinal)
    }
}

#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Replicas {
    /// When the relay itself was there last.
    #[serde(default)]
    alive_s: Option<u64>,
    #[serde(default)]
    replica: Vec<Row>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Row {
    key: String,
    name: String,
    /// The newest file of those that it has; none: it may lack all.
    has: Option<FileName>,
    seen_s: u64,
}

/// The replicas that were there before, into `memory`. The time that the relay itself was away does not count: no replica could come
/// meanwhile. All other time does, however often the relay starts. What cannot be read is one replica that lacks everything: it is
/// forgotten in its time, and until then nothing goes.
pub(crate) fn recall(log: &Log, memory: &mut Memory, now_s: u64) -> io::Result<()> {
    let path = log.root().join(REPLICAS);
    let read = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => Err(error),
        Ok(text) => toml::from_str::<Replicas>(&text).map_err(io::Error::other),
    };
    match read {
        Ok(replicas) => {
            // A file of before this was written: then it was there when a replica was.
            let last_s = || replicas.replica.iter().map(|row| row.seen_s).max().unwrap_or_default();
            let away_s = now_s.saturating_sub(replicas.alive_s.unwrap_or_else(last_s));
            for row in replicas.replica {
                let first = row.has.map_or(0, |has| has.next_in(log));
                memory.recall(row.key, row.name, (first, row.seen_s.saturating_add(away_s)));
            }
            Ok(())
        }
        Err(error) => {
            memory.recall(String::new(), format!("of {REPLICAS}, which cannot be read,"), (0, now_s));
            Err(error)
        }
    }
}

/// What is written of the replicas that may come again.
pub(crate) fn text_of(log: &Log, memory: &Memory, now_s: u64) -> io::Result<String> {
    // Not written anew each second.
    let stepped = |time_s: u64| time_s - time_s % PACE_S;
    let row = |(key, known): (&String, &super::memory::Known)| Row {
        key: key.clone(),
        name: known.name.clone(),
        // Files that are gone are not named: those that are left are all behind them.
        has: known.first.checked_sub(1).and_then(|last| log.file(last)).map(|file| FileName::of(&file)),
        seen_s: stepped(known.seen_s),
    };
    let replica: Vec<_> = memory.lasting().map(row).collect();
    let alive_s = (!replica.is_empty()).then(|| stepped(now_s));
    toml::to_string(&Replicas { alive_s, replica }).map_err(io::Error::other)
}

/// Writes it down.
pub(crate) fn remember(log: &Log, text: &str) -> io::Result<()> {
    write(log.root(), REPLICAS, text)
}

/// The ordinal of the first file that was not archived.
pub(crate) fn first_unarchived(log: &Log) -> io::Result<u32> {
    match fs::read_to_string(log.root().join(ARCHIVED)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        text => {
            let name: FileName = toml::from_str(&text?).map_err(io::Error::other)?;
            Ok(name.next_in(log))
        }
    }
}

/// This file, and all before it, were archived.
pub(crate) fn note_archived(log: &Log, file: &LogFile) -> io::Result<()> {
    let text = toml::to_string(&FileName::of(file)).map_err(io::Error::other)?;
    write(log.root(), ARCHIVED, &text)
}

fn write(root: &Path, name: &str, text: &str) -> io::Result<()> {
    let new = root.join(format!("{name}.new"));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, root.join(name))?;
    sync_folder(root)
}
