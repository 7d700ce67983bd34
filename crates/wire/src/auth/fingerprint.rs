//! What a certificate or a public key is recognised by: the SHA-256 of its DER form, as `openssl x509 -fingerprint -sha256`
//! and MariaDB's `--ssl-fp` write it.

use std::fmt;

use rustls_pki_types::SubjectPublicKeyInfoDer;
use rustls_pki_types::pem::PemObject;

use super::hash;

/// The SHA-256 of a certificate or a public key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// One that is known.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// That of a DER form.
    pub fn of(der: &[u8]) -> Self {
        Self(hash::sha256(&[der]))
    }

    /// Its 32 bytes.
    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// That of a public key in PEM ("BEGIN PUBLIC KEY"); `None` if it is none.
    pub fn of_public_key(pem: &[u8]) -> Option<Self> {
        let der = SubjectPublicKeyInfoDer::from_pem_slice(pem).ok()?;
        Some(Self::of(der.as_ref()))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            let colon = if index == 0 { "" } else { ":" };
            write!(f, "{colon}{byte:02X}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_as_openssl_writes_it() {
        let shown = Fingerprint::of(b"abc").to_string();
        assert!(shown.starts_with("BA:78:16:BF:8F:01"), "{shown}");
        assert_eq!(shown.len(), 95);
    }
}
