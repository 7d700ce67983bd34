//! Where the files are, and what they are called.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Where the files are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In this directory.
    Dir(PathBuf),
    /// In memory, under this number.
    Memory(u32),
}

impl Place {
    /// A new one in memory.
    pub fn memory() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        Self::Memory(NUMBER.fetch_add(1, Ordering::Relaxed))
    }

    /// By what SQLite finds a file.
    pub(crate) fn uri(&self, name: &str) -> String {
        match self {
            Self::Dir(dir) => {
                let path = file(dir, name).display().to_string();
                format!("file:{}", path.replace('%', "%25").replace('?', "%3f").replace('#', "%23"))
            }
            Self::Memory(number) => format!("file:/delphinus-{number}-{name}?vfs=memdb"),
        }
    }

    /// The same for who only reads.
    pub(crate) fn uri_to_read(&self, name: &str) -> String {
        match self {
            Self::Dir(_) => self.uri(name) + "?mode=ro",
            Self::Memory(_) => self.uri(name),
        }
    }

    /// Makes the directory, and the file: for their owner alone. What SQLite makes beside it is the same.
    pub(crate) fn prepare(&self, name: &str) -> io::Result<()> {
        let Self::Dir(dir) = self else { return Ok(()) };
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        OpenOptions::new().create(true).append(true).mode(0o600).open(file(dir, name)).map(drop)
    }

    /// False if the file was there and is not any more.
    pub(crate) fn has(&self, name: &str) -> bool {
        match self {
            Self::Dir(dir) => file(dir, name).exists(),
            Self::Memory(_) => true,
        }
    }

    /// The names of all files that are there.
    pub(crate) fn list(&self) -> Vec<String> {
        let Self::Dir(dir) = self else { return Vec::new() };
        let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
        let name = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
        entries.filter_map(name).filter_map(|name| Some(name.strip_suffix(".sqlite")?.to_owned())).collect()
    }

    /// Removes a file, with what SQLite has beside it.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        let Self::Dir(dir) = self else { return Ok(()) };
        let path = file(dir, name);
        for beside in ["-wal", "-shm"] {
            let _ = fs::remove_file(with(&path, beside));
        }
        fs::remove_file(path)
    }

    /// Moves a file aside, in the place of the one that was moved aside before. Where it is then.
    pub(crate) fn move_aside(&self, name: &str) -> io::Result<PathBuf> {
        let Self::Dir(dir) = self else { return Err(io::ErrorKind::Unsupported.into()) };
        self.remove_damaged();
        let path = file(dir, name);
        let aside = with(&path, DAMAGED);
        fs::rename(&path, &aside)?;
        for beside in ["-wal", "-shm"] {
            let _ = fs::remove_file(with(&path, beside));
        }
        Ok(aside)
    }

    /// Removes what was moved aside.
    pub(crate) fn remove_damaged(&self) {
        let Self::Dir(dir) = self else { return };
        let Ok(entries) = fs::read_dir(dir) else { return };
        for entry in entries.flatten().filter(|entry| entry.file_name().to_string_lossy().ends_with(DAMAGED))
        {
            let _ = fs::remove_file(entry.path());
        }
    }

    /// What all files of the directory take, in bytes; of memory it is not known here.
    pub(crate) fn bytes(&self) -> u64 {
        let Self::Dir(dir) = self else { return 0 };
        let Ok(entries) = fs::read_dir(dir) else { return 0 };
        entries.flatten().filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
    }
}

/// The end of the name of what was moved aside.
const DAMAGED: &str = ".damaged";

fn file(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.sqlite"))
}

fn with(path: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(end);
    name.into()
}

/// Seconds of a day.
pub(crate) const DAY: i64 = 86_400;

/// The name of the file with the samples of this day, counted from 1970.
pub(crate) fn day_name(day: i64) -> String {
    format!("raw-{}", &date_time(day * DAY)[..10])
}

/// The day of a file with samples.
pub(crate) fn day_of(name: &str) -> Option<i64> {
    let mut parts = name.strip_prefix("raw-")?.splitn(3, '-').map(str::parse::<i64>);
    let (year, month, day) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    // There are about so many days before; the name says which.
    let about = (year - 1970) * 365 + (year - 1_969) / 4 + (month - 1) * 30 + day - 1;
    ((about - 40).max(0)..about + 40).find(|day| day_name(*day) == name)
}

/// A moment, UTC, to the second.
pub(crate) fn date_time(at: i64) -> String {
    delphinus_telemetry::date_time(Duration::from_secs(at.max(0).cast_unsigned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_names_and_names_days() {
        for day in (0..60_000).step_by(7).chain([19_782, 20_000, 20_783]) {
            assert_eq!(day_of(&day_name(day)), Some(day), "{}", day_name(day));
        }
        for name in ["raw-", "raw-2026-13-01", "raw-2026-02-30", "minutes", "raw-x-1-1", "raw-2026-1-1"] {
            assert_eq!(day_of(name), None, "{name}");
        }
    }
}
