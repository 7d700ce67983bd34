//! A Go that is new enough for the Go driver: the machine's own, or a toolchain fetched as a Go module by an older
//! one (Debian 12 has 1.19).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use delphinus_sandbox::ensure_packages;

use crate::cached::files_below;
use crate::programs::{is_installed, run};

/// What `go.mod` of the driver program asks for.
const OLDEST: (u32, u32) = (1, 24);
const TOOLCHAIN: &str = "golang.org/toolchain@v0.0.1-go1.24.13.linux-amd64";
const LIMIT: Duration = Duration::from_mins(10);

/// The `go` program to use.
pub(crate) fn ensure() -> Result<PathBuf> {
    if !is_installed("go") {
        ensure_packages(&["golang-go"])?;
    }
    let own = PathBuf::from("go");
    if version(&own)? >= OLDEST {
        return Ok(own);
    }
    let fetched = fetch(&own)?;
    anyhow::ensure!(version(&fetched)? >= OLDEST, "{} is too old", fetched.display());
    Ok(fetched)
}

fn version(go: &Path) -> Result<(u32, u32)> {
    let said = run(Command::new(go).arg("version"), LIMIT)?.success()?;
    parse_version(&said).with_context(|| format!("`go version` said {said}"))
}

/// "go version go1.26.8 linux/amd64" is (1, 26).
fn parse_version(said: &str) -> Option<(u32, u32)> {
    let numbers = said.split_whitespace().nth(2)?.strip_prefix("go")?;
    let mut parts = numbers.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

fn fetch(go: &Path) -> Result<PathBuf> {
    let said = run(Command::new(go).args(["mod", "download", "-json", TOOLCHAIN]), LIMIT)?.success()?;
    let answer: serde_json::Value = serde_json::from_str(&said).context("`go mod download` said no JSON")?;
    let Some(dir) = answer["Dir"].as_str().map(PathBuf::from) else { bail!("no folder in {said}") };
    // A module's files are unpacked without the permission to run them.
    for folder in ["bin", "pkg/tool"] {
        for file in files_below(&dir.join(folder))? {
            fs::set_permissions(file, fs::Permissions::from_mode(0o755))?;
        }
    }
    Ok(dir.join("bin/go"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(parse_version("go version go1.26.8 linux/amd64"), Some((1, 26)));
        assert_eq!(parse_version("go version go1.19 linux/amd64"), Some((1, 19)));
        assert_eq!(parse_version("go version devel"), None);
    }
}
