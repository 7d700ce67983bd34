//! What cargo says about the packages.

use std::collections::HashSet;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::cargo::{self, cargo};

/// The packages of a workspace and everything they are built from.
#[derive(Debug, Default)]
pub(crate) struct Packages {
    /// The workspace's own.
    pub(crate) own: Vec<Package>,
    /// Everybody else's, as far as they are built on this machine.
    pub(crate) foreign: Vec<Package>,
}

/// A package.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Package {
    #[serde(default)]
    id: String,
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) version: String,
    #[serde(default)]
    pub(crate) license: Option<String>,
    /// None for a package of this tree.
    #[serde(default)]
    pub(crate) source: Option<String>,
    #[serde(default)]
    manifest_path: String,
    #[serde(default)]
    pub(crate) dependencies: Vec<Dependency>,
}

/// What a package asks for.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// None for a normal one, else "dev" or "build".
    #[serde(default)]
    pub(crate) kind: Option<String>,
    #[serde(default)]
    rename: Option<String>,
}

impl Dependency {
    /// Its name in the code.
    pub(crate) fn ident(&self) -> String {
        self.rename.as_ref().unwrap_or(&self.name).replace('-', "_")
    }
}

impl Package {
    /// The name without the prefix that all crates of the project have.
    pub(crate) fn short_name(&self) -> &str {
        self.name.strip_prefix("delphinus-").unwrap_or(&self.name)
    }

    /// Normal dependencies: what is in the product.
    pub(crate) fn normal(&self) -> impl Iterator<Item = &Dependency> {
        self.dependencies.iter().filter(|dependency| dependency.kind.is_none())
    }

    /// The path of the manifest, from the project's root.
    pub(crate) fn manifest(&self) -> String {
        let root = cargo::root();
        let path = std::path::Path::new(&self.manifest_path);
        path.strip_prefix(&root).unwrap_or(path).to_string_lossy().into_owned()
    }

    /// The package's folder, from the project's root.
    pub(crate) fn folder(&self) -> String {
        self.manifest().trim_end_matches("Cargo.toml").trim_end_matches('/').to_owned()
    }
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: HashSet<String>,
}

impl Packages {
    /// Asks cargo about a manifest of the project.
    pub(crate) fn read(manifest: &str) -> Result<Self> {
        let said = cargo::output(cargo(&["metadata", "--format-version=1", "--manifest-path", manifest]))?;
        let Metadata { packages, workspace_members } =
            serde_json::from_str(&said).context("cargo metadata is not what it was")?;
        let is_own = |package: &Package| workspace_members.contains(&package.id);
        let (own, mut foreign): (Vec<_>, Vec<_>) = packages.into_iter().partition(is_own);
        let built = built(manifest)?;
        foreign.retain(|Package { name, version, .. }| built.contains(&format!("{name} v{version}")));
        Ok(Self { own, foreign })
    }
}

/// What is really built, as "name vVERSION". The metadata has every crate that some switched-off feature or some other
/// system would bring as well.
fn built(manifest: &str) -> Result<HashSet<String>> {
    let arguments = ["tree", "--workspace", "--edges=all", "--prefix=none", "--manifest-path", manifest];
    let said = cargo::output(cargo(&arguments))?;
    let name_and_version = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    Ok(said.lines().map(name_and_version).collect())
}

#[cfg(test)]
impl Package {
    /// A package of a test, with a manifest in its usual place.
    pub(crate) fn of(name: &str, dependencies: &[(&str, Option<&str>)]) -> Self {
        let dependency = |&(name, kind): &(&str, Option<&str>)| Dependency {
            name: name.to_owned(),
            kind: kind.map(str::to_owned),
            rename: None,
        };
        let mut package = Self { name: name.to_owned(), ..Self::default() };
        package.manifest_path = format!("crates/{}/Cargo.toml", package.short_name());
        package.dependencies = dependencies.iter().map(dependency).collect();
        package
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_told_from_what_it_uses() {
        let packages = Packages::read("Cargo.toml").unwrap();
        let xtask = packages.own.iter().find(|package| package.name == "xtask").unwrap();
        assert_eq!((xtask.manifest(), xtask.folder()), ("xtask/Cargo.toml".into(), "xtask".into()));
        assert!(xtask.normal().any(|dependency| dependency.name == "anyhow"));
        assert!(packages.foreign.iter().any(|package| package.name == "anyhow"));
        assert!(packages.foreign.iter().all(|package| package.name != "windows-sys"), "this is not Windows");
    }
}
