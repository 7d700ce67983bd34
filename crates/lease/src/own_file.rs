//! The number of this process's lease, on disk: a process that starts again in time takes its own lease back, and nothing moves. And the
//! members that it knows, for promises (`keeper/failsafe.rs`). The file is locked, so that two processes of one host can never take each
//! other for themselves. It also says which file of which boot it is: a copy of the folder, or of the machine, has no part in the lease.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

/// The kernel draws it anew at each boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Longer than the names of all members can be.
const MOST: u64 = 16 * 1024;

/// The file, locked for as long as this lives.
#[derive(Debug)]
pub(crate) struct OwnFile {
    file: File,
    /// This file in this boot.
    identity: String,
    /// 0: none.
    lease: u64,
    members: Option<String>,
}

impl OwnFile {
    /// Opens and locks it, and reads what the process before this one has left.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| {
            if error == rustix::io::Errno::WOULDBLOCK {
                let text = "another process holds this member's lease: give each process its own data_dir";
                return io::Error::new(io::ErrorKind::WouldBlock, text);
            }
            error.into()
        })?;
        let mut text = String::new();
        // What is not what this writes is nothing.
        let is_text = (&file).take(MOST).read_to_string(&mut text).is_ok();
        let mut lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        let identity = identity(&file)?;
        let own = |line: &str| {
            let (lease, of) = line.split_once(' ')?;
            lease.parse().ok().filter(|_| of == identity)
        };
        let lease = lines.next().filter(|_| is_text).and_then(own).unwrap_or_default();
        let members = lines.next().filter(|_| is_text).map(str::to_owned);
        Ok(Self { file, identity, lease, members })
    }

    /// The lease of the process before this one, if it left any.
    pub(crate) fn lease(&self) -> Option<u64> {
        (self.lease != 0).then_some(self.lease)
    }

    /// The members that it knew, if it has said so.
    pub(crate) fn members(&self) -> Option<&str> {
        self.members.as_deref()
    }

    /// Keeps a number; 0 for none. A loss costs one TTL of waiting after a crash, and nothing else, so it is not synced.
    pub(crate) fn write(&mut self, lease: u64) -> io::Result<()> {
        self.lease = lease;
        self.save()
    }

    /// Keeps the names of members. It is not synced either: whoever has waited for this process while its machine started anew has given
    /// up by then.
    pub(crate) fn keep_members(&mut self, members: &str) -> io::Result<()> {
        if self.members.as_deref() == Some(members) {
            return Ok(());
        }
        self.members = Some(members.to_owned());
        self.save().inspect_err(|_| self.members = None)
    }

    /// A part of it, after a crash, has no last line.
    fn save(&mut self) -> io::Result<()> {
        let mut text = format!("{} {}\n", self.lease, self.identity);
        text.extend(self.members.iter().flat_map(|members| [members.as_str(), "\n"]));
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(text.as_bytes())
    }
}

impl Drop for OwnFile {
    /// To close it is not enough: a child of this process has all its files until it has become another program, and would keep the lock.
    fn drop(&mut self) {
        // It is closed all the same.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

/// Which file of which boot this is. After a boot no address of the process before is left, so nothing is lost with its lease.
fn identity(file: &File) -> io::Result<String> {
    let boot = std::fs::read_to_string(BOOT_ID)?;
    Ok(format!("{}/{}", boot.trim(), file.metadata()?.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_there_again_and_its_file_is_one_processs() {
        let path = std::env::temp_dir().join(format!("delphinus-own-file-{}", std::process::id()));
        let left = |file: &OwnFile| (file.lease(), file.members().map(str::to_owned));
        let mut file = OwnFile::open(&path).unwrap();
        assert_eq!(left(&file), (None, None));
        file.write(12_345_678_901_234).unwrap();
        file.write(77).unwrap();
        assert_eq!(OwnFile::open(&path).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(file);
        let mut again = OwnFile::open(&path).unwrap();
        assert_eq!(left(&again), (Some(77), None));
        again.keep_members("a,b").unwrap();
        again.write(0).unwrap();
        drop(again);
        let mut again = OwnFile::open(&path).unwrap();
        assert_eq!(left(&again), (None, Some("a,b".to_owned())));
        again.keep_members("").unwrap();
        drop(again);
        let again = OwnFile::open(&path).unwrap();
        assert_eq!(left(&again), (None, Some(String::new())));
        let torn = format!("77 {}\na,", again.identity);
        drop(again);
        std::fs::write(&path, torn).unwrap();
        assert_eq!(left(&OwnFile::open(&path).unwrap()), (Some(77), None), "the rest was not written");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_child_that_is_no_program_yet_keeps_no_lock() {
        let path = std::env::temp_dir().join(format!("delphinus-own-file-child-{}", std::process::id()));
        let file = OwnFile::open(&path).unwrap();
        // What a child has is such a copy.
        let of_child = file.file.try_clone().unwrap();
        drop(file);
        OwnFile::open(&path).unwrap();
        drop(of_child);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_copy_has_no_part_in_the_lease() {
        let path = std::env::temp_dir().join(format!("delphinus-own-file-copied-{}", std::process::id()));
        let copy = path.with_extension("copy");
        let mut file = OwnFile::open(&path).unwrap();
        file.write(77).unwrap();
        std::fs::copy(&path, &copy).unwrap();
        assert_eq!(OwnFile::open(&copy).unwrap().lease(), None);
        // The same disk in a machine that has booted since.
        let text = std::fs::read_to_string(&path).unwrap();
        let (boot, rest) = text.split_once('-').unwrap();
        std::fs::write(&path, format!("{}-{rest}", boot.replace(|digit: char| digit != ' ', "7"))).unwrap();
        drop(file);
        assert_eq!(OwnFile::open(&path).unwrap().lease(), None);
        std::fs::remove_file(&path).unwrap();
        std::fs::remove_file(&copy).unwrap();
    }
}
