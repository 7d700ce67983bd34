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

/// Runs a cargo command that builds, shown to the user, and gives the path of the program `name` that it made.
pub(crate) fn build_program(mut command: Command, name: &str) -> Result<PathBuf> {
    announce(&command);
    command.arg("--message-format=json-render-diagnostics").stdout(Stdio::piped());
    let mut child = command.spawn().context("cannot start cargo")?;
    let said = child.stdout.take().context("invariant: standard output is a pipe")?;
    let mut program = None;
    for line in BufReader::new(said).lines() {
        program = program_of(&line.context("cargo's messages")?, name).or(program);
    }
    let status = child.wait()?;
    ensure!(status.success(), "cargo ended with {status}");
    program.with_context(|| format!("cargo named no program `{name}`"))
}

/// The program's path, when this message of cargo says that it was built. A test of the same name is another thing.
fn program_of(message: &str, name: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(message).ok()?;
    let is_it = message["target"]["name"] == name && message["profile"]["test"] == false;
    message["executable"].as_str().filter(|_| is_it).map(PathBuf::from)
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
                r#"{{"target":{{"name":"{name}"}},"profile":{{"test":{test}}},"executable":"/t/{name}"}}"#
            )
        };
        assert_eq!(program_of(&message("delphinus", false), "delphinus"), Some("/t/delphinus".into()));
        assert_eq!(program_of(&message("delphinus", true), "delphinus"), None);
        assert_eq!(program_of(&message("xtask", false), "delphinus"), None);
        assert_eq!(program_of("warning: not JSON", "delphinus"), None);
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
