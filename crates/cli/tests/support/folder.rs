//! A folder of a test, which is gone when the test ends.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("delphinus-cli-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("a temporary folder");
        Self(path)
    }

    pub(crate) fn file(&self, name: &str, text: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).expect("a file in it");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
