//! Keys that this process holds in a store that others see, for as long as it lives. Knows the stores and the clock; what the keys
//! mean is the callers' affair.
//!
//! | question | file |
//! |---|---|
//! | what a store can do | `store` |
//! | etcd | `etcd`, its HTTP in `gateway`, its news in `etcd/watch` |
//! | the servers themselves, by a table of a group | `group`, its statements in `group/sql` |
//! | no store: one process alone | `local` |
//! | the thread that renews, claims and gives back | `keeper` |
//! | what it has found, for others to read | `view` |
//! | the same lease for a process that starts again in time | `own_file` |
//! | what a holder asks the other members when the store is lost, and what they promise | `keeper/failsafe`, `peers` |
//! | the clock | `clock` |

mod clock;
mod etcd;
mod gateway;
mod group;
mod keeper;
mod local;
mod own_file;
mod peers;
mod store;
mod view;

pub use clock::boot_now;
pub use etcd::{Etcd, EtcdSettings};
pub use gateway::{Access, ClientCertificate};
pub use group::{ADVICE, Errand, Glance, Group, Row, Servers, ServersError, Told};
pub use keeper::{Answered, Heard, Lease, ListChange, Settings};
pub use local::Local;
pub use peers::{Failsafe, Promise};
pub use store::{Claimed, Entry, Granted, Holding, Store, StoreError};
pub use view::{Held, View};
