//! One client: its login, the life of its commands, and what the proxy answers by itself. Uses the pool, the
//! router and the monitor's snapshot; knows nothing of configuration files or of how connections are opened.
//!
//! | question | file |
//! |---|---|
//! | what happens to a command, in order | `serve` |
//! | where is COM_x | `command/x` |
//! | how bytes go to a backend and back | `forward` |
//! | hints, rules, listeners for one kind of backend | `steering` |
//! | what a statement changed | `settle` |
//! | which error does a client see | `client_error` |
//! | who is connected, and how KILL finds them | `registry` |
//! | what a session says of itself when it is asked | `inquiry` |

mod admission;
mod cache;
mod causality;
mod client_error;
mod command;
mod deadline;
mod diagnostics;
mod failover;
mod forward;
mod input;
mod inquiry;
mod local;
mod login;
mod own_settings;
mod pinned;
mod process_list;
mod prove;
mod reached;
mod registry;
mod route;
mod serve;
mod session;
mod session_status;
mod settle;
mod statements;
mod steering;
mod users;
mod worker;

pub use admission::{Attendance, ClientLimits, Rank, Refusal};
pub use client_error::{ClientError, ProxyError, Steered};
pub use failover::Failover;
pub use inquiry::Told;
pub use registry::{ClientConnId, Registry, SessionInfo};
pub use session::Session;
pub use users::{BackendAuth, User, Users};
pub use worker::{Arrival, ListenerMode, ListenerSettings, Parts, Routing, Settings, Worker, is_hung};
