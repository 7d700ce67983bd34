//! Where programs look and act: HTTP with JSON for what the admin listener can do, metrics for Prometheus, health for load balancers.
//! Owns connections, requests, and how answers and errors look. Must not know what statements mean, or how backends are reached:
//! the operators' side (`admin`) answers, with its rights, its audit and its bounds.
//!
//! | question | file |
//! |---|---|
//! | what is set | `settings` |
//! | the control plane's side: who is let in, and the line to the operators' side | `door`, `line` |
//! | the thread that serves connections | `server`; whose connection makes way: `places` |
//! | which paths there are | `routes`, one list |
//! | what a path does | `statements`, `tables`, `health`, `metrics`, `openapi` |
//! | who asks | `login` |
//! | how a request is read | `request`; how an answer looks: `reply`; an error: `problem` |
//! | what is counted here | `counts` |
//! | the client of `delphinus ctl --url` | `ask` |
//!
//! Connections are served on a thread of their own, which begins with the first listener: TLS and JSON of strangers take no time of
//! the monitor. What needs the operators' side is a `line::Line` away, on the control plane's thread; never on a worker.

mod ask;
mod counts;
mod door;
mod health;
mod line;
mod login;
mod metrics;
mod openapi;
mod places;
mod problem;
mod reply;
mod request;
mod routes;
mod server;
mod settings;
mod statements;
mod tables;

pub use ask::{AskError, Inquiry, ask, watch};
pub use counts::METRICS;
pub use door::HttpDoor;
pub use settings::Settings;
