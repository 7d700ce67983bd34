//! What is passed on is as it came, and only to the host that announces this address.

use super::*;
use crate::announce::arp_request;

/// From 10.77.0.3 to 10.77.0.100, as another implementation writes it; without its checksum, 0x37b2.
const V4: &str = "4500003c00074000400600000a4d00030a4d00649c40192e1234567800000000a002faf0000000000204\
                  05b40402080a0001e2400000000001030307";

/// The same segment by IPv6, from fd77::3 to fd77::100; its checksum is 0x50c0.
const V6_HEAD: &str = "6000000000280640fd770000000000000000000000000003fd770000000000000000000000000100";

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let one = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(one).collect()
}

fn v4() -> IpAddr {
    "10.77.0.100".parse().unwrap()
}

fn v6() -> IpAddr {
    "fd77::100".parse().unwrap()
}

#[test]
fn a_checksum_that_the_sender_has_left_to_its_card_is_written() {
    let mut frame = bytes(V4);
    // What Ethernet adds to short frames is not passed on.
    frame.extend([0xaa; 6]);
    let packet = opening(&mut frame, v4()).unwrap().to_vec();
    assert_eq!((packet.len(), &packet[36..38]), (60, &[0x37, 0xb2][..]));
    // A packet that has its checksum keeps it.
    assert_eq!(opening(&mut packet.clone(), v4()).unwrap(), packet);
    let mut frame = [bytes(V6_HEAD), bytes(V4)[20..].to_vec()].concat();
    let packet = opening(&mut frame, v6()).unwrap();
    assert_eq!((packet.len(), &packet[56..58]), (80, &[0x50, 0xc0][..]));
}

#[test]
fn what_is_cut_off_or_something_else_is_not_passed_on() {
    let whole = bytes(V4);
    for length in 0..whole.len() {
        assert_eq!(opening(&mut whole[..length].to_vec(), v4()), None, "{length}");
        assert_eq!(opening(&mut whole[..length].to_vec(), v6()), None, "{length}");
    }
    let mut udp = whole;
    udp[9] = 17;
    assert_eq!(opening(&mut udp, v4()), None);
}

#[test]
fn a_host_is_believed_that_announces_this_address() {
    let (own, other) = ([10, 77, 0, 100].into(), [10, 77, 0, 101].into());
    assert_eq!(announced(&arp_request(own, own, MAC), v4()), Some(MAC));
    assert_eq!(announced(&arp_request(other, own, MAC), v4()), None, "somebody asks for it");
    assert_eq!(announced(&arp_request(other, other, MAC), v4()), None);
    let mut advertisement = vec![0; 40];
    advertisement[6] = 58;
    advertisement.extend([136, 0, 0, 0, 0x20, 0, 0, 0]);
    advertisement.extend(bytes("fd770000000000000000000000000100"));
    advertisement.extend([2, 1]);
    advertisement.extend(MAC);
    assert_eq!(announced(&advertisement, v6()), Some(MAC));
    assert_eq!(announced(&advertisement, "fd77::101".parse().unwrap()), None);
    for length in 0..advertisement.len() {
        assert_eq!(announced(&advertisement[..length], v6()), None, "{length}");
    }
}
