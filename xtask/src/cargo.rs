//! Running cargo and other programs in the project's root, seen by the user.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The root of the project.
pub(crate) fn root() -> PathBuf {
    // Cargo says it anew at every run: the folder may have been moved since this was compiled.
    let own = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    own.parent().map(Path::to_path_buf).unwrap_or(own)
}

/// A cargo command in the root.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(arguments);
    command
}

/// Where cargo puts what it builds.
pub(crate) fn target_dir() -> PathBuf {
    root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// The machine's own target, as rustc names it.
pub(crate) fn host_triple() -> Result<String> {
    let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    command.arg("-vV");
    let said = output(command)?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc does not name its host")
}

/// Says what is run, as the user would type it.
pub(crate) fn announce(command: &Command) {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let mut words = words.map(|word| word.to_string_lossy().into_owned());
    let program = words.next().unwrap_or_default();
    let name = program.rsplit('/').next().unwrap_or_default();
    eprintln!("$ {name} {}", words.collect::<Vec<_>>().join(" "));
}

/// Runs a command whose output the user sees.
pub(crate) fn run(mut command: Command) -> Result<()> {
    announce(&command);
    let status = command.status().with_context(|| format!("cannot start {}", name_of(&command)))?;
    ensure!(status.success(), "{} ended with {status}", name_of(&command));
    Ok(())
}

/// What a command prints; its errors go to the user.
pub(crate) fn output(mut command: Command) -> Result<String> {
    let done = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {}", name_of(&command)))?;
    ensure!(done.status.success(), "{} ended with {}", name_of(&command), done.status);
    String::from_utf8(done.stdout).with_context(|| format!("{} did not print UTF-8", name_of(&command)))
}

/// A program that cargo has built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Built {
    /// Its target's name.
    pub(crate) name: String,
    /// It runs the target's tests.
    pub(crate) is_test: bool,
    /// Where it is.
    pub(crate) path: PathBuf,
    /// The folder of its package.
    pub(crate) folder: PathBuf,
    /// The source file that it begins with.
    pub(crate) source: PathBuf,
}

/// Runs a cargo command that builds, shown to the user, and gives the programs that it made, or had made.
pub(crate) fn build(mut command: Command) -> Result<Vec<Built>> {
    announce(&command);
    command.arg("--message-format=json-render-diagnostics").stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot start cargo")?;
    let said = child.stdout.take().context("invariant: standard output is a pipe")?;
    let mut built = Vec::new();
    for line in BufReader::new(said).lines() {
        built.extend(built_by(&line.context("cargo's messages")?));
    }
    let status = child.wait()?;
    ensure!(status.success(), "cargo ended with {status}");
    Ok(built)
}

/// The same for one program, which is called `name`.
pub(crate) fn build_program(command: Command, name: &str) -> Result<PathBuf> {
    program(&build(command)?, name)
}

/// The program `name` among those that were built. A test of the same name is another thing.
pub(crate) fn program(built: &[Built], name: &str) -> Result<PathBuf> {
    let program = built.iter().rfind(|one| one.name == name && !one.is_test);
    Ok(program.with_context(|| format!("cargo named no program `{name}`"))?.path.clone())
}

/// The program that this message of cargo says was built.
fn built_by(message: &str) -> Option<Built> {
    let message: Value = serde_json::from_str(message).ok()?;
    let path = |value: &Value| value.as_str().map(PathBuf::from);
    Some(Built {
        name: message["target"]["name"].as_str()?.to_owned(),
        is_test: message["profile"]["test"].as_bool()?,
        path: path(&message["executable"])?,
        folder: path(&message["manifest_path"])?.parent()?.to_owned(),
        source: path(&message["target"]["src_path"])?,
    })
}

fn name_of(command: &Command) -> String {
    Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_the_root() {
        assert!(root().join("xtask/src/cargo.rs").is_file());
    }

    #[test]
    fn the_program_is_told_from_its_test_and_from_others() {
        let message = |name: &str, test: bool| {
            format!(
                r#"{{"target":{{"name":"{name}","src_path":"/p/src/main.rs"}},"profile":{{"test":{test}}},
                "manifest_path":"/p/Cargo.toml","executable":"/t/{name}-{test}"}}"#
            )
        };
        let built: Vec<Built> = [("delphinus", true), ("delphinus", false), ("xtask", false)]
            .iter()
            .filter_map(|(name, test)| built_by(&message(name, *test)))
            .collect();
        assert_eq!(built.len(), 3);
        assert_eq!(built[0].folder, PathBuf::from("/p"));
        assert_eq!(program(&built, "delphinus").unwrap(), PathBuf::from("/t/delphinus-false"));
        assert!(program(&built[..1], "delphinus").is_err());
        assert_eq!(built_by("warning: not JSON"), None);
    }

    #[test]
    fn a_failing_program_is_an_error() {
        assert!(run(Command::new("false")).is_err());
        assert!(output(Command::new("false")).is_err());
    }

    #[test]
    fn the_host_is_known() {
        assert!(host_triple().unwrap().contains("linux"));
    }
}
