//! The passwords, hashes and tokens of a configuration, as they were read: from the file, a variable or a file of their own. So a change
//! is noticed wherever a secret stands. None of them is shown.

use crate::config::{Cluster, Config, Credential, TokenSecret};
use crate::secret::Secret;

/// What a secret is.
#[derive(PartialEq, Eq)]
pub(super) enum Kept<'c> {
    Text(&'c Secret),
    Credential(&'c Credential),
    Token(&'c TokenSecret),
}

/// All secrets of a configuration, each under the path of the option that it stands in, with the names of rows. A hash is under the path of
/// the password that it stands for. A test goes through the secrets of the schema.
pub(super) fn secrets(config: &Config) -> Vec<(String, Kept<'_>)> {
    let mut all = Vec::new();
    for user in &config.users {
        let row = format!("user[{:?}]", user.name);
        all.push((format!("{row}.password"), Kept::Credential(&user.credential)));
        let second = user.secondary.as_ref();
        all.extend(second.map(|second| (format!("{row}.secondary_password"), Kept::Credential(second))));
    }
    let is_list = config.effective.0.iter().any(|(path, _)| path.starts_with("cluster["));
    for (at, cluster) in config.clusters.iter().enumerate() {
        let (path, below) = if is_list { numbered(at) } else { ("cluster".to_owned(), String::new()) };
        all.push((format!("{below}monitor.password"), Kept::Text(&cluster.monitor.password)));
        all.extend(of_failover(&path, cluster));
    }
    let lease = &config.lease;
    all.extend(lease.password.as_ref().map(|secret| ("lease.password".to_owned(), Kept::Text(secret))));
    let failsafe = lease.failsafe.as_ref();
    all.extend(failsafe.map(|how| ("lease.failsafe_token".to_owned(), Kept::Text(&how.token))));
    for relay in &config.relays {
        let row = format!("relay[{:?}]", relay.name);
        all.push((format!("{row}.source_password"), Kept::Text(&relay.password)));
        let of_user = |user: &crate::RelayUser| format!("{row}.user[{:?}].password", user.name);
        all.extend(relay.users.iter().map(|user| (of_user(user), Kept::Credential(&user.credential))));
    }
    for user in config.admin.iter().flat_map(|admin| &admin.users) {
        let path = format!("admin.user[{:?}].password", user.name);
        all.push((path, Kept::Credential(&user.credential)));
    }
    for token in config.http.iter().flat_map(|http| &http.tokens) {
        all.push((format!("http.token[{:?}].token", token.name), Kept::Token(&token.secret)));
    }
    all
}

fn numbered(at: usize) -> (String, String) {
    let path = format!("cluster[{}]", at + 1);
    let below = format!("{path}.");
    (path, below)
}

fn of_failover<'c>(path: &str, cluster: &'c Cluster) -> Vec<(String, Kept<'c>)> {
    let Some(failover) = &cluster.failover else { return Vec::new() };
    let mut all = vec![(format!("{path}.failover.password"), Kept::Text(&failover.account.password))];
    // Else it is the same account, and one change.
    if failover.replication != failover.account {
        let password = Kept::Text(&failover.replication.password);
        all.push((format!("{path}.failover.replication_password"), password));
    }
    all.extend(failover.remote_relays.iter().map(|relay| {
        let path = format!("{path}.failover.remote_relay[{:?}].password", relay.name);
        (path, Kept::Text(&relay.password))
    }));
    all
}
