//! What `mariadb-test-run` would run: it chooses the tests and makes their surroundings, and each test is started by us.
//!
//! On a server that it has not started itself, it neither looks after the server between tests nor ends one that hangs
//! before a minute has passed. So it is given a program in the place of `mariadb-test` that writes down how it is called.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::programs::run;

/// It reads all tests and starts a program for each.
const LIMIT: Duration = Duration::from_mins(10);

/// What stands in the place of `mariadb-test`; the code means that the test was skipped. What ends at once is noticed a second later
/// by `mariadb-test-run`.
const WRITES_DOWN: &str = r#"#!/bin/sh
[ -e "$0.env" ] || env -0 >"$0.env"
printf '%s\n' "$*" >>"$0.calls"
sleep 0.1
exit 62
"#;

/// How one test is called.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// Its name without the suite's.
    pub(crate) name: String,
    /// The arguments of `mariadb-test`.
    pub(crate) arguments: Vec<String>,
}

/// All calls, and what they have around them.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// Where tests are started.
    pub(crate) folder: PathBuf,
    pub(crate) environment: Vec<(OsString, OsString)>,
    pub(crate) calls: Vec<Call>,
}

/// Where the suite is, and where it may write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Places<'a> {
    pub(crate) suite: &'a Path,
    pub(crate) vardir: &'a Path,
    pub(crate) socket: &'a Path,
    pub(crate) port: u16,
}

impl Prepared {
    /// The value of a variable of the environment.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        let (_, value) = self.environment.iter().find(|(known, _)| known == name)?;
        Some(value.to_string_lossy().into_owned())
    }

    /// The same tests for a suite's folder elsewhere.
    pub(crate) fn moved(&self, from: &Path, to: &Path) -> Self {
        let (from, to) = (from.display().to_string(), to.display().to_string());
        let moved = |text: &str| text.replace(&from, &to);
        let call = |call: &Call| Call {
            name: call.name.clone(),
            arguments: call.arguments.iter().map(|argument| moved(argument)).collect(),
        };
        // The package sets none that is no text.
        let pair =
            |(name, value): &(OsString, OsString)| (name.clone(), moved(&value.to_string_lossy()).into());
        Self {
            folder: self.folder.clone(),
            environment: self.environment.iter().map(pair).collect(),
            calls: self.calls.iter().map(call).collect(),
        }
    }
}

/// Asks `mariadb-test-run` how it would run these tests on the server behind the socket, and has it fill the suite's
/// folder.
pub(crate) fn calls(places: Places<'_>, tests: &[String]) -> Result<Prepared> {
    fs::create_dir_all(places.vardir.join("log"))?;
    let program = places.vardir.join("writes-down");
    fs::write(&program, WRITES_DOWN)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    let beside = |ending: &str| PathBuf::from(format!("{}.{ending}", program.display()));
    // It goes on for minutes if this process is killed, unless the kernel ends it then.
    let mut command = Command::new("setpriv");
    command.current_dir(places.suite).args(["--pdeathsig", "KILL", "perl", "mariadb-test-run.pl"]);
    command
        .arg("--extern")
        .arg(format!("socket={}", places.socket.display()))
        .args(["--extern", "user=root"]);
    command.arg(format!("--vardir={}", places.vardir.display()));
    command.args(["--force", "--max-test-fail=0", "--suite=main"]).args(tests);
    command.env("MYSQL_TEST", &program);
    command.env("MASTER_MYSOCK", places.socket).env("MASTER_MYPORT", places.port.to_string());
    let done = run(&mut command, LIMIT)?;
    let environment = fs::read(beside("env"))
        .with_context(|| format!("mariadb-test-run started no test; it said:\n{}", done.output))?;
    let mut environment = variables(&environment);
    for (_, value) in &mut environment {
        // Some tests start another one.
        *value = value.to_string_lossy().replace(&*program.to_string_lossy(), "mariadb-test").into();
    }
    let calls = fs::read_to_string(beside("calls"))?;
    let calls: Vec<Call> = calls.lines().filter_map(call).collect();
    ensure!(!calls.is_empty(), "mariadb-test-run started no test; it said:\n{}", done.output);
    Ok(Prepared { folder: places.suite.to_owned(), environment, calls })
}

fn variables(bytes: &[u8]) -> Vec<(OsString, OsString)> {
    let pairs = bytes.split(|byte| *byte == 0).filter_map(|pair| {
        let equals = pair.iter().position(|byte| *byte == b'=')?;
        let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        Some((text(&pair[..equals]), text(&pair[equals + 1..])))
    });
    pairs.collect()
}

/// No argument has a space: the paths are our own and the package's.
fn call(line: &str) -> Option<Call> {
    let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let file = arguments.iter().find_map(|one| one.strip_prefix("--test-file="))?;
    let name = Path::new(file).file_stem()?.to_string_lossy().into_owned();
    Some(Call { name, arguments })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_named_after_its_file() {
        let one =
            call("--silent --test-file=/x/main/select.test --result-file=/x/main/select.result").unwrap();
        assert_eq!((one.name.as_str(), one.arguments.len()), ("select", 3));
        assert!(call("--silent").is_none());
    }

    #[test]
    fn variables_may_hold_newlines_and_equals_signs() {
        let found = variables(b"A=1\0B=x=y\nz\0");
        assert_eq!(found, [("A".into(), "1".into()), ("B".into(), "x=y\nz".into())]);
    }
}
