//! Vectors and refusals.

use super::*;

const NONCE: Nonce = *b"abcdefghijklmnopqrst";

/// The example of hashcat's mode 7401: the password is `hashcat`.
const PUBLIC_SALT: &[u8] = b"F9CC98CE08892924F50A213B6BC571A2C11778C5";
const PUBLIC_DIGEST: &[u8] =
    b"625479393559393965414D45316477456B484F41316E64484742577A2E3162785353526B7554584647562F";

fn public_hash() -> Vec<u8> {
    let digits = [PUBLIC_SALT, PUBLIC_DIGEST].concat();
    [b"$A$005$".to_vec(), from_hex(&digits).unwrap()].concat()
}

#[test]
fn a_public_hash_verifies() {
    let stored = StoredHash::parse(&public_hash()).unwrap();
    assert!(stored.verify(b"hashcat"));
    for wrong in [&b""[..], b"hashca", b"hashcat ", b"Hashcat"] {
        assert!(!stored.verify(wrong), "{wrong:?}");
        assert!(!stored.decoy().verify(wrong));
    }
    assert!(!stored.decoy().verify(b"hashcat"));
}

#[test]
fn hashes_of_mysql_9_verify() {
    // Of `secret`, as hex(authentication_string) shows them in MySQL 9.7.4, which has gone from 5000 rounds to 10000.
    for digits in [
        "244124303041240C51261A4A523503181F7E5D48280F5B6448735169464639576C796337477662794C726B677079794F4F71636B414332\
         385A5331356735524B32692E645137",
        "2441243030412447714E063A2C270F137A680D706144641D120D7451372E4F6767784D307733764D7048536C5232586C69326573595444\
         574F33566E752F324F4B79575A712E",
    ] {
        let stored = StoredHash::parse(format!("0x{digits}").as_bytes()).unwrap();
        assert_eq!(stored.rounds, 10_000);
        assert!(stored.verify(b"secret"));
        assert!(!stored.verify(b"Secret"));
    }
}

#[test]
fn stored_hashes_come_back_in_both_forms() {
    let text = public_hash();
    let stored = StoredHash::parse(&text).unwrap();
    assert_eq!(stored.to_bytes(), text);
    for hex in [super::super::hash::to_hex(&text), super::super::hash::to_hex(&text).to_lowercase()] {
        assert_eq!(StoredHash::parse(format!("0x{hex}").as_bytes()), Some(stored.clone()));
    }
    let made = StoredHash::new(b"secret", *b"0123456789abcdefghij");
    assert_eq!(StoredHash::parse(&made.to_bytes()), Some(made.clone()));
    assert!(made.verify(b"secret"));
}

#[test]
fn the_count_of_rounds_is_hexadecimal() {
    let mut text = public_hash();
    text[3..6].copy_from_slice(b"010");
    assert_eq!(StoredHash::parse(&text).map(|stored| stored.rounds), Some(16_000));
}

#[test]
fn other_texts_are_not_hashes() {
    let good = public_hash();
    for cut in 0..good.len() {
        assert_eq!(StoredHash::parse(&good[..cut]), None, "cut at {cut}");
    }
    for (at, byte) in [(0, b'x'), (1, b'B'), (3, b'+'), (4, b'g'), (5, b'0'), (6, b'.')] {
        let mut bad = good.clone();
        bad[at] = byte;
        assert_eq!(StoredHash::parse(&bad), None, "{byte} at {at}");
    }
    assert_eq!(StoredHash::parse(&[&good[..], b"x"].concat()), None);
    // A hash in hexadecimal of a hash in hexadecimal of ... must not recurse.
    assert_eq!(StoredHash::parse(b"0x3078"), None);
}

#[test]
fn a_right_fast_answer_gives_stage1_back() {
    let known = stage2(&stage1(b"secret"));
    let answer = scramble(&stage1(b"secret"), &NONCE);
    assert_eq!(verify_fast(&answer, &NONCE, &known), Some(stage1(b"secret")));
    assert_eq!(verify_fast(&scramble(&stage1(b"Secret"), &NONCE), &NONCE, &known), None);
    assert_eq!(verify_fast(&answer, b"ABCDEFGHIJKLMNOPQRST", &known), None);
    for cut in 0..answer.len() {
        assert_eq!(verify_fast(&answer[..cut], &NONCE, &known), None);
    }
}

#[test]
fn hashes_are_not_printed() {
    let shown = format!("{:?}", StoredHash::new(b"secret", *b"0123456789abcdefghij"));
    assert_eq!(shown, "StoredHash { rounds: 5000, .. }");
}
