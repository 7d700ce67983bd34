//! The clusters of a file: one `[cluster]`, or a `[[cluster]]` for each, with what is said for all of them below what is
//! said for one.

use super::{Rows, each, missing, one, rows};
use crate::document::Table;
use crate::mistake::Mistakes;
use crate::schema::{
    BackendSection, ClusterSection, FailoverSection, MonitorSection, Pool, RemoteRelaySection, Routing,
    Section, Written, read,
};

/// The clusters as read.
pub(crate) struct WrittenClusters {
    pub(crate) list: Vec<WrittenCluster>,
    /// They are written with two brackets, so that there can be several.
    pub(crate) is_list: bool,
    /// Whether these are all that are written.
    pub(crate) complete: bool,
}

/// One cluster as read. `None` where something is wrong, and that has been said.
pub(crate) struct WrittenCluster {
    pub(crate) section: Option<Written<ClusterSection>>,
    pub(crate) backends: Rows<BackendSection>,
    pub(crate) failover: Option<Written<FailoverSection>>,
    pub(crate) remote_relays: Rows<RemoteRelaySection>,
    pub(crate) routing: Option<Written<Routing>>,
    pub(crate) monitor: Option<Written<MonitorSection>>,
    pub(crate) pool: Option<Written<Pool>>,
}

/// Where a cluster has a password of its own, none of those that are for all is meant.
const PASSWORDS: [&str; 3] = ["password", "password_env", "password_file"];

impl WrittenClusters {
    /// All backends.
    pub(crate) fn backends(&self) -> impl Iterator<Item = &Written<BackendSection>> {
        self.list.iter().flat_map(|cluster| &cluster.backends.rows)
    }

    /// Every option of each cluster with the value that it has there.
    pub(super) fn effective(&self) -> Vec<(String, String)> {
        let numbered = self.list.iter().enumerate();
        let of_one = |(index, cluster): (usize, &WrittenCluster)| {
            let (path, below) = if self.is_list {
                let path = format!("cluster[{}]", index + 1);
                (path.clone(), format!("{path}."))
            } else {
                ("cluster".to_owned(), String::new())
            };
            let mut list = one(&path, cluster.section.as_ref());
            list.extend(each(&format!("{path}.backend"), &cluster.backends));
            list.extend(one(&format!("{path}.failover"), cluster.failover.as_ref()));
            list.extend(each(&format!("{path}.failover.remote_relay"), &cluster.remote_relays));
            list.extend(one(&format!("{below}routing"), cluster.routing.as_ref()));
            list.extend(one(&format!("{below}monitor"), cluster.monitor.as_ref()));
            list.extend(one(&format!("{below}pool"), cluster.pool.as_ref()));
            list
        };
        numbered.flat_map(of_one).collect()
    }
}

pub(super) fn read_clusters(
    root: &Table<'_>,
    is_whole: &dyn Fn(&str) -> bool,
    mistakes: &mut Mistakes<'_>,
) -> WrittenClusters {
    let is_list = root.is_list("cluster");
    let (tables, complete) = if is_list {
        root.children("cluster", "[[cluster]]", mistakes)
    } else {
        let table = root.child("cluster", ClusterSection::HEAD, mistakes);
        (Vec::from_iter(table), is_whole("cluster"))
    };
    // Relays may have sources of their own.
    let is_needed = root.entry("relay").is_none();
    if tables.is_empty() && is_needed {
        let instead = "[cluster] and below it a [[cluster.backend]] for each server";
        missing(root, "cluster", instead, is_whole("cluster"), mistakes);
    }
    if tables.is_empty() {
        // Without a cluster nobody else reads these.
        let _: Option<Written<Routing>> = layered(root, None, ("routing", ""), mistakes);
        let _: Option<Written<Pool>> = layered(root, None, ("pool", ""), mistakes);
    }
    let has_own = |table: &Table<'_>| table.entry("monitor").is_some();
    let is_watched = is_needed || !tables.is_empty();
    if is_watched && root.entry("monitor").is_none() && !tables.iter().any(has_own) {
        let instead = "[monitor] and below it user and password of the probes";
        missing(root, "monitor", instead, is_whole("monitor"), mistakes);
    }
    let complete = complete && is_whole("cluster");
    // Where `[monitor]` is mistyped, nothing is said of what is missing in a cluster's own.
    let knows_monitor = root.entry("monitor").is_some() || is_whole("monitor");
    let read_one = |table| cluster(root, table, (complete, knows_monitor), mistakes);
    let list: Vec<_> = tables.iter().map(read_one).collect();
    WrittenClusters { list, is_list, complete }
}

fn cluster(
    root: &Table<'_>,
    table: &Table<'_>,
    (complete, knows_monitor): (bool, bool),
    mistakes: &mut Mistakes<'_>,
) -> WrittenCluster {
    let mut backends: Rows<BackendSection> = rows(table, "backend", mistakes);
    backends.complete &= complete;
    let monitor = Heads { name: "monitor", for_all: MonitorSection::HEAD, for_cluster: "[cluster.monitor]" };
    let monitor = layers(root, Some(table), monitor, mistakes);
    let failover = table.child("failover", FailoverSection::HEAD, mistakes);
    let failover = failover.unwrap_or_else(|| Table::absent(FailoverSection::HEAD));
    WrittenCluster {
        section: read(table, mistakes),
        backends,
        remote_relays: rows(&failover, "remote_relay", mistakes),
        failover: read(&failover, mistakes),
        routing: layered(root, Some(table), ("routing", "[cluster.routing]"), mistakes),
        monitor: monitor.filter(|_| knows_monitor).and_then(|table| read(&table, mistakes)),
        pool: layered(root, Some(table), ("pool", "[cluster.pool]"), mistakes),
    }
}

/// A section whose options all have defaults.
fn layered<S: Section>(
    root: &Table<'_>,
    cluster: Option<&Table<'_>>,
    (name, own_head): (&str, &'static str),
    mistakes: &mut Mistakes<'_>,
) -> Option<Written<S>> {
    let heads = Heads { name, for_all: S::HEAD, for_cluster: own_head };
    let table = layers(root, cluster, heads, mistakes);
    read(&table.unwrap_or_else(|| Table::absent(S::HEAD)), mistakes)
}

/// A section that is written for all clusters, for one of them, or for both.
struct Heads<'n> {
    name: &'n str,
    for_all: &'static str,
    for_cluster: &'static str,
}

/// What a cluster says for itself, over what is said for all; `None` where neither says anything.
fn layers<'a>(
    root: &Table<'a>,
    cluster: Option<&Table<'a>>,
    Heads { name, for_all, for_cluster }: Heads<'_>,
    mistakes: &mut Mistakes<'_>,
) -> Option<Table<'a>> {
    let common = root.child(name, for_all, mistakes);
    let own = cluster.and_then(|table| table.child(name, for_cluster, mistakes));
    match (own, common) {
        (Some(own), Some(mut common)) => {
            if PASSWORDS.iter().any(|key| own.entry(key).is_some()) {
                common.remove(&PASSWORDS);
            }
            Some(own.over(common))
        }
        (one, other) => one.or(other),
    }
}
