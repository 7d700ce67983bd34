//! The lease store and the virtual IPs, as the rest of the product sees them.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::secret::Secret;
use crate::word::{KillOnMove, LeaseStore, VipFloating, VipRole};

/// The store in which processes agree who has what.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lease {
    /// Which one; `None`: there is none.
    pub store: Option<LeaseStore>,
    /// Where it is; not empty for etcd.
    pub endpoints: Vec<String>,
    /// As whom; there with `group`.
    pub user: Option<String>,
    /// The user's password; there where the user is.
    pub password: Option<Secret>,
    /// Authorities of its certificates.
    pub tls_ca: Option<PathBuf>,
    /// This process's certificate; there where the key is.
    pub tls_cert: Option<PathBuf>,
    /// Its key.
    pub tls_key: Option<PathBuf>,
    /// What all keys begin with, without a slash at the end.
    pub prefix: String,
    /// This process's name; `None`: that of the host.
    pub member: Option<String>,
    /// The backend on this host.
    pub local_backend: Option<String>,
    /// How long the store waits for a process.
    pub ttl: Duration,
    /// How much earlier the process ends.
    pub margin: Duration,
    /// How other members are asked when the store is lost; `None`: what is held is given up then.
    pub failsafe: Option<Failsafe>,
    /// For how long a process has to be fit before something is taken from another for it.
    pub rebalance_after: Duration,
}

/// How members ask each other when the store is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failsafe {
    /// Where others reach this process's HTTP door.
    pub address: String,
    /// What the doors of all members take.
    pub token: Secret,
    /// Authorities of their certificates; there where `https` is used.
    pub ca: Option<PathBuf>,
}

/// A virtual IP.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Vip {
    /// Unique name.
    pub name: String,
    /// Not empty.
    pub addresses: Vec<IpAddr>,
    /// `None`: by the address.
    pub interface: Option<String>,
    /// Where it has to be.
    pub role: VipRole,
    /// Where it goes if its replica is lost.
    pub floating: VipFloating,
    /// What happens to its sessions.
    pub kill_on_move: KillOnMove,
    /// How long they may take to end by themselves.
    pub drain: Duration,
}
