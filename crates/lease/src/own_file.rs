//! The number of this process's lease, on disk: a process that starts again in time takes its own lease back, and nothing moves. The
//! file is locked, so that two processes of one host can never take each other for themselves.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

/// The file, locked for as long as this lives.
#[derive(Debug)]
pub(crate) struct OwnFile(File);

impl OwnFile {
    /// Opens and locks it.
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
        Ok(Self(file))
    }

    /// The lease of the process before this one, if it left any.
    pub(crate) fn read(&mut self) -> Option<u64> {
        let mut text = String::new();
        self.0.rewind().ok()?;
        // Longer than any number: what is not one is nothing.
        (&self.0).take(32).read_to_string(&mut text).ok()?;
        text.trim().parse().ok().filter(|lease| *lease != 0)
    }

    /// Keeps a number; 0 for none. A loss costs one TTL of waiting after a crash, and nothing else, so it is not synced.
    pub(crate) fn write(&mut self, lease: u64) -> io::Result<()> {
        self.0.set_len(0)?;
        self.0.rewind()?;
        writeln!(self.0, "{lease}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_kept_and_its_file_is_one_processs() {
        let path = std::env::temp_dir().join(format!("delphinus-own-file-{}", std::process::id()));
        let mut file = OwnFile::open(&path).unwrap();
        assert_eq!(file.read(), None);
        file.write(12_345_678_901_234).unwrap();
        file.write(77).unwrap();
        assert_eq!(file.read(), Some(77));
        assert_eq!(OwnFile::open(&path).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(file);
        let mut again = OwnFile::open(&path).unwrap();
        assert_eq!(again.read(), Some(77));
        again.write(0).unwrap();
        assert_eq!(again.read(), None);
        std::fs::remove_file(&path).unwrap();
    }
}
