//! Where a response ends must not depend on how its bytes come in.
#![no_main]

use delphinus_fuzz::Input;
use delphinus_state::{Progress, Response, ResponseTracker, Shape};
use delphinus_wire::Capabilities;
use libfuzzer_sys::fuzz_target;

/// How a walk through a stream of bytes ended.
#[derive(Debug, PartialEq)]
enum End {
    Done { passed: Vec<u8>, response: Response },
    Unfinished,
    Malformed,
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let shape = match input.byte() % 6 {
        0 => Shape::Results,
        1 => Shape::Prepared(7),
        2 => Shape::Rows,
        3 => Shape::Single,
        5 => Shape::Cursor,
        _ => Shape::Text,
    };
    let (backend, client) = (Capabilities(input.flags()), Capabilities(input.flags()));
    let step = usize::from(input.byte() % 16) + 1;
    let whole = walk(ResponseTracker::new(shape, backend, client), input.rest(), usize::MAX);
    let pieces = walk(ResponseTracker::new(shape, backend, client), input.rest(), step);
    assert_eq!(whole, pieces, "{shape:?} in steps of {step}");
});

/// Gives the tracker `step` more bytes at a time.
fn walk(mut tracker: ResponseTracker, bytes: &[u8], step: usize) -> End {
    let (mut stream, mut passed) = (bytes, Vec::new());
    let mut buffer = Vec::new();
    loop {
        if !buffer.is_empty() {
            match tracker.advance(&mut buffer) {
                Err(_) => return End::Malformed,
                Ok(Progress::More(n)) => passed.extend(buffer.drain(..n)),
                Ok(Progress::Rewrite(n, len)) => {
                    assert!(n + len <= buffer.len());
                    passed.extend(buffer.drain(..n));
                    buffer.drain(..len);
                    if tracker.is_done() {
                        return End::Done { passed, response: tracker.into_response() };
                    }
                    continue;
                }
                Ok(Progress::Shortened(n, len)) => {
                    assert!(tracker.is_done() && n + len <= buffer.len());
                    passed.extend(buffer.drain(..n));
                    return End::Done { passed, response: tracker.into_response() };
                }
                Ok(Progress::LocalInfile(n) | Progress::ResultEnd(n)) => {
                    passed.extend(buffer.drain(..n));
                    continue;
                }
                Ok(Progress::Done(n)) => {
                    assert!(tracker.is_done());
                    passed.extend(buffer.drain(..n));
                    return End::Done { passed, response: tracker.into_response() };
                }
            }
        }
        if stream.is_empty() {
            return End::Unfinished;
        }
        let (head, tail) = stream.split_at(step.min(stream.len()));
        buffer.extend_from_slice(head);
        stream = tail;
    }
}
