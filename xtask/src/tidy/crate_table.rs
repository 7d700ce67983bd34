//! Who may depend on whom: the table of ARCHITECTURE.md, compared with the manifests.
//!
//! Only normal dependencies count; a test may use anything.

use std::collections::{BTreeMap, BTreeSet};

use super::{Project, Violation};

const PAGE: &str = "ARCHITECTURE.md";
/// Its last column is the one that counts here.
const HEAD: &str = "| crate | owns | begin with | may use |";

/// Tests and measurements of the whole: they may use everything, and nothing uses them.
const ON_TOP: [&str; 3] = ["delphinus-e2e", "delphinus-bench", "delphinus-bench-micro"];

/// Each crate, and the crates it may use. In the order of the levels: nothing may use what stands below it.
const TABLE: [(&str, &[&str]); 30] = [
    ("kernel", &[]),
    ("wire", &[]),
    ("sql", &[]),
    ("config", &[]),
    ("telemetry", &[]),
    ("sandbox", &[]),
    ("tables", &[]),
    ("memory", &[]),
    ("testkit", &["wire"]),
    ("doctor", &["config", "wire"]),
    ("state", &["wire", "sql"]),
    ("topology", &["wire"]),
    ("cache", &["wire", "topology"]),
    ("journal", &["memory", "sql", "telemetry"]),
    ("history", &["memory", "telemetry"]),
    ("stats", &["memory", "sql", "telemetry", "topology"]),
    ("net", &["kernel", "memory", "wire", "telemetry"]),
    ("lease", &["topology"]),
    ("vip", &["kernel", "topology", "lease"]),
    ("route", &["wire", "sql", "state", "topology"]),
    ("pool", &["memory", "wire", "sql", "state", "net", "topology", "journal", "telemetry"]),
    ("view", &["memory", "wire", "sql", "topology", "net"]),
    ("monitor", &["memory", "wire", "sql", "topology", "net", "view", "telemetry"]),
    ("clients", &["wire", "sql", "state", "topology", "route", "net", "pool", "view", "telemetry"]),
    (
        "session",
        &[
            "memory",
            "wire",
            "sql",
            "state",
            "topology",
            "cache",
            "route",
            "net",
            "pool",
            "view",
            "clients",
            "stats",
            "journal",
            "telemetry",
        ],
    ),
    ("relay", &["memory", "wire", "net", "clients", "session", "telemetry"]),
    (
        "admin",
        &[
            "config",
            "doctor",
            "memory",
            "wire",
            "sql",
            "state",
            "topology",
            "cache",
            "route",
            "net",
            "pool",
            "view",
            "clients",
            "session",
            "stats",
            "journal",
            "history",
            "tables",
            "telemetry",
        ],
    ),
    ("http", &["memory", "wire", "net", "clients", "admin", "tables", "telemetry"]),
    (
        "app",
        &[
            "memory",
            "wire",
            "sql",
            "config",
            "doctor",
            "telemetry",
            "state",
            "topology",
            "cache",
            "net",
            "route",
            "pool",
            "view",
            "monitor",
            "clients",
            "session",
            "stats",
            "journal",
            "history",
            "admin",
            "http",
            "lease",
            "vip",
            "relay",
        ],
    ),
    ("cli", &["app", "admin", "http", "config", "doctor", "sandbox", "telemetry"]),
];

/// Names every dependency that the table does not have, every crate that is not in it, and where the page differs.
pub(crate) fn check(project: &Project) -> Vec<Violation> {
    let mut found = dependencies(project);
    found.extend(project.tree.text(PAGE).map(page).unwrap_or_default());
    found
}

fn dependencies(project: &Project) -> Vec<Violation> {
    let crates = project.packages.own.iter().filter(|package| package.name.starts_with("delphinus-"));
    let mut found = Vec::new();
    for package in crates.filter(|package| !ON_TOP.contains(&package.name.as_str())) {
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

/// Compares the table that people read with the one here.
fn page(text: &str) -> Vec<Violation> {
    let mut rows = BTreeMap::new();
    let lines = text.lines().enumerate().skip_while(|(_, line)| *line != HEAD).skip(2);
    for (index, line) in lines.take_while(|(_, line)| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
        let used = cells.last().map(|cell| crates_of(cell)).unwrap_or_default();
        rows.extend(crates_of(cells[0]).into_iter().map(|name| (name, (index + 1, used.clone()))));
    }
    let differs = TABLE.iter().filter_map(|(name, allowed)| match rows.remove(name) {
        None => Some(Violation::new(PAGE, 0, format!("the table `{HEAD}` has no row for {name}"))),
        // It assembles; the page says it in two words.
        Some((_, used)) if used.contains("everything above") && *name == "app" => None,
        Some((_, used)) if used == allowed.iter().copied().collect() => None,
        Some((line, _)) => {
            Some(Violation::new(PAGE, line, format!("{name} may use: {}", allowed.join(", "))))
        }
    });
    let mut found: Vec<_> = differs.collect();
    let unknown =
        rows.into_iter().map(|(name, (line, _))| Violation::new(PAGE, line, format!("there is no {name}")));
    found.extend(unknown);
    found
}

/// "a, b" is a and b; "nothing of ours" is nothing.
fn crates_of(cell: &str) -> BTreeSet<&str> {
    let names = cell.split(',').map(|name| name.trim().trim_matches('`'));
    names.filter(|name| *name != "nothing of ours").collect()
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
    fn only_the_assembly_and_operators_see_the_configuration() {
        let users = TABLE.iter().filter(|(_, allowed)| allowed.contains(&"config"));
        assert_eq!(users.map(|(name, _)| *name).collect::<Vec<_>>(), ["doctor", "admin", "app", "cli"]);
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
    fn a_page_that_says_something_else_is_found() {
        let row = |(name, allowed): &(&str, &[&str])| match allowed {
            [] => format!("| {name} | nothing of ours |\n"),
            _ => format!("| {name} | {} |\n", allowed.join(", ")),
        };
        let good =
            format!("text\n\n{HEAD}\n|---|---|\n{}\ntext\n", TABLE.iter().map(row).collect::<String>());
        assert_eq!(page(&good), []);
        assert_eq!(page(&good.replace("| topology | wire |", "| topology | wire, net |")).len(), 1);
        assert_eq!(page(&good.replace("| topology | wire |\n", "")).len(), 1);
        assert_eq!(page(&good.replace("\n| topology |", "\n| later | wire |\n| topology |")).len(), 1);
        assert_eq!(page("no table").len(), TABLE.len());
    }

    #[test]
    fn a_crate_that_is_not_in_the_table_is_found() {
        assert_eq!(check(&project(Package::of("delphinus-misc", &[]))).len(), 1);
    }
}
