//! What the intake needs of a file system. The simulation puts itself in between.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// Writes and syncs.
pub(crate) trait Disk {
    /// A new file; what was there of that name is cut off.
    fn create(&mut self, path: &Path) -> io::Result<File>;
    /// A file that is there, of which the first `len` bytes stay.
    fn open(&mut self, path: &Path, len: u64) -> io::Result<File>;
    /// One write: all of `bytes` at `offset`.
    fn write(&mut self, file: &File, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// fdatasync.
    fn sync(&mut self, file: &File, path: &Path) -> io::Result<()>;
    /// Makes names in a folder durable.
    fn sync_folder(&mut self, path: &Path) -> io::Result<()>;
    /// How many bytes the file system of a folder still takes.
    fn room(&mut self, folder: &Path) -> io::Result<u64>;
}

/// The real one.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Files;

impl Disk for Files {
    fn create(&mut self, path: &Path) -> io::Result<File> {
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
    }

    fn open(&mut self, path: &Path, len: u64) -> io::Result<File> {
        let file = OpenOptions::new().write(true).open(path)?;
        if file.metadata()?.len() < len {
            return Err(io::Error::other("the file is shorter than what was synced"));
        }
        if file.metadata()?.len() > len {
            // Durable: another folder may follow, and this file would come back longer than it was.
            file.set_len(len)?;
            file.sync_all()?;
        }
        Ok(file)
    }

    fn write(&mut self, file: &File, _: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }

    fn sync(&mut self, file: &File, _: &Path) -> io::Result<()> {
        file.sync_data()
    }

    fn sync_folder(&mut self, path: &Path) -> io::Result<()> {
        crate::log::sync_folder(path)
    }

    fn room(&mut self, folder: &Path) -> io::Result<u64> {
        let found = rustix::fs::statvfs(folder)?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }
}
