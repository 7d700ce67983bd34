//! How many connections each backend gets: as configured, and as its server allows.

use std::collections::HashMap;
use std::sync::Arc;

use delphinus_config::{Backend, Cluster, Config};
use delphinus_net::Place;
use delphinus_pool::{BackendLimits, Budget};
use delphinus_topology::{self as topology, ServerLimits};
use delphinus_view::SnapshotReader;

/// A `wait_timeout` below this leaves so little time that connections are closed nearly as soon as they are idle.
const SHORT_TIMEOUT_S: u32 = 10;

/// The limits of one backend as configured.
pub(crate) fn of_backend(config: &Config, cluster: &Cluster, backend: &Backend) -> BackendLimits {
    let is_set = cluster.pool.reserved_connections.is_some();
    let max = backend.max_connections.unwrap_or(cluster.pool.max_connections);
    let reserved = config.reserved_backend_connections(cluster);
    // The default must not take all that a smaller backend has.
    let reserved = if is_set { reserved } else { reserved.min(max / 2) };
    BackendLimits { max, reserved, of_users: of_users(config, max) }
}

/// Those of one mirror.
pub(crate) fn of_mirror(cluster: &Cluster, mirror: &Backend) -> BackendLimits {
    let max = mirror.max_connections.unwrap_or(cluster.pool.max_connections);
    BackendLimits { max, reserved: 0, of_users: HashMap::new() }
}

/// Users with a limit of their own. To keep many open in advance says that they are wanted.
fn of_users(config: &Config, max: u32) -> HashMap<String, u32> {
    let own = |user: &delphinus_config::User| {
        let kept = user.min_backend_connections;
        user.max_backend_connections.or_else(|| (kept > max - max / 10).then_some(kept))
    };
    config.users.iter().filter_map(|user| Some((user.name.clone(), own(user)?))).collect()
}

/// Tells the pools what the servers allow, whenever that changes, and the log where that is less than configured.
pub(crate) async fn follow(mut reader: SnapshotReader, backends: Vec<(Arc<Place>, Arc<Budget>)>) {
    let mut known: Vec<Option<ServerLimits>> = vec![None; backends.len()];
    let mut seen = None;
    loop {
        let newer = |generation: u64| seen.is_none_or(|seen| generation > seen);
        let Some(snapshot) = reader.wait_for(|snapshot| newer(snapshot.generation)).await else { return };
        seen = Some(snapshot.generation);
        for ((backend, (_, budget)), known) in snapshot.backends.iter().zip(&backends).zip(&mut known) {
            if backend.limits != *known
                && let Some(limits) = backend.limits
            {
                *known = backend.limits;
                budget.learn(&limits);
                warn(backend, &limits, budget);
            }
        }
    }
}

fn warn(backend: &topology::Backend, limits: &ServerLimits, budget: &Budget) {
    let name = &backend.name;
    if budget.max() < budget.configured() {
        tracing::warn!(
            backend = %name, configured = budget.configured(), server = limits.max_connections, used = budget.max(),
            "max_connections is more than the server allows, less the part left to others: the pool stays within that"
        );
    }
    if let Some(max) = limits.max_user_connections {
        tracing::warn!(
            backend = %name, max_user_connections = max.get(),
            "the server limits the connections of each user: the pool stays within that limit for all clients of a \
             user together"
        );
    }
    let shortest_s = limits.wait_timeout_s.min(limits.interactive_timeout_s);
    if shortest_s < SHORT_TIMEOUT_S {
        tracing::warn!(
            backend = %name, wait_timeout_s = shortest_s,
            "the server closes idle connections so soon that the pool can hardly keep any"
        );
    }
}
