//! Small scripts that start each unpacked program through the prefix's own dynamic loader.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::process;

/// Whose programs these are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Family {
    /// The server program.
    pub(crate) server: &'static str,
    /// What names of its client programs begin with.
    pub(crate) names: &'static str,
    /// Where below `usr/share` its messages are; empty: it knows.
    pub(crate) messages: &'static str,
}

/// Writes a wrapper for every program of the family into `prefix/bin` and gives back the server's version.
/// Fails when the server would use any library of the machine.
pub(super) fn write(prefix: &Path, root: &Path, family: Family) -> Result<String> {
    let loader = Loader::find(root)?;
    let bin = prefix.join("bin");
    let loaders = prefix.join("libexec");
    for dir in [&bin, &loaders] {
        let _ = fs::remove_dir_all(dir);
        fs::create_dir_all(dir)?;
    }
    for program in programs(root, family)? {
        let name = program.file_name().context("invariant: listed from a folder")?;
        // A copy of the loader under the program's name, so that ps and pgrep show that name.
        let copy = loaders.join(name);
        fs::copy(&loader.path, &copy)?;
        let wrapper = bin.join(name);
        fs::write(&wrapper, loader.script(root, (&copy, &program), family))?;
        fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755))?;
    }
    loader.check(root, family.server)?;
    process::output(Command::new(bin.join(family.server)).args(["--no-defaults", "--version"]))
}

struct Loader {
    path: PathBuf,
    libraries: String,
}

impl Loader {
    /// Finds the loader and the folder of libraries, whatever the machine's architecture.
    fn find(root: &Path) -> Result<Self> {
        let is_loader = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ld-linux"))
        };
        let triplets = list(&root.join("usr/lib"))?;
        let triplet = triplets.into_iter().find(|path| path.join("libc.so.6").exists());
        let triplet = triplet.context("no libc among the unpacked packages")?;
        let places = [root.join("usr/lib64"), triplet.clone(), root.join("usr/lib")];
        let mut found = places.iter().filter_map(|dir| list(dir).ok()).flatten();
        let path = found.find(is_loader).context("no dynamic loader among the unpacked packages")?;
        let usr = root.join("usr/lib");
        let libraries = [triplet, usr.join("mysql-router"), usr.join("mysql/private")];
        let libraries = libraries.map(|dir| dir.display().to_string()).join(":");
        Ok(Self { path: fs::canonicalize(path)?, libraries })
    }

    fn script(&self, root: &Path, (copy, program): (&Path, &Path), family: Family) -> String {
        let plugins = format!("{}/usr/lib/mysql/plugin", root.display());
        let mut after = String::new();
        if program.ends_with(family.server) {
            after = format!(" --basedir=\"{}/usr\" --plugin-dir=\"{plugins}\"", root.display());
            if !family.messages.is_empty() {
                let messages = root.join("usr/share").join(family.messages);
                after = format!("{after} --lc-messages-dir=\"{}\"", messages.display());
            }
        }
        // The client library looks for mysql_native_password and others in its plugin folder.
        format!(
            "#!/bin/sh\nLIBMYSQL_PLUGIN_DIR=\"{plugins}\" exec \"{}\" --inhibit-cache --library-path \"{}\" \
             --argv0 \"{program}\" \"{program}\" \"$@\"{after}\n",
            copy.display(),
            self.libraries,
            program = program.display(),
        )
    }

    /// A library of another libc's making would crash the server, perhaps only later.
    fn check(&self, root: &Path, server: &str) -> Result<()> {
        let server = root.join("usr/sbin").join(server);
        let mut command = Command::new(&self.path);
        command.args(["--inhibit-cache", "--library-path", &self.libraries, "--list"]).arg(server);
        let listed = process::output(&mut command)?;
        let inside = format!("=> {}/", root.display());
        let mut outside = listed.lines().filter(|line| line.contains("=>") && !line.contains(&inside));
        let first = outside.next();
        ensure!(
            first.is_none(),
            "the server would use a library of the machine: {}",
            first.unwrap_or_default()
        );
        Ok(())
    }
}

/// The family's programs; scripts among them want an interpreter, and are left out.
fn programs(root: &Path, family: Family) -> Result<Vec<PathBuf>> {
    let named = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(family.names))
    };
    let mut found = list(&root.join("usr/bin"))?;
    found.retain(named);
    found.push(root.join("usr/sbin").join(family.server));
    found.retain(|path| is_elf(path));
    Ok(found)
}

fn is_elf(path: &Path) -> bool {
    let mut magic = [0; 4];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && &magic == b"\x7fELF"
}

fn list(dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let mut paths =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<std::io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}
