//! Protocol::HandshakeResponse41 and Protocol::SSLRequest: the client's first packets.
//! Sources: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets_protocol_handshake_response.html>,
//! <https://mariadb.com/docs/server/reference/clientserver-protocol/1-connecting/connection>

use crate::capability::Capabilities;
use crate::cursor::{Malformed, Put, Reader};

use super::attributes::{ConnectAttributes, read_attributes};

/// Bytes of an SSLRequest, and of the same fields at the start of a login packet.
const FIXED_LEN: usize = 32;

/// A client's login packet.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// What the client can do and wants, MariaDB's own flags included.
    pub capabilities: Capabilities,
    /// The largest packet that the client takes, in bytes.
    pub max_packet_len: u32,
    /// Id of the client's collation. Only the low 8 bits have a place that every server reads; MariaDB's newer ids need 16.
    pub collation: u16,
    /// User name, in the client's character set.
    pub user: Vec<u8>,
    /// The answer of the authentication plugin.
    pub answer: Vec<u8>,
    /// Default schema; needs `CONNECT_WITH_DB`.
    pub schema: Option<Vec<u8>>,
    /// The plugin that made `answer`; needs `PLUGIN_AUTH`.
    pub plugin: Option<Vec<u8>>,
    /// Connection attributes; need `CONNECT_ATTRS`.
    pub attributes: ConnectAttributes,
    /// Compression level; needs `ZSTD_COMPRESSION`.
    pub zstd_level: u8,
}

impl Login {
    /// Reads a login packet.
    pub fn parse(payload: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        let SslRequest { capabilities, max_packet_len, collation } = SslRequest::read(&mut reader)?;
        let has = |flag| capabilities.contains(flag);
        let user = reader.nul_bytes()?.to_vec();
        let answer = if has(Capabilities::PLUGIN_AUTH_LENENC_DATA) {
            reader.lenenc_bytes()?
        } else if has(Capabilities::SECURE_CONNECTION) {
            let len = usize::from(reader.u8()?);
            reader.bytes(len)?
        } else {
            reader.nul_bytes()?
        }
        .to_vec();
        // Servers take a packet that ends here, whatever its flags promise.
        let schema = (has(Capabilities::CONNECT_WITH_DB) && !reader.is_empty())
            .then(|| reader.nul_bytes().map(<[u8]>::to_vec))
            .transpose()?;
        let plugin = has(Capabilities::PLUGIN_AUTH).then(|| read_plugin(&mut reader));
        let attributes = if has(Capabilities::CONNECT_ATTRS) {
            read_attributes(&mut reader)?
        } else {
            ConnectAttributes::default()
        };
        let zstd_level = if has(Capabilities::ZSTD_COMPRESSION) { reader.u8().unwrap_or(0) } else { 0 };
        Ok(Self {
            capabilities,
            max_packet_len,
            collation,
            user,
            answer,
            schema,
            plugin,
            attributes,
            zstd_level,
        })
    }

    /// The payload. `capabilities` decides which fields are written; an answer that is longer than 255 bytes needs
    /// `PLUGIN_AUTH_LENENC_DATA`.
    pub fn encode(&self) -> Vec<u8> {
        let has = |flag| self.capabilities.contains(flag);
        let mut out = self.ssl_request().encode();
        out.put_nul_bytes(&self.user);
        if has(Capabilities::PLUGIN_AUTH_LENENC_DATA) {
            out.put_lenenc_bytes(&self.answer);
        } else if has(Capabilities::SECURE_CONNECTION) {
            put_short_bytes(&mut out, &self.answer);
        } else {
            out.put_nul_bytes(&self.answer);
        }
        if has(Capabilities::CONNECT_WITH_DB) {
            out.put_nul_bytes(self.schema.as_deref().unwrap_or_default());
        }
        if has(Capabilities::PLUGIN_AUTH) {
            out.put_nul_bytes(self.plugin.as_deref().unwrap_or_default());
        }
        if has(Capabilities::CONNECT_ATTRS) {
            out.put_lenenc_bytes(self.attributes.as_bytes());
        }
        if has(Capabilities::ZSTD_COMPRESSION) {
            out.put_u8(self.zstd_level);
        }
        out
    }

    /// The SSLRequest that goes before this login.
    pub fn ssl_request(&self) -> SslRequest {
        let Self { capabilities, max_packet_len, collation, .. } = *self;
        SslRequest { capabilities, max_packet_len, collation }
    }
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The answer may be the password in clear.
        f.debug_struct("Login")
            .field("capabilities", &self.capabilities)
            .field("collation", &self.collation)
            .field("user", &String::from_utf8_lossy(&self.user))
            .field("answer_len", &self.answer.len())
            .field("schema", &self.schema.as_deref().map(String::from_utf8_lossy))
            .field("plugin", &self.plugin.as_deref().map(String::from_utf8_lossy))
            .finish_non_exhaustive()
    }
}

/// A client's wish to go on inside TLS: the first 32 bytes of a login packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SslRequest {
    /// As in `Login`.
    pub capabilities: Capabilities,
    /// As in `Login`.
    pub max_packet_len: u32,
    /// As in `Login`.
    pub collation: u16,
}

impl SslRequest {
    /// Reads an SSLRequest; `None` if `payload` is something else.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let request = Self::read(&mut Reader::new(payload)).ok()?;
        let is_request = payload.len() == FIXED_LEN && request.capabilities.contains(Capabilities::SSL);
        is_request.then_some(request)
    }

    /// The payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FIXED_LEN);
        out.put_u32(self.capabilities.mysql_bits());
        out.put_u32(self.max_packet_len);
        out.put_u16(self.collation);
        out.extend_from_slice(&[0; 18]);
        let is_mariadb = !self.capabilities.contains(Capabilities::LONG_PASSWORD);
        out.put_u32(if is_mariadb { self.capabilities.mariadb_bits() } else { 0 });
        out
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let low = u64::from(reader.u32()?);
        let max_packet_len = reader.u32()?;
        let collation = reader.u16()?;
        reader.bytes(18)?;
        let extended = u64::from(reader.u32()?);
        let mut capabilities = Capabilities(low);
        if !capabilities.contains(Capabilities::LONG_PASSWORD) {
            capabilities = capabilities | Capabilities(extended << 32);
        }
        Ok(Self { capabilities, max_packet_len, collation })
    }
}

/// A plugin name: some clients leave out its NUL, some the name.
pub(super) fn read_plugin(reader: &mut Reader<'_>) -> Vec<u8> {
    match reader.nul_bytes() {
        Ok(name) => name.to_vec(),
        Err(_) => reader.rest().to_vec(),
    }
}

/// A string with one byte of length; what does not fit is cut off, and the answer is wrong then.
pub(super) fn put_short_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(255)];
    out.put_u8(bytes.len() as u8);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests;
