//! End-to-end tests: real servers, real drivers, the real binary.
//!
//! This library starts the servers and the proxy, brings the foreign programs that the tests run, and has a small
//! MySQL client of its own, which shares no code with the proxy. The tests in `tests/` are named by behaviour.

mod asked;
pub mod cache_writes;
mod cached;
mod certificates;
pub mod change;
mod client;
mod config_file;
mod contract;
mod counting_relay;
pub mod crowd;
mod delay;
mod drivers;
mod etcd;
pub mod failover;
mod failover_account;
mod general_log;
mod go_toolchain;
pub mod ha;
mod haproxy;
pub mod hostile;
mod http_door;
mod link;
mod machines;
mod operators;
mod page_table;
mod poll;
mod programs;
mod proxy;
mod relay;
pub mod relays;
mod roles;
mod router;
pub mod see;
pub mod server_suite;
mod stage;
pub mod suites;
pub mod vip;

pub use asked::{Asked, exit_after};
pub use certificates::{Authority, Pair};
pub use client::packet::{Packets, Wire};
pub use client::{Answer, Client, Login, ServerError};
pub use config_file::ConfigFile;
pub use counting_relay::CountingRelay;
pub use delay::delay_replica;
pub use drivers::{Driver, run_python};
pub use etcd::{Etcd, Guard};
pub use failover_account::{FAILOVER_PASSWORD, failover_account, failover_section};
pub use general_log::GeneralLog;
pub use haproxy::Haproxy;
pub use http_door::{HttpDoor, Reply, bearer};
pub use link::{Link, Slowness};
pub use machines::enter_own_network;
pub use operators::{BackendRow, Operators};
pub use poll::{eventually, until};
pub use programs::{Outcome, run};
pub use proxy::{Proxy, proxy_binary};
pub use relay::{From, Relay, Way};
pub use roles::{WHO, demote, follow, promote, writer};
pub use stage::{Address, Stage};

/// Two tests, `mariadb` and `mysql`, each of which runs a check on its own servers.
#[macro_export]
macro_rules! on_both_flavors {
    ($check:ident) => {
        #[test]
        fn mariadb() {
            $check(delphinus_sandbox::Flavor::MariaDb);
        }

        #[test]
        fn mysql() {
            $check(delphinus_sandbox::Flavor::MySql);
        }
    };
}
