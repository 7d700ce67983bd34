//! What recovery takes out of the log, because it cannot be read: it stays beside the log, for whoever looks into it.
//!
//! What a crash leaves behind the end of a log is never missed. But the same bytes may be all that is left after a fault of the disk.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::folder::sync_folder;

/// What the name of something ends with that was taken out: no name of a log file does.
const ENDING: &str = "damaged";

/// Another path for this one, where nothing is.
fn free_path(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let numbered = |number: u32| match number {
        0 => path.with_file_name(format!("{ENDING}-{name}.{ENDING}")),
        _ => path.with_file_name(format!("{ENDING}-{name}.{ENDING}-{number}")),
    };
    (0..=u32::MAX).map(numbered).find(|path| !path.exists()).expect("invariant: some number is free")
}

/// Removes a file or a folder of which nothing can be read; one that has something in it gets another name.
pub(super) fn take_out(path: &Path) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    if path.is_dir() {
        if is_blank_folder(path)? {
            fs::remove_dir_all(path)?;
        } else {
            rename(path)?;
        }
    } else if is_blank(File::open(path)?)? {
        fs::remove_file(path)?;
    } else {
        rename(path)?;
    }
    sync_folder(folder)
}

fn rename(path: &Path) -> io::Result<()> {
    let to = free_path(path);
    tracing::warn!(from = %path.display(), to = %to.display(), "the relay has moved a file without a readable head \
     out of its log");
    fs::rename(path, to)
}

/// Cuts a file off at `len`. What is behind that is kept if it is `damaged`: something that was whole once may follow there.
pub(super) fn cut(path: &Path, len: u64, damaged: bool) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    if damaged {
        file.seek(SeekFrom::Start(len))?;
        if !is_blank(file.try_clone()?)? {
            file.seek(SeekFrom::Start(len))?;
            let to = free_path(path);
            let mut kept = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&to)?;
            io::copy(&mut file, &mut kept)?;
            kept.sync_all()?;
            tracing::warn!(from = %path.display(), at = len, to = %to.display(), "the relay has moved the \
             unreadable end of a file out of its log");
        }
    }
    file.set_len(len)?;
    file.sync_all()?;
    sync_folder(path.parent().unwrap_or(path))
}

/// True if there is nothing from here on, or only zeros, as file systems leave them.
pub(super) fn is_blank(mut file: File) -> io::Result<bool> {
    let mut piece = vec![0; 256 << 10];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(true),
            n if piece[..n].iter().any(|byte| *byte != 0) => return Ok(false),
            _ => {}
        }
    }
}

/// True if there is no log in a folder that has anything but zeros.
fn is_blank_folder(folder: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_log = entry.file_name().to_str().is_some_and(|name| super::number_of(name).is_some());
        if is_log && !is_blank(File::open(entry.path())?)? {
            return Ok(false);
        }
    }
    Ok(true)
}
