//! Asks the other members to take nothing over, over their HTTP doors: what a holder does that has lost the store. See docs/ha.md.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use delphinus_topology::BootTime;
use serde_json::json;
use ureq::Agent;
use zeroize::Zeroizing;

use crate::clock::boot_now;
use crate::gateway;

/// How the other members are reached, and this one by them.
#[derive(Clone, PartialEq, Eq)]
pub struct Failsafe {
    /// This member's name.
    pub member: String,
    /// Where the others reach this one's HTTP door: `https://10.0.0.1:6034`.
    pub address: String,
    /// A token that the doors of all members take.
    pub token: Zeroizing<String>,
    /// Authorities that the doors' certificates come from: a PEM file.
    pub ca: Option<PathBuf>,
}

impl std::fmt::Debug for Failsafe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Failsafe")
            .field("member", &self.member)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// What is asked of a member: to take none of `keys` over for `ttl`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise {
    /// Who holds them.
    pub holder: String,
    /// From when it is heard on.
    pub ttl: Duration,
    /// What is held.
    pub keys: Vec<String>,
    /// All members, as the holder knows them. One that knows of another must refuse.
    pub members: Vec<String>,
}

/// The way to them.
#[derive(Debug, Clone)]
pub(crate) struct Peers {
    pub(crate) settings: Failsafe,
    agent: Agent,
}

impl Peers {
    /// Reads the certificates.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn new(settings: Failsafe, patience: Duration) -> Result<Self, String> {
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .timeout_global(Some(patience))
            .tls_config(gateway::trust(settings.ca.as_deref())?)
            .build()
            .into();
        Ok(Self { settings, agent })
    }

    /// Asks all of them at the same time. For each when it was asked, or why it has not promised.
    pub(crate) fn ask(
        &self,
        addresses: &BTreeMap<String, String>,
        promise: &Promise,
    ) -> BTreeMap<String, Result<BootTime, String>> {
        let statement: Arc<str> = statement(promise).into();
        let asked = addresses.iter().map(|(name, address)| {
            let (peers, address, statement) = (self.clone(), address.clone(), statement.clone());
            let asking = move || peers.ask_one(&address, &statement);
            // Without room for a thread there is no promise; the thread of the lease goes on.
            (name.clone(), thread::Builder::new().name("lease-peer".into()).spawn(asking))
        });
        // All are asked before the first answer is waited for.
        let asked: Vec<_> = asked.collect();
        let answers = asked.into_iter().map(|(name, thread)| {
            let answer = thread.and_then(|thread| thread.join().map_err(|_| io::ErrorKind::Other.into()));
            (name, answer.unwrap_or_else(|error| Err(format!("it could not be asked: {error}"))))
        });
        answers.collect()
    }

    fn ask_one(&self, address: &str, statement: &str) -> Result<BootTime, String> {
        let sent = boot_now();
        let url = format!("{}/v1/statements", address.trim_end_matches('/'));
        let bearer = Zeroizing::new(format!("Bearer {}", self.settings.token.as_str()));
        let request =
            self.agent.post(url).content_type("application/json").header("Authorization", bearer.as_str());
        let body = json!({"statement": statement}).to_string();
        let mut answer = request.send(body).map_err(|error| error.to_string())?;
        if answer.status() == 200 {
            return Ok(sent);
        }
        let said = answer.body_mut().with_config().limit(4_096).read_to_string().unwrap_or_default();
        Err(format!("HTTP {}: {}", answer.status().as_u16(), said.trim()))
    }
}

/// The command of the admin doors. Names and keys have no quotes: the configuration sees to that.
fn statement(promise: &Promise) -> String {
    format!(
        "VIP PROMISE '{}' {} '{}' '{}'",
        promise.holder,
        promise.ttl.as_millis(),
        promise.keys.join(","),
        promise.members.join(",")
    )
}
