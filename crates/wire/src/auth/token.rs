//! Tokens: long secrets that programs show as they are. Only their hash is kept; the hash needs no salt and no rounds, because nobody
//! guesses a token.

use super::{Password, hash};

/// The SHA-256 of a token. Two of them are compared in constant time.
#[derive(Clone, Copy)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// A hash that was made elsewhere.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// That of a token.
    pub fn of(token: &Password) -> Self {
        Self(hash::sha256(&[token.expose()]))
    }
}

impl PartialEq for TokenHash {
    fn eq(&self, other: &Self) -> bool {
        hash::is_equal(&self.0, &other.0)
    }
}

impl Eq for TokenHash {}

impl std::fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenHash(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_by_its_hash() {
        // printf %s 0123456789abcdef | sha256sum
        let hash = "9f9f5111f7b27a781f1f1ddde5ebc2dd2b796bfc7365c9c28b548e564176929f";
        let known = TokenHash::new(hash::from_hex(hash.as_bytes()).unwrap().try_into().unwrap());
        assert!(TokenHash::of(&Password::new("0123456789abcdef")) == known);
        assert!(TokenHash::of(&Password::new("0123456789abcdeF")) != known);
        assert!(!format!("{known:?}").contains("9f"));
    }
}
