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
//! | which tables are there | `source`, one list; their rows: `command/*`; views with ProxySQL's names: `views` |
//! | SELECT over them | `select`; whose turn it is: `turns`; SQLite itself: the crate `tables` |
//! | prepared statements | `prepared` |
//! | who may log in | `users` |
//! | what operators have done | `audit` |
//! | what is measured | `metrics`, one list |
//! | a connection from accept to end | `listen`, `connection` |
//! | what commands know of the proxy | `console`, `cluster` |
//! | programs that do not speak MySQL's protocol: login, answers with types, readiness | `programs` |
//! | what workers are asked | `worker` |
//! | the client of `delphinus ctl` | `ask` |
//!
//! ## How operators see and act
//!
//! `admin` is a MySQL listener of its own on the control plane's thread, with its own users and its own limit on
//! connections: what applications do cannot keep an operator out. Nothing is kept or counted for it on the path of a
//! query. What is published anyway (snapshot, counters, registry, budgets) is read; a worker is asked for its pool's
//! census over a bounded channel, and each session writes its `Activity` (`clients/src/activity.rs`: where it runs, whom
//! for, what holds it there), which is read; only for the text of its statement a session that runs one is rung
//! (`clients/src/inquiry.rs`, `session/src/watch.rs`); who does not answer in time is left out. KILL rings the session,
//! too: it ends its own statement on the backend.
//!
//! A SELECT is planned by SQLite over empty tables, which says what it reads; the control plane's thread fills these tables from what
//! is published, and SQLite answers on a thread of its own. One statement runs at a time, within 3 s and 64 MiB.
//!
//! `SET BACKEND .. OFFLINE` is a `Wish`, told to the monitor like an observation and decided on in `topology`; the router
//! leaves the backend out, and each worker's pool, which follows the snapshot, closes what is idle there and what comes
//! back (`pool/src/census.rs`).

mod answer;
mod ask;
mod audit;
mod cluster;
mod command;
mod connection;
mod console;
mod functions;
mod hello;
mod listen;
mod metrics;
mod prepared;
mod programs;
mod select;
mod source;
mod switching;
mod table;
mod text;
mod time;
mod turns;
mod users;
mod views;
mod worker;

pub use answer::Refused;
pub use ask::{AskError, Asked, Line, Place, Question, ask, watch};
pub use cluster::{ClusterView, Following, PauseDoor, followed};
pub use command::cache_streams::CacheStreamRow;
pub use command::relay_fences::RelayFenceRow;
pub use command::relay_replicas::{RelayReplicaRow, RelaySentRow};
pub use command::relays::{
    RelayArchiveRow, RelayFileRow, RelayRow, RelayTimes, RelayTurn, RelayWish, RelayWishing,
};
pub use command::vips::{LeaseRow, MemberRow, VipCheckRow, VipChecking, VipRow, VipWish, Wishing};
pub use command::{pins_reference, reference, status_reference, tables_reference};
pub use console::{
    ChangedOption, Changing, ClientUser, ConfigChange, Console, Examining, ListenerRow, Parts, Proxy, Saving,
    Settings,
};
pub use metrics::reference as metrics_reference;
pub use programs::{ClusterReadiness, Login, Program, Readiness, RelayReadiness, TableInfo, Told, tables};
pub use switching::{CheckRow, MoveEnds, MoveLine, MoveRow, Moving, RemoteRelayRow, Switching};
pub use users::{AdminRole, AdminToken, AdminUser};
pub use worker::{Questions, WorkerLine, answer_questions, worker_line};
