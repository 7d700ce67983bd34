//! Why a login to a backend fails.

use thiserror::Error;

use crate::auth::RsaError;
use crate::cursor::Malformed;
use crate::response::ErrPacket;

/// Why a login to a backend fails.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ClientFailure {
    /// The backend says no.
    #[error("the backend refuses the login: error {}: {}", .0.code, .0.text())]
    Refused(ErrPacket),
    /// The backend sends what cannot be read.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The backend sends what has no place in a login.
    #[error("the backend does not keep to the protocol: {0}")]
    Unexpected(&'static str),
    /// TLS is required and the backend has none.
    #[error("TLS is required, but the backend does not offer it")]
    TlsUnavailable,
    /// The proxy knows only a hash of the password, of another plugin.
    #[error(
        "what the proxy knows of the password of user '{user}' is not enough for {plugin}, which the backend asks \
         for: list the user with its password instead of a hash"
    )]
    SecretUnfit {
        /// User name.
        user: String,
        /// The plugin.
        plugin: &'static str,
    },
    /// The backend wants the password in clear, and everybody could read it.
    #[error("the backend asks for the password of user '{user}' in clear ({plugin}), which needs TLS")]
    NeedsTls {
        /// User name.
        user: String,
        /// The plugin.
        plugin: &'static str,
    },
    /// The backend asks for a plugin that is not spoken here.
    #[error(
        "the backend asks for the authentication plugin '{plugin}' for user '{user}', which is not supported"
    )]
    UnknownPlugin {
        /// User name.
        user: String,
        /// Name of the plugin.
        plugin: String,
    },
    /// The backend's public key cannot be used.
    #[error(transparent)]
    Rsa(#[from] RsaError),
    /// A user or schema name that cannot be sent.
    #[error("a user or schema name holds a NUL character")]
    NulInName,
}
