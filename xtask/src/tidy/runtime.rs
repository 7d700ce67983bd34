//! Only `net` knows the runtime: everybody else uses its streams, timers and tasks, so that another driver can stand
//! beside tokio without a change above `net`.

use super::scan::has_path;
use super::{Project, Violation};

const RUNTIME: &str = "tokio";

/// Names every dependency on the runtime, and every mention of it in the code.
pub(crate) fn check(project: &Project) -> Vec<Violation> {
    let others = project.packages.own.iter().filter(|package| package.name != "delphinus-net");
    let users = others.filter(|package| package.normal().any(|used| used.name == RUNTIME));
    let mut found: Vec<_> =
        users.map(|package| Violation::new(&package.manifest(), 0, "only net depends on tokio")).collect();
    let files = project.tree.rust_below("crates").filter(|file| file.package_folder() != "crates/net");
    for file in files {
        let lines = file.product_lines().filter(|(_, line)| has_path(line, RUNTIME));
        found.extend(
            lines.map(|(number, _)| Violation::new(&file.path, number, "only net uses tokio; use net::rt")),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::packages::{Package, Packages};
    use super::super::testing::{files, places};
    use super::*;

    #[test]
    fn the_runtime_outside_of_net_is_found() {
        let text = "//! A.\nuse tokio::time::sleep;\n";
        let project = files(&[("crates/pool/src/a.rs", text), ("crates/net/src/a.rs", text)]);
        assert_eq!(places(&check(&project)), ["crates/pool/src/a.rs:2"]);
        let own = vec![
            Package::of("delphinus-pool", &[("tokio", None)]),
            Package::of("delphinus-net", &[("tokio", None)]),
        ];
        let project = Project { packages: Packages { own, foreign: vec![] }, ..Project::default() };
        assert_eq!(places(&check(&project)), ["crates/pool/Cargo.toml:0"]);
    }
}
