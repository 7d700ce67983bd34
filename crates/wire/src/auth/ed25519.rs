//! `client_ed25519` of MariaDB: the client signs the nonce with a key that is made of the password.
//! Source: <https://mariadb.com/kb/en/authentication-plugin-ed25519/>
//!
//! It is Ed25519 but for one thing: where the standard hashes 32 random bytes into the secret scalar and the prefix,
//! here the password, of any length, is hashed. A library that takes only seeds of 32 bytes cannot do it.

use ed25519_dalek::hazmat::{ExpandedSecretKey, raw_sign};
use ed25519_dalek::{Signature, VerifyingKey};
use sha2::{Digest, Sha512};
use zeroize::Zeroizing;

/// Bytes of the nonce in the switch to this plugin.
pub const NONCE_LEN: usize = 32;
/// Bytes of an answer.
pub const SIGNATURE_LEN: usize = 64;

/// The nonce of one login.
pub type LongNonce = [u8; NONCE_LEN];

/// A client's answer.
pub fn sign(password: &[u8], nonce: &LongNonce) -> [u8; SIGNATURE_LEN] {
    let key = secret_key(password);
    raw_sign::<Sha512>(&key, nonce, &VerifyingKey::from(&key)).to_bytes()
}

/// True if `answer` was made with this password.
pub fn verify(answer: &[u8], nonce: &LongNonce, password: &[u8]) -> bool {
    let Ok(answer) = <[u8; SIGNATURE_LEN]>::try_from(answer) else { return false };
    let public = VerifyingKey::from(&secret_key(password));
    public.verify_strict(nonce, &Signature::from_bytes(&answer)).is_ok()
}

/// The public key of a password: what the server stores, in base64 without its `=`.
pub fn public_key(password: &[u8]) -> [u8; 32] {
    VerifyingKey::from(&secret_key(password)).to_bytes()
}

fn secret_key(password: &[u8]) -> ExpandedSecretKey {
    let hash = Zeroizing::new(<[u8; 64]>::from(Sha512::digest(password)));
    ExpandedSecretKey::from_bytes(&hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::hash::from_hex;

    /// `select ed25519_password('secret')` of MariaDB 10.11 is ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJY.
    const SECRET: &[u8] = b"648814444520e4f56043a2ec9215e63be7992d2d270bc6dee873e36164786096";

    #[test]
    fn the_public_key_is_the_servers() {
        assert_eq!(Some(public_key(b"secret").to_vec()), from_hex(SECRET));
    }

    #[test]
    fn with_a_seed_of_32_bytes_it_is_the_standards() {
        // RFC 8032, 7.1, test 1: the empty message.
        let seed = from_hex(b"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60").unwrap();
        let public = from_hex(b"d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a").unwrap();
        assert_eq!(public_key(&seed).to_vec(), public);
    }

    #[test]
    fn only_the_right_password_and_nonce_verify() {
        let nonce = [7; 32];
        let answer = sign(b"secret", &nonce);
        assert!(verify(&answer, &nonce, b"secret"));
        assert!(!verify(&answer, &nonce, b"Secret"));
        assert!(!verify(&answer, &[8; 32], b"secret"));
        for cut in [0, 1, 63] {
            assert!(!verify(&answer[..cut], &nonce, b"secret"));
        }
        for at in 0..answer.len() {
            let mut changed = answer;
            changed[at] ^= 1;
            assert!(!verify(&changed, &nonce, b"secret"), "byte {at}");
        }
    }
}
