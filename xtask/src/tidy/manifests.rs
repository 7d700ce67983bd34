//! Every manifest of the workspace takes its versions and lints from the root, and says what its package is for.

use toml::Table;

use super::packages::Package;
use super::{Project, Violation};

/// What a package takes from the root.
const INHERITED: [&str; 5] = ["version", "edition", "rust-version", "license", "publish"];

/// Names every manifest that does not.
pub(crate) fn check(project: &Project) -> Vec<Violation> {
    project.packages.own.iter().flat_map(|package| breaches(project, package)).collect()
}

fn breaches(project: &Project, package: &Package) -> Vec<Violation> {
    let path = package.manifest();
    let report = |what: String| Violation::new(&path, 0, what);
    let Some(manifest) = project.tree.text(&path).and_then(|text| text.parse::<Table>().ok()) else {
        return vec![report("cannot be read".to_owned())];
    };
    let is_inherited = |item: Option<&toml::Value>| {
        item.and_then(|item| item.get("workspace")).and_then(toml::Value::as_bool) == Some(true)
    };
    let own = manifest.get("package");
    let field = |name: &str| own.and_then(|own| own.get(name));
    let mut whats: Vec<String> = INHERITED
        .iter()
        .filter(|name| !is_inherited(field(name)))
        .map(|name| format!("`{name}.workspace = true`"))
        .collect();
    if !is_inherited(manifest.get("lints")) {
        whats.push("`[lints] workspace = true`".to_owned());
    }
    if field("description").is_none() {
        whats.push("a `description`".to_owned());
    }
    for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
        let items = manifest.get(kind).and_then(toml::Value::as_table).into_iter().flatten();
        let wrong = items.filter(|(_, item)| !is_inherited(Some(*item)));
        whats.extend(wrong.map(|(name, _)| format!("`{name}.workspace = true`: versions stand in the root")));
    }
    whats.into_iter().map(|what| report(format!("wants {what}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::super::packages::Packages;
    use super::super::tree::Tree;
    use super::*;

    const GOOD: &str = "[package]\nname = \"delphinus-a\"\ndescription = \"A.\"\nversion.workspace = true\nedition.workspace = true\nrust-version.workspace = true\nlicense.workspace = true\npublish.workspace = true\n[dependencies]\nb = { workspace = true, features = [\"c\"] }\n[lints]\nworkspace = true\n";

    fn breaches_of(manifest: &str) -> usize {
        let packages = Packages { own: vec![Package::of("delphinus-a", &[])], foreign: vec![] };
        let tree = Tree::of(&[("crates/a/Cargo.toml", manifest)]);
        check(&Project { tree, packages, ..Project::default() }).len()
    }

    #[test]
    fn a_good_manifest_is_good() {
        assert_eq!(breaches_of(GOOD), 0);
    }

    #[test]
    fn each_breach_is_found() {
        let changes = [
            ("description = \"A.\"\n", ""),
            ("edition.workspace = true", "edition = \"2024\""),
            ("[lints]\nworkspace = true\n", ""),
            ("{ workspace = true, features = [\"c\"] }", "\"1\""),
            ("[package]", "[package"),
        ];
        for (good, bad) in changes {
            assert_eq!(breaches_of(&GOOD.replace(good, bad)), 1, "{bad}");
        }
    }
}
