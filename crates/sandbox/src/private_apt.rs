//! An apt with its own sources, its own idea of what is installed, and its own folders: it resolves
//! and downloads, and never touches the system's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::process;
use crate::progress::Progress;

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// A private apt below the folder `apt` of a prefix.
pub(crate) struct PrivateApt {
    dir: PathBuf,
}

impl PrivateApt {
    /// Writes the sources and the list of what counts as installed. `kind` is `deb` or `deb-src`, `suite` is
    /// Debian's name for a release.
    pub(crate) fn new(prefix: &Path, kind: &str, suite: &str) -> Result<Self> {
        ensure!(
            Path::new(KEYRING).exists(),
            "no {KEYRING}: the signatures of Debian's packages are checked with Debian's keys (package \
             debian-archive-keyring)"
        );
        let apt = Self { dir: prefix.join("apt") };
        let _ = fs::remove_dir_all(&apt.dir);
        fs::create_dir_all(apt.dir.join("state/lists/partial"))?;
        fs::create_dir_all(apt.archives().join("partial"))?;
        let arch = process::output(Command::new("dpkg").arg("--print-architecture"))?;
        let mirror = mirror()?;
        let source = format!("{kind} [arch={arch} signed-by={KEYRING}] {mirror} {suite} main\n");
        fs::write(apt.dir.join("sources.list"), source)?;
        // Nothing is installed, so that libc comes along. Perl is wanted by scripts only that nobody
        // calls: saying that it is there saves 10 MB.
        let perl = format!(
            "Package: perl\nStatus: install ok installed\nArchitecture: {arch}\nMulti-Arch: allowed\n\
             Version: 99\nDescription: not here\nMaintainer: nobody\n\n"
        );
        fs::write(apt.dir.join("state/status"), perl)?;
        Ok(apt)
    }

    /// Fetches the suite's list of packages.
    pub(crate) fn update(&self, progress: &dyn Progress) -> Result<()> {
        let mut command = self.command();
        command.arg("update");
        let said = process::run(command, progress)?;
        // apt-get update succeeds even when it could fetch nothing.
        ensure!(
            !said.lines().any(|line| line.starts_with("Err:")),
            "apt-get update\n{}",
            process::tail(&said)
        );
        Ok(())
    }

    /// Downloads the packages with all that they depend on; gives back the files.
    pub(crate) fn download(&self, packages: &[&str], progress: &dyn Progress) -> Result<Vec<PathBuf>> {
        let mut list = self.command();
        list.args(["install", "-y", "--print-uris"]).args(packages);
        let listed = process::output(&mut list).context("the packages cannot be resolved")?;
        let mut fetch = self.command();
        fetch.args(["install", "-y", "--download-only"]).args(packages);
        process::run(fetch, progress)?;
        // A line is: 'address' file-name size checksum
        let names =
            listed.lines().filter(|line| line.starts_with('\'')).filter_map(|line| line.split(' ').nth(1));
        let files: Vec<PathBuf> = names.map(|name| self.archives().join(name)).collect();
        for file in &files {
            ensure!(file.exists(), "apt-get did not download {}", file.display());
        }
        ensure!(!files.is_empty(), "apt-get found nothing to download");
        Ok(files)
    }

    /// Downloads what the authors of a source package released (its `orig.tar`) into the folder `into`.
    pub(crate) fn download_source(&self, package: &str, into: &Path) -> Result<()> {
        let mut fetch = self.command();
        fetch.current_dir(into).args(["source", "--download-only", "--tar-only", package]);
        process::output(&mut fetch).map(drop)
    }

    /// Removes what is of no use after unpacking: lists and packages.
    pub(crate) fn remove(&self) -> Result<()> {
        fs::remove_dir_all(&self.dir).with_context(|| format!("cannot remove {}", self.dir.display()))
    }

    fn archives(&self) -> PathBuf {
        self.dir.join("cache/archives")
    }

    /// The machine's own apt.conf still applies: it may hold a proxy or certificates.
    fn command(&self) -> Command {
        let dir = self.dir.display();
        let options = [
            format!("Dir::Etc::sourcelist={dir}/sources.list"),
            "Dir::Etc::sourceparts=/dev/null".to_owned(),
            "Dir::Etc::preferences=/dev/null".to_owned(),
            "Dir::Etc::preferencesparts=/dev/null".to_owned(),
            format!("Dir::State={dir}/state"),
            format!("Dir::State::status={dir}/state/status"),
            format!("Dir::Cache={dir}/cache"),
            format!("Dir::Cache::archives={}", self.archives().display()),
            "APT::Install-Recommends=false".to_owned(),
            "APT::Sandbox::User=root".to_owned(),
            "Acquire::Languages=none".to_owned(),
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
            "Acquire::Retries=3".to_owned(),
            "Debug::NoLocking=true".to_owned(),
            // Hooks of the machine (cleaning of caches, desktop notices) are not for us.
            "Binary::apt-get::APT::Keep-Downloaded-Packages=true".to_owned(),
        ];
        let mut command = Command::new("apt-get");
        command.arg("-q").env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
        for option in options {
            command.args(["-o", &option]);
        }
        command
    }
}

/// Where this machine gets Debian's packages from; `DELPHINUS_DEBIAN_MIRROR` goes first.
fn mirror() -> Result<String> {
    if let Ok(mirror) = std::env::var("DELPHINUS_DEBIAN_MIRROR") {
        return Ok(mirror);
    }
    let mut command = Command::new("apt-get");
    command.args(["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]);
    let listed =
        process::output(&mut command).context("this machine has no apt-get that lists its sources")?;
    // Security updates live in an archive of their own, beside the main one.
    match listed.lines().find(|uri| uri.trim_end_matches('/').ends_with("/debian")) {
        Some(uri) => Ok(uri.to_owned()),
        None => bail!("this machine's apt has no Debian archive: set DELPHINUS_DEBIAN_MIRROR to one"),
    }
}
