//! The product as a library: builds monitor, workers and listeners from a configuration, runs them, and stops
//! them without dropping work. Beside the command line, only this crate knows the configuration.

mod acceptor;
mod admin;
mod app;
mod choice;
mod cluster;
mod doors;
mod drain;
mod error;
mod history;
mod keys;
mod limits;
mod memory;
mod offline;
mod places;
mod policy;
mod reload;
mod routing;
mod settings;
mod switching;
mod texts;
mod trust;
mod watch;
mod worker;

pub use app::run;
pub use error::Error;
pub use reload::{ConfigStore, log_settings};
pub use trust::{ShownByBackend, shown_by_backends};
