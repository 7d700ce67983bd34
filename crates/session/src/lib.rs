//! One client: its login, the life of its commands, and what the proxy answers by itself. Uses the pool, the
//! router and the monitor's snapshot; knows nothing of configuration files or of how connections are opened.
//!
//! | question | file |
//! |---|---|
//! | what happens to a command, in order | `serve` |
//! | the way of an ordinary command, which needs nothing | `ordinary` |
//! | what other commands need | `needs` |
//! | the way of those to a server and back | `run` |
//! | what becomes of it if something goes wrong | `rescue` |
//! | how it waits for a primary, the end of a pause, its turn | `rescue/wait` |
//! | how connections are taken, kept and given back | `hold` |
//! | where is COM_x | `command/x` |
//! | how bytes go to a backend and back | `io/relay` |
//! | what the proxy itself runs there, and may wait for | `ready`, by `io/attended_command` |
//! | what the proxy answers itself | `answer/x` |
//! | how the cluster looks to sessions, and what they report | `outlook` |
//! | what a session has to find where it reads | `fresh` |
//! | hints, rules, listeners for one kind of backend | `steer`, carried out by `steered` |
//! | where a statement of the session goes as it stands | `planner` |
//! | EXPLAIN ROUTE, and traces in the log | `explain`, `steer/trace` |
//! | copies of reads for mirrors | `steer/mirror` |
//! | what a statement changed | `settle` |
//! | what a statement costs | `costs`; what it has waited for: `spent`; what of it is logged: `logged` |
//! | whether it has changed accounts or rights | `follow/rights` |
//! | what can go wrong | `proxy_error` |
//! | which error does a client see | `client_error` |
//! | what others want of a session while it waits | `interruptions`, and `watch` while a command is on its way |
//! | what an operator sets for sessions | `settings` |
//! | what the login has settled | `login_facts` |
//!
//! Which file may use which: `xtask/src/tidy/calls/layers.rs`.

mod answer;
mod client_error;
mod command;
mod costs;
mod explain;
mod follow;
mod fresh;
mod hold;
mod interruptions;
mod io;
mod logged;
mod login;
mod login_facts;
mod needs;
mod ordinary;
mod outlook;
mod planner;
mod proxy_error;
mod ready;
mod rescue;
mod route;
mod run;
mod serve;
mod served;
mod session;
mod settings;
mod settle;
mod spent;
mod state;
mod statements;
mod steer;
mod steered;
mod watch;
mod worker;

pub use client_error::{ClientError, Lost, ProxyError, Steered};
pub use fresh::spots_written;
pub use outlook::is_hung;
pub use rescue::{Pauses, WaitingRoom};
pub use session::Session;
pub use settings::{Failover, Routing, Settings};
pub use worker::{Parts, Worker, spare_buffers};
