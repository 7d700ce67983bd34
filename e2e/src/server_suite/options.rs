//! What a test asks of its server: files beside the test, and beside what it includes, hold options for it.
//!
//! `mariadb-test-run` starts a server with them, but not when it is given a server that is there already.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::server_suite::catalogue::{files_included, text};

/// A server's options for a test, and the zone that the server and the test's programs live in.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Wants {
    /// As on the command line, with the names of the suite's variables.
    pub(crate) options: Vec<String>,
    /// `TZ`, if it is not the suite's usual one.
    pub(crate) zone: Option<String>,
}

/// Plugins that check passwords in a way of the suite's own.
const OWN_LOGINS: [&str; 3] = ["$AUTH_TEST_PLUGIN_SO", "$QA_AUTH_INTERFACE_SO", "$QA_AUTH_SERVER_SO"];

/// Tests that include this want it on; it would cost all others time.
const PERFORMANCE_SCHEMA: &str = "have_perfschema.inc";

impl Wants {
    /// What this test wants; none if it wants more than options, or a server that no proxy is put before.
    pub(crate) fn of(folders: &[&Path; 2], name: &str) -> Option<Self> {
        let mut reader = Reader { folders, name, seen: BTreeSet::new(), combinations: Vec::new() };
        let options = reader.read(&folders[1].join(format!("{name}.test")));
        let options = reader.combinations.into_iter().chain(options);
        let mut wants = Self::default();
        for option in options {
            let (what, value) = option.split_once('=').unwrap_or((&option, ""));
            match what.trim_start_matches('-').replace('_', "-").as_str() {
                "timezone" => wants.zone = Some(value.to_owned()),
                // The first data has pages of this size, which is the server's default.
                "innodb-page-size" if !value.eq_ignore_ascii_case("16k") => return None,
                // No proxy is put before such a server: it listens elsewhere, takes one connection at a time, or takes no writes.
                "bind-address" | "read-only" | "max-connections" => return None,
                "thread-handling" if value == "no-threads" => return None,
                "max-user-connections" if value == "1" => return None,
                // Passwords are checked by plugins that exist for tests only, and have programs of their own as clients.
                _ if OWN_LOGINS.iter().any(|name| value.contains(name)) => return None,
                _ => wants.options.push(option),
            }
        }
        // A format alone would make the server say that it has no binary log.
        if !wants.options.iter().any(|option| option.contains("log-bin")) {
            wants.options.retain(|option| !option.starts_with("--binlog-format"));
        }
        Some(wants)
    }

    /// With the suite's variables filled in.
    pub(crate) fn filled(&self, value: impl Fn(&str) -> Option<String>) -> Self {
        let filled = |text: &String| fill(text, &value);
        Self { options: self.options.iter().map(filled).collect(), zone: self.zone.as_ref().map(filled) }
    }
}

struct Reader<'a> {
    folders: &'a [&'a Path; 2],
    name: &'a str,
    seen: BTreeSet<PathBuf>,
    /// One of several, where a file says that its tests run more than once.
    combinations: Vec<String>,
}

impl Reader<'_> {
    /// Options of what a file includes come first, for its own win.
    fn read(&mut self, file: &Path) -> Vec<String> {
        if !self.seen.insert(file.to_owned()) {
            return Vec::new();
        }
        let mut options = Vec::new();
        for included in files_included(self.folders, file) {
            options.extend(self.read(&included));
        }
        if file.ends_with(PERFORMANCE_SCHEMA) {
            options.push("--performance-schema".to_owned());
        }
        let beside = |ending: &str| text(&beside(file, ending));
        for ending in [".opt", "-master.opt"] {
            options.extend(beside(ending).unwrap_or_default().lines().flat_map(words));
        }
        if let Some(text) = beside(".combinations") {
            let chosen = choose(&combinations(&text), self.folders[1], self.name);
            self.combinations.splice(0..0, chosen);
        }
        options
    }
}

/// The file of this name with another ending.
fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.with_extension("").into_os_string();
    name.push(ending);
    name.into()
}

/// Sections of an option file: names with options as on the command line.
fn combinations(text: &str) -> Vec<(String, Vec<String>)> {
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            found.push((name.to_owned(), Vec::new()));
        } else if let Some((_, options)) = found.last_mut() {
            options.push(format!("--{}", line.trim_start_matches("--")));
        }
    }
    found
}

/// The options of the first one that runs on the first data and has no results of its own.
fn choose(all: &[(String, Vec<String>)], main: &Path, name: &str) -> Vec<String> {
    let prefix = format!("{name},");
    let files = fs::read_dir(main).into_iter().flatten().flatten();
    let special: Vec<String> = files
        .filter_map(|entry| entry.file_name().into_string().ok()?.strip_prefix(&prefix).map(str::to_owned))
        .collect();
    let has_own = |name: &str| special.iter().any(|rest| rest.split([',', '.']).any(|word| word == name));
    let other_pages = |option: &String| {
        option.contains("innodb-page-size") && !option.to_ascii_lowercase().ends_with("16k")
    };
    let fits = |(name, options): &&(String, Vec<String>)| !has_own(name) && !options.iter().any(other_pages);
    all.iter().find(fits).or(all.first()).map(|(_, options)| options.clone()).unwrap_or_default()
}

/// Words as a shell would see them. The outer quotes of a word go.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for one in line.trim().chars() {
        let word = words.last_mut().expect("invariant: there is always one");
        match (one, quote) {
            (' ' | '\t', None) => words.push(String::new()),
            ('"' | '\'', None) => quote = Some(one),
            (_, Some(open)) if one == open => quote = None,
            _ => word.push(one),
        }
    }
    words.into_iter().map(|word| word.replace("\\\\", "\\")).filter(|word| !word.is_empty()).collect()
}

/// `$NAME` stands for a value. What has none stays, and the server will say that it does not know it.
fn fill(text: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut pieces = text.split('$');
    let mut filled = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let is_name = |one: char| one.is_ascii_alphanumeric() || one == '_';
        let (name, rest) = piece.split_at(piece.find(|one| !is_name(one)).unwrap_or(piece.len()));
        filled.push_str(&value(name).unwrap_or_else(|| format!("${name}")));
        filled.push_str(rest);
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_words_of_a_shell() {
        assert_eq!(words(r#" --a="set @a='a\\0c'"  --b='c d' "#), [r"--a=set @a='a\0c'", "--b=c d"]);
        assert!(words("  ").is_empty());
    }

    #[test]
    fn variables_are_filled_in() {
        let value = |name: &str| (name == "X_SO").then(|| "x.so".to_owned());
        assert_eq!(fill("--load=$X_SO;$Y/z", value), "--load=x.so;$Y/z");
    }

    #[test]
    fn what_a_test_includes_wants_options_too() {
        let dir = std::env::temp_dir().join(format!("delphinus-options-{}", std::process::id()));
        fs::create_dir_all(dir.join("main")).unwrap();
        let write = |name: &str, text: &str| fs::write(dir.join(name), text).unwrap();
        write("have_x.inc", "");
        write("have_x.opt", "--x\n--binlog-format=row\n");
        write("have_x.combinations", "[a]\n\n[b]\nlog-bin\n");
        write("main/one.test", "--source have_x.inc\n");
        write("main/one-master.opt", "--timezone=MET --y=1\n");
        write("main/pages.test", "");
        write("main/pages.opt", "--innodb-page-size=8k");
        write("main/alone.test", "");
        write("main/alone-master.opt", "--thread_handling=no-threads");
        let main = dir.join("main");
        let of = |name: &str| Wants::of(&[&dir, &main], name);
        let wants = |options: &[&str], zone: Option<&str>| {
            let options = options.iter().map(|one| (*one).to_owned()).collect();
            Some(Wants { options, zone: zone.map(str::to_owned) })
        };
        assert_eq!(of("one"), wants(&["--x", "--y=1"], Some("MET")));
        write("main/one,a.result", "");
        assert_eq!(of("one"), wants(&["--log-bin", "--x", "--binlog-format=row", "--y=1"], Some("MET")));
        assert_eq!((of("pages"), of("alone")), (None, None));
        fs::remove_dir_all(dir).unwrap();
    }
}
