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
//! | where is COM_x | `command/x` |
//! | how bytes go to a backend and back | `io/relay` |
//! | what the proxy itself runs there, and may wait for | `io/own_command` |
//! | how the cluster looks to sessions, and what they report | `outlook` |
//! | what a session has to find where it reads | `fresh` |
//! | hints, rules, listeners for one kind of backend | `steer` |
//! | EXPLAIN ROUTE, and traces in the log | `explain`, `steer/trace` |
//! | copies of reads for mirrors | `steer/mirror` |
//! | what a statement changed | `settle` |
//! | whether it has changed accounts or rights | `rights` |
//! | which error does a client see | `client_error` |
//! | how long a login waits where others have failed | `failed_logins`, `login_attempt` |
//! | to which cluster a client gets | `clusters` |
//! | who is connected, and how KILL finds them | `registry` |
//! | what a session says of itself when it is asked | `inquiry`, `watch` |

mod admission;
mod begin_anew;
mod client_error;
mod clusters;
mod command;
mod defaults;
mod diagnostics;
mod explain;
mod failed_logins;
mod failover;
mod follow;
mod fresh;
mod hold;
mod inquiry;
mod io;
mod last_statement;
mod local;
mod login;
mod login_attempt;
mod needs;
mod ordinary;
mod outlook;
mod own_settings;
mod pinned;
mod process_list;
mod prove;
mod read_only;
mod registry;
mod rescue;
mod rights;
mod route;
mod run;
mod serve;
mod session;
mod session_status;
mod settle;
mod sql_statements;
mod state;
mod statements;
mod steer;
mod stored_code;
mod tracking;
mod users;
mod watch;
mod worker;

pub use admission::{Attendance, ClientLimits, Rank, Refusal};
pub use client_error::{ClientError, ProxyError, Steered};
pub use clusters::Clusters;
pub use failed_logins::{FailedLogins, LoginDelays, Visitor};
pub use failover::{Failover, WaitingRoom};
pub use inquiry::Told;
pub use login_attempt::{LoginAttempt, LoginPlace};
pub use outlook::is_hung;
pub use registry::{ClientConnId, Registry, SessionInfo};
pub use session::Session;
pub use users::{BackendAuth, User, Users};
pub use worker::{Arrival, ListenerMode, ListenerSettings, Parts, Routing, Settings, Worker, spare_buffers};
