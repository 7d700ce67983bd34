//! Virtual IPs: which of them are on this host, and what the network and the sessions on them are told. Acts on what
//! `delphinus_topology` chooses; knows neither MySQL nor the configuration.
//!
//! | question | file |
//! |---|---|
//! | the thread that adds, refreshes and removes them | `keeper` |
//! | what is done to one of them over time | `keeper/place` |
//! | addresses and interfaces in the kernel | `addresses` |
//! | ARP and neighbour advertisements | `announce` |
//! | whether another host has an address | `occupied` |
//! | how sessions end before one leaves | `keeper/parting` |
//! | what still comes for one that has left | `onward` |
//! | the sessions on an address | `sessions` |
//! | messages to the kernel | `netlink` |
//! | whether all that is needed is there | `check` |

mod addresses;
mod announce;
mod check;
mod keeper;
mod netlink;
mod occupied;
mod onward;
mod sessions;

pub use addresses::{Interface, interfaces};
pub use check::{Finding, check, check_server};
pub use keeper::{Condition, FROZEN, Health, Keeper, KillOnMove, PREFERRED, Sessions, Settings, Shown, Spec};
