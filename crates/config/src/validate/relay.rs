//! `[[relay]]`: one source, folders of their own, users where replicas can connect.

use std::path::Path;
use std::time::Duration;

use super::Check;
use super::choice::Names;
use super::password::Sources;
use crate::address::{BackendAddress, ListenAddress};
use crate::config::{Backend, BackendTrust, Cluster, Relay, RelayArchive, RelayKeep, RelaySource, RelayUser};
use crate::parse::WrittenRelay;
use crate::schema::{RelaySection, RelayUserSection, Written};
use crate::word::{BackendTls, Compression};

impl Check<'_, '_> {
    pub(super) fn relays(
        &mut self,
        relays: &[WrittenRelay],
        names: &Names,
        clusters: &[Cluster],
    ) -> Vec<Relay> {
        let sections = || relays.iter().map(|relay| &relay.section);
        self.refuse_twins(sections(), "name", |one, other| one.name == other.name, |one| one.name.clone());
        self.refuse_twins(
            sections(),
            "server_id",
            |one, other| one.server_id == other.server_id,
            |one| one.server_id.to_string(),
        );
        relays.iter().filter_map(|relay| self.relay(relay, names, clusters)).collect()
    }

    fn relay(&mut self, relay: &WrittenRelay, names: &Names, clusters: &[Cluster]) -> Option<Relay> {
        let row = &relay.section;
        let written = &row.value;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if written.name.is_empty() || written.name.len() > 64 || !written.name.chars().all(is_plain) {
            let what = format!("name = {:?} cannot be the name of a relay", written.name);
            self.mistakes.push(
                row.at("name"),
                what,
                "use 1 to 64 letters, digits, dots, dashes and underscores",
            );
        }
        let source = self.relay_source(row, names, clusters);
        if matches!(source, Some(RelaySource::Cluster(_))) {
            self.what_a_cluster_says(row);
        }
        let password = self.relay_password(row);
        let users: Vec<_> = relay.users.rows.iter().filter_map(|user| self.relay_user(user)).collect();
        self.refuse_twins(
            &relay.users.rows,
            "name",
            |one, other| one.name == other.name,
            |one| one.name.clone(),
        );
        if !written.addresses.is_empty() && relay.users.rows.is_empty() && relay.users.complete {
            let what = format!(
                "relay {:?} has addresses and no [[relay.user]], so no replica could log in",
                written.name
            );
            self.mistakes.push(
                row.at("addresses"),
                what,
                "write [[relay.user]] and below it name and password_file",
            );
        }
        Some(Relay {
            name: written.name.clone(),
            folder: self.resolve(&written.folder),
            source: source?,
            may_follow: written.may_follow.clone(),
            user: written.source_user.clone(),
            password: password?,
            server_id: written.server_id,
            uuid: self.relay_uuid(row),
            semi_sync: written.semi_sync,
            from_oldest_file: written.from_oldest_file,
            heartbeat: Duration::from_millis(written.heartbeat_ms),
            retry: Duration::from_millis(written.retry_ms),
            timeout: Duration::from_millis(written.timeout_ms),
            start: written.start,
            keep: self.relay_keep(row),
            addresses: written.addresses.clone(),
            reported: reported(written),
            tls: written.tls,
            tls_identity: self.identity(row, (&written.tls_cert, &written.tls_key)),
            compression_algorithms: self
                .compression_algorithms(row.at("compression_algorithms"), &written.compression_algorithms),
            max_connections: written.max_connections,
            threads: written.threads,
            users,
        })
    }

    fn relay_uuid(&mut self, row: &Written<RelaySection>) -> Option<u128> {
        let text = row.value.uuid.as_deref()?;
        let digits: String = text.chars().filter(|c| *c != '-').collect();
        let uuid = u128::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 32);
        if uuid.is_none() {
            let what = format!("uuid = {text:?} is not a uuid");
            let advice = "write 32 hexadecimal digits, as `uuidgen` does, or remove it";
            self.mistakes.push(row.at("uuid"), what, advice);
        }
        uuid
    }

    fn relay_keep(&mut self, row: &Written<RelaySection>) -> RelayKeep {
        let written = &row.value;
        let archive = match &written.archive_command[..] {
            [] => None,
            [program, ..] if program.is_empty() => {
                let what = "archive_command begins with an empty text, which is no program".to_owned();
                self.mistakes.push(row.at("archive_command"), what, "write the program's path first");
                None
            }
            [program, arguments @ ..] => Some(RelayArchive {
                program: self.resolve(Path::new(program)),
                arguments: arguments.to_vec(),
                timeout: Duration::from_secs(written.archive_timeout_s),
            }),
        };
        let is_set = |number: &u64| *number > 0;
        RelayKeep {
            max_age: Some(written.expire_logs_s).filter(is_set).map(Duration::from_secs),
            max_bytes: Some(written.max_size_mb).filter(is_set).map(|mib| mib << 20),
            after_replicas: Some(written.purge_after_replicas).filter(|replicas| *replicas > 0),
            remember: Duration::from_secs(written.keep_for_replicas_s),
            margin: Duration::from_secs(written.replica_margin_s),
            archive,
        }
    }

    fn relay_source(
        &mut self,
        row: &Written<RelaySection>,
        names: &Names,
        clusters: &[Cluster],
    ) -> Option<RelaySource> {
        let written = &row.value;
        match (&written.source, &written.cluster) {
            (Some(_), Some(_)) => {
                let what = format!("relay {:?} has both source and cluster", written.name);
                self.mistakes.push(row.at("cluster"), what, "keep one of them");
                None
            }
            (Some(address), None) => Some(RelaySource::Server(self.relay_server(row, address))),
            (None, Some(name)) => {
                self.cluster_named(Some(name), row.at("cluster"), names).map(RelaySource::Cluster)
            }
            (None, None) if clusters.is_empty() => {
                if !row.has("source") {
                    let what = format!("relay {:?} has no source", written.name);
                    self.mistakes.push(
                        row.at(""),
                        what,
                        "write source = \"host:3306\", or a [cluster] whose primary it follows",
                    );
                }
                None
            }
            (None, None) => Some(RelaySource::Cluster(0)),
        }
    }

    /// The servers of a cluster, and the ways to them, are the proxy's: others that are written beside it would not be taken.
    fn what_a_cluster_says(&mut self, row: &Written<RelaySection>) {
        let name = &row.value.name;
        if !row.value.may_follow.is_empty() {
            let what = format!("relay {name:?} follows a cluster, and has may_follow");
            let instead = "remove it: the relay goes to the cluster's backends";
            self.mistakes.push(row.at("may_follow"), what, instead);
        }
        let written = &row.value;
        let ways = [
            ("source_tls", written.source_tls != BackendTls::Preferred),
            ("source_tls_ca", written.source_tls_ca.is_some()),
            ("source_tls_fingerprints", !written.source_tls_fingerprints.is_empty()),
            ("source_trust_server_certificate", written.source_trust_server_certificate),
            ("source_get_server_public_key", written.source_get_server_public_key),
            ("source_compression", written.source_compression != Compression::Uncompressed),
        ];
        for (option, _) in ways.into_iter().filter(|(_, is_set)| *is_set) {
            let what = format!("relay {name:?} follows a cluster, and has {option}");
            let instead = "remove it: the relay reaches each backend as its [[cluster.backend]] says; write it there, without source_";
            self.mistakes.push(row.at(option), what, instead);
        }
    }

    fn relay_server(&mut self, row: &Written<RelaySection>, address: &BackendAddress) -> Backend {
        let written = &row.value;
        let tls = written.source_tls;
        let checks = matches!(tls, BackendTls::VerifyCa | BackendTls::VerifyIdentity);
        if checks && written.source_tls_ca.is_none() {
            let what = format!("source_tls = \"{tls}\" needs the certificates of the authorities");
            self.mistakes.push(row.at("source_tls"), what, "write source_tls_ca = \"/path/to/ca.pem\", too");
        }
        if !checks && written.source_tls_ca.is_some() {
            let what =
                format!("source_tls_ca is set, but source_tls = \"{tls}\" does not check certificates");
            let instead = "write source_tls = \"verify_ca\" or \"verify_identity\"";
            self.mistakes.push(row.at("source_tls_ca"), what, instead);
        }
        Backend {
            name: address.to_string(),
            address: address.clone(),
            role: None,
            weight: 0,
            tls,
            tls_ca: written
                .source_tls_ca
                .as_ref()
                .map(|path| self.pem_file("source_tls_ca", path, row.at("source_tls_ca"))),
            trust: BackendTrust {
                certificates: written.source_tls_fingerprints.clone(),
                keys: Vec::new(),
                takes_any_certificate: written.source_trust_server_certificate,
                takes_any_key: written.source_get_server_public_key,
            },
            compression: written.source_compression,
            zstd_compression_level: 3,
            send_proxy_protocol: None,
            groups: Vec::new(),
            max_connections: None,
        }
    }

    fn relay_password(&mut self, row: &Written<RelaySection>) -> Option<crate::secret::Secret> {
        let written = &row.value;
        let sources = Sources {
            of: format!("relay {:?}", written.name),
            prefix: "source_",
            password: written.source_password.as_ref(),
            password_env: written.source_password_env.as_deref(),
            password_file: written.source_password_file.as_deref(),
            password_hash: None,
        };
        let source = self.one_source(&sources, row)?;
        self.plain(&source, "source_", row)
    }

    fn relay_user(&mut self, row: &Written<RelayUserSection>) -> Option<RelayUser> {
        let written = &row.value;
        self.user_name(&written.name, row.at("name"));
        let sources = Sources {
            of: format!("user {:?}", written.name),
            prefix: "",
            password: written.password.as_ref(),
            password_env: written.password_env.as_deref(),
            password_file: written.password_file.as_deref(),
            password_hash: written.password_hash.as_ref(),
        };
        let credential = self.own_credential(&sources, row)?;
        Some(RelayUser { name: written.name.clone(), credential })
    }
}

/// Where servers reach it, as far as that is written.
fn reported(written: &RelaySection) -> Option<(String, u16)> {
    let own = written.addresses.iter().find_map(|address| match address {
        ListenAddress::Tcp(address) if !address.ip().is_unspecified() => {
            Some((address.ip().to_string(), address.port()))
        }
        _ => None,
    });
    match &written.report_address {
        Some(BackendAddress::Tcp { host, port }) => Some((host.clone(), *port)),
        _ => own,
    }
}
