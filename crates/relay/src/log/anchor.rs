//! Whether the relay's folder is still the one that it began with. Where a disk is unmounted, another folder has the path: nothing must be
//! written there, and above all no cut, which the relay would not find when the disk is back.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A folder, and which one it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Anchor {
    path: PathBuf,
    /// Device and number of the folder there.
    place: (u64, u64),
}

fn place(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::metadata(path)?;
    Ok((found.dev(), found.ino()))
}

impl Anchor {
    /// The folder at this path now.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), place: place(path)? })
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Fails if another folder, or none, has its path.
    pub(crate) fn check(&self) -> io::Result<()> {
        let is_same = match place(&self.path) {
            Ok(place) => place == self.place,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(error),
        };
        let gone = "it is not the folder that the relay has opened: its disk is not mounted, or it was replaced. Mount it \
                    again, or restart the relay";
        if is_same { Ok(()) } else { Err(io::Error::new(io::ErrorKind::NotFound, gone)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intake::tests::Place;

    #[test]
    fn another_folder_of_the_same_path_is_seen() {
        let place = Place::new();
        let path = place.0.join("relay");
        fs::create_dir(&path).unwrap();
        let anchor = Anchor::of(&path).unwrap();
        anchor.check().unwrap();
        fs::rename(&path, place.0.join("away")).unwrap();
        assert!(anchor.check().is_err());
        fs::create_dir(&path).unwrap();
        assert!(anchor.check().unwrap_err().to_string().contains("not mounted"));
        fs::remove_dir(&path).unwrap();
        fs::rename(place.0.join("away"), &path).unwrap();
        anchor.check().unwrap();
    }
}
