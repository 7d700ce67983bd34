//! Why a login to a backend fails.

use thiserror::Error;

use crate::auth::{Fingerprint, RsaError};
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
    /// Nobody has named the backend, and it proves nothing.
    #[error(
        "other servers have named this host, and nothing proves its identity: the proxy sends no login. Set \
         tls = \"verify_identity\" with tls_ca, or tls_fingerprints, or list it as a [[cluster.backend]]"
    )]
    UnprovedHost,
    /// The password would go to whoever has answered, in TLS.
    #[error(
        "the password of user '{user}' is not sent: the certificate of this host is not checked, so any host could be \
         the one that answers. Set tls = \"verify_ca\" with tls_ca, or tls_fingerprints, which \
         `delphinus check --fingerprints` prints"
    )]
    UncheckedCertificate {
        /// User name.
        user: String,
    },
    /// The password would go to whoever has answered, by RSA.
    #[error(
        "the password of user '{user}' is not sent: the public key of this host ({fingerprint}) came over plain TCP, so \
         any host could be the one that answers. Use TLS with tls_ca or tls_fingerprints, or set \
         server_public_key_fingerprints; `delphinus check --fingerprints` prints them"
    )]
    UnknownKey {
        /// User name.
        user: String,
        /// Of the key.
        fingerprint: Fingerprint,
    },
    /// The backend's key is not one of those that it may have.
    #[error(
        "the password of user '{user}' is not sent: the public key of this host has the fingerprint {fingerprint}, which \
         is none of server_public_key_fingerprints"
    )]
    OtherKey {
        /// User name.
        user: String,
        /// Of the key.
        fingerprint: Fingerprint,
    },
    /// A user or schema name that cannot be sent.
    #[error("a user or schema name holds a NUL character")]
    NulInName,
}
