//! Which cluster a client gets to: listeners and users name clusters that there are, no schema is in two, and no cluster is
//! there for nobody.

use super::Check;
use crate::mistake::Span;
use crate::parse::{WrittenClusters, WrittenFile};
use crate::schema::{ClusterSection, UserSection, Written};

/// The longest schema name, in characters.
const SCHEMA_NAME_MAX: usize = 64;

/// What may be said of clusters elsewhere in the file.
pub(super) struct Names {
    /// `None`: some clusters could not be read, so that nothing can be said about a name that is not there.
    known: Option<Vec<String>>,
}

impl Names {
    fn of(clusters: &WrittenClusters) -> Self {
        let names: Option<Vec<_>> = clusters
            .list
            .iter()
            .map(|cluster| cluster.section.as_ref().map(|section| section.value.name.clone()))
            .collect();
        Self { known: names.filter(|_| clusters.complete && !clusters.list.is_empty()) }
    }
}

impl Check<'_, '_> {
    /// Checks everything about the choice, and gives the names that may be used.
    pub(super) fn choices(&mut self, file: &WrittenFile) -> Names {
        let clusters = &file.clusters;
        let sections = || clusters.list.iter().filter_map(|cluster| cluster.section.as_ref());
        for row in sections().filter(|row| clusters.list.len() > 1 && !row.has("name")) {
            let instead = "write name = \"...\" below its [[cluster]]";
            self.mistakes.push(row.at(""), "one of several clusters has no name", instead);
        }
        self.refuse_twins(
            sections().filter(|row| row.has("name")),
            "name",
            |one, other| one.name == other.name,
            |one| one.name.clone(),
        );
        for row in sections() {
            self.cluster_name(row);
        }
        self.claims(clusters);
        let names = Names::of(clusters);
        self.homes(file, &names);
        self.unreachable(file, &names);
        names
    }

    /// The place of the cluster that a listener or user names.
    pub(super) fn cluster_named(&mut self, name: Option<&str>, at: &Span, names: &Names) -> Option<usize> {
        let (name, known) = (name?, names.known.as_ref()?);
        let found = known.iter().position(|one| one == name);
        if found.is_none() {
            let what = format!("there is no cluster {name:?}");
            self.mistakes.push(at, what, format!("write one of {known:?}"));
        }
        found
    }

    fn cluster_name(&mut self, row: &Written<ClusterSection>) {
        let name = &row.value.name;
        if name.is_empty() || name.chars().count() > SCHEMA_NAME_MAX {
            let what = format!("{name:?} cannot be the name of a cluster");
            self.mistakes.push(row.at("name"), what, format!("write 1 to {SCHEMA_NAME_MAX} characters"));
        }
    }

    fn claims(&mut self, clusters: &WrittenClusters) {
        let mut claimed: Vec<(String, &str)> = Vec::new();
        for row in clusters.list.iter().filter_map(|cluster| cluster.section.as_ref()) {
            for schema in &row.value.schemas {
                if schema.is_empty() || schema.chars().count() > SCHEMA_NAME_MAX {
                    let what = format!("schemas has an item {schema:?} that cannot be the name of a schema");
                    self.mistakes.push(
                        row.at("schemas"),
                        what,
                        format!("write 1 to {SCHEMA_NAME_MAX} characters"),
                    );
                }
                let small = schema.to_lowercase();
                match claimed.iter().find(|(earlier, _)| *earlier == small) {
                    Some((_, other)) if *other == row.value.name => {
                        let what = format!("the schema {schema:?} is there twice");
                        self.mistakes.push(row.at("schemas"), what, "remove one of the two");
                    }
                    Some((_, other)) => {
                        let what = format!("the schema {schema:?} is in cluster {other:?} already");
                        let instead = "remove it here or there; clusters that have a schema of the same name are chosen by listener or user";
                        self.mistakes.push(row.at("schemas"), what, instead);
                    }
                    None => claimed.push((small, &row.value.name)),
                }
            }
        }
    }

    /// A user cannot begin in a schema that another cluster has.
    fn homes(&mut self, file: &WrittenFile, names: &Names) {
        for row in &file.users.rows {
            let UserSection { cluster: Some(cluster), default_schema: Some(schema), .. } = &row.value else {
                continue;
            };
            let is_known = names.known.as_ref().is_some_and(|known| known.contains(cluster));
            if let Some(owner) = owner(&file.clusters, schema).filter(|owner| is_known && owner != cluster) {
                let what = format!(
                    "default_schema = {schema:?} is in cluster {owner:?}, and the user in {cluster:?}"
                );
                let instead = "write a schema of the user's cluster, or remove cluster";
                self.mistakes.push(row.at("default_schema"), what, instead);
            }
        }
    }

    /// A cluster that no client can get to is a name that is missing somewhere.
    fn unreachable(&mut self, file: &WrittenFile, names: &Names) {
        if names.known.is_none() || !file.listeners.complete || !file.users.complete {
            return;
        }
        let by_listeners = file.listeners.rows.iter().filter_map(|row| row.value.cluster.as_deref());
        let by_users = file.users.rows.iter().filter_map(|row| row.value.cluster.as_deref());
        let mut sections = file.clusters.list.iter().filter_map(|cluster| cluster.section.as_ref());
        let default = sections.next().map(|row| row.value.name.as_str());
        let chosen: Vec<&str> = by_listeners.chain(by_users).chain(default).collect();
        for row in sections.filter(|row| row.has("name")) {
            let name = &row.value.name;
            if row.value.schemas.is_empty() && !row.has("schemas") && !chosen.contains(&name.as_str()) {
                let what = format!("no client gets to cluster {name:?}");
                let instead = format!(
                    "write cluster = {name:?} in a [[listener]] or [[user]], or schemas = [..] here; the first cluster is the default"
                );
                self.mistakes.push(row.at("name"), what, instead);
            }
        }
    }
}

/// The name of the cluster that claims a schema.
fn owner(clusters: &WrittenClusters, schema: &str) -> Option<String> {
    let small = schema.to_lowercase();
    let mut sections = clusters.list.iter().filter_map(|cluster| cluster.section.as_ref());
    let found = sections.find(|row| row.value.schemas.iter().any(|one| one.to_lowercase() == small));
    found.map(|row| row.value.name.clone())
}
