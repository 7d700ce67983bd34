//! Whether there is room for what the file allows: open files, connections of servers, the time for which idle ones live.

use std::collections::BTreeMap;

use delphinus_config::{Backend, BackendAddress, Cluster, LeaseStore};

use super::listed;
use crate::{Answer, Facts, Finding, Server, Severity};

/// Listeners, the monitor, logs, what each worker has for itself.
const OTHER_FILES: u64 = 200;
/// What is left to others: the monitor, operators, replicas.
const OTHER_CONNECTIONS: u64 = 5;

pub(super) fn check(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found: Vec<_> = files(facts).into_iter().collect();
    found.extend(connections(facts));
    found.extend(facts.answers().flat_map(|(server, answer)| {
        let of_server = [idle(facts, server, answer), per_user(facts, server, answer)];
        of_server.into_iter().flatten()
    }));
    found
}

fn most(cluster: &Cluster, backend: &Backend) -> u64 {
    backend.max_connections.unwrap_or(cluster.pool.max_connections).into()
}

fn files(facts: &Facts<'_>) -> Option<Finding> {
    let limit = facts.machine.files?;
    let config = facts.config;
    let of_cluster = |one: &Cluster| one.backends.iter().map(|backend| most(one, backend)).sum::<u64>();
    let pools: u64 = config.clusters.iter().map(of_cluster).sum();
    let clients = u64::from(config.proxy.max_connections);
    let wanted = clients + pools + OTHER_FILES;
    let (who, whose) = if facts.machine.is_proxy {
        ("it", "")
    } else {
        (
            "the process that looks",
            "; the proxy has this limit if it is started from here, and that of its service otherwise, which DOCTOR in the proxy looks at",
        )
    };
    (limit < wanted).then(|| Finding {
        severity: Severity::Warning,
        check: "file_limit",
        object: "process".to_owned(),
        found: format!(
            "{who} may open {limit} files, and proxy.max_connections = {clients} with pools of {pools} connections needs {wanted}{whose}"
        ),
        why: "clients above that are refused, and backend connections fail",
        fix: format!("LimitNOFILE={} in the service of systemd, or proxy.max_connections = {}", wanted.next_power_of_two(), limit.saturating_sub(pools + OTHER_FILES)),
    })
}

/// The pools that lead to one server, which may be a backend of several clusters.
#[derive(Default)]
struct Pools {
    connections: u64,
    backends: Vec<String>,
    /// What the server allows.
    allowed: Option<u64>,
}

/// All pools that lead to one server together.
fn connections(facts: &Facts<'_>) -> Vec<Finding> {
    let mut by_server: BTreeMap<String, Pools> = BTreeMap::new();
    for (server, answer) in facts.answers() {
        let backend = facts.backend(server);
        let pools = by_server.entry(identity(answer, &backend.address)).or_default();
        pools.connections += most(facts.cluster(server), backend);
        pools.backends.push(facts.name(server));
        pools.allowed = answer.number(&["max_connections"]);
    }
    let has_others = has_others(facts);
    by_server
        .values()
        .filter_map(|pools| above(pools).or_else(|| of_all_proxies(pools, has_others)))
        .collect()
}

/// True if other proxies may be in front of the same servers: the file names a store that they share. How many there are it does not say.
fn has_others(facts: &Facts<'_>) -> bool {
    let is_shared = matches!(facts.config.lease.store, Some(LeaseStore::Etcd | LeaseStore::Group));
    is_shared && !facts.config.listeners.is_empty()
}

/// A server that has room for this proxy, and for no second one like it.
fn of_all_proxies(pools: &Pools, has_others: bool) -> Option<Finding> {
    let Pools { connections, backends, allowed } = pools;
    let allowed = (*allowed)?;
    (has_others && 2 * connections + OTHER_CONNECTIONS > allowed).then(|| Finding {
        severity: Severity::Note,
        check: "pools_of_proxies",
        object: listed(backends),
        found: format!(
            "pools of {connections} connections in this proxy, and the server allows {allowed} in all: a second proxy, which [lease] lets expect, has no room for as many"
        ),
        why: "each proxy has its own pools: together they get fewer connections than configured, and other clients of the server are refused with error 1040",
        fix: format!(
            "SET GLOBAL max_connections = {} on the server for two proxies, {connections} more for each further one; or smaller pools; nothing, if this proxy is the only one",
            2 * connections + 50
        ),
    })
}

fn above(pools: &Pools) -> Option<Finding> {
    let Pools { connections, backends, allowed } = pools;
    let allowed = (*allowed)?;
    (connections + OTHER_CONNECTIONS > allowed).then(|| Finding {
        severity: Severity::Warning,
        check: "pool_above_max_connections",
        object: listed(backends),
        found: format!(
            "pools of {connections} connections in this proxy (each other proxy has its own), and the server allows {allowed} in all"
        ),
        why: "the pool stays below what is configured, and other clients of the server are refused with error 1040",
        fix: format!(
            "SET GLOBAL max_connections = {} on the server, or max_connections = {} for the backend in the file",
            connections + 50,
            (allowed.saturating_sub(OTHER_CONNECTIONS) / backends.len().max(1) as u64).max(1)
        ),
    })
}

/// What tells a server from others.
fn identity(answer: &Answer, address: &BackendAddress) -> String {
    match answer.variable(&["server_uuid"]) {
        Some(uuid) => uuid.to_owned(),
        None => format!("{address:?}"),
    }
}

fn idle(facts: &Facts<'_>, server: &Server, answer: &Answer) -> Option<Finding> {
    let kept = facts.cluster(server).pool.idle_timeout_s;
    let closed = answer.number(&["wait_timeout"])?;
    (closed < kept).then(|| Finding {
        severity: Severity::Warning,
        check: "wait_timeout",
        object: facts.name(server),
        found: format!("wait_timeout is {closed} s, and pool.idle_timeout_s is {kept} s"),
        why: "the server closes connections that the pool would keep: the next statement has to open another, or finds a closed one",
        fix: if closed < 30 {
            format!("SET GLOBAL wait_timeout = {} on the server", (2 * kept).max(600))
        } else {
            format!("[pool] idle_timeout_s = {}, or SET GLOBAL wait_timeout = {} on the server", closed / 2, 2 * kept)
        },
    })
}

fn per_user(facts: &Facts<'_>, server: &Server, answer: &Answer) -> Option<Finding> {
    let allowed = answer
        .number(&["max_user_connections"])
        .filter(|limit| *limit > 0 && *limit < u64::from(u32::MAX))?;
    let pool = most(facts.cluster(server), facts.backend(server));
    (allowed < pool).then(|| Finding {
        severity: Severity::Warning,
        check: "max_user_connections",
        object: facts.name(server),
        found: format!("max_user_connections is {allowed}, and the pool may have {pool} for one user"),
        why: "all clients of a user share these connections: more statements at the same time wait or fail with error 1203",
        fix: format!("SET GLOBAL max_user_connections = 0 on the server, or max_connections = {allowed} for the backend"),
    })
}
