//! Streams into files, on a disk that forgets: every order of write, fdatasync, publishing and acknowledgement, and every cut.

mod damage;
mod disk;
pub(crate) mod histories;
pub(crate) mod mariadb;
pub(crate) mod recovery;
mod refused;
pub(crate) mod stream;

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder of a test's own, which goes with it.
pub(crate) struct Place(pub(crate) PathBuf);

impl Place {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        // In memory where that can be: thousands of crashes are tried.
        let base =
            if fs::metadata("/dev/shm").is_ok() { PathBuf::from("/dev/shm") } else { std::env::temp_dir() };
        let path = base.join(format!("delphinus-intake-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
