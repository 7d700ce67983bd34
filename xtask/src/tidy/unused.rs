//! A manifest names only what the code uses.

use std::collections::HashSet;

use toml::Table;

use super::packages::{Dependency, Package};
use super::scan::words;
use super::{Project, Violation};

/// Names dependencies that no line of the package uses, and versions in the root that no package asks for.
pub(crate) fn check(project: &Project) -> Vec<Violation> {
    let mut found: Vec<_> =
        project.packages.own.iter().flat_map(|package| of_package(project, package)).collect();
    found.extend(of_root(project));
    found
}

fn of_package(project: &Project, package: &Package) -> Vec<Violation> {
    let folder = package.folder();
    let (mut in_product, mut anywhere) = (HashSet::new(), HashSet::new());
    for file in project.tree.rust_below(&folder) {
        // The folders of tests only: a package that is nothing but tests has normal dependencies all the same.
        let is_source = file.path.starts_with(&format!("{folder}/src/"));
        for (number, line) in file.lines() {
            anywhere.extend(words(line));
            if is_source && (!file.is_test_line(number) || is_for_tests(&folder)) {
                in_product.extend(words(line));
            }
        }
    }
    let report = |what: String| Violation::new(&package.manifest(), 0, what);
    let unused = |dependency: &&Dependency| !anywhere.contains(dependency.ident().as_str());
    let mut found: Vec<_> = package
        .dependencies
        .iter()
        .filter(unused)
        .map(|dependency| report(format!("`{}` is not used", dependency.name)))
        .collect();
    let only_tests =
        package.normal().filter(|used| !unused(used) && !in_product.contains(used.ident().as_str()));
    let is_product = !is_for_tests(&folder);
    found.extend(
        only_tests
            .filter(|_| is_product)
            .map(|used| report(format!("`{}` is used by tests only: [dev-dependencies]", used.name))),
    );
    found
}

fn is_for_tests(folder: &str) -> bool {
    matches!(folder, "e2e" | "crates/testkit")
}

fn of_root(project: &Project) -> Vec<Violation> {
    let asked: HashSet<&str> = project
        .packages
        .own
        .iter()
        .flat_map(|package| &package.dependencies)
        .map(|used| used.name.as_str())
        .collect();
    let versions = workspace_dependencies(project);
    let unused = versions.into_iter().filter(|name| !asked.contains(name.as_str()));
    // A crate of ours is there for whoever comes next.
    let unused = unused.filter(|name| !name.starts_with("delphinus-"));
    unused.map(|name| Violation::new("Cargo.toml", 0, format!("no package uses `{name}`"))).collect()
}

/// The names of [workspace.dependencies].
pub(crate) fn workspace_dependencies(project: &Project) -> Vec<String> {
    let manifest = project.tree.text("Cargo.toml").and_then(|text| text.parse::<Table>().ok());
    let table =
        manifest.as_ref().and_then(|manifest| manifest.get("workspace")?.get("dependencies")?.as_table());
    table.map(|table| table.keys().cloned().collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::packages::Packages;
    use super::super::tree::Tree;
    use super::*;

    fn whats(manifest: &str, source: &str, test: &str, dependencies: &[(&str, Option<&str>)]) -> Vec<String> {
        let packages = Packages { own: vec![Package::of("delphinus-a", dependencies)], foreign: vec![] };
        let tree = Tree::of(&[
            ("Cargo.toml", manifest),
            ("crates/a/src/lib.rs", source),
            ("crates/a/tests/b.rs", test),
            ("crates/other/src/lib.rs", "use serde_json;"),
        ]);
        check(&Project { tree, packages, ..Project::default() }).into_iter().map(|found| found.what).collect()
    }

    #[test]
    fn what_nobody_uses_is_found() {
        let found =
            whats("", "// serde_json\nuse memchr::memchr;", "", &[("serde-json", None), ("memchr", None)]);
        assert_eq!(found, ["`serde-json` is not used"]);
    }

    #[test]
    fn what_only_tests_use_is_found() {
        let source = "#[cfg(test)]\nmod tests { use memchr; }";
        let found = whats("", source, "use toml;", &[("memchr", None), ("toml", Some("dev"))]);
        assert_eq!(found, ["`memchr` is used by tests only: [dev-dependencies]"]);
    }

    #[test]
    fn a_version_that_nobody_asks_for_is_found() {
        let manifest =
            "[workspace.dependencies]\nmemchr = \"2\"\ntoml = \"1\"\ndelphinus-b = { path = \"b\" }\n";
        assert_eq!(whats(manifest, "use toml;", "", &[("toml", None)]), ["no package uses `memchr`"]);
    }
}
