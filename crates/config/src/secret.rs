//! Text that is never shown: passwords and stored hashes.
//!
//! Neither `Debug` nor `Display` shows it, it cannot be serialized, and its memory is overwritten
//! when it is dropped. The one way to the text is [`Secret::expose`], so that a search for that
//! word finds every place where a secret is used.

use std::fmt;

use zeroize::Zeroizing;

/// A password or a stored hash.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes the text over.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// The text itself: for scrambles and comparisons, never for logs or messages.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}
