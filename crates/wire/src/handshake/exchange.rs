//! The packets between the login packet and its OK: Protocol::AuthSwitchRequest and Protocol::AuthMoreData.
//! Source: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase.html>

use crate::auth::ed25519::{self, LongNonce};
use crate::auth::{NONCE_LEN, Nonce};
use crate::cursor::{Malformed, Put, Reader};

const AUTH_SWITCH: u8 = 0xfe;
const AUTH_MORE_DATA: u8 = 0x01;

/// caching_sha2_password, server: the fast answer was right, OK follows.
pub(super) const FAST_AUTH_OK: u8 = 3;
/// caching_sha2_password, server: send the password itself.
pub(super) const FULL_AUTH_NEEDED: u8 = 4;
/// caching_sha2_password, client: send your public key.
pub(super) const PUBLIC_KEY_REQUEST: u8 = 2;
/// sha256_password, client: send your public key.
pub(super) const SHA256_PUBLIC_KEY_REQUEST: u8 = 1;

/// A server's wish that the client answers again, with another plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthSwitchRequest {
    /// Name of the plugin.
    pub plugin: Vec<u8>,
    /// A new nonce and a NUL for the plugins that have one, or what the plugin likes.
    pub data: Vec<u8>,
}

impl AuthSwitchRequest {
    /// Reads an AuthSwitchRequest. The form without a plugin name asks for the password hash of MySQL 4.0, whose plugin has a
    /// name by now.
    pub fn parse(payload: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        if reader.u8()? != AUTH_SWITCH {
            return Err(Malformed("not an AuthSwitchRequest"));
        }
        if reader.is_empty() {
            return Ok(Self { plugin: b"mysql_old_password".to_vec(), data: Vec::new() });
        }
        let plugin = reader.nul_bytes()?.to_vec();
        Ok(Self { plugin, data: reader.rest().to_vec() })
    }

    /// The payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![AUTH_SWITCH];
        out.put_nul_bytes(&self.plugin);
        out.extend_from_slice(&self.data);
        out
    }

    /// The nonce, if `data` is one.
    pub fn nonce(&self) -> Option<Nonce> {
        let (nonce, rest) = self.data.split_first_chunk::<NONCE_LEN>()?;
        matches!(rest, [] | [0]).then_some(*nonce)
    }

    /// The nonce of `client_ed25519`, if `data` is one.
    pub fn long_nonce(&self) -> Option<LongNonce> {
        let (nonce, rest) = self.data.split_first_chunk::<{ ed25519::NONCE_LEN }>()?;
        matches!(rest, [] | [0]).then_some(*nonce)
    }
}

/// A plugin's own data, from the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthMoreData<'a>(pub &'a [u8]);

impl<'a> AuthMoreData<'a> {
    /// Reads an AuthMoreData.
    pub fn parse(payload: &'a [u8]) -> Result<Self, Malformed> {
        match payload.split_first() {
            Some((&AUTH_MORE_DATA, data)) => Ok(Self(data)),
            _ => Err(Malformed("not an AuthMoreData")),
        }
    }

    /// The payload.
    pub fn encode(self) -> Vec<u8> {
        [&[AUTH_MORE_DATA], self.0].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_come_back() {
        let request = AuthSwitchRequest {
            plugin: b"mysql_native_password".to_vec(),
            data: [&b"abcdefghijklmnopqrst"[..], &[0]].concat(),
        };
        let bytes = request.encode();
        assert_eq!(bytes[0], 0xfe);
        assert_eq!(AuthSwitchRequest::parse(&bytes), Ok(request.clone()));
        assert_eq!(request.nonce().as_ref().map(<[u8; 20]>::as_slice), Some(&b"abcdefghijklmnopqrst"[..]));
        assert_eq!(AuthSwitchRequest::parse(b"\xfe").unwrap().plugin, b"mysql_old_password");
        for cut in (0..b"\xfemysql_native_password\0".len()).filter(|cut| *cut != 1) {
            assert!(AuthSwitchRequest::parse(&bytes[..cut]).is_err());
        }
        for cut in 23..bytes.len() - 1 {
            assert_eq!(AuthSwitchRequest::parse(&bytes[..cut]).unwrap().nonce(), None);
        }
    }

    #[test]
    fn more_data_comes_back() {
        assert_eq!(AuthMoreData::parse(&AuthMoreData(b"\x03").encode()), Ok(AuthMoreData(b"\x03")));
        assert!(AuthMoreData::parse(b"").is_err());
        assert!(AuthMoreData::parse(b"\x00\x03").is_err());
    }
}
