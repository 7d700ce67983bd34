//! The sources that Debian keeps of a package, as its authors released them: they hold the tests that registries of
//! languages leave out.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::private_apt::PrivateApt;
use crate::process;
use crate::progress::Silent;

/// Unpacks what the authors of the source package `name` released as `version` (Debian's number) into the empty
/// folder `into`, without the folder that their archive has around it. `suite` is a release of Debian that has it.
/// Signatures are checked; nothing is installed.
pub fn unpack_debian_source((name, version): (&str, &str), suite: &str, into: &Path) -> Result<()> {
    let folder = into.join(".source");
    fs::create_dir_all(&folder)?;
    let apt = PrivateApt::new(&folder, "deb-src", suite)?;
    apt.update(&Silent)?;
    apt.download_source(&format!("{name}={version}"), &folder)?;
    let mut archives = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        archives.extend(path.to_string_lossy().contains(".orig.tar").then_some(path));
    }
    ensure!(archives.len() == 1, "{name}: {} archives came instead of one", archives.len());
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(&archives[0]).args(["--strip-components=1", "-C"]).arg(into);
    process::output(&mut tar).with_context(|| format!("cannot unpack {}", archives[0].display()))?;
    fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))
}
