//! What one Delphinus tells another that is its client, in the session state of OK packets: that it is one, and how old an answer is
//! that it had kept. Each is a session variable that no server has, and is shown to nobody else.
//!
//! | where | variable | value |
//! |---|---|---|
//! | the OK of a login whose attributes have `_delphinus_version` | `delphinus_peer` | 1: it will tell ages, because `_delphinus_ages` asks for them; 0: it cannot |
//! | the last OK of an answer that was kept, there or behind it | `delphinus_age` | microseconds since it was asked for; `+` behind it: nothing that it reads was written since |

use std::time::Duration;

use super::{SessionChange, SessionChanges};
use crate::cursor::{Malformed, Put};
use crate::handshake::ConnectAttributes;
use crate::response::{EOF, OkPacket};
use crate::{Capabilities, HEADER_LEN};

/// The connection attribute by which a Delphinus is known.
pub const VERSION_ATTRIBUTE: &str = "_delphinus_version";
/// The one that asks for ages.
pub const AGES_ATTRIBUTE: &str = "_delphinus_ages";

const PEER: &[u8] = b"delphinus_peer";
const AGE: &[u8] = b"delphinus_age";

/// What the other end of a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layer {
    /// No Delphinus, or none that says so.
    #[default]
    None,
    /// One that does not tell how old its answers are.
    Silent,
    /// One that does.
    TellsAges,
}

/// How old an answer is that a Delphinus had kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerAge {
    /// Since it was asked for.
    pub age: Duration,
    /// Nothing that it reads was written since through that Delphinus.
    pub is_current: bool,
}

impl Layer {
    /// What a client is, by what it has sent and what was agreed on.
    pub fn of_client(attributes: &ConnectAttributes, agreed: Capabilities) -> Self {
        let has = |wanted: &str| attributes.iter().any(|(name, _)| name == wanted.as_bytes());
        // Without these the last packet of an answer has no room for it.
        let can = Capabilities::of(&[Capabilities::SESSION_TRACK, Capabilities::DEPRECATE_EOF]);
        match (has(VERSION_ATTRIBUTE), has(AGES_ATTRIBUTE) && agreed.contains(can)) {
            (false, _) => Self::None,
            (true, false) => Self::Silent,
            (true, true) => Self::TellsAges,
        }
    }

    /// What a server is, by the OK of its login.
    pub fn of_server(ok: &[u8], agreed: Capabilities) -> Self {
        let Ok(ok) = OkPacket::parse(ok, agreed) else { return Self::None };
        let found = ok.changes.iter().flatten().find_map(|change| match change {
            SessionChange::SystemVariable { name: PEER, value } => Some(value == b"1"),
            _ => None,
        });
        match found {
            None => Self::None,
            Some(false) => Self::Silent,
            Some(true) => Self::TellsAges,
        }
    }

    /// What such a client is told in the OK of its login.
    pub fn told(self) -> Vec<u8> {
        match self {
            Self::None => Vec::new(),
            Self::Silent => change(PEER, b"0"),
            Self::TellsAges => change(PEER, b"1"),
        }
    }
}

/// One variable of the session.
fn change(name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut entry = Vec::new();
    entry.put_lenenc_bytes(name);
    entry.put_lenenc_bytes(value);
    let mut change = vec![0];
    change.put_lenenc_bytes(&entry);
    change
}

impl PeerAge {
    /// What these changes tell, if they tell nothing but that.
    pub fn of(changes: SessionChanges<'_>) -> Option<Self> {
        // As most are: without a look at them all.
        if changes.bytes().get(2..=2 + AGE.len()).is_none_or(|name| &name[1..] != AGE) {
            return None;
        }
        let mut all = changes.iter();
        let Some(Ok(SessionChange::SystemVariable { name: AGE, value })) = all.next() else { return None };
        if all.next().is_some() {
            return None;
        }
        let text = std::str::from_utf8(value).ok()?;
        let digits = text.strip_suffix('+').unwrap_or(text);
        Some(Self { age: Duration::from_micros(digits.parse().ok()?), is_current: digits.len() < text.len() })
    }

    /// Takes out of an OK packet, whose changes are this age, in place, that the answer is current.
    pub fn forget_current(payload: &mut [u8]) {
        let Some(plus) = payload.iter().rposition(|byte| *byte == b'+') else { return };
        let digits = payload[..plus].iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        // A zero before the digits takes the place of the mark behind them.
        payload[plus - digits..=plus].rotate_right(1);
        payload[plus - digits] = b'0';
    }

    /// The same answer without an age in its last packet.
    pub fn unmarked(answer: &mut Vec<u8>) -> Result<(), Malformed> {
        let at = last_packet(answer).ok_or(Malformed("an answer that has no end"))?;
        let kept = OkPacket::strip_changes(&mut answer[at + HEADER_LEN..])?;
        let seq = answer[at + HEADER_LEN - 1];
        answer[at..at + HEADER_LEN].copy_from_slice(&crate::header(kept, seq));
        answer.truncate(at + HEADER_LEN + kept);
        Ok(())
    }

    /// The same answer, which has ended with an OK packet, with this in that; `None` if it does not.
    pub fn marked(&self, answer: &[u8], agreed: Capabilities) -> Option<Vec<u8>> {
        let last_at = last_packet(answer)?;
        let (before, packet) = answer.split_at(last_at);
        let (header, payload) = packet.split_at_checked(HEADER_LEN)?;
        let ok = OkPacket::parse(payload, agreed).ok().filter(|_| payload.first() == Some(&EOF))?;
        let mark = if self.is_current { "+" } else { "" };
        let value = format!("{}{mark}", u64::try_from(self.age.as_micros()).unwrap_or(u64::MAX));
        let told = change(AGE, value.as_bytes());
        let mut last = Vec::new();
        OkPacket { changes: SessionChanges::new(&told), ..ok }.put(&mut last, EOF, agreed);
        let len = u32::try_from(last.len()).ok()?.to_le_bytes();
        Some([before, &len[..3], &header[3..], &last].concat())
    }
}

/// Where the last of these packets begins.
fn last_packet(packets: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let header = packets.get(at..at + HEADER_LEN)?;
        let len = u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize;
        let next = at + HEADER_LEN + len;
        if next == packets.len() {
            return Some(at);
        }
        at = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGREED: Capabilities =
        Capabilities::of(&[Capabilities::SESSION_TRACK, Capabilities::DEPRECATE_EOF]);

    fn attributes(names: &[&str]) -> ConnectAttributes {
        let mut all = ConnectAttributes::default();
        for name in names {
            all.push(name.as_bytes(), b"1");
        }
        all
    }

    #[test]
    fn both_ends_agree_or_know_that_they_do_not() {
        for (names, agreed, peer) in [
            (&["program_name"][..], AGREED, Layer::None),
            (&[AGES_ATTRIBUTE], AGREED, Layer::None),
            (&[VERSION_ATTRIBUTE], AGREED, Layer::Silent),
            (&[VERSION_ATTRIBUTE, AGES_ATTRIBUTE], AGREED, Layer::TellsAges),
            (&[VERSION_ATTRIBUTE, AGES_ATTRIBUTE], Capabilities::SESSION_TRACK, Layer::Silent),
        ] {
            assert_eq!(Layer::of_client(&attributes(names), agreed), peer, "{names:?}");
            let told = peer.told();
            let mut ok = Vec::new();
            OkPacket { changes: SessionChanges::new(&told), ..OkPacket::default() }.put(&mut ok, 0, AGREED);
            assert_eq!(Layer::of_server(&ok, AGREED), peer);
        }
        assert_eq!(Layer::of_server(b"", AGREED), Layer::None);
    }

    #[test]
    fn an_age_comes_through_in_the_last_packet_and_only_there() {
        let mut last = Vec::new();
        OkPacket { warnings: 3, ..OkPacket::default() }.put(&mut last, EOF, AGREED);
        let len = u8::try_from(last.len()).unwrap();
        let answer = [&[1, 0, 0, 1, 7, 2, 0, 0, 2, 8, 9][..], &[len, 0, 0, 3], &last].concat();
        for (age, is_current) in [(Duration::from_micros(1_234_567), true), (Duration::ZERO, false)] {
            let told = PeerAge { age, is_current };
            let marked = told.marked(&answer, AGREED).unwrap();
            assert_eq!(marked[..11], answer[..11], "rows stay");
            let at = last_packet(&marked).unwrap();
            assert_eq!((at, marked[at + 3]), (11, 3));
            let ok = OkPacket::parse(&marked[at + HEADER_LEN..], AGREED).unwrap();
            assert_eq!((PeerAge::of(ok.changes), ok.warnings), (Some(told), 3));
            let mut older = marked.clone();
            PeerAge::forget_current(&mut older[at + HEADER_LEN..]);
            let ok = OkPacket::parse(&older[at + HEADER_LEN..], AGREED).unwrap();
            assert_eq!(PeerAge::of(ok.changes), Some(PeerAge { age, is_current: false }));
            for mut passed in [marked, older, answer.clone()] {
                PeerAge::unmarked(&mut passed).unwrap();
                assert_eq!(passed, answer);
            }
        }
        let told = PeerAge { age: Duration::ZERO, is_current: true };
        for cut in 0..answer.len() {
            assert_eq!(told.marked(&answer[..cut], AGREED), None);
        }
        for other in [&b""[..], &change(b"autocommit", b"ON"), &change(AGE, b"x"), &[0], &[0, 200]] {
            assert_eq!(PeerAge::of(SessionChanges::new(other)), None);
        }
    }
}
