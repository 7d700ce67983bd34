//! What goes into and comes out of a client's login.

use crate::auth::{BackendSecret, Credential, Password, Plugin};
use crate::capability::Capabilities;
use crate::handshake::{ConnectAttributes, Packet};

/// What the caller knows of a user.
#[derive(Debug, Clone)]
pub struct UserRecord {
    /// What the user's answers are compared with.
    pub credential: Credential,
    /// The plugin that a client which starts with an unknown one is switched to, for a `Plain` credential; `None` for
    /// the listener's default.
    pub plugin: Option<Plugin>,
    /// For a `Sha2Hash` credential: the password of an earlier login that was verified against it (its outcome's
    /// secret). Spares the client the full authentication.
    pub verified_password: Option<Password>,
    is_listed: bool,
}

impl UserRecord {
    /// A listed user.
    pub fn new(credential: Credential) -> Self {
        Self { credential, plugin: None, verified_password: None, is_listed: true }
    }

    /// What to answer for an unknown user: the login takes the course that it takes for this record with a wrong
    /// password, and is refused whatever the client answers.
    #[must_use]
    pub fn decoy(&self) -> Self {
        Self {
            credential: self.credential.decoy(),
            plugin: self.plugin,
            verified_password: self.verified_password.as_ref().map(|_| Password::new(".")),
            is_listed: false,
        }
    }

    pub(super) fn is_listed(&self) -> bool {
        self.is_listed
    }
}

/// What a login settles for as long as the connection lives; COM_CHANGE_USER changes only the collation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Established {
    /// What both sides can do.
    pub capabilities: Capabilities,
    /// The largest packet that the client takes, in bytes.
    pub max_packet_len: u32,
    /// Id of the client's collation, known or not.
    pub collation: u16,
    /// Level of zstd compression, if both sides can do it.
    pub zstd_level: u8,
    /// True inside TLS.
    pub is_tls: bool,
}

/// A login that succeeded, but for the OK packet.
#[derive(Debug)]
pub struct LoginOutcome {
    /// What was negotiated.
    pub connection: Established,
    /// The user's name.
    pub user: String,
    /// The default schema that the client asks for.
    pub schema: Option<Vec<u8>>,
    /// What the client tells about itself.
    pub attributes: ConnectAttributes,
    /// The plugin that the user was authenticated with.
    pub plugin: Plugin,
    /// What to log in to backends with.
    pub secret: BackendSecret,
    /// To send before the OK packet.
    pub before_ok: Option<Packet>,
    /// Sequence id of the OK packet.
    pub next_seq: u8,
}

/// A login that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Error number.
    pub code: u16,
    /// SQLSTATE.
    pub state: [u8; 5],
    /// Text for the client.
    pub message: String,
    /// More for the log: never sent, because it may say which users exist.
    pub reason: &'static str,
    /// Sequence id of the ERR packet.
    pub seq: u8,
}

impl Refusal {
    fn new(code: u16, state: [u8; 5], message: impl Into<String>, reason: &'static str) -> Self {
        Self { code, state, message: message.into(), reason, seq: 0 }
    }

    pub(super) fn bad_handshake(reason: &'static str) -> Self {
        Self::new(1043, *b"08S01", "Bad handshake", reason)
    }

    pub(super) fn unknown_command() -> Self {
        Self::new(1047, *b"08S01", "Unknown command", "malformed COM_CHANGE_USER")
    }

    pub(super) fn out_of_order() -> Self {
        Self::new(1156, *b"08S01", "Got packets out of order", "wrong sequence id")
    }

    pub(super) fn unsupported_client() -> Self {
        let text = "Client does not support authentication protocol requested by server; \
                    consider upgrading MySQL client";
        Self::new(1251, *b"08004", text, "the client cannot use the user's plugin")
    }

    pub(super) fn insecure_transport() -> Self {
        let text = "Connections using insecure transport are prohibited while --require_secure_transport=ON.";
        Self::new(3159, *b"HY000", text, "TLS is required")
    }

    pub(super) fn access_denied(user: &str, host: &str, has_password: bool, reason: &'static str) -> Self {
        let given = if has_password { "YES" } else { "NO" };
        let text = format!("Access denied for user '{user}'@'{host}' (using password: {given})");
        Self::new(1045, *b"28000", text, reason)
    }
}
