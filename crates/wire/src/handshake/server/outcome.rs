//! What goes into and comes out of a client's login.

use crate::auth::{BackendSecret, Credential, Fingerprint, Nonce, Password, Plugin, server_proof};
use crate::capability::Capabilities;
use crate::error_code;
use crate::handshake::{ConnectAttributes, Packet};
use crate::response::ErrPacket;

/// What the caller knows of a user.
#[derive(Debug, Clone)]
pub struct UserRecord {
    /// What the user's answers are compared with.
    pub credential: Credential,
    /// A second password, of the same kind, that is right too: the old one, while passwords are changed.
    pub secondary: Option<Credential>,
    /// The plugin that the user has to use, for `Plain` credentials; `None` for the one that the client starts with,
    /// or the listener's default.
    pub plugin: Option<Plugin>,
    /// For `Sha2Hash` and `Backend` credentials: passwords of earlier logins that were verified (their outcomes'
    /// secrets). They spare the client the full authentication.
    pub verified: Vec<Password>,
    is_listed: bool,
}

impl UserRecord {
    /// A listed user.
    pub fn new(credential: Credential) -> Self {
        Self { credential, secondary: None, plugin: None, verified: Vec::new(), is_listed: true }
    }

    /// What to answer for an unknown user: the login takes the course that it takes for this record with a wrong
    /// password, and is refused whatever the client answers.
    #[must_use]
    pub fn decoy(&self) -> Self {
        Self {
            credential: self.credential.decoy(),
            secondary: self.secondary.as_ref().map(Credential::decoy),
            plugin: self.plugin,
            verified: self.verified.iter().map(|_| Password::new(".")).collect(),
            is_listed: false,
        }
    }

    /// The same without the passwords of earlier logins.
    pub(super) fn without_verified(self) -> Self {
        Self { verified: Vec::new(), ..self }
    }

    pub(super) fn is_listed(&self) -> bool {
        self.is_listed
    }
}

/// What a backend says of a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The password is the user's.
    Right,
    /// It is not, or nobody can tell. What the client is told, and the reason for the log.
    Refused(ErrPacket, &'static str),
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
    /// What was known of the user when the login began, but for passwords of earlier logins: the login was checked by it, and it
    /// may have changed since.
    pub record: Box<UserRecord>,
    /// To send before the OK packet.
    pub before_ok: Option<Packet>,
    /// Sequence id of the OK packet.
    pub next_seq: u8,
}

impl LoginOutcome {
    /// The remark of the OK packet. In TLS with this certificate, MariaDB's clients are told the proof that the password is known here:
    /// those that verify certificates take a self-signed one for it. All others are told nothing, as by any server.
    pub fn remark(&self, nonce: &Nonce, certificate: Option<Fingerprint>) -> Vec<u8> {
        // By flags of their own that family is known.
        let is_theirs = self.connection.capabilities.mariadb_bits() != 0;
        let certificate = certificate.filter(|_| self.connection.is_tls && is_theirs);
        let proof = certificate.and_then(|shown| server_proof(self.plugin, &self.secret, nonce, shown));
        proof.unwrap_or_default()
    }
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

    /// Too many logins from there have failed, and too many wait already.
    pub fn too_many_failures(host: &str) -> Self {
        let text =
            format!("Host '{host}' is blocked because of many failed logins; try again in a few seconds");
        Self::new(error_code::ER_HOST_IS_BLOCKED, *b"HY000", text, "too many failed logins")
    }

    pub(super) fn bad_handshake(reason: &'static str) -> Self {
        Self::new(error_code::ER_HANDSHAKE_ERROR, *b"08S01", "Bad handshake", reason)
    }

    pub(super) fn unknown_command() -> Self {
        Self::new(error_code::ER_UNKNOWN_COM_ERROR, *b"08S01", "Unknown command", "malformed COM_CHANGE_USER")
    }

    pub(super) fn out_of_order() -> Self {
        Self::new(
            error_code::ER_NET_PACKETS_OUT_OF_ORDER,
            *b"08S01",
            "Got packets out of order",
            "wrong sequence id",
        )
    }

    pub(super) fn unsupported_client() -> Self {
        let text = "Client does not support authentication protocol requested by server; \
                    consider upgrading MySQL client";
        Self::new(
            error_code::ER_NOT_SUPPORTED_AUTH_MODE,
            *b"08004",
            text,
            "the client cannot use the user's plugin",
        )
    }

    pub(super) fn insecure_transport() -> Self {
        let text = "Connections using insecure transport are prohibited while --require_secure_transport=ON.";
        Self::new(error_code::ER_SECURE_TRANSPORT_REQUIRED, *b"HY000", text, "TLS is required")
    }

    /// A backend's words. Where they name the user, the host beside it is that which the backend sees, the proxy's:
    /// the client is told its own.
    pub(super) fn by_backend(error: &ErrPacket, user: &str, host: &str, reason: &'static str) -> Self {
        let (text, named) = (error.text(), format!("'{user}'@'"));
        let told = text.split_once(&named).and_then(|(before, after)| {
            let (_, after) = after.split_once('\'')?;
            Some(format!("{before}{named}{host}'{after}"))
        });
        Self::new(error.code, error.state, told.unwrap_or_else(|| text.into_owned()), reason)
    }

    /// The password is not the user's, or there is no such user.
    pub fn access_denied(user: &str, host: &str, has_password: bool, reason: &'static str) -> Self {
        let given = if has_password { "YES" } else { "NO" };
        let text = format!("Access denied for user '{user}'@'{host}' (using password: {given})");
        Self::new(error_code::ER_ACCESS_DENIED_ERROR, *b"28000", text, reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mariadbs_clients_in_tls_are_told_a_proof_and_no_others() {
        let (nonce, certificate) = (*b"abcdefghijklmnopqrst", Fingerprint::of(b"certificate"));
        let password = || Password::new("secret");
        let remark = |capabilities, is_tls, plugin| {
            let outcome = LoginOutcome {
                connection: Established {
                    capabilities,
                    max_packet_len: 0,
                    collation: 45,
                    zstd_level: 0,
                    is_tls,
                },
                user: "app".to_owned(),
                schema: None,
                attributes: ConnectAttributes::default(),
                plugin,
                secret: BackendSecret::Plain(password()),
                record: Box::new(UserRecord::new(Credential::Plain(password()))),
                before_ok: None,
                next_seq: 2,
            };
            outcome.remark(&nonce, Some(certificate))
        };
        let theirs = Capabilities::PROTOCOL_41 | Capabilities::MARIADB_STMT_BULK;
        let others = Capabilities::PROTOCOL_41 | Capabilities::LONG_PASSWORD;
        let proof = server_proof(Plugin::Native, &BackendSecret::Plain(password()), &nonce, certificate);
        assert_eq!(Some(remark(theirs, true, Plugin::Native)), proof);
        assert!(remark(others, true, Plugin::Native).is_empty(), "a client could show it to its user");
        assert!(remark(theirs, false, Plugin::Native).is_empty(), "there is no certificate");
        assert!(remark(theirs, true, Plugin::CachingSha2).is_empty(), "the plugin has no proof");
    }
}
