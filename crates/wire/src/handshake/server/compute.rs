//! The slow part of a login: RSA (about a millisecond) and stored hashes (about 3 ms for 5000 rounds). Pure CPU, no
//! ties to the connection, so that it can run on another thread.

use std::sync::Arc;

use crate::auth::{BackendSecret, Credential, Nonce, Password, RsaKey};

/// A password to check.
#[derive(Debug)]
pub struct ComputeJob {
    credential: Credential,
    given: Given,
}

#[derive(Debug)]
enum Given {
    Clear(Password),
    Encrypted { ciphertext: Vec<u8>, key: Arc<RsaKey>, nonce: Nonce },
}

impl ComputeJob {
    pub(super) fn clear(credential: Credential, password: Password) -> Self {
        Self { credential, given: Given::Clear(password) }
    }

    pub(super) fn encrypted(
        credential: Credential,
        ciphertext: &[u8],
        key: Arc<RsaKey>,
        nonce: Nonce,
    ) -> Self {
        Self { credential, given: Given::Encrypted { ciphertext: ciphertext.to_vec(), key, nonce } }
    }

    /// Does the work: milliseconds, no I/O.
    pub fn run(self) -> ComputeResult {
        let password = match self.given {
            Given::Clear(password) => Some(password),
            Given::Encrypted { ciphertext, key, nonce } => key.decrypt_password(&ciphertext, &nonce),
        };
        // What cannot be decrypted is checked too, as a password that is wrong: both cost the same.
        let is_readable = password.is_some();
        let secret = self.credential.verify_clear(password.unwrap_or_else(|| Password::new("")));
        ComputeResult(secret.filter(|_| is_readable))
    }
}

/// What came of a `ComputeJob`.
#[derive(Debug)]
pub struct ComputeResult(Option<BackendSecret>);

impl ComputeResult {
    pub(super) fn into_secret(self) -> Option<BackendSecret> {
        self.0
    }
}
