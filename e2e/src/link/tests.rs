//! What each fault of a link looks like to who uses it.

use std::io::{ErrorKind, Read, Write};

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);
/// Nothing comes for so long where nothing may come.
const SILENCE: Duration = Duration::from_millis(150);

/// A server that says its greeting, and then each byte that it gets as often as the byte says, times 1,000.
fn server() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || {
                let mut stream = stream.unwrap();
                let mut byte = [0];
                let mut greeted = stream.write_all(b"!");
                while greeted.is_ok() && matches!(stream.read(&mut byte), Ok(1)) {
                    greeted = stream.write_all(&vec![byte[0]; usize::from(byte[0]) * 1000]);
                }
            });
        }
    });
    port
}

fn link() -> Link {
    Link::to("127.0.0.1", server()).unwrap()
}

fn client(link: &Link) -> TcpStream {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, link.port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.read_exact(&mut [0]).unwrap();
    stream
}

fn ask(stream: &mut TcpStream, thousands: u8) -> std::io::Result<()> {
    stream.write_all(&[thousands])?;
    stream.read_exact(&mut vec![0; usize::from(thousands) * 1000])
}

fn is_silent(stream: &mut TcpStream) -> bool {
    stream.set_read_timeout(Some(SILENCE)).unwrap();
    let outcome = stream.read(&mut [0; 1]);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    matches!(outcome, Err(error) if error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn a_cut_link_says_nothing_and_delivers_later() {
    for ways in [&[Way::Forth][..], &[Way::Back], &[Way::Forth, Way::Back]] {
        let link = link();
        let mut stream = client(&link);
        ask(&mut stream, 3).unwrap();
        link.cut(ways).unwrap();
        stream.write_all(&[2]).unwrap();
        assert!(is_silent(&mut stream), "{ways:?}");
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, link.port));
        let refused = TcpStream::connect_timeout(&address, SILENCE).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TimedOut, "{ways:?}");
        link.heal().unwrap();
        stream.read_exact(&mut vec![0; 2000]).unwrap();
        ask(&mut client(&link), 1).unwrap();
        ask(&mut stream, 1).unwrap();
    }
}

#[test]
fn an_answer_is_reset_in_its_middle() {
    let link = link();
    let (mut hit, mut spared) = (client(&link), client(&link));
    link.reset_answer_after(50_000);
    ask(&mut spared, 40).unwrap();
    let told = ask(&mut hit, 200).unwrap_err();
    assert_eq!(told.kind(), ErrorKind::ConnectionReset);
    assert_eq!(link.resets(), 1);
    ask(&mut spared, 200).unwrap();
    link.reset_one();
    assert_eq!(spared.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(link.resets(), 2);
}

#[test]
fn a_slow_link_takes_its_time() {
    let link = link();
    let mut stream = client(&link);
    link.slow(Slowness { delay: Duration::from_millis(20), bytes_per_second: 100_000 });
    let began = Instant::now();
    ask(&mut stream, 20).unwrap();
    // There, back, and 20,000 bytes.
    assert!(began.elapsed() >= Duration::from_millis(240), "{:?}", began.elapsed());
    link.heal().unwrap();
    ask(&mut stream, 250).unwrap();
}
