//! The answer to a command that went to its backend in one packet more than its client has sent: servers number an answer behind the last
//! packet of the command, and the client counts its own.

use delphinus_wire::{HEADER_LEN, parse_header};

/// Where in the packets of such an answer the next byte stands.
#[derive(Debug, Default)]
pub(super) struct Renumbering {
    /// Bytes of a payload that have not come yet.
    missing: usize,
    /// A header, as far as it has come.
    header: [u8; HEADER_LEN],
    known: usize,
}

impl Renumbering {
    /// Makes the number of each packet one less whose header ends in the next bytes.
    pub(super) fn pass(&mut self, bytes: &mut [u8]) {
        let mut at = 0;
        while at < bytes.len() {
            if self.missing > 0 {
                let n = self.missing.min(bytes.len() - at);
                self.missing -= n;
                at += n;
                continue;
            }
            self.header[self.known] = bytes[at];
            self.known += 1;
            if self.known == HEADER_LEN {
                bytes[at] = bytes[at].wrapping_sub(1);
                self.missing = parse_header(&self.header).map_or(0, |frame| frame.len);
                self.known = 0;
            }
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use delphinus_wire::put_packet;

    use super::*;

    #[test]
    fn packets_are_numbered_anew_however_they_come() {
        let packets = |mut seq| {
            let mut out = Vec::new();
            for payload in [&b"one"[..], b"", &[7; 300]] {
                seq = put_packet(&mut out, seq, payload);
            }
            out
        };
        for (from, to) in [(2, 1), (255, 254), (0, 255)] {
            for step in [1, 2, 3, 5, 7, 1000] {
                let mut bytes = packets(from);
                let mut renumbering = Renumbering::default();
                bytes.chunks_mut(step).for_each(|chunk| renumbering.pass(chunk));
                assert_eq!(bytes, packets(to), "by {step}");
            }
        }
    }
}
