//! Errors as clients see them: the only place that makes ERR packets. Numbers are those of servers where they have one
//! for the case, so that drivers know what to do; docs/errors.md has what drivers make of them. Never 2000 to 2999: those are
//! the clients' own, and libmariadb takes a packet with one for broken.

mod number;
mod text;

use delphinus_pool::PoolError;
use delphinus_wire::error_code::{
    DELPHINUS_NO_BACKEND, DELPHINUS_OUTCOME_UNKNOWN, ER_ACCESS_DENIED_ERROR, ER_CONNECTION_KILLED,
    ER_QUERY_INTERRUPTED,
};
use delphinus_wire::response::{ERR, ErrPacket};
use delphinus_wire::{Capabilities, HEADER_LEN, begin_packet, end_packet, parse_header};

pub use crate::proxy_error::{Lost, ProxyError, Steered};
use number::{GENERAL, LINK_FAILURE, NOT_CONNECTED};

/// What a client is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientError(ErrPacket);

/// What servers tell a session that has killed itself.
const KILLED: [u16; 2] = [ER_QUERY_INTERRUPTED, ER_CONNECTION_KILLED];

/// SQLSTATEs of this class say that the connection is not to be used any more: pools go by it.
const CONNECTION_CLASS: &[u8] = b"08";
/// The standard's for a COMMIT whose outcome is not known.
const RESOLUTION_UNKNOWN: [u8; 5] = *b"08007";

impl ClientError {
    /// Any error.
    pub fn new(code: u16, state: [u8; 5], text: impl Into<String>) -> Self {
        Self(ErrPacket { code, state, message: text.into().into_bytes() })
    }

    /// Error number.
    pub fn code(&self) -> u16 {
        self.0.code
    }

    /// The same from a session that goes on: no pool is to throw it away.
    #[must_use]
    pub(crate) fn that_goes_on(mut self) -> Self {
        if self.0.state.starts_with(CONNECTION_CLASS) {
            self.0.state = GENERAL;
        }
        self
    }

    /// The same from a session that ends with it: no pool is to keep it.
    #[must_use]
    pub(crate) fn that_ends(mut self) -> Self {
        if self.0.code == DELPHINUS_OUTCOME_UNKNOWN {
            self.0.state = RESOLUTION_UNKNOWN;
        } else if !self.0.state.starts_with(CONNECTION_CLASS) && !KILLED.contains(&self.0.code) {
            self.0.state = LINK_FAILURE;
        }
        self
    }

    /// The same from a login. What the servers themselves say of it stays as it is.
    #[must_use]
    pub(crate) fn of_login(mut self) -> Self {
        if self.0.code == DELPHINUS_NO_BACKEND {
            self.0.state = NOT_CONNECTED;
        }
        self
    }

    /// The error by itself, for those who make the packet.
    pub(crate) fn into_packet(self) -> ErrPacket {
        self.0
    }

    /// Appends the packet.
    pub fn put(&self, out: &mut Vec<u8>, seq: u8, capabilities: Capabilities) {
        let at = begin_packet(out);
        self.0.put(out, capabilities);
        end_packet(out, at, seq);
    }
}

impl From<&ProxyError> for ClientError {
    fn from(error: &ProxyError) -> Self {
        if let ProxyError::Pool(PoolError::Refused { error, .. }) = error {
            // Byte for byte, in whatever character set.
            return Self(error.clone());
        }
        let (code, state) = number::of(error);
        Self::new(code, state, text::of(error).whole())
    }
}

impl ProxyError {
    /// Its text, as part of another one's.
    pub(crate) fn reason(&self) -> String {
        text::of(self).part()
    }
}

/// Makes the error of a server that ends these packets one from a session that goes on: see [`ClientError::that_goes_on`].
pub(crate) fn goes_on(packets: &mut [u8]) {
    let mut at = 0;
    while let Some(frame) = parse_header(&packets[at..]) {
        let next = at + HEADER_LEN + frame.len;
        if next < packets.len() {
            at = next;
            continue;
        }
        let error = &mut packets[at + HEADER_LEN..];
        if let [ERR, _, _, b'#', state @ ..] = error
            && state.starts_with(CONNECTION_CLASS)
            && let Some(state) = state.first_chunk_mut()
        {
            *state = GENERAL;
        }
        return;
    }
}

/// What servers say of a wrong password.
pub(crate) fn access_denied(user: &str, given: &str) -> ErrPacket {
    let text = format!("Access denied for user '{user}'@'' (using password: {given})");
    ClientError::new(ER_ACCESS_DENIED_ERROR, *b"28000", text).into_packet()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use delphinus_sql::Flavor;

    use super::*;

    /// (number, SQLSTATE where the session goes on, where it ends)
    fn told(error: &ProxyError) -> (u16, String, String) {
        let error = ClientError::from(error);
        let state = |error: ClientError| String::from_utf8_lossy(&error.0.state).into_owned();
        (error.code(), state(error.clone().that_goes_on()), state(error.that_ends()))
    }

    #[test]
    fn a_servers_error_says_that_the_session_goes_on() {
        let mut packets = Vec::new();
        let rows = |packets: &mut Vec<u8>| packets.extend(b"\x0d\0\0\x04\xff\x1d\x04#08S01row.");
        rows(&mut packets);
        ClientError::new(1053, LINK_FAILURE, "Server shutdown in progress").put(
            &mut packets,
            5,
            Capabilities::PROTOCOL_41,
        );
        goes_on(&mut packets);
        let mut expected = Vec::new();
        rows(&mut expected);
        ClientError::new(1053, GENERAL, "Server shutdown in progress").put(
            &mut expected,
            5,
            Capabilities::PROTOCOL_41,
        );
        assert_eq!(packets, expected);
        for other in [&b"\x03\0\0\x01\xff\x1d\x04"[..], b"\x03\0", b""] {
            let mut bytes = other.to_vec();
            goes_on(&mut bytes);
            assert_eq!(bytes, other);
        }
    }

    #[test]
    fn the_class_of_the_sqlstate_says_whether_the_session_ends() {
        let why = || "why".to_owned();
        let idle = |flavor| ProxyError::IdleInTransaction("limit".into(), 1, flavor);
        let transaction = |as_deadlock| ProxyError::Lost(Lost::Transaction { how: why(), as_deadlock });
        for (error, code, goes_on, ends) in [
            (ProxyError::UnknownCommand, 1047, "HY000", "08S01"),
            (ProxyError::Malformed, 1835, "HY000", "08S01"),
            (ProxyError::PacketTooLarge, 1153, "HY000", "08S01"),
            (ProxyError::NoBackend(why()), 9102, "HY000", "08S01"),
            (ProxyError::NoPrimary(Duration::ZERO, why()), 9102, "HY000", "08S01"),
            (Lost::Answer(why()).into(), 9103, "HY000", "08S01"),
            (Lost::Outcome(why()).into(), 9101, "HY000", "08007"),
            (transaction(true), 1213, "40001", "08S01"),
            (transaction(false), 9103, "HY000", "08S01"),
            (Lost::State(why(), "table lock").into(), 4031, "HY000", "08S01"),
            (ProxyError::Expired, 4031, "HY000", "08S01"),
            (ProxyError::Shutdown, 1053, "HY000", "08S01"),
            (ProxyError::Killed, 1317, "70100", "70100"),
            (ProxyError::ConnectionKilled, 1927, "70100", "70100"),
            (idle(Flavor::MySql), 4031, "HY000", "08S01"),
            (idle(Flavor::MariaDb), 1927, "HY000", "08S01"),
            (ProxyError::NoSuchThread(7), 1094, "HY000", "08S01"),
        ] {
            assert_eq!(told(&error), (code, goes_on.to_owned(), ends.to_owned()), "{error:?}");
            assert!(!(2000..3000).contains(&code), "{error:?}: a number of the clients' own");
        }
    }
}
