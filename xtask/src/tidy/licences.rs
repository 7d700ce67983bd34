//! Licences, sources and versions of external crates, by the rules of deny.toml.
//!
//! deny.toml is cargo-deny's file and works with it; this checks the same three things in a moment, where building
//! cargo-deny would cost every clean run minutes. Advisories are cargo-deny's.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::packages::Package;
use super::{Project, Violation};

const RULES: &str = "deny.toml";

#[derive(Debug, Deserialize)]
struct Rules {
    licenses: Licenses,
    bans: Bans,
}

#[derive(Debug, Deserialize)]
struct Licenses {
    allow: Vec<String>,
    #[serde(default)]
    exceptions: Vec<Exception>,
}

#[derive(Debug, Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    name: String,
    allow: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Bans {
    #[serde(default)]
    deny: Vec<Named>,
    #[serde(default)]
    skip: Vec<Named>,
}

/// A crate, or one version of it: `name` or `name@version`, where the version may be cut short.
#[derive(Debug, Deserialize)]
struct Named {
    #[serde(rename = "crate")]
    spec: String,
}

impl Named {
    fn names(&self, package: &Package) -> bool {
        let (name, version) = self.spec.split_once('@').unwrap_or((&self.spec, ""));
        let is_version = package.version == version || package.version.starts_with(&format!("{version}."));
        name == package.name && (version.is_empty() || is_version)
    }
}

/// Names crates that break a rule.
pub(crate) fn check(project: &Project) -> Vec<Violation> {
    let rules = match read(project) {
        Ok(rules) => rules,
        Err(error) => return vec![Violation::new(RULES, 0, format!("{error:#}"))],
    };
    let main = &project.packages.foreign;
    let mut found = duplicates(&rules.bans, main);
    let mut all: Vec<&Package> = main.iter().chain(&project.fuzz_packages.foreign).collect();
    // The project's own crates are there too, for the fuzz targets.
    all.retain(|package| !package.name.starts_with("delphinus-"));
    all.sort_by_key(|package| (&package.name, &package.version));
    all.dedup_by_key(|package| (&package.name, &package.version));
    found.extend(all.iter().flat_map(|package| breaches(&rules, package)));
    found
}

fn read(project: &Project) -> Result<Rules> {
    let text = project.tree.text(RULES).context("is not there")?;
    toml::from_str(text).context("cannot be read")
}

fn breaches(rules: &Rules, package: &Package) -> Vec<Violation> {
    let Package { name, version, .. } = package;
    let report = |what: String| Violation::new(RULES, 0, format!("{name} {version} {what}"));
    let mut found = Vec::new();
    let exception = rules.licenses.exceptions.iter().find(|exception| exception.name == *name);
    let more = exception.map(|exception| exception.allow.as_slice()).unwrap_or_default();
    let is_allowed =
        |licence: &str| rules.licenses.allow.iter().chain(more).any(|allowed| allowed == licence);
    match package.license.as_deref() {
        None => found.push(report("names no licence".to_owned())),
        Some(licence) if !is_satisfied(licence, &is_allowed) => {
            found.push(report(format!("has the licence {licence}, which is not allowed")));
        }
        Some(_) => {}
    }
    if rules.bans.deny.iter().any(|banned| banned.names(package)) {
        found.push(report("is banned".to_owned()));
    }
    if !package.source.as_deref().is_some_and(|source| source.starts_with("registry+")) {
        found.push(report("does not come from the registry".to_owned()));
    }
    found
}

fn duplicates(bans: &Bans, packages: &[Package]) -> Vec<Violation> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages.iter().filter(|package| !bans.skip.iter().any(|skip| skip.names(package))) {
        versions.entry(&package.name).or_default().push(&package.version);
    }
    let several = versions.into_iter().filter(|(_, versions)| versions.len() > 1);
    several
        .map(|(name, versions)| {
            Violation::new(RULES, 0, format!("{name} is there as {}", versions.join(" and ")))
        })
        .collect()
}

/// Whether an SPDX expression holds with the allowed licences. `A WITH B` is one licence; the old `/` is OR.
fn is_satisfied(expression: &str, is_allowed: &dyn Fn(&str) -> bool) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    any_of(&mut rest, is_allowed) && rest.is_empty()
}

/// OR binds weaker than AND. All parts are read, also when one has decided.
fn any_of(rest: &mut &[&str], is_allowed: &dyn Fn(&str) -> bool) -> bool {
    let mut is_good = all_of(rest, is_allowed);
    while take(rest, "OR") {
        is_good |= all_of(rest, is_allowed);
    }
    is_good
}

fn all_of(rest: &mut &[&str], is_allowed: &dyn Fn(&str) -> bool) -> bool {
    let mut is_good = one(rest, is_allowed);
    while take(rest, "AND") {
        is_good &= one(rest, is_allowed);
    }
    is_good
}

fn one(rest: &mut &[&str], is_allowed: &dyn Fn(&str) -> bool) -> bool {
    if take(rest, "(") {
        return any_of(rest, is_allowed) & take(rest, ")");
    }
    let Some((licence, after)) = rest.split_first() else { return false };
    *rest = after;
    match after {
        ["WITH", exception, after @ ..] => {
            *rest = after;
            is_allowed(&format!("{licence} WITH {exception}"))
        }
        _ => is_allowed(licence),
    }
}

fn take(rest: &mut &[&str], word: &str) -> bool {
    let is_there = rest.first() == Some(&word);
    if is_there {
        *rest = &rest[1..];
    }
    is_there
}

#[cfg(test)]
mod tests {
    use super::super::packages::Packages;
    use super::super::tree::Tree;
    use super::*;

    fn allowed(expression: &str) -> bool {
        is_satisfied(expression, &|licence| matches!(licence, "MIT" | "ISC" | "X WITH Y"))
    }

    #[test]
    fn licence_expressions() {
        for good in
            ["MIT", "GPL OR MIT", "GPL/MIT", "MIT AND (GPL OR ISC)", "(GPL OR MIT) AND ISC", "X WITH Y"]
        {
            assert!(allowed(good), "{good}");
        }
        for bad in
            ["GPL", "MIT AND GPL", "MIT AND (GPL OR X)", "X", "MIT WITH Y", "(MIT", "MIT ISC", "", "OR MIT"]
        {
            assert!(!allowed(bad), "{bad}");
        }
    }

    const FILE: &str = "[licenses]\nallow = [\"MIT\"]\nexceptions = [{ crate = \"odd\", allow = [\"NCSA\"] }]\n[bans]\ndeny = [{ crate = \"bad\" }]\nskip = [{ crate = \"old@1\", reason = \"b\" }]\n";

    fn whats(file: &str, packages: &[(&str, &str, &str, &str)]) -> Vec<String> {
        let package = |&(name, version, license, source): &(&str, &str, &str, &str)| {
            let mut package = Package::of(name, &[]);
            package.version = version.to_owned();
            package.license = Some(license.to_owned());
            package.source = Some(source.to_owned());
            package
        };
        let packages = Packages { own: vec![], foreign: packages.iter().map(package).collect() };
        let project = Project { tree: Tree::of(&[(RULES, file)]), packages, ..Project::default() };
        check(&project).into_iter().map(|found| found.what).collect()
    }

    #[test]
    fn good_crates_are_good() {
        let packages = [
            ("a", "1.0.0", "MIT", "registry+x"),
            ("odd", "1.0.0", "MIT AND NCSA", "registry+x"),
            ("old", "1.4.0", "MIT", "registry+x"),
            ("old", "2.0.0", "MIT", "registry+x"),
        ];
        assert_eq!(whats(FILE, &packages), Vec::<String>::new());
    }

    #[test]
    fn each_breach_is_found() {
        let check = |packages: &[_], expected: &str| assert_eq!(whats(FILE, packages), [expected]);
        check(&[("a", "1.0.0", "NCSA", "registry+x")], "a 1.0.0 has the licence NCSA, which is not allowed");
        check(&[("bad", "1.0.0", "MIT", "registry+x")], "bad 1.0.0 is banned");
        check(&[("a", "1.0.0", "MIT", "git+x")], "a 1.0.0 does not come from the registry");
        let twice = [("a", "1.0.0", "MIT", "registry+x"), ("a", "2.0.0", "MIT", "registry+x")];
        check(&twice, "a is there as 1.0.0 and 2.0.0");
    }

    #[test]
    fn a_file_that_cannot_be_read_is_a_breach() {
        assert_eq!(whats("[licenses]\n", &[]).len(), 1);
    }
}
