//! What a password becomes on the wire.

use aws_lc_rs::digest::{Digest, SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};

/// mysql_native_password: SHA1(p) xor SHA1(nonce + SHA1(SHA1(p))).
pub(crate) fn native(password: &str, nonce: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let sha1 = |bytes: &[u8]| digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes);
    let once = sha1(password.as_bytes());
    let twice = sha1(once.as_ref());
    xor(&once, &sha1(&[nonce, twice.as_ref()].concat()))
}

/// caching_sha2_password: SHA256(p) xor SHA256(SHA256(SHA256(p)) + nonce).
pub(crate) fn caching_sha2(password: &str, nonce: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let sha256 = |bytes: &[u8]| digest(&SHA256, bytes);
    let once = sha256(password.as_bytes());
    let twice = sha256(once.as_ref());
    xor(&once, &sha256(&[twice.as_ref(), nonce].concat()))
}

fn xor(left: &Digest, right: &Digest) -> Vec<u8> {
    left.as_ref().iter().zip(right.as_ref()).map(|(a, b)| a ^ b).collect()
}
