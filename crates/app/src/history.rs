//! The changes of the configuration in `data_dir`, so that `CONFIG HISTORY` and `CONFIG ROLLBACK` reach beyond a restart.
//!
//! `config-history` has a file for each change, named by its number. Its first line is the SHA-256 of the rest: what the proxy was
//! told of the change, then the whole text. A file that does not fit its hash is left out, and the log says so. The texts may hold passwords: only
//! the proxy's system user can read them. No failure here harms the proxy: the change holds, and is in memory.

use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};

use crate::texts::{Kept, MOST, MOST_BYTES};

/// What stands before the text takes less than this.
const MOST_HEAD: u64 = 64 << 10;

/// Where the changes are kept.
#[derive(Debug, Clone)]
pub(crate) struct History {
    dir: PathBuf,
}

impl History {
    pub(crate) fn new(data_dir: &Path) -> Self {
        Self { dir: data_dir.join("config-history") }
    }

    /// The newest changes of earlier starts, as many as are kept, and the number of the next one.
    pub(crate) fn load(&self) -> (Vec<Kept>, u64) {
        let mut numbers = match self.numbers() {
            Ok(numbers) => numbers,
            Err(error) => {
                let dir = self.dir.display();
                tracing::warn!(%dir, %error, "CONFIG HISTORY has nothing of earlier starts: the directory cannot be read");
                Vec::new()
            }
        };
        numbers.sort_unstable();
        let next = numbers.last().map_or(0, |last| last + 1);
        let (mut kept, mut bytes) = (Vec::new(), 0);
        for number in numbers.into_iter().rev().take(MOST) {
            match self.read(number) {
                Ok(one) => {
                    bytes += one.text.len();
                    if bytes > MOST_BYTES && !kept.is_empty() {
                        break;
                    }
                    kept.push(one);
                }
                Err(error) => {
                    let file = self.file(number);
                    tracing::warn!(file = %file.display(), %error, "CONFIG HISTORY leaves a change out: its file cannot be used");
                }
            }
        }
        kept.reverse();
        (kept, next)
    }

    /// Keeps these changes, and removes those that are older than all that are kept.
    pub(crate) fn store(&self, changes: &[Kept], oldest: u64) -> io::Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        // First the room: a full disk gets some that way.
        for number in self.numbers()?.into_iter().filter(|number| *number < oldest) {
            fs::remove_file(self.file(number))?;
        }
        for change in changes {
            self.write(change)?;
        }
        File::open(&self.dir)?.sync_all()
    }

    /// Whole or not at all.
    fn write(&self, change: &Kept) -> io::Result<()> {
        let new = self.dir.join("new");
        let write = || {
            let mut file =
                OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
            // The mode counts only for a file that was not there.
            file.set_permissions(fs::Permissions::from_mode(0o600))?;
            file.write_all(encode(change).as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, self.file(change.number))
        };
        write().inspect_err(|_| _ = fs::remove_file(&new))
    }

    fn read(&self, number: u64) -> io::Result<Kept> {
        let path = self.file(number);
        if fs::metadata(&path)?.len() > MOST_BYTES as u64 + MOST_HEAD {
            return Err(io::Error::other("it is larger than a configuration can be"));
        }
        let text = fs::read_to_string(path)?;
        decode(&text)
            .filter(|kept| kept.number == number)
            .ok_or_else(|| io::Error::other("its content does not fit its hash"))
    }

    fn numbers(&self) -> io::Result<Vec<u64>> {
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        // Nothing else in the directory is of the proxy.
        let number =
            |name: &str| name.strip_suffix(".toml")?.parse().ok().filter(|number| name == file_name(*number));
        let names = entries.map(|entry| Ok(entry?.file_name()));
        let names: io::Result<Vec<_>> = names.collect();
        Ok(names?.iter().filter_map(|name| number(name.to_str()?)).collect())
    }

    fn file(&self, number: u64) -> PathBuf {
        self.dir.join(file_name(number))
    }
}

fn file_name(number: u64) -> String {
    format!("{number:010}.toml")
}

/// The hash, what is known of the change, and the text: all but the text are comments of TOML.
fn encode(change: &Kept) -> String {
    let Kept { number, at, by, what, changes, text } = change;
    let ms = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
    let line = |text: &str| text.replace(char::is_control, " ");
    let head = format!(
        "# number {number}\n# unix_ms {ms}\n# changes {changes}\n# by {}\n# what {}\n",
        line(by),
        line(what)
    );
    let body = format!("{head}{text}");
    format!("# sha256 {}\n{body}", hash(&body))
}

/// `None`: it is damaged, or something else.
fn decode(file: &str) -> Option<Kept> {
    let (first, body) = file.split_once('\n')?;
    if first.strip_prefix("# sha256 ")? != hash(body) {
        return None;
    }
    let mut rest = body;
    let mut line = |name: &str| {
        let (line, behind) = rest.split_once('\n')?;
        rest = behind;
        line.strip_prefix("# ")?.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned)
    };
    let number = line("number")?.parse().ok()?;
    let ms = line("unix_ms")?.parse().ok()?;
    let changes = line("changes")?.parse().ok()?;
    let (by, what) = (line("by")?, line("what")?);
    let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(ms))?;
    Some(Kept { number, at, by, what, changes, text: rest.into() })
}

fn hash(body: &str) -> String {
    Sha256::digest(body).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("delphinus-history-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&dir);
            Self(dir)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn change(number: u64, text: &str) -> Kept {
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123 + number);
        let (by, what) = ("ops@::1".to_owned(), "SET a = 1".to_owned());
        Kept { number, at, by, what, changes: 2, text: text.into() }
    }

    #[test]
    fn changes_come_back_as_they_were() {
        let folder = Folder::new("back");
        let history = History::new(&folder.0);
        assert_eq!(history.load(), (Vec::new(), 0));
        let all = [change(0, "a = 1\n"), change(1, "# no line end"), change(2, "")];
        history.store(&all, 0).unwrap();
        assert_eq!(History::new(&folder.0).load(), (all.to_vec(), 3));
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&history.dir), mode(&history.file(0))), (0o700, 0o600));
        // Those that are too old go.
        history.store(&[change(3, "d")], 2).unwrap();
        assert_eq!(history.load(), (vec![change(2, ""), change(3, "d")], 4));
        let names = fs::read_dir(&history.dir).unwrap().count();
        assert_eq!(names, 2, "nothing else is left");
    }

    #[test]
    fn a_damaged_file_is_left_out_and_its_number_is_not_used_again() {
        let folder = Folder::new("damaged");
        let history = History::new(&folder.0);
        history.store(&[change(0, "good"), change(1, "bad"), change(2, "cut")], 0).unwrap();
        for (number, from, to) in [(1, "bad", "BAD"), (2, "cut", "cu")] {
            let text = fs::read_to_string(history.file(number)).unwrap();
            fs::write(history.file(number), text.replace(from, to)).unwrap();
        }
        // One under another number is none, either.
        fs::copy(history.file(0), history.file(3)).unwrap();
        for name in ["notes.txt", "7.toml"] {
            fs::write(history.dir.join(name), "of somebody else").unwrap();
        }
        assert_eq!(history.load(), (vec![change(0, "good")], 4));
    }

    #[test]
    fn as_many_are_read_as_are_kept() {
        let folder = Folder::new("many");
        let history = History::new(&folder.0);
        let all: Vec<_> = (0..MOST as u64 + 10).map(|number| change(number, "x")).collect();
        history.store(&all, 0).unwrap();
        let (kept, next) = history.load();
        assert_eq!((kept.len(), kept[0].number, next), (MOST, 10, MOST as u64 + 10));
        let large = "y".repeat(MOST_BYTES / 2 + 1);
        history.store(&[change(100, &large), change(101, &large)], 0).unwrap();
        assert_eq!(history.load().0, [change(101, &large)]);
    }

    #[test]
    fn a_disk_that_cannot_be_written_is_an_error_and_no_more() {
        let folder = Folder::new("none");
        fs::write(&folder.0, "a file in the place of the directory").unwrap();
        let history = History::new(&folder.0);
        assert!(history.store(&[change(0, "a")], 0).is_err());
        assert_eq!(history.load(), (Vec::new(), 0));
        fs::remove_file(&folder.0).unwrap();
    }
}
