//! `[cluster.failover]`: its accounts, and the names of backends in it.

use super::Check;
use super::password::Sources;
use crate::config::{
    Backend, Cluster, Failover, FailoverAccount as Account, Lease, Relay, RelaySource, RemoteRelay,
};
use crate::mistake::Span;
use crate::parse::Rows;
use crate::schema::{FailoverSection, RemoteRelaySection, Written};
use crate::word::TopologyKind;

impl Check<'_, '_> {
    /// `None`: the proxy does not move roles, or there is a mistake.
    pub(super) fn failover(
        &mut self,
        row: &Written<FailoverSection>,
        remote_relays: &Rows<RemoteRelaySection>,
        topology: TopologyKind,
        backends: &[Backend],
    ) -> Option<Failover> {
        let written = &row.value;
        let Some(user) = &written.user else {
            if written.auto_failover {
                let what = "auto_failover = true, but the proxy has no account to act with";
                self.mistakes.push(row.at("auto_failover"), what, "write user and its password, too");
            }
            return None;
        };
        if topology == TopologyKind::Static {
            let what = "a user, but with topology = \"static\" roles do not move";
            let instead = "write topology = \"read_only\" or \"group_replication\", or remove it";
            self.mistakes.push(row.at("user"), what, instead);
        }
        for (option, names) in [("prefer", &written.prefer), ("never", &written.never)] {
            for name in names.iter().filter(|name| !backends.iter().any(|one| one.name == **name)) {
                let what = format!("{option} names '{name}', and there is no such backend");
                self.mistakes.push(row.at(option), what, "write names of [[cluster.backend]]");
            }
        }
        let account = self.account(row, user)?;
        let replication = self.replication_account(row, &account)?;
        let remote_relays = self.remote_relays(remote_relays)?;
        Some(Failover {
            account,
            replication,
            auto_failover: written.auto_failover,
            on_loss: written.on_loss,
            relays: written.relays.clone(),
            remote_relays,
            detect_ms: written.detect_ms,
            pause_s: written.pause_s,
            transaction_wait_ms: written.transaction_wait_ms,
            catch_up_ms: written.catch_up_ms,
            acker_wait_ms: written.acker_wait_ms,
            step_timeout_ms: written.step_timeout_ms,
            hook_folder: written.hook_folder.as_ref().map(|folder| self.resolve(folder)),
            hook_timeout_ms: written.hook_timeout_ms,
            prefer: written.prefer.clone(),
            never: written.never.clone(),
        })
    }

    /// Those of other processes; `None`: there is a mistake.
    fn remote_relays(&mut self, rows: &Rows<RemoteRelaySection>) -> Option<Vec<RemoteRelay>> {
        self.refuse_twins(&rows.rows, "name", |one, other| one.name == other.name, |one| one.name.clone());
        let all: Vec<_> = rows.rows.iter().map(|row| self.remote_relay(row)).collect();
        all.into_iter().collect::<Option<_>>().filter(|_| rows.complete)
    }

    fn remote_relay(&mut self, row: &Written<RemoteRelaySection>) -> Option<RemoteRelay> {
        let RemoteRelaySection { name, address, user, .. } = &row.value;
        if row.value.tls_ca.is_none() && address.is_remote() {
            let what =
                format!("remote_relay '{name}' is on another machine, and whom to trust there is not said");
            self.mistakes.push(row.at("address"), what, "write tls_ca = \"/path/to/ca.pem\", too");
        }
        let sources = Sources {
            of: format!("the user \"{user}\" of remote_relay '{name}'"),
            prefix: "",
            password: row.value.password.as_ref(),
            password_env: row.value.password_env.as_deref(),
            password_file: row.value.password_file.as_deref(),
            password_hash: None,
        };
        let source = self.one_source(&sources, row)?;
        let tls_ca = row.value.tls_ca.as_ref();
        Some(RemoteRelay {
            name: name.clone(),
            address: address.clone(),
            user: user.clone(),
            password: self.plain(&source, "", row)?,
            tls_ca: tls_ca.map(|path| self.pem_file("tls_ca", path, row.at("tls_ca"))),
        })
    }

    /// The relays that a cluster names can do what a move of its role asks of them. `named`: where they are named, for each cluster.
    pub(super) fn failover_relays(&mut self, named: &[Option<Span>], clusters: &[Cluster], relays: &[Relay]) {
        for (index, (at, cluster)) in named.iter().zip(clusters).enumerate() {
            let (Some(at), Some(failover)) = (at, &cluster.failover) else { continue };
            for name in &failover.relays {
                let found = relays.iter().find(|relay| relay.name == *name);
                if failover.remote_relays.iter().any(|relay| relay.name == *name) {
                    if found.is_some() {
                        let what = format!("'{name}' is a [[relay]] of this file and a remote_relay");
                        self.mistakes.push(at, what, "give one of the two another name, or remove it");
                    }
                    continue;
                }
                if let Some((what, instead)) = unfit(name, found, (index, &failover.replication.user)) {
                    self.mistakes.push(at, what, instead);
                }
            }
        }
    }

    /// Two processes that replace a primary at the same time make two of them. `auto_at`: where each cluster has its option.
    pub(super) fn failover_by_itself(
        &mut self,
        auto_at: &[Option<Span>],
        clusters: &[Cluster],
        lease: &Lease,
    ) {
        if lease.store.is_some() {
            return;
        }
        for (at, cluster) in auto_at.iter().zip(clusters) {
            if let Some(at) = at
                && cluster.failover.as_ref().is_some_and(|failover| failover.auto_failover)
            {
                let what = "auto_failover = true, but no [lease] says which process acts";
                let instead = "write [lease] with its store; store = \"local\" if no other process moves the roles of this cluster";
                self.mistakes.push(at, what, instead);
            }
        }
    }

    fn account(&mut self, row: &Written<FailoverSection>, user: &str) -> Option<Account> {
        let written = &row.value;
        let sources = Sources {
            of: format!("the user \"{user}\" of [cluster.failover]"),
            prefix: "",
            password: written.password.as_ref(),
            password_env: written.password_env.as_deref(),
            password_file: written.password_file.as_deref(),
            password_hash: None,
        };
        let source = self.one_source(&sources, row)?;
        Some(Account { user: user.to_owned(), password: self.plain(&source, "", row)? })
    }

    fn replication_account(&mut self, row: &Written<FailoverSection>, account: &Account) -> Option<Account> {
        let written = &row.value;
        let sources = Sources {
            of: "replication_user".to_owned(),
            prefix: "replication_",
            password: written.replication_password.as_ref(),
            password_env: written.replication_password_env.as_deref(),
            password_file: written.replication_password_file.as_deref(),
            password_hash: None,
        };
        let Some(user) = &written.replication_user else {
            if !sources.is_empty() {
                let what = "a password of replication_user, which is not written";
                self.mistakes.push(row.at(""), what, "write replication_user, too");
            }
            return Some(account.clone());
        };
        let source = self.one_source(&sources, row)?;
        Some(Account { user: user.clone(), password: self.plain(&source, "replication_", row)? })
    }
}

/// Why this relay cannot acknowledge for the cluster with this index, and what to write instead.
fn unfit(
    name: &str,
    relay: Option<&Relay>,
    (cluster, user): (usize, &str),
) -> Option<(String, &'static str)> {
    let Some(relay) = relay else {
        return Some((
            format!("relays names '{name}', and there is no such relay"),
            "write names of [[relay]] of this file, or of [[cluster.failover.remote_relay]]",
        ));
    };
    let because = |why: &str| format!("relay '{name}' cannot acknowledge for this cluster: {why}");
    if relay.source != RelaySource::Cluster(cluster) {
        return Some((
            because("it follows another source"),
            "write cluster = the name of this cluster there",
        ));
    }
    if !relay.semi_sync {
        return Some((because("semi_sync = false"), "remove that from the relay"));
    }
    if relay.reported.is_none() {
        let why = "servers do not know where they reach it";
        return Some((because(why), "write addresses with an IP address, or report_address, there"));
    }
    if !relay.users.iter().any(|known| known.name == user) {
        let why =
            format!("it has no [[relay.user]] '{user}', with which servers log in to fetch what they lack");
        return Some((because(&why), "write that user there, with the password of replication_user"));
    }
    None
}
