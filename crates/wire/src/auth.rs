//! Authentication: what a password, its hashes and the answers made of it have to do with each other. Knows
//! nothing of packets or of the order in which they are sent: that is `handshake`.
//!
//! | plugin | answer of the client | file |
//! |---|---|---|
//! | `mysql_native_password` | SHA1(pw) xor SHA1(nonce, SHA1(SHA1(pw))) | `native` |
//! | `caching_sha2_password` | SHA256(pw) xor SHA256(SHA256(SHA256(pw)), nonce), or the password itself | `caching_sha2` |
//! | `client_ed25519` | a signature of the nonce, MariaDB's `ed25519` | `ed25519` |
//! | `sha256_password` | the password itself, by RSA or inside TLS | `rsa` |
//! | `mysql_clear_password` | the password itself, inside TLS | |
//!
//! Every comparison with something secret takes the same time whatever the bytes are, and everything secret is
//! wiped when dropped and never printed.

pub mod caching_sha2;
mod credential;
pub mod ed25519;
mod fingerprint;
pub(crate) mod hash;
pub mod native;
mod proof;
mod rsa;
mod secret;
mod sha256_crypt;
mod token;

pub(crate) use credential::verify_fast;
pub use credential::{BackendSecret, Credential};
pub use fingerprint::Fingerprint;
pub use proof::server_proof;
pub use rsa::{RsaError, RsaKey, encrypt_password};
pub use secret::{Password, Secret};
pub use token::TokenHash;

/// Bytes of the nonce (the "scramble" of the MySQL manual) that every answer is made with.
pub const NONCE_LEN: usize = 20;

/// The nonce of a connection: random, no byte zero.
pub type Nonce = [u8; NONCE_LEN];

/// An authentication plugin that is spoken here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Plugin {
    /// `mysql_native_password`
    Native,
    /// `caching_sha2_password`
    CachingSha2,
    /// `sha256_password`: spoken with backends, never asked of clients.
    Sha256,
    /// `mysql_clear_password`: only inside TLS.
    Clear,
    /// `client_ed25519` of MariaDB: always by a switch, because its nonce is longer than that of a greeting.
    Ed25519,
}

impl Plugin {
    /// The plugin with this name on the wire.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        match name {
            b"mysql_native_password" => Some(Self::Native),
            b"caching_sha2_password" => Some(Self::CachingSha2),
            b"sha256_password" => Some(Self::Sha256),
            b"mysql_clear_password" => Some(Self::Clear),
            b"client_ed25519" => Some(Self::Ed25519),
            _ => None,
        }
    }

    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "mysql_native_password",
            Self::CachingSha2 => "caching_sha2_password",
            Self::Sha256 => "sha256_password",
            Self::Clear => "mysql_clear_password",
            Self::Ed25519 => "client_ed25519",
        }
    }
}
