//! Which tests of the package can run on a server that is there already.
//!
//! `mariadb-test-run` skips by itself what needs another build or another feature. It does not know of tests that want
//! options or several servers, or stop the server: those are found by their files and their text.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use delphinus_sandbox::ensure_packages;

use crate::server_suite::options::Wants;

/// Debian's packages with the suite and its programs.
pub const PACKAGES: [&str; 2] = ["mariadb-test", "mariadb-test-data"];

/// Where packages of different versions put it.
const FOLDERS: [&str; 2] = ["/usr/share/mysql/mysql-test", "/usr/share/mariadb/mariadb-test"];

/// Files beside a test that describe servers of its own.
const OWN_SERVERS: [&str; 3] = ["-slave.opt", ".cnf", "-master.sh"];

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
    /// It wants servers that are made in another way.
    OwnServers,
    /// It stops the server.
    Stops,
}

/// The suite `main`.
#[derive(Debug)]
pub(crate) struct Catalogue {
    /// The folder with `mariadb-test-run`.
    pub(crate) folder: PathBuf,
    /// Tests that can run, by name, and what they want.
    pub(crate) tests: BTreeMap<String, Wants>,
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
        let all = names.len();
        names.retain(|name| !disabled.contains(name.as_str()));
        let tests: BTreeMap<String, Wants> = names
            .into_iter()
            .filter_map(|name| Some((name.clone(), wants(&folder, &main, &name).ok()?)))
            .collect();
        let left_out = all - tests.len();
        Ok(Self { folder, tests, left_out })
    }
}

fn wants(folder: &Path, main: &Path, name: &str) -> Result<Wants, LeftOut> {
    if OWN_SERVERS.iter().any(|ending| main.join(format!("{name}{ending}")).exists()) {
        return Err(LeftOut::OwnServers);
    }
    let mut seen = BTreeSet::new();
    if stops(&[folder, main], &main.join(format!("{name}.test")), &mut seen) {
        return Err(LeftOut::Stops);
    }
    Wants::of(&[folder, main], name).ok_or(LeftOut::OwnServers)
}

/// Looks at a file and at those that it includes.
fn stops(folders: &[&Path; 2], file: &Path, seen: &mut BTreeSet<PathBuf>) -> bool {
    if !seen.insert(file.to_owned()) {
        return false;
    }
    let Some(text) = text(file) else { return false };
    let mut commands = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let is_stop = |line: &str| {
        let lower = line.to_ascii_lowercase();
        STOPS.iter().any(|word| lower.contains(word))
            || matches!(lower.trim_start_matches("--").trim(), "shutdown" | "shutdown;")
            || (lower.contains("$mysqladmin") && lower.contains("shutdown"))
    };
    commands.any(is_stop) || files_included(folders, file).iter().any(|file| stops(folders, file, seen))
}

/// What is in a file; some are in other character sets.
pub(super) fn text(file: &Path) -> Option<String> {
    Some(String::from_utf8_lossy(&fs::read(file).ok()?).into_owned())
}

/// The files that a file includes, in their order.
pub(super) fn files_included(folders: &[&Path; 2], file: &Path) -> Vec<PathBuf> {
    let text = text(file).unwrap_or_default();
    let names = text.lines().filter_map(|line| included(line.trim()));
    let found = names.filter_map(|name| {
        let places = file.parent().into_iter().chain(folders.iter().rev().copied());
        places.map(|folder| folder.join(name)).find(|one| one.is_file() && one != file)
    });
    found.collect()
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
        write("main/own.cnf", "[mysqld.2]\n");
        let why = |name: &str| wants(&dir, &dir.join("main"), name).err();
        assert_eq!(why("stops"), Some(LeftOut::Stops));
        assert_eq!(why("goes"), None);
        assert_eq!(why("own"), Some(LeftOut::OwnServers));
        fs::remove_dir_all(dir).unwrap();
    }
}
