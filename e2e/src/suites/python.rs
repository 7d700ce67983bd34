//! What the Python suites share: an environment with the drivers and pytest.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use delphinus_sandbox::ensure_packages;

use crate::cached::folder;
use crate::programs::{is_installed, run};

const LIMIT: Duration = Duration::from_mins(15);

/// An environment with what a requirements file of `suites/` names; `packages` are the Debian packages that it is
/// built with.
pub(crate) fn environment(name: &str, packages: &[&str]) -> Result<PathBuf> {
    let requirements = requirements(name);
    folder(&format!("suite-{name}"), std::slice::from_ref(&requirements), |dir| {
        let check = ["-c", "import ensurepip, venv"];
        if !is_installed("python3") || !run(Command::new("python3").args(check), LIMIT)?.status.success() {
            ensure_packages(&["python3", "python3-venv"])?;
        }
        if !packages.is_empty() {
            ensure_packages(packages)?;
        }
        run(Command::new("python3").args(["-m", "venv"]).arg(dir), LIMIT)?.success()?;
        let mut pip = Command::new(dir.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--requirement"]).arg(&requirements);
        run(&mut pip, LIMIT)?.success().map(drop)
    })
}

/// Unpacks what PyPI has as the source of a package into `dir`, without the folder around it.
pub(crate) fn unpack_source(environment: &Path, requirement: &str, dir: &Path) -> Result<()> {
    let mut pip = Command::new(environment.join("bin/python"));
    pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=:all:", "--dest"]);
    run(pip.arg(dir).arg(requirement), LIMIT)?.success()?;
    let archives: Vec<PathBuf> =
        std::fs::read_dir(dir)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    ensure!(archives.len() == 1, "{requirement}: {} archives came instead of one", archives.len());
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(&archives[0]).args(["--strip-components=1", "-C"]).arg(dir);
    run(&mut tar, LIMIT)?.success().map(drop)
}

/// pytest, told to say the result of each test.
pub(crate) fn pytest(environment: &Path, tests: &Path) -> Command {
    let mut command = Command::new(environment.join("bin/python"));
    command.current_dir(tests).args(["-m", "pytest", "-v", "--tb=short", "-p", "no:cacheprovider"]);
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("COLUMNS", "400");
    command
}

fn requirements(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("suites").join(name).with_extension("txt")
}
