//! Where operators look and act: a MySQL listener of its own, with its own users, on the control plane's thread. It reads
//! what the others publish and asks workers and sessions for the rest; nothing is kept, or counted, for its sake.
//! Must not know configuration files or how backends are reached.
//!
//! | question | file |
//! |---|---|
//! | which commands are there | `command`, one table; what they do: `command/*` |
//! | how a text becomes a command | `text` |
//! | what clients send by themselves | `hello` |
//! | rows, and LIKE | `table` |
//! | who may log in | `users` |
//! | a connection from accept to end | `listen`, `connection` |
//! | what commands know of the proxy | `console`, `cluster` |
//! | what workers are asked | `worker` |
//! | the client of `delphinus ctl` | `ask` |

mod answer;
mod ask;
mod cluster;
mod command;
mod connection;
mod console;
mod hello;
mod listen;
mod table;
mod text;
mod time;
mod users;
mod worker;

pub use ask::{AskError, Asked, Place, Question, ask};
pub use cluster::ClusterView;
pub use command::{reference, status_reference};
pub use console::{ChangedOption, ClientUser, Console, ListenerRow, OptionsDoor, Parts};
pub use users::{AdminRole, AdminUser};
pub use worker::{Questions, WorkerLine, answer_questions, worker_line};
