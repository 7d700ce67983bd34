//! What a client has sent and the layer of TLS keeps, because its record is not whole or the handshake goes on: who sends half of
//! something takes room of the account for it.
//!
//! rustls does not tell how much it keeps, so the headers of records are followed here.

use std::io;

use delphinus_memory::{Account, Owner, Permit};

/// So much is each client's without being asked for: a usual handshake, and the records of usual commands.
pub(super) const FREE: usize = 4 * 1024;

/// More than TLS keeps of anything: a handshake, and a record.
const MOST: usize = 128 * 1024;

/// The header of a record: its type, a version, and the length of the rest.
const HEADER: usize = 5;

/// Of a peer without a limit nothing is counted.
#[derive(Debug, Default)]
pub(super) struct Pending {
    room: Option<Permit>,
    /// Given to TLS and not known to be looked at.
    bytes: usize,
    record: Record,
}

impl Pending {
    pub(super) fn limit_to(&mut self, account: &Account) {
        self.room = Some(account.open(Owner::Buffers));
    }

    /// These are given to TLS.
    pub(super) fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(room) = &mut self.room else { return Ok(()) };
        self.record.follow(bytes);
        self.bytes += bytes.len();
        // They are in a buffer that may have grown to twice as much.
        if self.bytes > FREE && (self.bytes > MOST || !room.grow_to(2 * self.bytes)) {
            return Err(io::Error::other(
                "memory_limit is reached: there is no room for the rest of a TLS record",
            ));
        }
        Ok(())
    }

    /// What was whole has been looked at. True if TLS kept much, and now keeps nothing.
    pub(super) fn settle(&mut self) -> bool {
        let had = std::mem::replace(&mut self.bytes, self.record.held);
        if let Some(room) = self.room.as_mut().filter(|room| room.bytes() > 0) {
            room.shrink_to(if self.bytes > FREE { 2 * self.bytes } else { 0 });
        }
        had > FREE && self.bytes == 0
    }
}

/// Where in a record the stream is.
#[derive(Debug, Default)]
struct Record {
    header: [u8; HEADER],
    /// Bytes of the record that have come; none: the next one begins.
    held: usize,
    /// Bytes to come behind the header.
    missing: usize,
}

impl Record {
    fn follow(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let want = if self.held < HEADER { HEADER - self.held } else { self.missing };
            let (part, rest) = bytes.split_at(want.min(bytes.len()));
            bytes = rest;
            if self.held < HEADER {
                self.header[self.held..self.held + part.len()].copy_from_slice(part);
                self.held += part.len();
                self.missing = usize::from(u16::from_be_bytes([self.header[3], self.header[4]]));
            } else {
                self.held += part.len();
                self.missing -= part.len();
            }
            if self.held >= HEADER && self.missing == 0 {
                self.held = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(len: u16) -> Vec<u8> {
        let [high, low] = len.to_be_bytes();
        let mut bytes = vec![23, 3, 3, high, low];
        bytes.resize(HEADER + usize::from(len), 7);
        bytes
    }

    #[test]
    fn the_ends_of_records_are_found_however_they_come() {
        let all =
            [record(1), record(0), record(16_000), record(300), record(4_000)[..2_000].to_vec()].concat();
        for size in [1, 2, 3, 5, 7, 4096, 1 << 20] {
            let mut one = Record::default();
            all.chunks(size).for_each(|part| one.follow(part));
            assert_eq!((one.held, one.missing), (2_000, 2_005), "in parts of {size}");
        }
    }

    #[test]
    fn half_a_record_takes_room_and_a_whole_one_gives_it_back() {
        let account = Account::new(40_000);
        let (mut one, mut two) = (Pending::default(), Pending::default());
        one.limit_to(&account);
        two.limit_to(&account);
        let long = record(16_000);
        one.add(&[&record(100)[..], &long[..12_000]].concat()).unwrap();
        assert!(!one.settle(), "there is still something");
        assert_eq!(account.used(), 24_000);
        two.add(&long[..4_000]).unwrap();
        assert!(two.add(&long[4_000..9_000]).is_err());
        one.add(&long[12_000..]).unwrap();
        assert!(one.settle());
        assert_eq!(account.used(), 0);
    }
}
