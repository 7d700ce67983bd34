//! What the proxy knows of a listed user, and what a login tells it for logging in to backends in the user's name.

use super::{Nonce, Password, Plugin, Secret, caching_sha2, ed25519, native};

/// What the proxy knows of a user.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// The password: serves every plugin, on both sides.
    Plain(Password),
    /// SHA1(SHA1(password)) of `mysql_native_password`.
    NativeHash([u8; native::HASH_LEN]),
    /// A stored hash of `caching_sha2_password`.
    Sha2Hash(caching_sha2::StoredHash),
    /// Nothing of its own: a backend is asked whether a password is right.
    Backend,
}

/// What the proxy can log in to a backend with, after a client has logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackendSecret {
    /// The password: serves every plugin.
    Plain(Password),
    /// SHA1(password): serves `mysql_native_password`.
    NativeSha1(Secret<{ native::HASH_LEN }>),
    /// SHA256(password): serves `caching_sha2_password` as long as the backend has the user in its cache.
    Sha2Stage1(Secret<{ caching_sha2::HASH_LEN }>),
}

impl Credential {
    /// The plugin that a client has to use, if only one can be checked against this credential.
    pub fn required_plugin(&self) -> Option<Plugin> {
        match self {
            Self::Plain(_) => None,
            Self::NativeHash(_) => Some(Plugin::Native),
            // The plugin that gets the password itself out of a client, and spares it that while it is remembered.
            Self::Sha2Hash(_) | Self::Backend => Some(Plugin::CachingSha2),
        }
    }

    /// True if the account has no password. A server stores an empty hash for such an account, so only a password in
    /// clear can say it.
    pub fn is_passwordless(&self) -> bool {
        matches!(self, Self::Plain(password) if password.is_empty())
    }

    /// Checks a password in clear. Milliseconds for `Sha2Hash`: see `is_slow`. What only a backend can check is not
    /// right.
    pub fn verify_clear(&self, password: Password) -> Option<BackendSecret> {
        let is_right = match self {
            Self::Plain(known) => *known == password,
            Self::NativeHash(hash) => {
                let given = native::stored_hash(password.expose());
                super::hash::is_equal(&given, hash)
            }
            Self::Sha2Hash(stored) => stored.verify(password.expose()),
            Self::Backend => false,
        };
        is_right.then_some(BackendSecret::Plain(password))
    }

    /// True if `verify_clear` takes milliseconds.
    pub fn is_slow(&self) -> bool {
        matches!(self, Self::Sha2Hash(_))
    }

    /// Checks an answer of `mysql_native_password`.
    pub fn verify_native(&self, answer: &[u8], nonce: &Nonce) -> Option<BackendSecret> {
        match self {
            Self::Plain(password) => {
                native::verify(answer, nonce, &native::stored_hash(password.expose()))?;
                Some(BackendSecret::Plain(password.clone()))
            }
            Self::NativeHash(hash) => native::verify(answer, nonce, hash).map(BackendSecret::NativeSha1),
            Self::Sha2Hash(_) | Self::Backend => None,
        }
    }

    /// Checks an answer of `client_ed25519`, which takes the password in clear.
    pub fn verify_ed25519(&self, answer: &[u8], nonce: &ed25519::LongNonce) -> Option<BackendSecret> {
        let Self::Plain(password) = self else { return None };
        ed25519::verify(answer, nonce, password.expose()).then(|| BackendSecret::Plain(password.clone()))
    }

    /// Something of the same kind, to check the answers of unknown users against, so that they cost what the answers
    /// of known users cost. The caller refuses whatever comes out.
    #[must_use]
    pub fn decoy(&self) -> Self {
        match self {
            Self::Plain(password) => Self::Plain(Password::new(vec![b'.'; password.expose().len().max(1)])),
            Self::NativeHash(_) => Self::NativeHash([0; native::HASH_LEN]),
            Self::Sha2Hash(stored) => Self::Sha2Hash(stored.decoy()),
            Self::Backend => Self::Backend,
        }
    }
}

impl BackendSecret {
    /// True if a login with `plugin` may succeed with this.
    pub fn fits(&self, plugin: Plugin) -> bool {
        match self {
            Self::Plain(_) => true,
            Self::NativeSha1(_) => plugin == Plugin::Native,
            Self::Sha2Stage1(_) => plugin == Plugin::CachingSha2,
        }
    }
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "Plain(..)",
            Self::NativeHash(_) => "NativeHash(..)",
            Self::Sha2Hash(_) => "Sha2Hash(..)",
            Self::Backend => "Backend",
        })
    }
}

/// Checks a fast answer of `caching_sha2_password` against a password.
pub(crate) fn verify_fast(known: &Password, answer: &[u8], nonce: &Nonce) -> Option<BackendSecret> {
    let stage2 = caching_sha2::stage2(&caching_sha2::stage1(known.expose()));
    caching_sha2::verify_fast(answer, nonce, &stage2)?;
    Some(BackendSecret::Plain(known.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: Nonce = *b"abcdefghijklmnopqrst";

    fn all() -> [Credential; 3] {
        [
            Credential::Plain(Password::new("secret")),
            Credential::NativeHash(native::stored_hash(b"secret")),
            Credential::Sha2Hash(caching_sha2::StoredHash::new(b"secret", *b"0123456789abcdefghij")),
        ]
    }

    #[test]
    fn the_password_in_clear_fits_every_kind() {
        for credential in all() {
            let right = BackendSecret::Plain(Password::new("secret"));
            assert_eq!(credential.verify_clear(Password::new("secret")), Some(right), "{credential:?}");
            for wrong in ["", "Secret", "secret\0"] {
                assert_eq!(credential.verify_clear(Password::new(wrong)), None, "{credential:?}");
            }
        }
    }

    #[test]
    fn decoys_are_of_the_same_kind_and_another_value() {
        for credential in all() {
            let decoy = credential.decoy();
            assert_ne!(decoy, credential);
            assert_eq!(decoy.required_plugin(), credential.required_plugin());
            assert!(!decoy.is_passwordless());
            assert_eq!(decoy.verify_clear(Password::new("secret")), None);
        }
        let decoy = Credential::Plain(Password::new("")).decoy();
        assert!(!decoy.is_passwordless());
    }

    #[test]
    fn native_answers_leave_what_a_backend_needs() {
        let [plain, hash, sha2] = all();
        let answer = native::scramble(&native::stage1(b"secret"), &NONCE);
        assert_eq!(plain.verify_native(&answer, &NONCE), Some(BackendSecret::Plain(Password::new("secret"))));
        assert_eq!(
            hash.verify_native(&answer, &NONCE),
            Some(BackendSecret::NativeSha1(native::stage1(b"secret")))
        );
        assert_eq!(sha2.verify_native(&answer, &NONCE), None);
    }
}
