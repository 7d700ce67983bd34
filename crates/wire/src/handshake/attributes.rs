//! Connection attributes: pairs of names and values that a client tells about itself.

use crate::cursor::{Malformed, Put, Reader};

/// The attributes of one login, kept as they were sent. A value that exists can be walked to its end without errors.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ConnectAttributes {
    raw: Vec<u8>,
}

impl ConnectAttributes {
    /// Reads pairs of `string<lenenc>` that fill `raw`.
    pub fn parse(raw: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(raw);
        while !reader.is_empty() {
            read_pair(&mut reader)?;
        }
        Ok(Self { raw: raw.to_vec() })
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// The pairs as they are sent, without the total length before them.
    pub fn as_bytes(&self) -> &[u8] {
        &self.raw
    }

    /// Adds a pair.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.raw.put_lenenc_bytes(name);
        self.raw.put_lenenc_bytes(value);
    }

    /// The pairs, in the order in which they were sent.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut reader = Reader::new(&self.raw);
        std::iter::from_fn(move || read_pair(&mut reader).ok())
    }
}

fn read_pair<'a>(reader: &mut Reader<'a>) -> Result<(&'a [u8], &'a [u8]), Malformed> {
    Ok((reader.lenenc_bytes()?, reader.lenenc_bytes()?))
}

/// Reads the attributes at the end of a login packet. Some clients set the flag and send nothing.
pub(super) fn read_attributes(reader: &mut Reader<'_>) -> Result<ConnectAttributes, Malformed> {
    if reader.is_empty() {
        return Ok(ConnectAttributes::default());
    }
    ConnectAttributes::parse(reader.lenenc_bytes()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_come_back() {
        let mut attributes = ConnectAttributes::default();
        assert!(attributes.is_empty());
        attributes.push(b"_os", b"Linux");
        attributes.push(b"long", &[b'x'; 300]);
        let read = ConnectAttributes::parse(attributes.as_bytes()).unwrap();
        let pairs: Vec<_> = read.iter().collect();
        assert_eq!(pairs, [(&b"_os"[..], &b"Linux"[..]), (b"long", &[b'x'; 300])]);
    }

    #[test]
    fn half_a_pair_is_an_error() {
        let mut attributes = ConnectAttributes::default();
        attributes.push(b"_os", b"Linux");
        for cut in 1..attributes.as_bytes().len() {
            assert!(ConnectAttributes::parse(&attributes.as_bytes()[..cut]).is_err(), "{cut}");
        }
    }
}
