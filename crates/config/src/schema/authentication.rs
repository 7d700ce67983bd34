//! `[authentication]`: how clients prove who they are.

use std::path::PathBuf;

use super::{is, unset};
use crate::word::AuthSource;

section! {
    /// How clients prove who they are, and how long the proxy remembers it. See docs/authentication.md.
    pub struct Authentication = "[authentication]" at "authentication" {
        /// Who may log in. "listed": the users of `[[user]]`. "backend": these, and all users of the primary; the proxy checks
        /// their passwords by a login there. A listed user always comes before one of the same name on the primary.
        auth: AuthSource = is(AuthSource::Listed), "", Hot;
        /// For this time the proxy does not ask the primary again about a password that the primary has accepted. It asks
        /// earlier if a backend refuses the password, if another password is right, or if a statement about accounts passes
        /// through the proxy. 0: it asks at each login.
        verifier_ttl_s: u64 = is(300), "s", Hot, in 0..=86_400;
        /// The number of users whose passwords the proxy remembers. For one more it forgets the user whose time ends first.
        max_verifiers: u32 = is(10_000), "users", Hot, in 1..=1_000_000;
        /// The number of passwords that the proxy checks at the primary at the same time. Further logins wait for their
        /// turn, at most `proxy.connect_timeout_ms`.
        max_backend_logins: u32 = is(16), "logins", Hot, in 1..=1000;
        /// After this number of failed logins from one address, or of one system user on a Unix socket, the next ones are
        /// delayed. Each minute without a failed login halves the count. It holds for clients and for operators; for
        /// operators a change takes effect with the next start.
        failed_connections_threshold: u32 = is(3), "logins", Hot, in 0..=1_000_000, aka "connection_control_failed_connections_threshold";
        /// The longest delay of such a login. The first delay is 250 ms, and each next one is twice as long. A delayed login
        /// takes no place. A user with the right password waits at most once. 0: no delay. For operators a change takes effect
        /// with the next start.
        max_connection_delay_ms: u64 = is(4_000), "ms", Hot, in 0..=60_000, aka "connection_control_max_connection_delay";
        /// RSA private key, PEM ("BEGIN PRIVATE KEY" or "BEGIN RSA PRIVATE KEY"), 2048 to 8192 bits. Clients without TLS
        /// encrypt their password with its public half. Relative paths start at the directory of the configuration file. A
        /// change needs a restart: clients that are connected know the old key.
        caching_sha2_password_private_key_path: Option<PathBuf> = unset("the proxy makes a key, and keeps it as private_key.pem and public_key.pem in data_dir"), "", Restart, aka "sha256_password_private_key_path";
    }
}
