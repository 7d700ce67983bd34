//! A source of semi-sync as it would be if it waited for each acknowledgement before it sends on.

/// A packet's length and number.
const HEADER: usize = 4;
/// A packet of the log that wants an acknowledgement begins so: OK, the mark of semi-sync, the wish.
const WANTS_ANSWER: [u8; 3] = [0x00, 0xef, 0x01];

/// One connection: what its server has sent and its client does not get yet.
#[derive(Debug, Default)]
pub(super) struct OneByOne {
    /// Whole packets, and perhaps the beginning of one.
    kept: Vec<u8>,
    is_waiting: bool,
}

impl OneByOne {
    /// The server has sent this. Gives what may go on.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.kept.extend_from_slice(bytes);
        self.pass()
    }

    /// Something has arrived at the server. Gives what may go on.
    pub(super) fn acknowledged(&mut self) -> Vec<u8> {
        self.is_waiting = false;
        self.pass()
    }

    /// Packets up to the next one that wants an answer, with it.
    fn pass(&mut self) -> Vec<u8> {
        let mut end = 0;
        while !self.is_waiting {
            let rest = &self.kept[end..];
            let Some(&[a, b, c, _]) = rest.first_chunk::<HEADER>() else { break };
            let len = HEADER + u32::from_le_bytes([a, b, c, 0]) as usize;
            let Some(packet) = rest.get(..len) else { break };
            self.is_waiting = packet[HEADER..].starts_with(&WANTS_ANSWER);
            end += len;
        }
        let after = self.kept.split_off(end);
        std::mem::replace(&mut self.kept, after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(payload: &[u8]) -> Vec<u8> {
        [&[u8::try_from(payload.len()).unwrap(), 0, 0, 7], payload].concat()
    }

    #[test]
    fn what_follows_an_event_that_wants_an_answer_waits_for_it() {
        let (plain, wants) = (packet(&[0, 0xef, 0, 9]), packet(&[0, 0xef, 1, 9]));
        let mut one = OneByOne::default();
        assert_eq!(one.take(&plain), plain);
        let sent = [&plain[..], &wants, &wants, &plain].concat();
        assert_eq!(one.take(&sent[..20]), sent[..16], "with the first that wants an answer");
        assert!(one.take(&sent[20..]).is_empty());
        assert_eq!(one.acknowledged(), wants);
        assert_eq!(one.acknowledged(), plain);
        assert!(one.acknowledged().is_empty());
    }

    #[test]
    fn a_packet_that_comes_in_parts_goes_on_as_one() {
        let wants = packet(&[0, 0xef, 1, 9]);
        let mut one = OneByOne::default();
        assert!(one.take(&wants[..3]).is_empty());
        assert!(one.take(&wants[3..6]).is_empty());
        assert_eq!(one.take(&wants[6..]), wants);
    }
}
