//! What is kept back for operators: less than all, and for somebody. And what a backend is to keep open: not more than it
//! may have.

use super::Check;
use crate::parse::{WrittenCluster, WrittenFile};
use crate::schema::{BackendSection, Pool, UserSection, Written};

impl Check<'_, '_> {
    /// `reserved_connections` of `[proxy]` and `[pool]`, against their limits and the users.
    pub(super) fn reserved(&mut self, file: &WrittenFile) {
        let is_for_somebody = file.users.rows.iter().any(|row| row.value.connection_admin);
        let nobody = file.users.complete && !is_for_somebody;
        if let Some(proxy) = &file.proxy {
            let limits = (proxy.value.reserved_connections, proxy.value.max_connections);
            self.reserve(proxy, limits, nobody);
            self.no_more_than_all(proxy, "max_user_connections", proxy.value.max_user_connections);
            self.no_more_than_all(
                proxy,
                "max_connections_per_address",
                proxy.value.max_connections_per_address,
            );
        }
        for (index, cluster) in file.clusters.list.iter().enumerate() {
            let Some(pool) = &cluster.pool else { continue };
            self.reserve(pool, (pool.value.reserved_connections, pool.value.max_connections), nobody);
            for backend in &cluster.backends.rows {
                self.backend_limit(backend, pool);
            }
            let users = file.users.rows.iter().filter(|user| home_of(user, file) == index);
            self.kept_open_in_all(&users.collect::<Vec<_>>(), cluster, pool);
        }
    }

    fn reserve<S>(&mut self, written: &Written<S>, (reserved, max): (Option<u32>, u32), nobody: bool) {
        let Some(reserved) = reserved.filter(|reserved| *reserved > 0) else { return };
        let at = written.at("reserved_connections");
        if reserved >= max {
            let what = format!(
                "reserved_connections = {reserved} leaves nothing of max_connections = {max} to others"
            );
            self.mistakes.push(at, what, format!("write less than {max}, or a larger max_connections"));
        }
        if nobody {
            let what = "reserved_connections is set, but no user has connection_admin";
            self.mistakes.push(at, what, "write connection_admin = true in a [[user]], or remove it");
        }
    }

    fn no_more_than_all(
        &mut self,
        proxy: &Written<crate::schema::Proxy>,
        option: &'static str,
        limit: Option<u32>,
    ) {
        let max = proxy.value.max_connections;
        if let Some(limit) = limit.filter(|limit| *limit > max) {
            let what = format!("{option} = {limit} is above max_connections = {max}, and so never reached");
            self.mistakes.push(proxy.at(option), what, format!("write at most {max}, or remove it"));
        }
    }

    fn backend_limit(&mut self, backend: &Written<BackendSection>, pool: &Written<Pool>) {
        let reserved = pool.value.reserved_connections.unwrap_or(0);
        if let Some(max) = backend.value.max_connections.filter(|max| *max <= reserved && reserved > 0) {
            let what =
                format!("max_connections = {max} is all reserved: [pool] reserved_connections = {reserved}");
            self.mistakes.push(backend.at("max_connections"), what, format!("write more than {reserved}"));
        }
    }

    /// The minimums of all users of a cluster together, against its smallest limit.
    fn kept_open_in_all(
        &mut self,
        users: &[&Written<UserSection>],
        cluster: &WrittenCluster,
        pool: &Written<Pool>,
    ) {
        let least: u32 = users.iter().map(|row| row.value.min_backend_connections).sum();
        let own = cluster.backends.rows.iter().filter_map(|row| row.value.max_connections);
        let max = own.chain([pool.value.max_connections]).min().unwrap_or(0);
        let Some(row) = users.iter().find(|row| row.value.min_backend_connections > 0) else {
            return;
        };
        if least > max {
            let what = format!("the users' min_backend_connections are {least}, and a backend has {max}");
            let instead = "write smaller ones, or a larger max_connections";
            self.mistakes.push(row.at("min_backend_connections"), what, instead);
        }
    }
}

/// The place of the cluster that a user gets to by itself: see `Config::home_of`.
fn home_of(user: &Written<UserSection>, file: &WrittenFile) -> usize {
    let sections = || file.clusters.list.iter().map(|cluster| cluster.section.as_ref());
    let named = |name: &String| sections().position(|one| one.is_some_and(|one| one.value.name == *name));
    let with = |schema: &String| {
        let small = schema.to_lowercase();
        let claims = |one: &String| one.to_lowercase() == small;
        sections().position(|one| one.is_some_and(|one| one.value.schemas.iter().any(claims)))
    };
    let UserSection { cluster, default_schema, .. } = &user.value;
    cluster.as_ref().and_then(named).or_else(|| default_schema.as_ref().and_then(with)).unwrap_or(0)
}
