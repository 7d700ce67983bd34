//! `caching_sha2_password`: the fast answer, and the stored hash that a password in clear is compared with.
//! Source: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_caching_sha2_authentication_exchanges.html>

use super::hash::{from_hex, is_equal, sha256, xor};
use super::sha256_crypt::sha256_crypt;
use super::{Nonce, Secret};

/// Bytes of a fast answer and of the digests that it is made of.
pub const HASH_LEN: usize = 32;

const SALT_LEN: usize = 20;
const DIGEST_TEXT_LEN: usize = 43;
const ROUNDS_UNIT: u32 = 1000;

/// SHA256(password): what a client needs for a fast answer.
pub fn stage1(password: &[u8]) -> Secret<HASH_LEN> {
    Secret::new(sha256(&[password]))
}

/// SHA256(SHA256(password)): what a fast answer is compared with.
pub fn stage2(stage1: &Secret<HASH_LEN>) -> Secret<HASH_LEN> {
    Secret::new(sha256(&[stage1.expose()]))
}

/// A client's fast answer. An empty password is answered with nothing, or a single NUL, instead.
pub fn scramble(stage1: &Secret<HASH_LEN>, nonce: &Nonce) -> [u8; HASH_LEN] {
    xor(*stage1.expose(), &sha256(&[stage2(stage1).expose(), nonce]))
}

/// Compares a client's fast answer with SHA256(SHA256(password)). A right answer gives SHA256(password), with which
/// the proxy can make fast answers in the client's name.
pub fn verify_fast(
    answer: &[u8],
    nonce: &Nonce,
    stage2_known: &Secret<HASH_LEN>,
) -> Option<Secret<HASH_LEN>> {
    let answer: [u8; HASH_LEN] = answer.try_into().ok()?;
    let candidate = Secret::new(xor(answer, &sha256(&[stage2_known.expose(), nonce])));
    (stage2(&candidate) == *stage2_known).then_some(candidate)
}

/// A stored hash: `$A$005$`, 20 bytes of salt, 43 characters of digest. 005 is the number of rounds in thousands, in
/// hexadecimal.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredHash {
    rounds: u32,
    salt: [u8; SALT_LEN],
    digest: [u8; DIGEST_TEXT_LEN],
}

impl StoredHash {
    /// Hashes `password`, as `CREATE USER` does. `salt` is random printable text.
    pub fn new(password: &[u8], salt: [u8; SALT_LEN]) -> Self {
        let rounds = 5 * ROUNDS_UNIT;
        Self { rounds, salt, digest: sha256_crypt(password, &salt, rounds) }
    }

    /// Reads what `mysql.user.authentication_string` holds, as it is or as `0x` and hexadecimal digits (which is how
    /// `SHOW CREATE USER` prints it with `print_identified_with_as_hex`: the salt may hold bytes that no text file
    /// likes).
    pub fn parse(text: &[u8]) -> Option<Self> {
        if let Some(digits) = text.strip_prefix(b"0x") {
            return Self::parse(&from_hex(digits).filter(|bytes| bytes.starts_with(b"$A$"))?);
        }
        let rest = text.strip_prefix(b"$A$")?;
        let (count, rest) = rest.split_first_chunk::<3>()?;
        let rest = rest.strip_prefix(b"$")?;
        let (salt, digest) = rest.split_first_chunk::<SALT_LEN>()?;
        let thousands = u32::from_str_radix(std::str::from_utf8(count).ok()?, 16).ok()?;
        if thousands == 0 || !count.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        Some(Self { rounds: thousands * ROUNDS_UNIT, salt: *salt, digest: digest.try_into().ok()? })
    }

    /// The stored form.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = format!("$A${:03X}$", self.rounds / ROUNDS_UNIT).into_bytes();
        text.extend_from_slice(&self.salt);
        text.extend_from_slice(&self.digest);
        text
    }

    /// Compares a password in clear with the hash. Slow on purpose (milliseconds): not for a worker thread.
    pub fn verify(&self, password: &[u8]) -> bool {
        is_equal(&sha256_crypt(password, &self.salt, self.rounds), &self.digest)
    }

    /// What is stored of the password.
    pub(crate) fn digest(&self) -> &[u8] {
        &self.digest
    }

    /// A hash that takes as long to verify as this one. Whatever verifies against it is not let in anyway.
    #[must_use]
    pub fn decoy(&self) -> Self {
        Self { rounds: self.rounds, salt: [b'.'; SALT_LEN], digest: [b'.'; DIGEST_TEXT_LEN] }
    }
}

impl std::fmt::Debug for StoredHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredHash").field("rounds", &self.rounds).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
