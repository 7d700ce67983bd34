//! The file of a log: opened anew when it is asked for, moved away when it is large or old enough.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::journal::Rotation;

/// How long a file that cannot be moved away grows before it is tried again.
const PATIENCE: Duration = Duration::from_secs(10);

/// An open log.
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    /// When its first entry came. It outlives the process: a file that is opened anew each hour gets old, too.
    began: SystemTime,
    /// It could not be moved away, and is tried again then.
    grows_until: Option<Instant>,
}

impl LogFile {
    /// Opens the file for appending, and makes it if it is not there: for its owner alone, as it may hold data.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        let found = file.metadata()?;
        // Few file systems do not know when a file was made.
        let began = found.created().or_else(|_| found.modified())?;
        Ok(Self { path: path.to_owned(), file, bytes: found.len(), began, grows_until: None })
    }

    /// Appends whole entries.
    pub(crate) fn append(&mut self, entries: &[u8], syncs: bool) -> io::Result<()> {
        let written = self.file.write_all(entries);
        if written.is_err() {
            self.cut_torn();
        }
        written?;
        if self.bytes == 0 {
            self.began = SystemTime::now();
        }
        self.bytes += entries.len() as u64;
        if syncs { self.file.sync_data() } else { Ok(()) }
    }

    /// Of a torn entry nothing stays: the next one would be read as its end. A file that others have emptied meanwhile is not made longer:
    /// that would be a hole, which reads as zeros.
    fn cut_torn(&self) {
        if self.file.metadata().is_ok_and(|now| now.len() > self.bytes) {
            let _ = self.file.set_len(self.bytes);
        }
    }

    /// True if it is large or old enough to be moved away, and that has not failed a moment ago.
    pub(crate) fn is_full(&self, rotation: &Rotation, now: Instant) -> bool {
        let is_large = rotation.max_bytes > 0 && self.bytes >= rotation.max_bytes;
        let is_old = || self.began.elapsed().is_ok_and(|age| age >= rotation.after);
        self.bytes > 0
            && (is_large || !rotation.after.is_zero() && is_old())
            && self.grows_until.is_none_or(|until| now >= until)
    }

    /// Moves it to `name.1`, what is there to `name.2`, and so on, and begins a new one. The oldest is deleted.
    /// If that fails it is still open. True with the error if that is the first failure of a row.
    pub(crate) fn rotate(&mut self, keep: u32, now: Instant) -> Result<(), (bool, io::Error)> {
        match self.move_away(keep).and_then(|()| Self::open(&self.path)) {
            Ok(file) => *self = file,
            Err(error) => return Err((self.grows_until.replace(now + PATIENCE).is_none(), error)),
        }
        Ok(())
    }

    fn move_away(&self, keep: u32) -> io::Result<()> {
        // Another program has moved it, or this one has and could not begin a new one.
        if !fs::exists(&self.path)? {
            return Ok(());
        }
        if keep == 0 {
            return fs::remove_file(&self.path);
        }
        let place = |number| numbered(&self.path, number);
        // Where one is missing the older ones stay: after attempts that failed half-way no more of them are lost.
        let mut free = 1;
        while free < keep && fs::exists(place(free))? {
            free += 1;
        }
        for number in (1..free).rev() {
            fs::rename(place(number), place(number + 1))?;
        }
        fs::rename(&self.path, place(1))
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
            assert!(file.is_full(&rotation, Instant::now()));
            file.rotate(rotation.keep, Instant::now()).unwrap();
            assert!(!file.is_full(&rotation, Instant::now()));
        }
        let text = |name: &str| fs::read_to_string(folder.join(name)).ok();
        assert_eq!(text("slow.log").as_deref(), Some(""));
        assert_eq!(text("slow.log.1").as_deref(), Some("entry 4, long\n"));
        assert_eq!(text("slow.log.2").as_deref(), Some("entry 3, long\n"));
        assert_eq!(text("slow.log.3"), None);
        fs::remove_dir_all(&folder).unwrap();
    }
    #[test]
    fn a_file_that_cannot_be_moved_away_grows_and_is_tried_again() {
        let folder = std::env::temp_dir().join(format!("delphinus-journal-grows-{}", std::process::id()));
        let path = folder.join("slow.log");
        // A file cannot take the place of a folder.
        fs::create_dir_all(folder.join("slow.log.2/full")).unwrap();
        fs::write(folder.join("slow.log.1"), "old\n").unwrap();
        let mut file = LogFile::open(&path).unwrap();
        let rotation = Rotation { max_bytes: 1, after: Duration::ZERO, keep: 2 };
        let now = Instant::now();
        file.append(b"one\n", false).unwrap();
        assert!(file.rotate(2, now).is_err_and(|(is_first, _)| is_first));
        file.append(b"two\n", false).unwrap();
        assert!(!file.is_full(&rotation, now) && file.is_full(&rotation, now + PATIENCE));
        assert!(file.rotate(2, now + PATIENCE).is_err_and(|(is_first, _)| !is_first));
        fs::remove_dir_all(folder.join("slow.log.2")).unwrap();
        file.rotate(2, now + 2 * PATIENCE).unwrap();
        // Another program was faster: nothing is moved.
        file.append(b"three\n", false).unwrap();
        fs::rename(&path, folder.join("theirs")).unwrap();
        file.rotate(2, now).unwrap();
        // With a gap the older one stays where it is.
        file.append(b"four\n", false).unwrap();
        fs::remove_file(folder.join("slow.log.1")).unwrap();
        file.rotate(2, now).unwrap();
        let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
        assert_eq!(["slow.log.1", "slow.log.2", "theirs"].map(text), ["four\n", "old\n", "three\n"]);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_was_torn_is_cut_and_a_file_that_others_have_emptied_stays_short() {
        let path = std::env::temp_dir().join(format!("delphinus-journal-torn-{}", std::process::id()));
        let mut file = LogFile::open(&path).unwrap();
        file.append(b"one\n", false).unwrap();
        let text = || fs::read_to_string(&path).unwrap();
        fs::write(&path, "one\ntw").unwrap();
        file.cut_torn();
        assert_eq!(text(), "one\n");
        fs::write(&path, "").unwrap();
        file.cut_torn();
        assert_eq!(text(), "");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_gets_old_though_it_is_opened_anew() {
        let folder = std::env::temp_dir().join(format!("delphinus-journal-age-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("slow.log");
        let rotation = Rotation { max_bytes: 0, after: Duration::from_millis(50), keep: 1 };
        LogFile::open(&path).unwrap().append(b"one\n", false).unwrap();
        let made = Instant::now();
        let is_full = || LogFile::open(&path).unwrap().is_full(&rotation, Instant::now());
        while !is_full() {
            assert!(
                made.elapsed() < Duration::from_secs(20),
                "each time that it was opened its age began again"
            );
        }
        // The age of an empty file begins with its first entry.
        let mut file = LogFile::open(&path).unwrap();
        file.rotate(1, Instant::now()).unwrap();
        file.began -= Duration::from_hours(24);
        file.append(b"two\n", false).unwrap();
        assert!(!file.is_full(&Rotation { after: Duration::from_hours(1), ..rotation }, Instant::now()));
        fs::remove_dir_all(&folder).unwrap();
    }
}
