//! `[authentication]`: how clients prove who they are.

use std::path::PathBuf;

use super::{is, unset};
use crate::word::AuthSource;

section! {
    /// How clients prove who they are, and what is remembered of it. See docs/authentication.md.
    pub struct Authentication = "[authentication]" at "authentication" {
        /// Who may log in: "listed" are the users of `[[user]]`; "backend" are all users of the primary, where
        /// each password is checked by a login. Listed users come first in both cases.
        auth: AuthSource = is(AuthSource::Listed), "", Restart;
        /// A password that the primary has taken is not checked again for so long, unless something says
        /// that it was changed: a backend refuses it, another password is right, or a statement about accounts
        /// passes through the proxy and may have done something. 0 checks it at each login.
        verifier_ttl_s: u64 = is(300), "s", Restart, in 0..=86_400;
        /// Users whose password is remembered so. One more, and the one that would be forgotten first is.
        max_verifiers: u32 = is(10_000), "users", Restart, in 1..=1_000_000;
        /// Passwords that are checked at the primary at the same time. More logins wait for their turn, at most
        /// `proxy.connect_timeout_ms`.
        max_backend_logins: u32 = is(16), "logins", Restart, in 1..=1000;
        /// RSA key that clients without TLS encrypt their password for, PEM; "BEGIN PRIVATE KEY" or
        /// "BEGIN RSA PRIVATE KEY", 2048 to 8192 bits. Relative paths start at the directory of the configuration file.
        caching_sha2_password_private_key_path: Option<PathBuf> = unset("the proxy makes a key, and keeps it as private_key.pem and public_key.pem in data_dir"), "", Restart, aka "sha256_password_private_key_path";
    }
}
