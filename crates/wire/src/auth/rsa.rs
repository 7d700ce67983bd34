//! Passwords sent by RSA where there is no TLS: the password and a NUL, xored with the nonce over and over, and then
//! encrypted with the server's public key (OAEP with SHA-1).
//! Source: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_caching_sha2_authentication_exchanges.html>

use std::fmt;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa::{
    KeySize, OAEP_SHA1_MGF1SHA1, OaepPrivateDecryptingKey, OaepPublicEncryptingKey, PrivateDecryptingKey,
    PublicEncryptingKey,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};
use thiserror::Error;
use zeroize::Zeroizing;

use super::{Nonce, Password};

/// What can go wrong with a key or with what it encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RsaError {
    /// The system has no randomness, or the library refused.
    #[error("an RSA key could not be made")]
    Generate,
    /// Not a PEM text of an RSA public key.
    #[error("the RSA public key cannot be read")]
    BadKey,
    /// Not a PEM text of an RSA private key, or one of less than 2048 or more than 8192 bits.
    #[error("the RSA private key cannot be read; it must be PEM, without a passphrase, of 2048 to 8192 bits")]
    BadPrivateKey,
    /// The password does not fit into one block.
    #[error("the password is too long for the RSA key")]
    TooLong,
}

/// The proxy's own key pair: clients encrypt their passwords with its public half.
pub struct RsaKey {
    private: OaepPrivateDecryptingKey,
    public_pem: String,
}

impl RsaKey {
    /// Makes a new key of 2048 bits. Takes tens to hundreds of milliseconds.
    pub fn generate() -> Result<Self, RsaError> {
        Self::new(PrivateDecryptingKey::generate(KeySize::Rsa2048).map_err(|_| RsaError::Generate)?)
    }

    /// Makes a new key as `generate` does, and its private half as a PEM text.
    pub fn generate_pem() -> Result<(Self, Zeroizing<String>), RsaError> {
        let key = PrivateDecryptingKey::generate(KeySize::Rsa2048).map_err(|_| RsaError::Generate)?;
        let der: Pkcs8V1Der<'_> = key.as_der().map_err(|_| RsaError::Generate)?;
        let text = Zeroizing::new(pem("PRIVATE KEY", der.as_ref()));
        Ok((Self::new(key)?, text))
    }

    /// Reads a private key, in the form of PKCS#8 ("BEGIN PRIVATE KEY") or PKCS#1 ("BEGIN RSA PRIVATE KEY"), which
    /// MySQL servers made up to 8.0.
    pub fn from_private_pem(text: &[u8]) -> Result<Self, RsaError> {
        let key = if let Ok(key) = PrivatePkcs8KeyDer::from_pem_slice(text) {
            PrivateDecryptingKey::from_pkcs8(key.secret_pkcs8_der())
        } else {
            let key = PrivatePkcs1KeyDer::from_pem_slice(text).map_err(|_| RsaError::BadPrivateKey)?;
            PrivateDecryptingKey::from_pkcs8(&as_pkcs8(key.secret_pkcs1_der()))
        };
        Self::new(key.map_err(|_| RsaError::BadPrivateKey)?)
    }

    fn new(key: PrivateDecryptingKey) -> Result<Self, RsaError> {
        let der: PublicKeyX509Der<'_> = key.public_key().as_der().map_err(|_| RsaError::Generate)?;
        let public_pem = pem("PUBLIC KEY", der.as_ref());
        let private = OaepPrivateDecryptingKey::new(key).map_err(|_| RsaError::Generate)?;
        Ok(Self { private, public_pem })
    }

    /// The public half, as it is sent to clients.
    pub fn public_pem(&self) -> &str {
        &self.public_pem
    }

    /// The password that a client encrypted. `None` for anything that this key or the nonce does not fit. About a
    /// millisecond: not for a worker thread.
    pub fn decrypt_password(&self, ciphertext: &[u8], nonce: &Nonce) -> Option<Password> {
        if ciphertext.len() != self.private.key_size_bytes() {
            return None;
        }
        let mut buffer = Zeroizing::new(vec![0; self.private.min_output_size()]);
        let plain = self.private.decrypt(&OAEP_SHA1_MGF1SHA1, ciphertext, &mut buffer, None).ok()?;
        xor_with_nonce(plain, nonce);
        let (&last, password) = plain.split_last()?;
        (last == 0).then(|| Password::new(password))
    }
}

impl fmt::Debug for RsaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RsaKey(..)")
    }
}

/// What a client sends to a server whose public key is `public_pem`.
pub fn encrypt_password(password: &Password, nonce: &Nonce, public_pem: &[u8]) -> Result<Vec<u8>, RsaError> {
    let der = SubjectPublicKeyInfoDer::from_pem_slice(public_pem).map_err(|_| RsaError::BadKey)?;
    let key = PublicEncryptingKey::from_der(der.as_ref()).map_err(|_| RsaError::BadKey)?;
    let key = OaepPublicEncryptingKey::new(key).map_err(|_| RsaError::BadKey)?;
    if password.expose().len() + 1 > key.max_plaintext_size(&OAEP_SHA1_MGF1SHA1) {
        return Err(RsaError::TooLong);
    }
    let mut plain = Zeroizing::new(Vec::with_capacity(password.expose().len() + 1));
    plain.extend_from_slice(password.expose());
    plain.push(0);
    xor_with_nonce(&mut plain, nonce);
    let mut ciphertext = vec![0; key.ciphertext_size()];
    let written =
        key.encrypt(&OAEP_SHA1_MGF1SHA1, &plain, &mut ciphertext, None).map_err(|_| RsaError::BadKey)?.len();
    ciphertext.truncate(written);
    Ok(ciphertext)
}

fn xor_with_nonce(bytes: &mut [u8], nonce: &Nonce) {
    for (byte, mask) in bytes.iter_mut().zip(nonce.iter().cycle()) {
        *byte ^= mask;
    }
}

/// Puts what PKCS#1 has into the frame of PKCS#8, which is all that the library reads.
fn as_pkcs8(pkcs1: &[u8]) -> Zeroizing<Vec<u8>> {
    /// Version 0, and the algorithm: rsaEncryption without parameters.
    const HEAD: &[u8] = b"\x02\x01\x00\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00";
    let tagged = |tag: u8, parts: &[&[u8]]| {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let len = (len as u32).to_be_bytes();
        // As short as it can be: another form is not DER.
        let skip = len.iter().take_while(|byte| **byte == 0).count();
        let mut out = Zeroizing::new(vec![tag]);
        if skip < 3 || len[3] >= 0x80 {
            out.push(0x80 | (4 - skip) as u8);
        }
        out.extend_from_slice(&len[skip..]);
        for part in parts {
            out.extend_from_slice(part);
        }
        out
    };
    let key = tagged(0x04, &[pkcs1]);
    tagged(0x30, &[HEAD, &key])
}

/// A PEM text. `rustls-pki-types` reads PEM but does not write it.
fn pem(label: &str, der: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut body = String::new();
    for chunk in der.chunks(3) {
        let mut three = [0; 3];
        three[..chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes([0, three[0], three[1], three[2]]);
        for position in 0..4 {
            let sextet = (bits >> (18 - 6 * position)) as usize & 63;
            body.push(if position > chunk.len() { '=' } else { char::from(ALPHABET[sextet]) });
        }
    }
    let mut text = format!("-----BEGIN {label}-----\n");
    while !body.is_empty() {
        let tail = body.split_off(body.len().min(64));
        text.push_str(&body);
        text.push('\n');
        body = tail;
    }
    text + &format!("-----END {label}-----\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: Nonce = *b"abcdefghijklmnopqrst";

    #[test]
    fn passwords_come_back() {
        let key = RsaKey::generate().unwrap();
        for text in [String::new(), "secret".into(), "x".repeat(213)] {
            let sent =
                encrypt_password(&Password::new(text.clone()), &NONCE, key.public_pem().as_bytes()).unwrap();
            assert_eq!(key.decrypt_password(&sent, &NONCE), Some(Password::new(text)));
            assert_eq!(key.decrypt_password(&sent, b"ABCDEFGHIJKLMNOPQRST"), None, "another nonce");
            for cut in [0, 1, 255] {
                assert_eq!(key.decrypt_password(&sent[..cut], &NONCE), None);
            }
            assert_eq!(key.decrypt_password(&vec![7; 256], &NONCE), None);
        }
    }

    #[test]
    fn what_cannot_be_encrypted_is_an_error() {
        let key = RsaKey::generate().unwrap();
        let long = Password::new("x".repeat(214));
        assert_eq!(encrypt_password(&long, &NONCE, key.public_pem().as_bytes()), Err(RsaError::TooLong));
        let short = Password::new("x");
        for bad in [
            "",
            "-----BEGIN PUBLIC KEY-----\n",
            "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
        ] {
            assert_eq!(encrypt_password(&short, &NONCE, bad.as_bytes()), Err(RsaError::BadKey), "{bad}");
        }
    }

    #[test]
    fn keys_come_back_from_both_forms() {
        use rustls_pki_types::pem::PemObject;
        let (key, text) = RsaKey::generate_pem().unwrap();
        let again = RsaKey::from_private_pem(text.as_bytes()).unwrap();
        assert_eq!(again.public_pem(), key.public_pem());
        let sent = encrypt_password(&Password::new("secret"), &NONCE, key.public_pem().as_bytes()).unwrap();
        assert_eq!(again.decrypt_password(&sent, &NONCE), Some(Password::new("secret")));
        // PKCS#8 without its frame is PKCS#1.
        let der = PrivatePkcs8KeyDer::from_pem_slice(text.as_bytes()).unwrap();
        let old = pem("RSA PRIVATE KEY", &der.secret_pkcs8_der()[26..]);
        assert_eq!(RsaKey::from_private_pem(old.as_bytes()).unwrap().public_pem(), key.public_pem());
        for bad in [
            "",
            key.public_pem(),
            &old[..200],
            "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n",
        ] {
            assert_eq!(
                RsaKey::from_private_pem(bad.as_bytes()).unwrap_err(),
                RsaError::BadPrivateKey,
                "{bad}"
            );
        }
    }

    #[test]
    fn pem_is_padded_and_wrapped() {
        for len in [1, 2, 3, 47, 48, 49, 294] {
            let der: Vec<u8> = (0..=255).cycle().take(len).collect();
            let text = pem("PUBLIC KEY", &der);
            assert!(text.lines().all(|line| line.len() <= 64));
            let back = SubjectPublicKeyInfoDer::from_pem_slice(text.as_bytes()).unwrap();
            assert_eq!(back.as_ref(), der, "{len}");
        }
    }
}
