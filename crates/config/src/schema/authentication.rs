//! `[authentication]`: how clients prove who they are.

use std::path::PathBuf;

use super::{is, unset};
use crate::word::AuthSource;

section! {
    /// How clients prove who they are, and what is remembered of it. See docs/authentication.md.
    pub struct Authentication = "[authentication]" at "authentication" {
        /// Who may log in: "listed" are the users of `[[user]]`; "backend" are all users of the primary, where
        /// each password is checked by a login. Listed users come first in both cases.
        auth: AuthSource = is(AuthSource::Listed), "", Hot;
        /// A password that the primary has taken is not checked again for so long, unless something says
        /// that it was changed: a backend refuses it, another password is right, or a statement about accounts
        /// passes through the proxy and may have done something. 0 checks it at each login.
        verifier_ttl_s: u64 = is(300), "s", Hot, in 0..=86_400;
        /// Users whose password is remembered so. One more, and the one that would be forgotten first is.
        max_verifiers: u32 = is(10_000), "users", Hot, in 1..=1_000_000;
        /// Passwords that are checked at the primary at the same time. More logins wait for their turn, at most
        /// `proxy.connect_timeout_ms`.
        max_backend_logins: u32 = is(16), "logins", Hot, in 1..=1000;
        /// So many logins from an address, or of a system user on a Unix socket, fail without a delay. Of each quiet minute half of
        /// them are forgotten. For clients and for operators.
        /// For the logins of operators: with the next start.
        failed_connections_threshold: u32 = is(3), "logins", Hot, in 0..=1_000_000, aka "connection_control_failed_connections_threshold";
        /// Beyond that, logins from there wait: 250 ms, then twice as long each time, up to this. They take no place meanwhile,
        /// and users that log in from there with the right password wait at most once. 0: no delay.
        /// For the logins of operators: with the next start.
        max_connection_delay_ms: u64 = is(4_000), "ms", Hot, in 0..=60_000, aka "connection_control_max_connection_delay";
        /// RSA key that clients without TLS encrypt their password for, PEM; "BEGIN PRIVATE KEY" or
        /// "BEGIN RSA PRIVATE KEY", 2048 to 8192 bits. Relative paths start at the directory of the configuration file.
        /// Not while it runs: clients that have been greeted know the old key.
        caching_sha2_password_private_key_path: Option<PathBuf> = unset("the proxy makes a key, and keeps it as private_key.pem and public_key.pem in data_dir"), "", Restart, aka "sha256_password_private_key_path";
    }
}
