//! Who can read along, and who gets in without a password.

use delphinus_config::{BackendTls, ClientTls, Clients, Config, Credential, ListenAddress};

use super::listed;
use crate::{Facts, Finding, Severity};

pub(super) fn check(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found = backends(facts.config);
    found.extend(listeners(facts.config));
    found.extend(passwords(facts.config));
    found
}

fn backends(config: &Config) -> Vec<Finding> {
    let all = config.clusters.iter().flat_map(|cluster| &cluster.backends);
    let remote: Vec<_> = all.filter(|backend| backend.address.is_remote()).collect();
    let plain = remote.iter().filter(|backend| backend.tls == BackendTls::Disabled);
    let mut found: Vec<_> = plain
        .map(|backend| Finding {
            severity: Severity::Warning,
            check: "backend_tls_off",
            object: format!("backend {}", backend.name),
            found: "tls = \"disabled\", and the server may be on another machine".to_owned(),
            why: "an attacker on the network can read and change statements and data",
            fix: "tls = \"verify_identity\" with tls_ca, or tls = \"required\" with tls_fingerprints (delphinus check --fingerprints shows them)".to_owned(),
        })
        .collect();
    let unchecked = remote.iter().filter(|backend| {
        matches!(backend.tls, BackendTls::Preferred | BackendTls::Required)
            && backend.trust.certificates.is_empty()
    });
    found.extend(unchecked.map(|backend| Finding {
        severity: Severity::Note,
        check: "backend_tls_unchecked",
        object: format!("backend {}", backend.name),
        found: format!("tls = \"{}\": the server's certificate is not checked", backend.tls.as_str()),
        why: "an attacker on the network can pose as the server",
        fix: "tls = \"verify_identity\" with tls_ca, or tls_fingerprints (delphinus check --fingerprints shows them)".to_owned(),
    }));
    found
}

/// True for an address that other machines reach.
fn is_open(address: &ListenAddress) -> bool {
    matches!(address, ListenAddress::Tcp(address) if !address.ip().is_loopback())
}

fn listeners(config: &Config) -> Vec<Finding> {
    let plain = config.listeners.iter().filter(|one| is_open(&one.address) && one.tls == ClientTls::Disabled);
    let finding = |one: &delphinus_config::Listener| Finding {
        severity: Severity::Warning,
        check: "listener_tls_off",
        object: format!("listener {}", one.name),
        found: "tls = \"disabled\", and other machines reach it".to_owned(),
        why: "an attacker on the network can read and change statements and data",
        fix: "tls = \"optional\" or \"required\" for the [[listener]]".to_owned(),
    };
    plain.map(finding).collect()
}

fn passwords(config: &Config) -> Option<Finding> {
    let is_empty = |credential: &Credential| matches!(credential, Credential::Password(word) if word.expose().is_empty());
    let is_local = |clients: &Clients| match clients {
        Clients::All => false,
        Clients::Unix => true,
        Clients::Of(network) => network.ip.is_loopback(),
    };
    let anywhere = config.users.iter().filter(|user| {
        is_empty(&user.credential) && (user.allow.is_empty() || !user.allow.iter().all(is_local))
    });
    let names: Vec<_> = anywhere.map(|user| user.name.as_str()).collect();
    let doors = config.listeners.iter().filter(|one| is_open(&one.address));
    let doors: Vec<_> = doors
        .filter(|one| one.allow.is_empty() || !one.allow.iter().all(is_local))
        .map(|one| one.name.as_str())
        .collect();
    (!names.is_empty() && !doors.is_empty()).then(|| Finding {
        severity: Severity::Serious,
        check: "empty_password",
        object: format!("user {}", listed(&names)),
        found: format!("no password, and other machines reach the listener {}", listed(&doors)),
        why: "whoever reaches the proxy has the rights of that user",
        fix: format!("a password for [[user]] \"{}\", or allow = [\"127.0.0.1\", \"unix\"]", names[0]),
    })
}
