//! No registry's host is named: machines reach registries through what their package tools are set to, and a host in
//! the source goes past that.

use super::scan::is_word;
use super::{Project, Violation};

/// Hosts in two parts, so that this file names none.
const HOSTS: [(&str, &str); 14] = [
    ("crates", "io"),
    ("pypi", "org"),
    ("pythonhosted", "org"),
    ("npmjs", "org"),
    ("npmjs", "com"),
    ("yarnpkg", "com"),
    ("proxy.golang", "org"),
    ("sum.golang", "org"),
    ("repo1.maven", "org"),
    ("repo.maven.apache", "org"),
    ("deb.debian", "org"),
    ("security.debian", "org"),
    ("docker", "io"),
    ("ghcr", "io"),
];

/// Written by cargo, which names its index there whatever it is set to.
const BY_CARGO: &str = "Cargo.lock";

/// Names every line with such a host.
pub(crate) fn check(project: &Project) -> Vec<Violation> {
    let hosts = HOSTS.map(|(name, domain)| format!("{name}.{domain}"));
    let mut found = Vec::new();
    for file in project.tree.files.iter().filter(|file| !file.path.ends_with(BY_CARGO)) {
        for (index, line) in file.text.lines().enumerate() {
            let named = hosts.iter().filter(|host| has_host(line, host));
            found.extend(named.map(|host| {
                Violation::new(&file.path, index + 1, format!("names the registry host {host}"))
            }));
        }
    }
    found
}

fn has_host(line: &str, host: &str) -> bool {
    line.match_indices(host).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + host.len()..].chars().next();
        !before.is_some_and(|c| is_word(c) || c == '-') && !after.is_some_and(|c| is_word(c) || c == '-')
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{files, places};
    use super::*;

    #[test]
    fn every_host_is_found_in_every_kind_of_file() {
        for (name, domain) in HOSTS {
            let text = format!("a\nurl: https://x.{name}.{domain}/y\n");
            assert_eq!(places(&check(&files(&[("docs/a.md", &text)]))), ["docs/a.md:2"], "{text}");
        }
    }

    #[test]
    fn other_hosts_and_what_cargo_writes_are_not() {
        let text = format!("my{}.{} {}.{}n", HOSTS[0].0, HOSTS[0].1, HOSTS[0].0, HOSTS[0].1);
        let lock = format!("{}.{}", HOSTS[0].0, HOSTS[0].1);
        assert_eq!(check(&files(&[("docs/a.md", &text), ("fuzz/Cargo.lock", &lock)])), []);
    }
}
