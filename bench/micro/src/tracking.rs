//! Following responses: one row, as a point select has it, and a thousand.

use std::hint::black_box;

use anyhow::{Result, ensure};
use delphinus_state::{Progress, Response, ResponseTracker, Shape};
use delphinus_wire::response::{Column, OkPacket, SessionChanges, Status, TextResult};
use delphinus_wire::{Capabilities, Put, begin_packet, end_packet};

use crate::{Case, measure};

/// What is read at once in the steady state, in bytes.
const CHUNK: usize = 16 * 1024;

const MODERN: Capabilities =
    Capabilities(Capabilities::PROTOCOL_41.0 | Capabilities::DEPRECATE_EOF.0 | Capabilities::SESSION_TRACK.0);

pub(crate) fn cases() -> Vec<Case> {
    let whole = usize::MAX;
    vec![
        Case::new("track-1-row", move || follow(&result(1), 1, whole)),
        Case::new("track-1-row-mysql", || follow(&mysql_result(), 1, usize::MAX)),
        Case::new("track-1000-rows", move || follow(&result(1_000), 1_000, whole)),
        Case::new("track-1000-rows-16k", || follow(&result(1_000), 1_000, CHUNK)),
    ]
}

fn follow(wire: &[u8], rows: u64, chunk: usize) -> Result<()> {
    let mut bytes = wire.to_vec();
    let response = track(&mut bytes, chunk)?;
    ensure!(response.rows == rows && response.is_ok(), "not followed to its end: {response:?}");
    if bytes == wire {
        measure(|| track(black_box(&mut bytes), chunk));
    } else {
        // It is changed in place for the client: each time needs bytes of its own.
        measure(|| {
            bytes.copy_from_slice(wire);
            track(black_box(&mut bytes), chunk)
        });
    }
    Ok(())
}

/// Follows a response whose bytes come in chunks; what may go to the client goes at once.
fn track(wire: &mut [u8], chunk: usize) -> Result<Response> {
    let mut tracker = ResponseTracker::new(Shape::Results, MODERN, MODERN);
    let (mut gone, mut come) = (0, 0);
    loop {
        ensure!(come < wire.len(), "the response has no end");
        come = come.saturating_add(chunk).min(wire.len());
        match tracker.advance(&mut wire[gone..come])? {
            Progress::More(n) => gone += n,
            Progress::Rewrite(n, len) if !tracker.is_done() => gone += n + len,
            _ => return Ok(tracker.into_response()),
        }
    }
}

/// A column of 120 characters, as sysbench's tables have it.
fn result(rows: usize) -> Vec<u8> {
    let value = b"68487932199-96439406143-93774651418-41631865787-96406072701-20604855487-25459966574-28203206787-41238978918-19503783441".to_vec();
    let result =
        TextResult { columns: vec![Column::text(b"c", 120, 45)], rows: vec![vec![Some(value)]; rows] };
    let mut out = Vec::new();
    result.put(&mut out, 1, Status(2), MODERN);
    out
}

/// The same with one row and with what MySQL, but not MariaDB, reports after every statement.
fn mysql_result() -> Vec<u8> {
    let mut out = result(1);
    // The last packet is an OK without anything to say.
    out.truncate(out.len() - 4 - 7);
    let (mut variable, mut changes) = (Vec::new(), Vec::new());
    variable.put_lenenc_bytes(b"statement_id");
    variable.put_lenenc_bytes(b"123456");
    changes.push(0);
    changes.put_lenenc_bytes(&variable);
    let status = Status(2 | 0x4000);
    let ok = OkPacket { status, changes: SessionChanges::new(&changes), ..OkPacket::default() };
    let at = begin_packet(&mut out);
    ok.put(&mut out, 0xfe, MODERN);
    end_packet(&mut out, at, 4);
    out
}
