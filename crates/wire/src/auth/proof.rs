//! MariaDB's proof that a server knows the user's password, in the last OK packet of a login over TLS: a client that verifies
//! certificates takes a self-signed one for it. Who sits between the two shows another certificate, and cannot make the proof.
//!
//! It is one byte 0x01 and the hexadecimal digits of SHA-256 over what the server stores of the password, the nonce of the login,
//! and the SHA-256 of the certificate. Only plugins that keep the password from the server can do it.
//! Source: <https://mariadb.com/docs/server/security/encryption/data-in-transit-encryption/zero-configuration-ssl>

use super::{BackendSecret, Fingerprint, Nonce, Plugin, hash, native};

/// The first byte of the remark in the OK packet.
const MARK: u8 = 1;

/// The remark of the OK packet, after a login with `secret`; `None` where the plugin has no proof.
pub fn server_proof(
    plugin: Plugin,
    secret: &BackendSecret,
    nonce: &Nonce,
    certificate: Fingerprint,
) -> Option<Vec<u8>> {
    let stored = match (plugin, secret) {
        // Without a password there is nothing that only the two know.
        (_, BackendSecret::Plain(password)) if password.is_empty() => return None,
        (Plugin::Native, BackendSecret::Plain(password)) => native::stored_hash(password.expose()),
        (Plugin::Native, BackendSecret::NativeSha1(stage1)) => native::stage2(stage1),
        _ => return None,
    };
    let digest = hash::sha256(&[&stored, nonce, certificate.bytes()]);
    Some([&[MARK][..], hash::to_hex(&digest).as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Password;

    #[test]
    fn it_is_of_the_password_the_nonce_and_the_certificate() {
        let nonce: Nonce = *b"abcdefghijklmnopqrst";
        let plain = BackendSecret::Plain(Password::new("secret"));
        let hashed = BackendSecret::NativeSha1(native::stage1(b"secret"));
        let certificate = Fingerprint::of(b"certificate");
        let proof = server_proof(Plugin::Native, &plain, &nonce, certificate).expect("a proof");
        // By the hand of another library, in the order in which MariaDB's own client hashes: of the password, nonce, certificate.
        let digits = b"DC93FA560CDDBAA6076CBCDD41E8FAE19835A321C56DF0F594CC0B83690C9CDD";
        assert_eq!((proof[0], &proof[1..]), (MARK, &digits[..]));
        assert_eq!(server_proof(Plugin::Native, &hashed, &nonce, certificate).as_deref(), Some(&proof[..]));
        let others = [
            server_proof(Plugin::Native, &BackendSecret::Plain(Password::new("other")), &nonce, certificate),
            server_proof(Plugin::Native, &plain, b"bbcdefghijklmnopqrst", certificate),
            server_proof(Plugin::Native, &plain, &nonce, Fingerprint::of(b"another")),
        ];
        assert!(others.iter().all(|other| other.as_ref().is_some_and(|other| *other != proof)));
        assert_eq!(server_proof(Plugin::CachingSha2, &plain, &nonce, certificate), None);
        let empty = BackendSecret::Plain(Password::new(""));
        assert_eq!(server_proof(Plugin::Native, &empty, &nonce, certificate), None);
    }
}
