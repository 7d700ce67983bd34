//! Who may depend on whom: the table of ARCHITECTURE.md, compared with the manifests.
//!
//! Only normal dependencies count; a test may use anything.

use super::{Project, Violation};

/// Each crate, and the crates it may use. In the order of the levels: nothing may use what stands below it.
const TABLE: [(&str, &[&str]); 15] = [
    ("wire", &[]),
    ("sql", &[]),
    ("config", &[]),
    ("telemetry", &[]),
    ("sandbox", &[]),
    ("testkit", &["wire"]),
    ("state", &["wire", "sql"]),
    ("topology", &["wire"]),
    ("net", &["wire", "telemetry"]),
    ("route", &["sql", "state", "topology"]),
    ("pool", &["wire", "state", "net", "topology", "telemetry"]),
    ("monitor", &["wire", "topology", "net", "telemetry"]),
    ("session", &["wire", "sql", "state", "topology", "route", "net", "pool", "monitor", "telemetry"]),
    (
        "app",
        &[
            "wire",
            "sql",
            "config",
            "telemetry",
            "state",
            "topology",
            "net",
            "route",
            "pool",
            "monitor",
            "session",
        ],
    ),
    ("cli", &["app", "config", "sandbox", "telemetry"]),
];

/// Names every dependency that the table does not have, and every crate that is not in it.
pub(crate) fn check(project: &Project) -> Vec<Violation> {
    let crates = project.packages.own.iter().filter(|package| package.name.starts_with("delphinus-"));
    let mut found = Vec::new();
    for package in crates.filter(|package| package.name != "delphinus-e2e") {
        let name = package.short_name();
        let Some((_, allowed)) = TABLE.iter().find(|(known, _)| *known == name) else {
            let what =
                format!("{name} is not in the table of xtask/src/tidy/crate_table.rs and ARCHITECTURE.md");
            found.push(Violation::new(&package.manifest(), 0, what));
            continue;
        };
        let used = package.normal().filter_map(|dependency| dependency.name.strip_prefix("delphinus-"));
        let wrong = used.filter(|used| !allowed.contains(used));
        found.extend(wrong.map(|wrong| {
            let what = format!("{name} must not depend on {wrong}; it may on: {}", allowed.join(", "));
            Violation::new(&package.manifest(), 0, what)
        }));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::packages::{Package, Packages};
    use super::*;

    fn project(package: Package) -> Project {
        Project { packages: Packages { own: vec![package], foreign: vec![] }, ..Project::default() }
    }

    #[test]
    fn the_table_has_no_cycle() {
        for (position, (name, allowed)) in TABLE.iter().enumerate() {
            for used in *allowed {
                let level = TABLE.iter().position(|(known, _)| known == used);
                assert!(level.is_some_and(|level| level < position), "{name} uses {used}");
            }
        }
    }

    #[test]
    fn only_the_assembly_sees_the_configuration() {
        let users = TABLE.iter().filter(|(_, allowed)| allowed.contains(&"config"));
        assert_eq!(users.map(|(name, _)| *name).collect::<Vec<_>>(), ["app", "cli"]);
    }

    #[test]
    fn a_wrong_direction_is_found() {
        let found =
            check(&project(Package::of("delphinus-wire", &[("delphinus-net", None), ("memchr", None)])));
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().contains("wire must not depend on net"), "{}", found[0]);
    }

    #[test]
    fn a_right_direction_and_a_dependency_of_tests_are_not() {
        let dependencies = [("delphinus-wire", None), ("delphinus-sandbox", Some("dev"))];
        assert_eq!(check(&project(Package::of("delphinus-net", &dependencies))), []);
    }

    #[test]
    fn a_crate_that_is_not_in_the_table_is_found() {
        assert_eq!(check(&project(Package::of("delphinus-misc", &[]))).len(), 1);
    }
}
