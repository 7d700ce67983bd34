//! Runs child programs to their end and turns a failure into an error that shows what they said.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::progress::Progress;

/// Lines of a failed program's output that go into the error.
const TAIL_LINES: usize = 12;

/// Runs a short program and gives back its standard output without the last newline.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let name = program_name(command);
    let done = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {name}"))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        bail!("{name}: {}: {}", done.status, said.trim_end());
    }
    Ok(String::from_utf8_lossy(&done.stdout).trim_end_matches('\n').to_owned())
}

/// Runs a program that takes a while, with its standard input as it is set up by the caller, shows
/// each line to `progress`, and gives back all that it wrote to standard output and standard error.
pub(crate) fn run(mut command: Command, progress: &dyn Progress) -> Result<String> {
    let name = program_name(&command);
    let (reader, writer) = std::io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("cannot run {name}"))?;
    // The command still holds the pipe's write end, and with it open the loop below never ends.
    drop(command);
    let mut said = String::new();
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line);
        progress.detail(text.trim_end());
        said.push_str(&text);
        line.clear();
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("{name}: {status}\n{}", tail(&said));
    }
    Ok(said)
}

/// What an error message shows of a log: the lines that say ERROR, or the last lines when none does.
pub(crate) fn tail(text: &str) -> String {
    let mut lines: Vec<&str> =
        text.lines().filter(|line| line.to_ascii_uppercase().contains("ERROR")).collect();
    if lines.is_empty() {
        lines = text.trim_end().lines().collect();
    }
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

/// True if no thread of a process runs, or can run: it is stopped, or gone.
/// Source: <https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html>
pub(crate) fn stands_still(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    threads.flatten().all(|thread| {
        let Ok(stat) = std::fs::read_to_string(thread.path().join("stat")) else { return true };
        // The name in parentheses may have any character in it.
        let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
        matches!(state, Some('T' | 't' | 'Z' | 'X'))
    })
}

/// True when this process runs as root.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The full path of a program in PATH, or in the folders for system programs.
pub(crate) fn find_program(name: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // A user's PATH on Debian has no sbin, but that is where the servers are.
    let system = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(std::path::PathBuf::from);
    std::env::split_paths(&path).chain(system).map(|dir| dir.join(name)).find(|program| program.is_file())
}

fn program_name(command: &Command) -> String {
    let program = command.get_program().to_string_lossy();
    program.rsplit('/').next().unwrap_or(&program).to_owned()
}

#[cfg(test)]
mod tests {
    use rustix::process::{Pid, Signal, kill_process};

    use super::*;

    #[test]
    fn a_stopped_process_stands_still() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        assert!(!stands_still(child.id()));
        kill_process(Pid::from_child(&child), Signal::STOP).unwrap();
        let began = std::time::Instant::now();
        while !stands_still(child.id()) {
            assert!(began.elapsed() < std::time::Duration::from_mins(1), "it is never stopped");
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(stands_still(child.id()));
    }
}
