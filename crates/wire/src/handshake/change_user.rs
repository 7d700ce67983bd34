//! COM_CHANGE_USER: a login in the middle of a connection.
//! Source: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_change_user.html>

use crate::capability::Capabilities;
use crate::cursor::{Malformed, Put, Reader};

use super::attributes::{ConnectAttributes, read_attributes};
use super::login::{put_short_bytes, read_plugin};

const COM_CHANGE_USER: u8 = 0x11;

/// The command, its first byte included in the payload.
#[derive(Clone, PartialEq, Eq)]
pub struct ComChangeUser {
    /// User name, in the client's character set.
    pub user: Vec<u8>,
    /// The answer of the authentication plugin.
    pub answer: Vec<u8>,
    /// Default schema; empty for none.
    pub schema: Vec<u8>,
    /// Id of the new collation; `None` in the short form of the command.
    pub collation: Option<u16>,
    /// The plugin that made `answer`; needs `PLUGIN_AUTH`.
    pub plugin: Option<Vec<u8>>,
    /// Connection attributes; need `CONNECT_ATTRS`.
    pub attributes: ConnectAttributes,
}

impl ComChangeUser {
    /// Reads the command. `capabilities` are those of the connection.
    pub fn parse(payload: &[u8], capabilities: Capabilities) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        if reader.u8()? != COM_CHANGE_USER {
            return Err(Malformed("not a COM_CHANGE_USER"));
        }
        let user = reader.nul_bytes()?.to_vec();
        let answer = if capabilities.contains(Capabilities::SECURE_CONNECTION) {
            let len = usize::from(reader.u8()?);
            reader.bytes(len)?.to_vec()
        } else {
            reader.nul_bytes()?.to_vec()
        };
        let schema = reader.nul_bytes()?.to_vec();
        let collation = (!reader.is_empty()).then(|| reader.u16()).transpose()?;
        let has = |flag, reader: &Reader<'_>| capabilities.contains(flag) && !reader.is_empty();
        let plugin = has(Capabilities::PLUGIN_AUTH, &reader).then(|| read_plugin(&mut reader));
        let attributes = if has(Capabilities::CONNECT_ATTRS, &reader) {
            read_attributes(&mut reader)?
        } else {
            ConnectAttributes::default()
        };
        Ok(Self { user, answer, schema, collation, plugin, attributes })
    }

    /// The payload. Every field after `collation` needs it to be there.
    pub fn encode(&self, capabilities: Capabilities) -> Vec<u8> {
        let mut out = vec![COM_CHANGE_USER];
        out.put_nul_bytes(&self.user);
        if capabilities.contains(Capabilities::SECURE_CONNECTION) {
            put_short_bytes(&mut out, &self.answer);
        } else {
            out.put_nul_bytes(&self.answer);
        }
        out.put_nul_bytes(&self.schema);
        let Some(collation) = self.collation else { return out };
        out.put_u16(collation);
        if capabilities.contains(Capabilities::PLUGIN_AUTH) {
            out.put_nul_bytes(self.plugin.as_deref().unwrap_or_default());
        }
        if capabilities.contains(Capabilities::CONNECT_ATTRS) {
            out.put_lenenc_bytes(self.attributes.as_bytes());
        }
        out
    }
}

impl std::fmt::Debug for ComChangeUser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The answer may be the password in clear.
        f.debug_struct("ComChangeUser")
            .field("user", &String::from_utf8_lossy(&self.user))
            .field("answer_len", &self.answer.len())
            .field("schema", &String::from_utf8_lossy(&self.schema))
            .field("collation", &self.collation)
            .field("plugin", &self.plugin.as_deref().map(String::from_utf8_lossy))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPABILITIES: Capabilities = Capabilities(
        Capabilities::SECURE_CONNECTION.0 | Capabilities::PLUGIN_AUTH.0 | Capabilities::CONNECT_ATTRS.0,
    );

    fn sample() -> ComChangeUser {
        let mut attributes = ConnectAttributes::default();
        attributes.push(b"_os", b"Linux");
        ComChangeUser {
            user: b"ann".to_vec(),
            answer: vec![7; 20],
            schema: b"shop".to_vec(),
            collation: Some(255),
            plugin: Some(b"mysql_native_password".to_vec()),
            attributes,
        }
    }

    #[test]
    fn commands_come_back() {
        let bytes = sample().encode(CAPABILITIES);
        assert_eq!(ComChangeUser::parse(&bytes, CAPABILITIES), Ok(sample()));
    }

    #[test]
    fn the_short_form_ends_after_the_schema() {
        let short = ComChangeUser {
            collation: None,
            plugin: None,
            attributes: ConnectAttributes::default(),
            ..sample()
        };
        let bytes = short.encode(CAPABILITIES);
        assert!(bytes.ends_with(b"shop\0"));
        assert_eq!(ComChangeUser::parse(&bytes, CAPABILITIES), Ok(short));
    }

    #[test]
    fn what_ends_too_early_is_an_error_or_the_short_form() {
        let bytes = sample().encode(CAPABILITIES);
        let schema_end = bytes.len() - sample().attributes.as_bytes().len() - 1 - 22 - 2;
        for cut in 0..bytes.len() {
            let parsed = ComChangeUser::parse(&bytes[..cut], CAPABILITIES);
            if cut < schema_end {
                assert!(parsed.is_err(), "cut at {cut}");
            } else if let Ok(parsed) = parsed {
                assert_eq!((parsed.user, parsed.schema), (b"ann".to_vec(), b"shop".to_vec()));
            }
        }
    }

    #[test]
    fn the_answer_is_not_printed() {
        let shown = format!("{:?}", ComChangeUser { answer: b"hunter2".to_vec(), ..sample() });
        assert!(!shown.contains("hunter2") && shown.contains("answer_len: 7"), "{shown}");
    }
}
