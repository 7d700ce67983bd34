//! The slow part of a login: RSA (about a millisecond) and stored hashes (about 3 ms for 5000 rounds). Pure CPU, no
//! ties to the connection, so that it can run on another thread.

use std::sync::Arc;

use zeroize::Zeroizing;

use crate::auth::{BackendSecret, Credential, Nonce, Password, RsaKey};

/// A password to check.
#[derive(Debug)]
pub struct ComputeJob {
    /// Those that the password may fit.
    credentials: Vec<Credential>,
    given: Given,
}

#[derive(Debug)]
enum Given {
    Clear(Password),
    /// It may be no ciphertext, but the password of a client that takes plain TCP for safe.
    Encrypted {
        ciphertext: Zeroizing<Vec<u8>>,
        key: Arc<RsaKey>,
        nonce: Nonce,
    },
}

impl ComputeJob {
    pub(super) fn clear(credentials: Vec<Credential>, password: Password) -> Self {
        Self { credentials, given: Given::Clear(password) }
    }

    pub(super) fn encrypted(
        credentials: Vec<Credential>,
        ciphertext: &[u8],
        key: Arc<RsaKey>,
        nonce: Nonce,
    ) -> Self {
        Self {
            credentials,
            given: Given::Encrypted { ciphertext: Zeroizing::new(ciphertext.to_vec()), key, nonce },
        }
    }

    /// Does the work: milliseconds, no I/O.
    pub fn run(self) -> ComputeResult {
        let password = match self.given {
            Given::Clear(password) => Some(password),
            Given::Encrypted { ciphertext, key, nonce } => key.decrypt_password(&ciphertext, &nonce),
        };
        // What cannot be decrypted is checked too, as a password that is wrong: both cost the same.
        let is_readable = password.is_some();
        let password = password.unwrap_or_else(|| Password::new(""));
        // All of them, so that the time does not tell which one fits.
        let fits = self.credentials.iter().filter(|one| one.verify_clear(password.clone()).is_some()).count();
        ComputeResult { is_right: fits > 0 && is_readable, password: is_readable.then_some(password) }
    }
}

/// What came of a `ComputeJob`.
#[derive(Debug)]
pub struct ComputeResult {
    is_right: bool,
    password: Option<Password>,
}

impl ComputeResult {
    /// What the client sent, if it could be read.
    pub(super) fn into_password(self) -> Option<Password> {
        self.password
    }

    /// The same, if it is right.
    pub(super) fn into_secret(self) -> Option<BackendSecret> {
        self.password.filter(|_| self.is_right).map(BackendSecret::Plain)
    }
}
