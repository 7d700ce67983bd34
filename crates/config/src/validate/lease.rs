//! `[lease]` and `[[vip]]`: what belongs together, and what would not be safe.

use std::time::Duration;

use super::Check;
use super::password::Sources;
use crate::config::{Cluster, Failsafe, Lease, Vip};
use crate::parse::Rows;
use crate::schema::{LeaseSection, VipSection, Written};
use crate::secret::Secret;
use crate::word::{LeaseStore, OnStoreLoss, TopologyKind, VipRole};

impl Check<'_, '_> {
    pub(super) fn lease(&mut self, row: &Written<LeaseSection>, clusters: &[Cluster]) -> Lease {
        let written = &row.value;
        self.endpoints(row);
        self.group_store(row, clusters);
        if written.ttl_s * 1_000 < written.margin_ms + 1_500 {
            let what = format!("ttl_s = {} leaves less than 1.5 s beside the margin", written.ttl_s);
            self.mistakes.push(row.at("ttl_s"), what, "write a longer ttl_s or a shorter margin_ms");
        }
        if !written.prefix.starts_with('/') || written.prefix.ends_with('/') {
            let what = format!("prefix = {:?} is not a path", written.prefix);
            self.mistakes.push(row.at("prefix"), what, "write it as \"/delphinus\"");
        }
        if let Some(name) = &written.local_backend
            && !clusters.iter().any(|cluster| cluster.backends.iter().any(|one| one.name == *name))
        {
            let what = format!("local_backend = {name:?} is not a backend");
            self.mistakes.push(row.at("local_backend"), what, "write the name of a [[cluster.backend]]");
        }
        if let Some(member) = written.member.as_deref().filter(|member| !is_plain(member)) {
            let what = format!("member = {member:?} cannot be a key");
            self.mistakes.push(row.at("member"), what, "use letters, digits, dots, dashes and underscores");
        }
        Lease {
            store: written.store,
            endpoints: written.endpoints.clone(),
            user: written.user.clone(),
            password: self.lease_password(row),
            tls_ca: written.tls_ca.as_ref().map(|path| self.pem_file("tls_ca", path, row.at("tls_ca"))),
            tls_cert: written
                .tls_cert
                .as_ref()
                .map(|path| self.pem_file("tls_cert", path, row.at("tls_cert"))),
            tls_key: written.tls_key.as_ref().map(|path| self.pem_file("tls_key", path, row.at("tls_key"))),
            prefix: written.prefix.clone(),
            member: written.member.clone(),
            local_backend: written.local_backend.clone(),
            ttl: Duration::from_secs(written.ttl_s),
            margin: Duration::from_millis(written.margin_ms),
            failsafe: self.failsafe(row),
            rebalance_after: Duration::from_millis(written.rebalance_after_ms),
        }
    }

    /// `None`: what is held is given up when the store is lost, or there is a mistake.
    fn failsafe(&mut self, row: &Written<LeaseSection>) -> Option<Failsafe> {
        let written = &row.value;
        if written.on_store_loss == OnStoreLoss::Release {
            return None;
        }
        let Some(address) = &written.failsafe_address else {
            let what = "on_store_loss = \"failsafe\" without failsafe_address";
            self.mistakes.push(
                row.at("on_store_loss"),
                what,
                "write where others reach [http] of this process",
            );
            return None;
        };
        if !address.starts_with("http://") && !address.starts_with("https://") {
            let what = format!("failsafe_address = {address:?} is not an address");
            self.mistakes.push(row.at("failsafe_address"), what, "write it as \"https://10.0.0.1:6480\"");
        }
        if address.starts_with("https://") && written.failsafe_ca.is_none() {
            let what = "https without failsafe_ca";
            self.mistakes.push(row.at("failsafe_address"), what, "write failsafe_ca = \"ca.pem\"");
        }
        let sources = [&written.failsafe_token_env, &written.failsafe_token.as_ref().map(|_| String::new())];
        let count = sources.iter().filter(|one| one.is_some()).count()
            + usize::from(written.failsafe_token_file.is_some());
        if count != 1 {
            let what = format!("{count} token options for failsafe");
            self.mistakes.push(
                row.at("on_store_loss"),
                what,
                "write failsafe_token_file, failsafe_token_env or failsafe_token",
            );
            return None;
        }
        let token = match (&written.failsafe_token, &written.failsafe_token_env, &written.failsafe_token_file)
        {
            (Some(token), ..) => Ok(token.clone()),
            (_, Some(name), _) => self.variable(name).map_err(|problem| problem.what),
            (_, _, Some(path)) => {
                self.line_of_file(path).map_err(|problem| format!("failsafe_token_file {problem}"))
            }
            _ => return None,
        };
        let instead = "write one that holds a token of [[http.token]]";
        let token = token.map_err(|what| self.mistakes.push(row.at("on_store_loss"), what, instead)).ok()?;
        let ca = written.failsafe_ca.as_ref();
        let ca = ca.map(|path| self.pem_file("failsafe_ca", path, row.at("failsafe_ca")));
        Some(Failsafe { address: address.clone(), token, ca })
    }

    /// What a group of servers needs to be a store, and what it does not take.
    fn group_store(&mut self, row: &Written<LeaseSection>, clusters: &[Cluster]) {
        let written = &row.value;
        if written.store != Some(LeaseStore::Group) {
            return;
        }
        if clusters.first().is_some_and(|cluster| cluster.topology != TopologyKind::GroupReplication) {
            let what = "store = \"group\", and the first cluster is no group";
            let instead = "write topology = \"group_replication\" there, or store = \"etcd\"";
            self.mistakes.push(row.at("store"), what, instead);
        }
        if written.user.is_none() {
            let what = "store = \"group\" without a user of the servers";
            let instead = "write user and password_file; docs/ha.md says which rights it needs";
            self.mistakes.push(row.at("store"), what, instead);
        }
        let of_etcd = [
            ("endpoints", !written.endpoints.is_empty()),
            ("tls_ca", written.tls_ca.is_some()),
            ("tls_cert", written.tls_cert.is_some()),
            ("tls_key", written.tls_key.is_some()),
        ];
        for (name, _) in of_etcd.into_iter().filter(|(_, is_there)| *is_there) {
            let what = format!("{name} is etcd's, and store = \"group\"");
            let instead = "remove it: the servers are those of [[cluster.backend]], and so is their TLS";
            self.mistakes.push(row.at(name), what, instead);
        }
    }

    fn endpoints(&mut self, row: &Written<LeaseSection>) {
        let written = &row.value;
        if written.store == Some(LeaseStore::Etcd) && written.endpoints.is_empty() {
            let what = "store = \"etcd\" without endpoints";
            self.mistakes.push(row.at("store"), what, "write endpoints = [\"http://10.0.0.3:2379\"]");
        }
        for endpoint in &written.endpoints {
            let rest = endpoint.strip_prefix("http://").or_else(|| endpoint.strip_prefix("https://"));
            if !rest
                .is_some_and(|rest| !rest.is_empty() && !rest.trim_end_matches('/').contains(['/', '@', ' ']))
            {
                // It may hold a password.
                let what = "an endpoint is not an address";
                self.mistakes.push(
                    row.at("endpoints"),
                    what,
                    "write it as \"http://host:2379\" or \"https://host:2379\"",
                );
            }
            if endpoint.starts_with("https://") && written.tls_ca.is_none() {
                self.mistakes.push(row.at("endpoints"), "https without tls_ca", "write tls_ca = \"ca.pem\"");
            }
        }
        if written.tls_cert.is_some() != written.tls_key.is_some() {
            self.mistakes.push(
                row.at("tls_cert"),
                "tls_cert and tls_key belong together",
                "write both or none",
            );
        }
    }

    fn lease_password(&mut self, row: &Written<LeaseSection>) -> Option<Secret> {
        let written = &row.value;
        let sources = Sources {
            of: "[lease]".to_owned(),
            prefix: "",
            password: written.password.as_ref(),
            password_env: written.password_env.as_deref(),
            password_file: written.password_file.as_deref(),
            password_hash: None,
        };
        if sources.is_empty() && written.user.is_none() {
            return None;
        }
        let source = self.one_source(&sources, row)?;
        self.plain(&source, "", row)
    }

    pub(super) fn vips(&mut self, rows: &Rows<VipSection>, lease: Option<&Lease>) -> Vec<Vip> {
        let is_same = |one: &VipSection, other: &VipSection| one.name == other.name;
        self.refuse_twins(&rows.rows, "name", is_same, |one| one.name.clone());
        let shares = |one: &VipSection, other: &VipSection| {
            one.addresses.iter().any(|ip| other.addresses.contains(ip))
        };
        self.refuse_twins(&rows.rows, "addresses", shares, |one| format!("{:?}", one.addresses));
        rows.rows.iter().map(|row| self.vip(row, lease)).collect()
    }

    fn vip(&mut self, row: &Written<VipSection>, lease: Option<&Lease>) -> Vip {
        let written = &row.value;
        if !is_plain(&written.name) {
            let what = format!("name = {:?} cannot be a key", written.name);
            self.mistakes.push(row.at("name"), what, "use letters, digits, dots, dashes and underscores");
        }
        if written.addresses.is_empty() {
            self.mistakes.push(
                row.at("addresses"),
                "a virtual IP without an address",
                "write addresses = [\"10.0.0.100\"]",
            );
        }
        for ip in written.addresses.iter().filter(|ip| ip.is_unspecified() || ip.is_multicast()) {
            let what = format!("{ip} is not a host's address");
            self.mistakes.push(row.at("addresses"), what, "write an address that no host has");
        }
        if lease.is_some_and(|lease| lease.store.is_none()) {
            let what = format!("virtual IP {:?} without a lease store", written.name);
            self.mistakes.push(row.at("name"), what, "write [lease] with store = \"etcd\" and endpoints");
        }
        let needs_backend = written.role != VipRole::Proxy;
        if needs_backend && lease.is_some_and(|lease| lease.local_backend.is_none()) {
            let what = format!("role = \"{}\" goes by the backend of this host", written.role);
            self.mistakes.push(row.at("role"), what, "write local_backend in [lease]");
        }
        Vip {
            name: written.name.clone(),
            addresses: written.addresses.clone(),
            interface: written.interface.clone(),
            role: written.role,
            floating: written.floating,
            kill_on_move: written.kill_on_move,
            drain: Duration::from_millis(written.drain_timeout_ms),
        }
    }
}

/// What can stand in a key between slashes.
fn is_plain(name: &str) -> bool {
    let is_good = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    !name.is_empty() && name.len() <= 64 && name.chars().all(is_good)
}
