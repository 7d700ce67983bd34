//! Reading and writing the primitive types inside a payload. Every read is checked: bytes from the network
//! are read only through `Reader`.
//! Source: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_data_types.html>

use thiserror::Error;

/// A payload that ends too early or holds a value that the protocol does not allow there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("malformed packet: {0}")]
pub struct Malformed(pub &'static str);

/// A position in a payload.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the first byte of `payload`.
    pub fn new(payload: &'a [u8]) -> Self {
        Self { rest: payload }
    }

    /// Bytes not read yet.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// True at the end of the payload.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next byte, which stays unread.
    pub fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// The next `n` bytes.
    pub fn bytes(&mut self, n: usize) -> Result<&'a [u8], Malformed> {
        let (head, tail) = self.rest.split_at_checked(n).ok_or(Malformed("ends too early"))?;
        self.rest = tail;
        Ok(head)
    }

    /// Everything that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, tail) = self.rest.split_first_chunk::<N>().ok_or(Malformed("ends too early"))?;
        self.rest = tail;
        Ok(*head)
    }

    /// int<1>
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// int<2>
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    /// int<3>
    pub fn u24(&mut self) -> Result<u32, Malformed> {
        self.array::<3>().map(|[a, b, c]| u32::from_le_bytes([a, b, c, 0]))
    }

    /// int<4>
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    /// int<8>
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    /// `int<lenenc>`. 0xFB (NULL in a text row) and 0xFF are not lengths.
    #[inline]
    pub fn lenenc_int(&mut self) -> Result<u64, Malformed> {
        match self.u8()? {
            small @ 0..=0xfa => Ok(u64::from(small)),
            0xfc => self.u16().map(u64::from),
            0xfd => self.u24().map(u64::from),
            0xfe => self.u64(),
            _ => Err(Malformed("bad length prefix")),
        }
    }

    /// `string<lenenc>`
    #[inline]
    pub fn lenenc_bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.lenenc_int()?;
        self.bytes(usize::try_from(len).map_err(|_| Malformed("length too large"))?)
    }

    /// A value of a text row: `string<lenenc>`, or `None` for NULL (0xFB).
    pub fn text_value(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        if self.peek() == Some(0xfb) {
            self.u8()?;
            return Ok(None);
        }
        self.lenenc_bytes().map(Some)
    }

    /// `string<NUL>`, without the NUL, which has to be there.
    pub fn nul_bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let end = memchr::memchr(0, self.rest).ok_or(Malformed("string without end"))?;
        let text = self.bytes(end)?;
        self.u8()?;
        Ok(text)
    }
}

/// Writing the primitive types at the end of a payload.
pub trait Put {
    /// int<1>
    fn put_u8(&mut self, value: u8);
    /// int<2>
    fn put_u16(&mut self, value: u16);
    /// int<3>; the highest byte of `value` is dropped.
    fn put_u24(&mut self, value: u32);
    /// int<4>
    fn put_u32(&mut self, value: u32);
    /// int<8>
    fn put_u64(&mut self, value: u64);
    /// `int<lenenc>`
    fn put_lenenc_int(&mut self, value: u64);
    /// `string<lenenc>`
    fn put_lenenc_bytes(&mut self, value: &[u8]);
    /// `string<NUL>`; `value` must hold no NUL.
    fn put_nul_bytes(&mut self, value: &[u8]);
}

impl Put for Vec<u8> {
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }

    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u24(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes()[..3]);
    }

    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_lenenc_int(&mut self, value: u64) {
        match value {
            0..=0xfa => self.push(value as u8),
            0xfb..=0xffff => {
                self.push(0xfc);
                self.put_u16(value as u16);
            }
            0x1_0000..=0xff_ffff => {
                self.push(0xfd);
                self.put_u24(value as u32);
            }
            _ => {
                self.push(0xfe);
                self.put_u64(value);
            }
        }
    }

    fn put_lenenc_bytes(&mut self, value: &[u8]) {
        self.put_lenenc_int(value.len() as u64);
        self.extend_from_slice(value);
    }

    fn put_nul_bytes(&mut self, value: &[u8]) {
        debug_assert!(!value.contains(&0), "a NUL would end the string early");
        self.extend_from_slice(value);
        self.push(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lenenc_integers_come_back() {
        for value in [0, 1, 0xfa, 0xfb, 0xfc, 0xffff, 0x1_0000, 0xff_ffff, 0x100_0000, u64::MAX] {
            let mut bytes = Vec::new();
            bytes.put_lenenc_int(value);
            let mut reader = Reader::new(&bytes);
            assert_eq!(reader.lenenc_int(), Ok(value));
            assert!(reader.is_empty());
            for cut in 0..bytes.len() {
                assert!(Reader::new(&bytes[..cut]).lenenc_int().is_err(), "{value} cut at {cut}");
            }
        }
    }

    #[test]
    fn lengths_beyond_the_payload_are_errors() {
        for bad in [&[0xfe, 255, 255, 255, 255, 255, 255, 255, 255][..], &[5, 1, 2], &[0xff], &[0xfb]] {
            assert!(Reader::new(bad).lenenc_bytes().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn text_values_know_null() {
        let mut reader = Reader::new(&[0xfb, 1, b'x', 0]);
        assert_eq!(reader.text_value(), Ok(None));
        assert_eq!(reader.text_value(), Ok(Some(&b"x"[..])));
        assert_eq!(reader.text_value(), Ok(Some(&b""[..])));
        assert!(reader.text_value().is_err());
    }

    #[test]
    fn a_string_without_its_nul_is_an_error() {
        assert_eq!(Reader::new(b"ab\0c").nul_bytes(), Ok(&b"ab"[..]));
        assert!(Reader::new(b"ab").nul_bytes().is_err());
    }
}
