//! The file of a log: opened anew when it is asked for, moved away when it is large or old enough.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::journal::Rotation;

/// An open log.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    opened: Instant,
}

impl LogFile {
    /// Opens the file for appending, and makes it if it is not there: for its owner alone, as it may hold data.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, bytes, opened: Instant::now() })
    }

    /// Appends whole entries.
    pub(crate) fn append(&mut self, entries: &[u8], syncs: bool) -> io::Result<()> {
        let written = self.file.write_all(entries);
        if written.is_err() {
            // Of a torn entry nothing stays: the next one would be read as its end.
            let _ = self.file.set_len(self.bytes);
        }
        written?;
        self.bytes += entries.len() as u64;
        if syncs { self.file.sync_data() } else { Ok(()) }
    }

    /// True if it is large or old enough to be moved away.
    pub(crate) fn is_full(&self, rotation: &Rotation) -> bool {
        let is_large = rotation.max_bytes > 0 && self.bytes >= rotation.max_bytes;
        let is_old = !rotation.after.is_zero() && self.opened.elapsed() >= rotation.after;
        self.bytes > 0 && (is_large || is_old)
    }

    /// Moves it to `name.1`, what is there to `name.2`, and so on, and begins a new one. The oldest is deleted.
    pub(crate) fn rotate(&mut self, keep: u32) -> io::Result<()> {
        for number in (1..keep).rev() {
            match fs::rename(numbered(&self.path, number), numbered(&self.path, number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        match keep {
            0 => fs::remove_file(&self.path)?,
            _ => fs::rename(&self.path, numbered(&self.path, 1))?,
        }
        *self = Self::open(&self.path)?;
        Ok(())
    }
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".{number}"));
    name.into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use super::*;

    #[test]
    fn files_are_moved_away_and_the_oldest_goes() {
        let folder = std::env::temp_dir().join(format!("delphinus-journal-file-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("slow.log");
        let mut file = LogFile::open(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let rotation = Rotation { max_bytes: 10, after: Duration::ZERO, keep: 2 };
        for n in 0..5 {
            file.append(format!("entry {n}, long\n").as_bytes(), n == 0).unwrap();
            assert!(file.is_full(&rotation));
            file.rotate(rotation.keep).unwrap();
            assert!(!file.is_full(&rotation));
        }
        let text = |name: &str| fs::read_to_string(folder.join(name)).ok();
        assert_eq!(text("slow.log").as_deref(), Some(""));
        assert_eq!(text("slow.log.1").as_deref(), Some("entry 4, long\n"));
        assert_eq!(text("slow.log.2").as_deref(), Some("entry 3, long\n"));
        assert_eq!(text("slow.log.3"), None);
        fs::remove_dir_all(&folder).unwrap();
    }
}
