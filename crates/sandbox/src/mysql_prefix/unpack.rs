//! Unpacks Debian packages into one tree, without installing them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use anyhow::{Context, Result, ensure};

/// What nobody reads in a private prefix.
const LEFT_OUT: [&str; 5] = ["doc", "man", "locale", "lintian", "bug"];

/// Unpacks the packages into `root`, which is replaced as a whole.
pub(super) fn unpack(packages: &[PathBuf], root: &Path) -> Result<()> {
    let part = root.with_extension("part");
    for old in [&part, &root.to_owned()] {
        if old.exists() {
            fs::remove_dir_all(old).with_context(|| format!("cannot remove {}", old.display()))?;
        }
    }
    // Two layouts meet: some packages ship ./lib, others only ./usr/lib.
    for dir in ["bin", "sbin", "lib", "lib64"] {
        fs::create_dir_all(part.join("usr").join(dir))?;
        symlink(Path::new("usr").join(dir), part.join(dir))?;
    }
    let queue = Mutex::new(packages.iter());
    let next = || queue.lock().expect("invariant: no thread panics with the lock").next();
    let threads = std::thread::available_parallelism().map_or(2, usize::from).min(4);
    std::thread::scope(|scope| {
        let work = || -> Result<()> {
            while let Some(package) = next() {
                unpack_one(package, &part)?;
            }
            Ok(())
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("invariant: no panic while unpacking"))
    })?;
    fs::rename(&part, root).context("cannot keep what was unpacked")
}

fn unpack_one(package: &Path, root: &Path) -> Result<()> {
    let mut reader = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(package)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run dpkg-deb")?;
    let pipe = reader.stdout.take().expect("invariant: its standard output is piped");
    let mut tar = Command::new("tar");
    tar.arg("-x").arg("-C").arg(root).args(["--keep-directory-symlink", "--no-same-owner"]);
    tar.args(LEFT_OUT.map(|dir| format!("--exclude=./usr/share/{dir}"))).stdin(pipe);
    let unpacked = tar.status();
    // The command holds the pipe's read end: without it dpkg-deb would wait for ever on a dead tar.
    drop(tar);
    let read = reader.wait()?;
    ensure!(
        unpacked.context("cannot run tar")?.success() && read.success(),
        "cannot unpack {}",
        package.display()
    );
    Ok(())
}
