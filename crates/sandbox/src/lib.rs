//! Starts real MySQL and MariaDB servers on loopback, for the demo and for tests.
//!
//! The crate installs what is missing (MariaDB from Debian's packages, MySQL 9.7 into a private
//! prefix), starts a primary with replicas in a private folder, and promises that nothing is left
//! behind, whatever ends the owning process: see [`Cluster`].
//! It must not know how the proxy works; the demo only starts its binary.

mod accounts;
mod cache;
mod cluster;
mod cnf;
mod debian_source;
mod demo;
mod etcd;
mod flavor;
mod mysql_prefix;
mod network;
mod packages;
mod ports;
mod private_apt;
mod process;
mod programs;
mod progress;
mod replication;
mod router;
mod schema;
mod server;
mod template;
mod watched_dir;

pub use accounts::{ADMIN, APP, APP2, Account, DATABASE, ED25519, MONITOR, NOPW, REPL, ROOT, TLS_ONLY};
pub use cache::cache_dir;
pub use cluster::{Cluster, ClusterSpec, Machine};
pub use debian_source::unpack_debian_source;
pub use demo::{DemoOptions, run_demo};
pub use etcd::Etcd;
pub use flavor::{Flavor, Role};
pub use mysql_prefix::MySqlPrefix;
pub use network::Network;
pub use packages::ensure_packages;
pub use ports::PortLease;
pub use progress::{Cancelled, Progress, Silent, Terminal};
pub use router::{Router, RouterPlace, RouterPort};
pub use server::Server;
