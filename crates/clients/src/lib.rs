//! Clients as such, whatever they speak: who gets in, who is there, and how others reach them. What serves a client writes here, and
//! what watches over all of them reads it, on any thread. Must not know statements, routes or how an error becomes a packet.
//!
//! | question | file |
//! |---|---|
//! | where a client comes in | `listener` |
//! | which users there are, and what is known of their passwords | `users` |
//! | what the primary says of a password | `password_check` |
//! | to which cluster a client gets | `clusters` |
//! | from where clients may come | `addresses` |
//! | which clients get in: limits | `admission` |
//! | how much clients may do | `limits` |
//! | how long a login waits where others have failed | `failed_logins`, `login_attempt` |
//! | who is connected, and how KILL finds them | `registry` |
//! | what a session does at this moment, and how others reach it | `activity` |
//! | what only a session itself can say | `inquiry` |
//! | what sessions began with, where that has changed | `defaults` |

mod activity;
mod addresses;
mod admission;
mod clusters;
mod defaults;
mod failed_logins;
mod inquiry;
mod limits;
mod listener;
mod login_attempt;
mod password_check;
mod registry;
mod users;

pub use activity::{Activity, Calls, ClientConnId, Entry, Hold, Sampled, State};
pub use addresses::{Addresses, Origins};
pub use admission::{Attendance, ClientLimits, Newcomer, Rank, Refusal};
pub use clusters::{Clusters, Elsewhere};
pub use defaults::{Defaults, SQL_MODE};
pub use failed_logins::{FailedLogins, LoginDelays, Visitor};
pub use inquiry::without_literals;
pub use limits::{
    InQueue, Limit, LimitCounts, LimitPer, LimitReached, LimitTerms, Limitable, Limited, Limits, Obstacle,
    ResultCap, Slot, Slots, Turn,
};
pub use listener::{Arrival, ListenerMode, ListenerSettings};
pub use login_attempt::{LoginAttempt, LoginPlace};
pub use password_check::{Prover, Unproven};
pub use registry::{Connected, Registry};
pub use users::{BackendAuth, User, Users};
