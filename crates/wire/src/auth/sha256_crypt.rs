//! SHA-256-crypt, the slow hash of crypt(3) scheme `$5$`, with salts of any length: MySQL's have 20 bytes, where
//! crypt(3) and the crates that follow it stop at 16.
//! Source: <https://www.akkadia.org/drepper/SHA-crypt.txt>; the step numbers below are that text's.

use aws_lc_rs::digest::{Context, SHA256};
use zeroize::Zeroizing;

use super::hash::sha256;

const LEN: usize = 32;
const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The 43 characters of the digest.
pub(super) fn sha256_crypt(password: &[u8], salt: &[u8], rounds: u32) -> [u8; 43] {
    let mut digest = first_digest(password, salt);
    // Steps 13 to 20: as many bytes as the password and the salt have, made of digests of each.
    let password_bytes = stretch(&repeated(password, password.len()), password.len());
    let salt_bytes = stretch(&repeated(salt, 16 + usize::from(digest[0])), salt.len());
    for round in 0..rounds {
        let mut context = Context::new(&SHA256);
        let odd = round & 1 == 1;
        context.update(if odd { &password_bytes } else { &digest });
        if round % 3 != 0 {
            context.update(&salt_bytes);
        }
        if round % 7 != 0 {
            context.update(&password_bytes);
        }
        context.update(if odd { &digest } else { &password_bytes });
        digest.copy_from_slice(context.finish().as_ref());
    }
    encode(&digest)
}

/// Steps 1 to 12.
fn first_digest(password: &[u8], salt: &[u8]) -> [u8; LEN] {
    let inner = Zeroizing::new(sha256(&[password, salt, password]));
    let mut context = Context::new(&SHA256);
    context.update(password);
    context.update(salt);
    context.update(&stretch(&inner, password.len()));
    let mut bits = password.len();
    while bits > 0 {
        context.update(if bits & 1 == 1 { &inner[..] } else { password });
        bits >>= 1;
    }
    context.finish().as_ref().try_into().expect("invariant: SHA-256 has 32 bytes")
}

/// The digest of `part` repeated `times`.
fn repeated(part: &[u8], times: usize) -> [u8; LEN] {
    let mut context = Context::new(&SHA256);
    for _ in 0..times {
        context.update(part);
    }
    context.finish().as_ref().try_into().expect("invariant: SHA-256 has 32 bytes")
}

/// `digest` over and over, up to `len` bytes.
fn stretch(digest: &[u8; LEN], len: usize) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(digest.iter().copied().cycle().take(len).collect())
}

/// Base 64 in crypt's own order: bytes i, i+10, i+20 taken together, in turns.
fn encode(digest: &[u8; LEN]) -> [u8; 43] {
    let mut text = [0; 43];
    let mut put = |at: usize, value: u32, count: usize| {
        for (position, slot) in text[at..at + count].iter_mut().enumerate() {
            *slot = ALPHABET[(value >> (6 * position)) as usize & 63];
        }
    };
    let group = |high: u8, middle: u8, low: u8| u32::from_be_bytes([0, high, middle, low]);
    for turn in 0..10 {
        let mut three = [turn, turn + 10, turn + 20];
        three.rotate_right(turn % 3);
        put(turn * 4, group(digest[three[0]], digest[three[1]], digest[three[2]]), 4);
    }
    put(40, group(0, digest[31], digest[30]), 3);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crypt(password: &str, salt: &str, rounds: u32) -> String {
        String::from_utf8(sha256_crypt(password.as_bytes(), salt.as_bytes(), rounds).to_vec()).unwrap()
    }

    #[test]
    fn digests_are_those_of_the_c_library_and_openssl() {
        let salt = "saltstringsaltst";
        assert_eq!(crypt("Hello world!", "saltstring", 5000), "5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5");
        assert_eq!(crypt("Hello world!", salt, 10000), "3xv.VbSHBb41AL9AvLeujZkZRBAwqFMz2.opqey6IcA");
    }

    #[test]
    fn the_c_librarys_digests() {
        // crypt(3) of glibc 2.36.
        let long = "x".repeat(40);
        assert_eq!(crypt(&long, "abcd", 5000), "LJbT5ayTNtW7EiAUDecqJWFGwW8yhUjctvvGw0IIDzD");
        assert_eq!(crypt("", "abcd", 5000), "QS/LhMXxIihGHtawbvVF6A.fmwyLe5V/ymwcRAd7aR7");
    }
}
