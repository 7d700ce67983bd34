//! Which clients get to which cluster: from the configuration, and a warning where one greeting cannot be right for all.

use std::sync::Arc;

use delphinus_clients::ListenerSettings;
use delphinus_config::Config;
use delphinus_route::{ClusterChoice, Home};
use delphinus_topology::{ClusterId, Flavor};
use delphinus_view::SnapshotReader;

/// All clusters and what chooses them.
pub(crate) fn choice(config: &Config) -> Arc<ClusterChoice> {
    let clusters =
        config.clusters.iter().map(|cluster| (cluster.name.as_str().into(), cluster.schemas.clone()));
    let users = config.users.iter().map(|user| {
        let home = Home { cluster: user.cluster.map(id), schema: user.default_schema.clone() };
        (user.name.clone(), home)
    });
    Arc::new(ClusterChoice::new(clusters, users))
}

/// The id of the cluster at this place of the configuration.
pub(crate) fn id(index: usize) -> ClusterId {
    ClusterId(u16::try_from(index).expect("invariant: a file cannot hold so many clusters"))
}

/// A greeting names a version before anybody knows which cluster the client gets to, and drivers take it for that of the
/// servers. Where these are of two kinds, that is said once.
pub(crate) async fn warn_of_mixed_flavors(
    choice: Arc<ClusterChoice>,
    listeners: Vec<Arc<ListenerSettings>>,
    readers: Vec<SnapshotReader>,
) {
    let mut flavors: Vec<Option<Flavor>> = Vec::new();
    for mut reader in readers {
        let Some(snapshot) = reader.wait_for(|one| one.facts.is_some() || one.settled).await else { return };
        flavors.push(snapshot.facts.as_ref().map(|facts| facts.flavor));
    }
    for listener in listeners {
        let behind = choice.behind(listener.cluster.as_ref());
        let known: Vec<_> = behind.iter().filter_map(|id| Some((id, flavors[id.index()]?))).collect();
        let Some((first, told)) = known.first() else { continue };
        for (other, flavor) in known.iter().filter(|(_, flavor)| flavor != told) {
            tracing::warn!(
                listener = %listener.name, told = told.as_str(), cluster = %choice.name(**other), flavor = flavor.as_str(),
                "this listener greets clients with the version of cluster {}, before it knows which cluster they \
                 get to: give each flavor a listener of its own (cluster = \"..\")", choice.name(**first)
            );
        }
    }
}
