//! The ERR packet.

use crate::capability::Capabilities;
use crate::cursor::{Malformed, Put, Reader};
use crate::error_code;

/// An error of a server, or of the proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrPacket {
    /// Error number, as `1045`.
    pub code: u16,
    /// SQLSTATE, as `28000`.
    pub state: [u8; 5],
    /// The text, in the connection's character set.
    pub message: Vec<u8>,
}

impl ErrPacket {
    /// An error that a server might have given, in the place of an answer that could not be taken in. Errors for clients are made
    /// elsewhere.
    pub fn in_place_of_answer(code: u16, message: &str) -> Self {
        Self { code, state: *b"HY000", message: message.as_bytes().to_vec() }
    }

    /// Reads a payload that starts with 0xFF. The SQLSTATE may be missing (a server that is full says so before
    /// it knows the client's capabilities); it is `HY000` then.
    pub fn parse(payload: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(payload);
        if reader.u8()? != super::ERR {
            return Err(Malformed("not an ERR packet"));
        }
        let code = reader.u16()?;
        let mut state = *b"HY000";
        if reader.peek() == Some(b'#') {
            reader.u8()?;
            state.copy_from_slice(reader.bytes(5)?);
        }
        Ok(Self { code, state, message: reader.rest().to_vec() })
    }

    /// Appends the payload. Without PROTOCOL_41 (an error before the login packet) there is no SQLSTATE.
    pub fn put(&self, out: &mut Vec<u8>, capabilities: Capabilities) {
        out.put_u8(super::ERR);
        out.put_u16(self.code);
        if capabilities.contains(Capabilities::PROTOCOL_41) {
            out.put_u8(b'#');
            out.extend_from_slice(&self.state);
        }
        out.extend_from_slice(&self.message);
    }

    /// True for the refusal of a server that takes no writes.
    pub fn is_of_read_only_server(&self) -> bool {
        error_code::is_read_only_server(self.code, &self.message)
    }

    /// The text, for logs.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_comes_back_with_and_without_its_state() {
        let err = ErrPacket { code: 1045, state: *b"28000", message: b"no".to_vec() };
        let mut out = Vec::new();
        err.put(&mut out, Capabilities::PROTOCOL_41);
        assert_eq!(out, b"\xff\x15\x04#28000no");
        assert_eq!(ErrPacket::parse(&out), Ok(err));
        let bare = ErrPacket::parse(b"\xff\x10\x04Too many").expect("an error without a state");
        assert_eq!((bare.code, &bare.state, bare.message.as_slice()), (1040, b"HY000", &b"Too many"[..]));
        assert!(ErrPacket::parse(b"\xff\x10").is_err());
        assert!(ErrPacket::parse(b"\x00\x10\x04").is_err());
    }
}
