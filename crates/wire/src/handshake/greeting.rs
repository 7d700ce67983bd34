//! Protocol::HandshakeV10: the first packet of a connection, from the server.
//! Sources: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets_protocol_handshake_v10.html>,
//! <https://mariadb.com/docs/server/reference/clientserver-protocol/1-connecting/connection>

use crate::auth::{NONCE_LEN, Nonce};
use crate::capability::Capabilities;
use crate::cursor::{Malformed, Put, Reader};

const VERSION: u8 = 10;
const FIRST_PART: usize = 8;

/// What a server says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Greeting {
    /// As sent: MariaDB 10 puts `5.5.5-` before its real version.
    pub server_version: String,
    /// The server's id of the connection, as KILL takes it.
    pub connection_id: u32,
    /// What passwords are scrambled with.
    pub nonce: Nonce,
    /// What the server can do, MariaDB's own flags included.
    pub capabilities: Capabilities,
    /// The server's default collation: the low 8 bits of its id.
    pub collation: u8,
    /// Status flags.
    pub status: u16,
    /// The plugin that `nonce` is for; empty if the server has no plugins.
    pub plugin: String,
}

impl Greeting {
    /// Reads a greeting. An ERR packet in its place is the caller's to recognise (first byte 0xff).
    pub fn parse(payload: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        if reader.u8()? != VERSION {
            return Err(Malformed("not a greeting of protocol 10"));
        }
        let server_version = String::from_utf8_lossy(reader.nul_bytes()?).into_owned();
        let connection_id = reader.u32()?;
        let first = reader.bytes(FIRST_PART)?;
        reader.u8()?;
        let low = u64::from(reader.u16()?);
        let collation = reader.u8()?;
        let status = reader.u16()?;
        let high = u64::from(reader.u16()?);
        let nonce_len = usize::from(reader.u8()?);
        reader.bytes(6)?;
        let extended = u64::from(reader.u32()?);
        let mut capabilities = Capabilities(low | high << 16);
        if !capabilities.contains(Capabilities::LONG_PASSWORD) {
            capabilities = capabilities | Capabilities(extended << 32);
        }
        if !capabilities.contains(Capabilities::PROTOCOL_41 | Capabilities::SECURE_CONNECTION) {
            return Err(Malformed("a server older than MySQL 4.1"));
        }
        let second = reader.bytes(nonce_len.saturating_sub(FIRST_PART).max(13))?;
        let plugin = if capabilities.contains(Capabilities::PLUGIN_AUTH) {
            // Some old servers leave out the NUL at the end.
            let rest = reader.rest();
            let name = rest.split(|&byte| byte == 0).next().unwrap_or(rest);
            String::from_utf8_lossy(name).into_owned()
        } else {
            String::new()
        };
        let mut nonce = [0; NONCE_LEN];
        nonce[..FIRST_PART].copy_from_slice(first);
        nonce[FIRST_PART..].copy_from_slice(&second[..NONCE_LEN - FIRST_PART]);
        Ok(Self { server_version, connection_id, nonce, capabilities, collation, status, plugin })
    }

    /// The payload. MariaDB's flags are sent if `LONG_PASSWORD` is off, and lost if it is on.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(96);
        out.put_u8(VERSION);
        let version = self.server_version.as_bytes();
        out.put_nul_bytes(version.split(|&byte| byte == 0).next().unwrap_or(version));
        out.put_u32(self.connection_id);
        out.extend_from_slice(&self.nonce[..FIRST_PART]);
        out.put_u8(0);
        let bits = self.capabilities.mysql_bits();
        out.put_u16(bits as u16);
        out.put_u8(self.collation);
        out.put_u16(self.status);
        out.put_u16((bits >> 16) as u16);
        let has_plugin = self.capabilities.contains(Capabilities::PLUGIN_AUTH);
        out.put_u8(if has_plugin { NONCE_LEN as u8 + 1 } else { 0 });
        out.extend_from_slice(&[0; 6]);
        let is_mariadb = !self.capabilities.contains(Capabilities::LONG_PASSWORD);
        out.put_u32(if is_mariadb { self.capabilities.mariadb_bits() } else { 0 });
        out.extend_from_slice(&self.nonce[FIRST_PART..]);
        out.put_u8(0);
        if has_plugin {
            out.put_nul_bytes(self.plugin.as_bytes());
        }
        out
    }

    /// The version without MariaDB's `5.5.5-`, which only keeps old replicas from taking 10 for 1.
    pub fn real_version(&self) -> &str {
        match self.server_version.strip_prefix("5.5.5-") {
            Some(version) if version.contains("MariaDB") => version,
            _ => &self.server_version,
        }
    }

    /// True if the server is MariaDB.
    pub fn is_mariadb(&self) -> bool {
        self.server_version.contains("MariaDB") || !self.capabilities.contains(Capabilities::LONG_PASSWORD)
    }
}

#[cfg(test)]
mod tests;
