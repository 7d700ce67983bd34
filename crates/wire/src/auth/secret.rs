//! Values that are wiped when dropped, compared in constant time and never printed.

use std::fmt;

use zeroize::{Zeroize, Zeroizing};

use super::hash::is_equal;

/// A password in clear.
#[derive(Clone)]
pub struct Password(Zeroizing<Vec<u8>>);

impl Password {
    /// Takes over `bytes`, which are wiped when the password is dropped.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(Zeroizing::new(bytes.into()))
    }

    /// The password itself.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// True for the password of an account without one.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl PartialEq for Password {
    fn eq(&self, other: &Self) -> bool {
        is_equal(&self.0, &other.0)
    }
}

impl Eq for Password {}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

/// A digest that is as good as a password for some plugin.
#[derive(Clone)]
pub struct Secret<const N: usize>([u8; N]);

impl<const N: usize> Secret<N> {
    /// Takes over a copy of `bytes`.
    pub fn new(bytes: [u8; N]) -> Self {
        Self(bytes)
    }

    /// The digest itself.
    pub fn expose(&self) -> &[u8; N] {
        &self.0
    }
}

impl<const N: usize> Drop for Secret<N> {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl<const N: usize> PartialEq for Secret<N> {
    fn eq(&self, other: &Self) -> bool {
        is_equal(&self.0, &other.0)
    }
}

impl<const N: usize> Eq for Secret<N> {}

impl<const N: usize> fmt::Debug for Secret<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_secret_is_printed() {
        assert_eq!(format!("{:?}", Password::new("hunter2")), "Password(..)");
        assert_eq!(format!("{:?}", Secret::new(*b"hunter2")), "Secret(..)");
    }

    #[test]
    fn passwords_are_equal_when_their_bytes_are() {
        assert_eq!(Password::new("a"), Password::new("a"));
        assert_ne!(Password::new("a"), Password::new("b"));
        assert_ne!(Password::new("a"), Password::new("ab"));
    }
}
