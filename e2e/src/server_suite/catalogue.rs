//! Which tests of the package can run on a server that is there already.
//!
//! `mariadb-test-run` skips by itself what needs another build or another feature. It does not know of tests that set
//! options of the server or stop it: those are found by their files and their text.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use delphinus_sandbox::ensure_packages;

/// Debian's packages with the suite and its programs.
pub const PACKAGES: [&str; 2] = ["mariadb-test", "mariadb-test-data"];

/// Where packages of different versions put it.
const FOLDERS: [&str; 2] = ["/usr/share/mysql/mysql-test", "/usr/share/mariadb/mariadb-test"];

/// Files beside a test that hold options for servers of its own.
const OPTION_FILES: [&str; 6] = [".opt", "-master.opt", "-slave.opt", ".cnf", ".combinations", "-master.sh"];

/// Words of tests that stop or start servers.
const STOPS: [&str; 9] = [
    "shutdown_server",
    "send_shutdown",
    "restart_mysqld.inc",
    "shutdown_mysqld.inc",
    "kill_mysqld.inc",
    "start_mysqld.inc",
    "kill_and_restart_mysqld.inc",
    "expect_crash.inc",
    "wait_until_disconnected.inc",
];

/// Why a test is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeftOut {
    /// It wants a server with other options.
    OwnOptions,
    /// It stops the server.
    Stops,
}

/// The suite `main`.
#[derive(Debug)]
pub(crate) struct Catalogue {
    /// The folder with `mariadb-test-run`.
    pub(crate) folder: PathBuf,
    /// Tests that can run, by name.
    pub(crate) tests: Vec<String>,
    /// How many cannot.
    pub(crate) left_out: usize,
}

impl Catalogue {
    /// Installs the packages if they are missing, and reads the suite.
    pub(crate) fn read() -> Result<Self> {
        ensure_packages(&PACKAGES)?;
        let Some(folder) = FOLDERS.map(PathBuf::from).into_iter().find(|folder| folder.join("main").is_dir())
        else {
            bail!("the packages {} have no suite in {}", PACKAGES.join(", "), FOLDERS.join(" or "));
        };
        let main = folder.join("main");
        let disabled = fs::read_to_string(main.join("disabled.def")).unwrap_or_default();
        let disabled: BTreeSet<&str> = disabled
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| Some(line.split_once(':')?.0.trim()))
            .collect();
        let mut names = Vec::new();
        for entry in fs::read_dir(&main).with_context(|| format!("cannot list {}", main.display()))? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            names.extend(name.strip_suffix(".test").map(str::to_owned));
        }
        names.sort();
        let all = names.len();
        names.retain(|name| !disabled.contains(name.as_str()) && reason(&folder, &main, name).is_none());
        let left_out = all - names.len();
        Ok(Self { folder, tests: names, left_out })
    }
}

fn reason(folder: &Path, main: &Path, name: &str) -> Option<LeftOut> {
    if OPTION_FILES.iter().any(|ending| main.join(format!("{name}{ending}")).exists()) {
        return Some(LeftOut::OwnOptions);
    }
    let mut seen = BTreeSet::new();
    stops(&[folder, main], &main.join(format!("{name}.test")), &mut seen).then_some(LeftOut::Stops)
}

/// Looks at a file and at those that it includes.
fn stops(folders: &[&Path; 2], file: &Path, seen: &mut BTreeSet<PathBuf>) -> bool {
    if !seen.insert(file.to_owned()) {
        return false;
    }
    // Some are in other character sets.
    let Ok(bytes) = fs::read(file) else { return false };
    let text = String::from_utf8_lossy(&bytes);
    let mut commands = text.lines().filter(|line| !line.trim_start().starts_with('#')).peekable();
    commands.any(|line| {
        let line = line.trim();
        let lower = line.to_ascii_lowercase();
        let is_stop = STOPS.iter().any(|word| lower.contains(word))
            || matches!(lower.trim_start_matches("--").trim(), "shutdown" | "shutdown;")
            || (lower.contains("$mysqladmin") && lower.contains("shutdown"));
        is_stop
            || included(line).is_some_and(|name| {
                let places = folders.iter().map(|folder| folder.join(name));
                places.into_iter().any(|file| file.is_file() && stops(folders, &file, seen))
            })
    })
}

/// `--source include/x.inc` or `source include/x.inc;`
fn included(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches("--").trim_start().strip_prefix("source ")?;
    rest.trim().split([' ', ';']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_included_in_two_ways() {
        assert_eq!(included("--source include/a.inc"), Some("include/a.inc"));
        assert_eq!(included("source include/a.inc;"), Some("include/a.inc"));
        assert_eq!(included("-- source include/a.inc ;"), Some("include/a.inc"));
        assert_eq!(included("select 1;"), None);
    }

    #[test]
    fn a_test_that_stops_the_server_is_found_through_what_it_includes() {
        let dir = std::env::temp_dir().join(format!("delphinus-catalogue-{}", std::process::id()));
        fs::create_dir_all(dir.join("main")).unwrap();
        let write = |name: &str, text: &str| fs::write(dir.join(name), text).unwrap();
        write("a.inc", "--source b.inc\n");
        write("b.inc", "let $x= 1;\n--shutdown_server\n--source a.inc\n");
        write("main/stops.test", "--source a.inc\nselect 1;\n");
        write("main/goes.test", "# --source a.inc\nselect 1;\n");
        write("main/own.test", "select 1;\n");
        write("main/own.opt", "--skip-networking\n");
        let why = |name: &str| reason(&dir, &dir.join("main"), name);
        assert_eq!(why("stops"), Some(LeftOut::Stops));
        assert_eq!(why("goes"), None);
        assert_eq!(why("own"), Some(LeftOut::OwnOptions));
        fs::remove_dir_all(dir).unwrap();
    }
}
