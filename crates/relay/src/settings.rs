//! What a relay is told.

use std::path::PathBuf;
use std::time::Duration;

use delphinus_net::Address;
use delphinus_net::Reach;
use delphinus_wire::auth::Password;

/// One relay.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "independent options, each looked at by itself")]
pub struct Settings {
    /// Unique name.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// Where its source is; `None`: whoever follows a cluster says so.
    pub source: Option<Target>,
    /// As whom it logs in at the source.
    pub user: String,
    /// The user's password.
    pub password: Password,
    /// Its own number among servers that replicate: 1 to 2^32 - 1.
    pub server_id: u32,
    /// Its own uuid; `None`: it makes one, and keeps it in its folder.
    pub uuid: Option<u128>,
    /// It acknowledges what it has on disk.
    pub semi_sync: bool,
    /// A relay without files begins with the oldest file that the source has; else with the one that the source is writing.
    pub from_oldest: bool,
    /// How often an idle source says that it is there.
    pub heartbeat: Duration,
    /// Between attempts to connect.
    pub retry: Duration,
    /// How long connecting, logging in and each question may take.
    pub limit: Duration,
    /// True if it begins by itself; else by `RELAY START`.
    pub is_started: bool,
}

/// A server to replicate from.
#[derive(Debug, Clone)]
pub struct Target {
    /// Its name, for operators.
    pub name: String,
    /// Where it listens.
    pub address: Address,
    /// How it is reached.
    pub reach: Reach,
    /// The name that its certificate must carry.
    pub host: String,
}

impl Target {
    /// Another server, which is reached as this one is.
    #[must_use]
    pub fn at(&self, name: String, address: Address) -> Self {
        let host = address.host().to_owned();
        Self { name, address, host, reach: self.reach.clone() }
    }
}
