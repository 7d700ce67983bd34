//! Each cluster: one primary, TLS files where they are needed; and no backend twice in all of them.

use super::Check;
use crate::address::BackendAddress;
use crate::config::{Backend, Cluster, Mirror};
use crate::parse::{Rows, WrittenCluster, WrittenClusters};
use crate::schema::{BackendSection, ClusterSection, MirrorSection, Section, Written};
use crate::validate::trust::trust_of;
use crate::word::{BackendTls, Compression, Flavor, Role, TopologyKind};

impl Check<'_, '_> {
    pub(super) fn cluster(&mut self, cluster: WrittenCluster) -> Option<Cluster> {
        let WrittenCluster { section, backends, failover, remote_relays, routing, monitor, pool } = cluster;
        if let (Some(section), Some(monitor)) = (&section, &monitor) {
            self.discovery(monitor, section.value.topology);
        }
        let monitor = monitor.and_then(|monitor| self.monitor(&monitor));
        let written = section?;
        if written.value.topology == TopologyKind::Static {
            self.one_primary(&written, &backends);
        } else {
            self.no_roles(written.value.topology, &backends);
        }
        let cluster = written.value;
        let backends: Vec<_> =
            backends.rows.into_iter().map(|row| self.backend(&row, cluster.flavor)).collect();
        let failover =
            failover.and_then(|row| self.failover(&row, &remote_relays, cluster.topology, &backends));
        Some(Cluster {
            name: cluster.name,
            schemas: cluster.schemas.iter().map(|schema| schema.to_lowercase()).collect(),
            topology: cluster.topology,
            flavor: cluster.flavor,
            backends,
            failover,
            routing: routing?.value,
            monitor: monitor?,
            pool: pool?.value,
        })
    }

    /// Over all clusters: a name alone says which backend is meant, and each server has one limit, and one monitor.
    pub(super) fn backends(&mut self, clusters: &WrittenClusters) {
        self.refuse_twins(clusters.backends(), "name", is_same_name, name_of);
        self.refuse_twins(
            clusters.backends(),
            "address",
            |one, other| one.address == other.address,
            |b| b.address.to_string(),
        );
    }

    fn one_primary(&mut self, cluster: &Written<ClusterSection>, backends: &Rows<BackendSection>) {
        for row in backends.rows.iter().filter(|row| row.value.role.is_none() && !row.has("role")) {
            self.mistakes.push(row.at(""), "role is missing", "write role = \"primary\" or \"replica\"");
        }
        let mut primaries = backends.rows.iter().filter(|row| row.value.role == Some(Role::Primary));
        let Some(first) = primaries.next() else {
            // One whose role is no role is a mistake already.
            let is_named = |row: &Written<BackendSection>| row.value.role.is_none() && row.has("role");
            if backends.complete && !backends.rows.iter().any(is_named) {
                self.mistakes.push(
                    cluster.at(""),
                    "the cluster has no primary",
                    "write role = \"primary\" in one [[cluster.backend]]",
                );
            }
            return;
        };
        for second in primaries {
            let what = format!("a second primary beside {}", name_of(&first.value));
            self.mistakes.push(
                second.at("role"),
                what,
                "write role = \"replica\" in all but one [[cluster.backend]]",
            );
        }
    }

    /// A role that nobody looks at would mislead.
    fn no_roles(&mut self, topology: TopologyKind, backends: &Rows<BackendSection>) {
        for row in backends.rows.iter().filter(|row| row.value.role.is_some()) {
            let what = format!("a role, but with topology = \"{topology}\" roles are found out");
            self.mistakes.push(row.at("role"), what, "remove it");
        }
    }

    fn backend(&mut self, row: &Written<BackendSection>, flavor: Flavor) -> Backend {
        let written = &row.value;
        self.tls_to(row, (written.tls, written.tls_ca.is_some()), &written.address);
        let trust = self.trust(row, written.tls, trust_of!(written));
        if written.compression == Compression::Zstd && flavor == Flavor::Mariadb {
            let what = "compression = \"zstd\", but MariaDB servers cannot do that";
            self.mistakes.push(row.at("compression"), what, "write \"zlib\" or \"uncompressed\"");
        }
        Backend {
            name: name_of(written),
            address: written.address.clone(),
            role: written.role,
            weight: written.weight,
            tls: written.tls,
            tls_ca: written.tls_ca.as_ref().map(|path| self.pem_file("tls_ca", path, row.at("tls_ca"))),
            trust,
            compression: written.compression,
            zstd_compression_level: written.zstd_compression_level,
            send_proxy_protocol: written.send_proxy_protocol,
            groups: written.groups.clone(),
            max_connections: written.max_connections,
        }
    }

    /// Servers that get copies of reads: reached like backends, and nothing else of these.
    pub(super) fn mirrors(&mut self, mirrors: Rows<MirrorSection>) -> Vec<Mirror> {
        mirrors.rows.into_iter().map(|row| self.mirror(&row)).collect()
    }

    fn mirror(&mut self, row: &Written<MirrorSection>) -> Mirror {
        let written = &row.value;
        self.tls_to(row, (written.tls, written.tls_ca.is_some()), &written.address);
        let trust = self.trust(row, written.tls, trust_of!(written));
        let backend = Backend {
            name: written.address.to_string(),
            address: written.address.clone(),
            role: None,
            weight: 0,
            tls: written.tls,
            tls_ca: written.tls_ca.as_ref().map(|path| self.pem_file("tls_ca", path, row.at("tls_ca"))),
            trust,
            compression: Compression::Uncompressed,
            zstd_compression_level: 3,
            send_proxy_protocol: None,
            groups: Vec::new(),
            max_connections: Some(written.max_connections),
        };
        Mirror { group: written.group.clone(), backend, timeout_ms: written.timeout_ms }
    }

    fn tls_to<S: Section>(
        &mut self,
        row: &Written<S>,
        (tls, has_ca): (BackendTls, bool),
        address: &BackendAddress,
    ) {
        let checks = matches!(tls, BackendTls::VerifyCa | BackendTls::VerifyIdentity);
        if checks && !has_ca {
            let what = format!("tls = \"{tls}\" needs the certificates of the authorities");
            self.mistakes.push(row.at("tls"), what, "write tls_ca = \"/path/to/ca.pem\", too");
        }
        if !checks && has_ca {
            let what = format!("tls_ca is set, but tls = \"{tls}\" does not check certificates");
            self.mistakes.push(row.at("tls_ca"), what, "write tls = \"verify_ca\" or \"verify_identity\"");
        }
        if tls == BackendTls::VerifyIdentity && matches!(address, BackendAddress::Unix(_)) {
            let what = "tls = \"verify_identity\" needs a host name, and a Unix socket has none";
            self.mistakes.push(row.at("tls"), what, "write \"verify_ca\"");
        }
    }
}

fn name_of(backend: &BackendSection) -> String {
    backend.name.clone().unwrap_or_else(|| backend.address.to_string())
}

/// Two backends without names at one address are told about the address only.
fn is_same_name(one: &BackendSection, other: &BackendSection) -> bool {
    name_of(one) == name_of(other) && (one.name.is_some() || other.name.is_some())
}
