//! A disk that writes down what is done to it, so that each moment of it can be lost.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::intake::{Disk, Files};

/// What was done, in its order.
#[derive(Debug, Clone)]
pub(super) enum Op {
    Create(PathBuf),
    Write(PathBuf, u64, Vec<u8>),
    Sync(PathBuf),
    SyncFolder(PathBuf),
    /// Readers see so many groups.
    Published(u64),
    /// The source knows that so many groups are safe.
    Acknowledged(u64),
}

#[derive(Default, Clone)]
pub(super) struct Recording(pub(super) Rc<RefCell<Vec<Op>>>);

impl Recording {
    pub(super) fn note(&self, op: Op) {
        self.0.borrow_mut().push(op);
    }
}

impl Disk for Recording {
    fn create(&mut self, path: &Path) -> io::Result<File> {
        self.note(Op::Create(path.to_owned()));
        Files.create(path)
    }

    fn open(&mut self, path: &Path, len: u64) -> io::Result<File> {
        Files.open(path, len)
    }

    fn write(&mut self, file: &File, path: &Path, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.note(Op::Write(path.to_owned(), offset, bytes.to_vec()));
        Files.write(file, path, offset, bytes)
    }

    fn sync(&mut self, file: &File, path: &Path) -> io::Result<()> {
        self.note(Op::Sync(path.to_owned()));
        Files.sync(file, path)
    }

    fn sync_folder(&mut self, path: &Path) -> io::Result<()> {
        self.note(Op::SyncFolder(path.to_owned()));
        Files.sync_folder(path)
    }

    fn room(&mut self, folder: &Path) -> io::Result<u64> {
        Files.room(folder)
    }
}

/// A file at a moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Shape {
    pub(super) bytes: Vec<u8>,
    /// So many of them are certain.
    pub(super) synced: usize,
    /// Its name is certain.
    pub(super) is_named: bool,
}

/// The disk at a moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Moment {
    pub(super) files: BTreeMap<PathBuf, Shape>,
    pub(super) published: u64,
    pub(super) acknowledged: u64,
}

impl Moment {
    pub(super) fn after(&mut self, op: &Op) {
        match op {
            Op::Create(path) => drop(self.files.insert(path.clone(), Shape::default())),
            Op::Write(path, offset, bytes) => {
                let file = self.files.get_mut(path).unwrap();
                file.bytes.resize((*offset as usize + bytes.len()).max(file.bytes.len()), 0);
                file.bytes[*offset as usize..*offset as usize + bytes.len()].copy_from_slice(bytes);
            }
            Op::Sync(path) => {
                let file = self.files.get_mut(path).unwrap();
                file.synced = file.bytes.len();
            }
            Op::SyncFolder(folder) => {
                for (path, file) in &mut self.files {
                    file.is_named |= path.parent() == Some(folder);
                }
            }
            Op::Published(groups) => self.published = *groups,
            Op::Acknowledged(groups) => self.acknowledged = *groups,
        }
    }

    /// Puts what is left of it into the folder `to`: `left` says for each file what is left of its bytes; `None`: it is gone.
    pub(super) fn leave(&self, (from, to): (&Path, &Path), left: impl Fn(&Shape) -> Option<Vec<u8>>) {
        for (path, shape) in &self.files {
            let target = to.join(path.strip_prefix(from).unwrap());
            let folder = target.parent().unwrap();
            fs::create_dir_all(folder).unwrap();
            // Made durable when the folder was made.
            fs::copy(path.parent().unwrap().join("source.toml"), folder.join("source.toml")).unwrap();
            if let Some(bytes) = left(shape) {
                fs::write(target, bytes).unwrap();
            }
        }
    }
}
