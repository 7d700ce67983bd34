//! `mysql_native_password`.
//! Source: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_authentication_methods_native_password_authentication.html>

use super::hash::{from_hex, is_equal, sha1, to_hex, xor};
use super::{Nonce, Secret};

/// Bytes of an answer and of a stored hash.
pub const HASH_LEN: usize = 20;

/// SHA1(password): what a client needs to log in.
pub fn stage1(password: &[u8]) -> Secret<HASH_LEN> {
    Secret::new(sha1(&[password]))
}

/// SHA1(SHA1(password)): what a server stores.
pub fn stage2(stage1: &Secret<HASH_LEN>) -> [u8; HASH_LEN] {
    sha1(&[stage1.expose()])
}

/// The stored hash of `password`.
pub fn stored_hash(password: &[u8]) -> [u8; HASH_LEN] {
    stage2(&stage1(password))
}

/// A client's answer. An empty password is answered with nothing instead.
pub fn scramble(stage1: &Secret<HASH_LEN>, nonce: &Nonce) -> [u8; HASH_LEN] {
    xor(*stage1.expose(), &sha1(&[nonce, &stage2(stage1)]))
}

/// Compares a client's answer with a stored hash. A right answer gives SHA1(password), with which the proxy can
/// log in to a backend in the client's name.
pub fn verify(answer: &[u8], nonce: &Nonce, stored: &[u8; HASH_LEN]) -> Option<Secret<HASH_LEN>> {
    let answer: [u8; HASH_LEN] = answer.try_into().ok()?;
    let candidate = Secret::new(xor(answer, &sha1(&[nonce, stored])));
    is_equal(&stage2(&candidate), stored).then_some(candidate)
}

/// Reads `*` and 40 hexadecimal digits, as PASSWORD() and `mysql.user` print a hash.
pub fn parse_hash(text: &str) -> Option<[u8; HASH_LEN]> {
    from_hex(text.strip_prefix('*')?.as_bytes())?.try_into().ok()
}

/// `*` and 40 hexadecimal digits.
pub fn format_hash(hash: &[u8; HASH_LEN]) -> String {
    format!("*{}", to_hex(hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: Nonce = *b"abcdefghijklmnopqrst";

    #[test]
    fn the_stored_form_is_the_servers() {
        // SELECT PASSWORD('secret') on MariaDB 10.11.
        let text = "*14E65567ABDB5135D0CFD9A70B3032C179A49EE7";
        assert_eq!(format_hash(&stored_hash(b"secret")), text);
        assert_eq!(parse_hash(text), Some(stored_hash(b"secret")));
        assert_eq!(parse_hash(&text.to_lowercase()), Some(stored_hash(b"secret")));
        for bad in ["", "*", &text[1..], &text[..40], "*zz"] {
            assert_eq!(parse_hash(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_right_answer_gives_stage1_back() {
        let answer = scramble(&stage1(b"secret"), &NONCE);
        assert_eq!(verify(&answer, &NONCE, &stored_hash(b"secret")), Some(stage1(b"secret")));
    }

    #[test]
    fn wrong_answers_are_refused() {
        let stored = stored_hash(b"secret");
        let answer = scramble(&stage1(b"secret"), &NONCE);
        assert_eq!(verify(&scramble(&stage1(b"Secret"), &NONCE), &NONCE, &stored), None);
        assert_eq!(verify(&answer, b"ABCDEFGHIJKLMNOPQRST", &stored), None);
        for cut in 0..answer.len() {
            assert_eq!(verify(&answer[..cut], &NONCE, &stored), None);
        }
        for at in 0..answer.len() {
            let mut changed = answer;
            changed[at] ^= 1;
            assert_eq!(verify(&changed, &NONCE, &stored), None);
        }
    }
}
