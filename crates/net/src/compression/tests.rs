//! Two streams with compression, one end to the other, with and without TLS.

use std::time::Duration;

use delphinus_wire::compression::{Algorithm, CompressedLink, Side};
use delphinus_wire::put_packet;

use crate::buffer::Buffer;
use crate::rt;
use crate::stream::Stream;
use crate::tls::{ClientTls, ServerTls, Verify};

fn run<T>(test: impl Future<Output = T>) -> T {
    rt::block_on(test).expect("a runtime")
}

fn compress(stream: &mut Stream, side: Side, early: &[u8]) {
    stream.start_compression(CompressedLink::new(Algorithm::Zlib, side), early);
}

fn packet(payload: &[u8], seq: u8) -> Vec<u8> {
    let mut out = Vec::new();
    put_packet(&mut out, seq, payload);
    out
}

async fn read_exactly(stream: &mut Stream, len: usize) -> Vec<u8> {
    let mut buffer = Buffer::default();
    while buffer.len() < len {
        let (result, back) = stream.read(buffer).await;
        buffer = back;
        assert!(result.expect("readable") > 0, "an end after {} bytes", buffer.len());
    }
    buffer.data().to_vec()
}

async fn passes_both_ways(mut client: Stream, mut server: Stream) {
    compress(&mut client, Side::Client, b"");
    compress(&mut server, Side::Server, b"");
    let command = packet(&vec![3; 700_000], 0);
    let answer = packet(&vec![b'x'; 900_000], 1);
    let talk = async {
        client.write_bytes(&command).await.expect("written");
        assert!(read_exactly(&mut client, answer.len()).await == answer);
        client
    };
    let listen = async {
        assert!(read_exactly(&mut server, command.len()).await == command);
        let mut buffer = Buffer::default();
        buffer.extend(&answer);
        assert!(!server.post(buffer.data()));
        server.write(buffer, 0..answer.len()).await.0.expect("written");
        server
    };
    let (mut client, mut server) = tokio::join!(talk, listen);
    assert!(client.is_quiet() && server.is_quiet());
    server.close().await;
    rt::timeout(Duration::from_secs(9), client.readable()).await.expect("in time").expect("an end");
    assert!(!client.is_quiet());
    let (end, _) = client.read(Buffer::default()).await;
    assert_eq!(end.expect("an end"), 0);
}

#[test]
fn both_ways_without_tls() {
    run(async {
        let (client, server) = Stream::pair().expect("a pair");
        passes_both_ways(client, server).await;
    });
}

/// Two ends of a new connection with TLS.
pub(crate) async fn encrypted_pair() -> (Stream, Stream) {
    let (mut client, mut server) = Stream::pair().expect("a pair");
    let (cert, key) = ServerTls::self_signed().expect("a certificate");
    let tls = ServerTls::from_pem(cert.as_bytes(), key.as_bytes(), None).expect("TLS");
    let to_server = ClientTls::new(&Verify::Nothing, None).expect("TLS");
    let (one, two) = tokio::join!(
        client.start_tls(to_server.layer("localhost").expect("a layer"), b""),
        server.start_tls(tls.layer().expect("a layer"), b""),
    );
    one.and(two).expect("a handshake");
    (client, server)
}

#[test]
fn both_ways_inside_tls() {
    run(async {
        let (client, server) = encrypted_pair().await;
        passes_both_ways(client, server).await;
    });
}

#[test]
fn a_part_of_a_frame_is_neither_quiet_nor_readable() {
    run(async {
        let (mut client, mut server) = Stream::pair().expect("a pair");
        let mut frame = vec![5, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 14];
        let last = frame.split_off(9);
        // The first bytes came with the login.
        compress(&mut server, Side::Server, &frame[..2]);
        client.write_bytes(&frame[2..]).await.expect("written");
        assert!(!server.is_quiet());
        assert!(rt::timeout(Duration::from_millis(50), server.readable()).await.is_none());
        client.write_bytes(&last).await.expect("written");
        assert_eq!(read_exactly(&mut server, 5).await, [1, 0, 0, 0, 14]);
        assert!(server.is_quiet());
    });
}

#[test]
fn many_frames_in_one_segment_are_read_one_by_one() {
    run(async {
        let (mut client, mut server) = Stream::pair().expect("a pair");
        compress(&mut server, Side::Server, b"");
        let frame = [5, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 14];
        client.write_bytes(&frame.repeat(100)).await.expect("written");
        assert_eq!(read_exactly(&mut server, 500).await, [1, 0, 0, 0, 14].repeat(100));
    });
}

#[test]
fn what_is_no_frame_is_an_error() {
    run(async {
        let (mut client, mut server) = Stream::pair().expect("a pair");
        compress(&mut server, Side::Server, b"");
        client.write_bytes(&[3, 0, 0, 0, 99, 0, 0, 1, 2, 3]).await.expect("written");
        let (result, _) = server.read(Buffer::default()).await;
        let error = result.expect_err("no frame").to_string();
        assert!(error.contains("compressed packet that zlib cannot read"), "{error}");
    });
}
