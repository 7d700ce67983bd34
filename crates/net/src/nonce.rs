//! Random bytes for logins.

use crate::error::NetError;

/// A nonce for a greeting: printable, without NUL and `$`, which some clients take for its end.
pub fn fresh_nonce() -> Result<[u8; 20], NetError> {
    let mut nonce: [u8; 20] = fresh_bytes()?;
    for byte in &mut nonce {
        // 93 of 94 characters; what is lost to the remainder is far less than a bit.
        let letter = b'!' + *byte % 93;
        *byte = if letter >= b'$' { letter + 1 } else { letter };
    }
    Ok(nonce)
}

/// Random bytes of any value.
pub fn fresh_bytes<const N: usize>() -> Result<[u8; N], NetError> {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| std::io::Error::other("the system has no random bytes"))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn nonces_are_printable_and_differ() {
        let one = super::fresh_nonce().expect("random bytes");
        assert!(one.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'$'));
        assert_ne!(one, super::fresh_nonce().expect("random bytes"));
    }
}
