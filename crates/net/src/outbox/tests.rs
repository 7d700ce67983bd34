//! The outbox, with batches and without: nothing lost, nothing out of order, nobody waiting for ever.

use std::time::Duration;

use super::*;
use crate::buffer::Buffer;
use crate::compression::tests::encrypted_pair;
use crate::stream::Stream;

/// Runs `script` with an outbox that sends in batches, where the kernel allows it, and with one that does not.
fn both<F: Future<Output = ()>>(script: impl Fn() -> F) {
    for io_uring in [true, false] {
        rt::run(script(), rt::Manner { io_uring, ..rt::Manner::default() }).unwrap();
    }
}

async fn read(stream: &mut Stream, n: usize) -> Vec<u8> {
    let mut buffer = Buffer::with_capacity(4096);
    while buffer.len() < n {
        let (result, back) = stream.read(buffer).await;
        buffer = back;
        if result.unwrap() == 0 {
            break;
        }
    }
    buffer.data().to_vec()
}

/// Posts until there is no room any more; gives how much that was.
async fn fill(stream: &mut Stream) -> usize {
    let mut posted = 0;
    loop {
        let number = u8::try_from(posted / LARGEST % 251).unwrap();
        if !stream.post(&[number; LARGEST]) {
            return posted;
        }
        posted += LARGEST;
        rt::sleep(Duration::from_millis(1)).await;
    }
}

fn is_in_order(got: &[u8]) -> bool {
    got.chunks(LARGEST).enumerate().all(|(at, chunk)| chunk.iter().all(|byte| usize::from(*byte) == at % 251))
}

#[test]
fn what_is_posted_leaves_before_the_thread_sleeps() {
    both(|| async {
        let mut pairs: Vec<_> = (0..200).map(|_| Stream::pair().unwrap()).collect();
        for (at, (near, _)) in pairs.iter_mut().enumerate() {
            assert!(near.post(format!("packet {at:03}").as_bytes()));
        }
        for (at, (_, far)) in pairs.iter_mut().enumerate() {
            assert_eq!(read(far, 10).await, format!("packet {at:03}").as_bytes());
        }
    });
}

#[test]
fn shared_bytes_and_copies_keep_their_order() {
    both(|| async {
        let (mut near, mut far) = Stream::pair().unwrap();
        let (mut other, mut beyond) = Stream::pair().unwrap();
        let shared: Arc<[u8]> = b"shared ".as_slice().into();
        assert!(near.post(b"copied ") && near.post_shared(&shared) && other.post_shared(&shared));
        assert!(
            near.post_shared(&shared)
                && near.post(b"copied, ")
                && near.post(b"too ")
                && near.post_shared(&shared)
        );
        let expected = b"copied shared shared copied, too shared ";
        assert_eq!(read(&mut far, expected.len()).await, expected);
        assert_eq!(read(&mut beyond, shared.len()).await, *shared);
        assert_eq!(Arc::strong_count(&shared), 1, "the outbox has let go of it");
    });
}

#[test]
fn shared_bytes_that_find_no_room_arrive_whole() {
    both(|| async {
        let (mut near, mut far) = Stream::pair().unwrap();
        let large: Arc<[u8]> = (0..60_000_u32).map(|number| (number % 251) as u8).collect();
        let mut posted = 0;
        while near.post_shared(&large) {
            posted += 1;
            rt::sleep(Duration::from_millis(1)).await;
        }
        let got = read(&mut far, posted * large.len()).await;
        assert!(
            posted > 1 && got.chunks(large.len()).all(|chunk| *chunk == *large),
            "{posted}, {}",
            got.len()
        );
        assert!(!near.post_shared(&vec![0; LARGEST_SHARED + 1].into()), "too large");
    });
}

#[test]
fn what_is_posted_leaves_though_a_task_has_always_more_to_do() {
    both(|| async {
        let (mut near, mut far) = Stream::pair().unwrap();
        assert!(near.post(b"packet"));
        let reader = async {
            assert_eq!(read(&mut far, 6).await, b"packet");
        };
        let busy = async {
            for _ in 0..10_000 {
                rt::yield_now().await;
            }
        };
        let mut busy = std::pin::pin!(busy);
        tokio::select! {
            () = reader => {}
            () = &mut busy => panic!("it waited until there was nothing else to do"),
        }
    });
}

#[test]
fn the_order_of_one_socket_stays() {
    both(|| async {
        let (mut a, mut a_far) = Stream::pair().unwrap();
        let (mut b, mut b_far) = Stream::pair().unwrap();
        assert!(a.post(b"1") && a.post(b"2") && b.post(b"x") && a.post(b"3"));
        a.write_bytes(b"4").await.unwrap();
        assert!(a.post(b"5"));
        a.close().await;
        assert_eq!(read(&mut a_far, 6).await, b"12345");
        assert_eq!(read(&mut b_far, 1).await, b"x");
    });
}

#[test]
fn large_packets_are_not_for_the_outbox() {
    both(|| async {
        let (mut near, _far) = Stream::pair().unwrap();
        assert!(!near.post(&[0; LARGEST + 1]));
    });
    let (mut near, _far) = rt::block_on(async { Stream::pair() }).unwrap().unwrap();
    assert!(!near.post(b"there is no outbox on this thread any more"));
}

#[test]
fn what_finds_no_room_is_written_when_there_is() {
    both(|| async {
        let (mut near, mut far) = Stream::pair().unwrap();
        let posted = fill(&mut near).await;
        // Its session is busy elsewhere: nobody asks for `near`.
        let got = read(&mut far, posted).await;
        assert!(got.len() == posted && is_in_order(&got));
        near.write_bytes(b"more").await.unwrap();
        assert!(near.post(b" and more"));
        assert_eq!(read(&mut far, 13).await, b"more and more");
    });
}

#[test]
fn later_writes_come_behind_what_found_no_room() {
    both(|| async {
        let (mut near, mut far) = Stream::pair().unwrap();
        let posted = fill(&mut near).await;
        let writing = rt::spawn_local(async move { near.write_bytes(b"end").await.unwrap() });
        let got = read(&mut far, posted + 3).await;
        assert!(got.len() == posted + 3 && is_in_order(&got[..posted]) && got.ends_with(b"end"));
        writing.await.unwrap();
    });
}

#[test]
fn a_dropped_stream_has_sent_what_had_room() {
    both(|| async {
        let (mut near, mut far) = Stream::pair().unwrap();
        assert!(near.post(b"last words"));
        drop(near);
        assert_eq!(read(&mut far, 11).await, b"last words");
        let (mut near, mut far) = Stream::pair().unwrap();
        let posted = fill(&mut near).await;
        drop(near);
        let got = read(&mut far, posted + 1).await;
        assert!(got.len() < posted && is_in_order(&got));
    });
}

#[test]
fn a_peer_that_has_gone_is_told_by_the_next_write() {
    both(|| async {
        let (mut near, far) = Stream::pair().unwrap();
        let (mut other, mut other_far) = Stream::pair().unwrap();
        drop(far);
        assert!(near.post(b"to nobody") && other.post(b"to somebody"));
        assert_eq!(read(&mut other_far, 11).await, b"to somebody");
        assert!(!near.post(b"again"));
        assert_eq!(near.write_bytes(b"again").await.unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    });
}

#[test]
fn with_tls_the_order_of_records_stays() {
    both(|| async {
        let (mut near, mut far) = encrypted_pair().await;
        let (mut other, mut other_far) = encrypted_pair().await;
        assert!(near.post(b"1") && near.post(b"2") && other.post(b"x") && near.post(b"3"));
        near.write_bytes(b"4").await.unwrap();
        assert!(near.post(b"5") && !near.post(&[0; LARGEST]));
        assert_eq!(read(&mut far, 5).await, b"12345");
        assert_eq!(read(&mut other_far, 1).await, b"x");
        let mut posted = 0;
        while near.post(&[7; LARGEST / 2]) {
            posted += LARGEST / 2;
            rt::sleep(Duration::from_millis(1)).await;
        }
        let writing = rt::spawn_local(async move { near.write_bytes(b"end").await.unwrap() });
        let got = read(&mut far, posted + 3).await;
        assert!(got.len() == posted + 3 && got.ends_with(b"end"));
        writing.await.unwrap();
    });
}
