//! Every external crate has a row in docs/dependencies.md that says why it is there.

use std::collections::HashSet;

use super::packages::Package;
use super::unused::workspace_dependencies;
use super::{Project, Violation};

const PAGE: &str = "docs/dependencies.md";

/// Names crates without a row, and rows without a crate.
pub(crate) fn check(project: &Project) -> Vec<Violation> {
    let external = workspace_dependencies(project).into_iter().filter(|name| !name.starts_with("delphinus-"));
    let fuzz = project.fuzz_packages.own.iter().flat_map(Package::normal);
    let fuzz = fuzz.map(|used| used.name.clone()).filter(|name| !name.starts_with("delphinus-"));
    let wanted: HashSet<String> = external.chain(fuzz).collect();
    let rows = rows(project.tree.text(PAGE).unwrap_or_default());
    let absent = wanted.iter().filter(|name| !rows.iter().any(|(_, row)| row == *name));
    let absent = absent.map(|name| Violation::new(PAGE, 0, format!("no row says why `{name}` is used")));
    let stale = rows.iter().filter(|(_, row)| !wanted.contains(*row));
    let stale = stale.map(|(line, row)| Violation::new(PAGE, *line, format!("`{row}` is not used any more")));
    absent.chain(stale).collect()
}

/// The first cells of the table, with their lines.
fn rows(page: &str) -> Vec<(usize, &str)> {
    let lines = page.lines().enumerate();
    let cells = lines
        .filter_map(|(index, line)| Some((index + 1, line.strip_prefix('|')?.split('|').next()?.trim())));
    cells.filter(|(_, cell)| *cell != "crate" && !cell.starts_with('-')).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::files;
    use super::*;

    #[test]
    fn a_crate_without_a_row_and_a_row_without_a_crate_are_found() {
        let manifest =
            "[workspace.dependencies]\nmemchr = \"2\"\ntoml = \"1\"\ndelphinus-b = { path = \"b\" }\n";
        let page = "# Crates\n\n| crate | why |\n|---|---|\n| toml | reads TOML |\n| regex | was used |\n";
        let found = check(&files(&[("Cargo.toml", manifest), (PAGE, page)]));
        let found: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "docs/dependencies.md: no row says why `memchr` is used",
                "docs/dependencies.md:6: `regex` is not used any more"
            ]
        );
    }
}
