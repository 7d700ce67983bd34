//! Digests of several parts in a row, xor, hexadecimal, and comparison in constant time.

use aws_lc_rs::{constant_time, digest};

fn digest_of<const N: usize>(algorithm: &'static digest::Algorithm, parts: &[&[u8]]) -> [u8; N] {
    let mut context = digest::Context::new(algorithm);
    for part in parts {
        context.update(part);
    }
    context.finish().as_ref().try_into().expect("invariant: N is the length of the algorithm's digest")
}

/// SHA-1 of the parts in a row.
pub(crate) fn sha1(parts: &[&[u8]]) -> [u8; 20] {
    digest_of(&digest::SHA1_FOR_LEGACY_USE_ONLY, parts)
}

/// SHA-256 of the parts in a row.
pub(crate) fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    digest_of(&digest::SHA256, parts)
}

/// Compares in a time that depends on the lengths only.
pub(crate) fn is_equal(a: &[u8], b: &[u8]) -> bool {
    constant_time::verify_slices_are_equal(a, b).is_ok()
}

/// The xor of two digests.
pub(crate) fn xor<const N: usize>(mut a: [u8; N], b: &[u8; N]) -> [u8; N] {
    for (left, right) in a.iter_mut().zip(b) {
        *left ^= right;
    }
    a
}

/// The bytes that a text of hexadecimal digits (of either case) stands for.
pub(crate) fn from_hex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|value| value as u8);
    let (pairs, []) = text.as_chunks::<2>() else { return None };
    pairs.iter().map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect()
}

/// Upper-case hexadecimal digits, as MySQL prints hashes.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_goes_both_ways() {
        assert_eq!(to_hex(&[0, 0x1f, 0xab]), "001FAB");
        assert_eq!(from_hex(b"001fAB"), Some(vec![0, 0x1f, 0xab]));
        assert_eq!(from_hex(b"0"), None);
        assert_eq!(from_hex(b"0g"), None);
    }

    #[test]
    fn parts_are_hashed_in_a_row() {
        assert_eq!(sha1(&[b"a", b"bc"]), sha1(&[b"abc"]));
        assert_eq!(to_hex(&sha1(&[b"abc"])), "A9993E364706816ABA3E25717850C26C9CD0D89D");
    }
}
