//! The product as a library: builds monitor, workers and listeners from a configuration, runs them, and stops
//! them without dropping work. Beside the command line, only this crate knows the configuration.

mod acceptor;
mod admin;
mod app;
mod choice;
mod cluster;
mod doctor;
mod doors;
mod drain;
mod error;
mod ha;
mod history;
mod http;
mod keys;
mod leave;
mod limits;
mod logs;
mod memory;
mod offline;
mod places;
mod policy;
mod reload;
mod routing;
mod sampling;
mod settings;
mod switching;
mod texts;
mod trust;
mod vip_check;
mod watch;
mod worker;

pub use app::run;
pub use doctor::look_for_faults;
pub use error::Error;
pub use reload::{ConfigStore, log_settings};
pub use trust::{ShownByBackend, shown_by_backends};
pub use vip_check::{VipFinding, check_vips};
