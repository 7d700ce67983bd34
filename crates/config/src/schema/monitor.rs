//! `[monitor]`: how the proxy finds out which backends can be used.

use std::path::PathBuf;

use super::{is, required, unset};
use crate::secret::Secret;

section! {
    /// How the proxy finds out which backends can be used. Exactly one of the password options is needed.
    pub(crate) struct MonitorSection = "[monitor]" at "monitor" {
        /// User of the probes on all backends. It needs no rights but to log in.
        user: String = required(), "", Restart;
        /// Password as it is. "" is a user without a password.
        password: Option<Secret> = unset("another password option"), "", Restart;
        /// Environment variable that holds the password.
        password_env: Option<String> = unset("another password option"), "", Restart;
        /// File that holds the password and nothing else; one line end after it is dropped. Relative paths
        /// start at the directory of the configuration file.
        password_file: Option<PathBuf> = unset("another password option"), "", Restart;
        /// Time between two probes of a backend.
        interval_ms: u64 = is(1_000), "ms", Restart, in 10..=3_600_000;
        /// Time that a probe may take, connect and login included. A longer one has failed.
        timeout_ms: u64 = is(1_000), "ms", Restart, in 10..=3_600_000;
        /// Probes that have to fail one after another until a backend is down.
        fall: u32 = is(2), "probes", Restart, in 1..=100;
        /// Probes that have to succeed one after another until a backend is up again.
        rise: u32 = is(2), "probes", Restart, in 1..=100;
    }
}
