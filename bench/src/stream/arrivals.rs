//! When transactions arrive at a replica. Two of them are compared by the positions of what arrives: a relay keeps those of its source.

use std::collections::HashMap;
use std::io::{BufReader, Read};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use delphinus_wire::binlog::dump::{Dump, Register};
use delphinus_wire::{HEADER_LEN, parse_header};

use crate::cache::enter;
use crate::load::{Session, Target};
use crate::stats::float;

use super::Later;

/// XID_EVENT: the end of a transaction.
const XID: u8 = 16;
/// Where an event's type and the position behind it are, in a packet: behind the byte 0.
const KIND_AT: usize = 1 + 4;
const NEXT_AT: usize = 1 + 13;

/// When the transaction that ends at a position has come.
type Arrivals = HashMap<u32, Instant>;

/// Follows a server's log.
pub(super) struct Reader {
    stream: TcpStream,
    reading: JoinHandle<Arrivals>,
}

impl Reader {
    /// Begins with the first file. The connection is made on that machine.
    pub(super) fn start(namespace: &Path, target: &Target, server_id: u32) -> Result<Self> {
        let open = || {
            enter(namespace)?;
            Session::open(target)
        };
        let opened = thread::scope(|scope| scope.spawn(open).join());
        let mut session = opened.expect("invariant: no panic in a login")?;
        session.query("SET @source_binlog_checksum = 'CRC32', @master_binlog_checksum = 'CRC32'")?;
        let mut register = Vec::new();
        Register { server_id, host: b"bench", port: 0 }.put(&mut register);
        session.command(&register).context("COM_REGISTER_SLAVE")?;
        let mut dump = Vec::new();
        Dump { position: 4, flags: 0, server_id, name: b"binlog.000001" }.put(&mut dump);
        session.send(0, &dump)?;
        let stream = session.stream;
        stream.set_read_timeout(None)?;
        let input = stream.try_clone()?;
        Ok(Self { stream, reading: thread::spawn(move || read(BufReader::with_capacity(1 << 16, input))) })
    }

    fn end(self) -> Result<Arrivals> {
        self.stream.shutdown(Shutdown::Both)?;
        Ok(self.reading.join().expect("invariant: no panic in a reader"))
    }
}

fn read(mut input: impl Read) -> Arrivals {
    let (mut arrivals, mut header, mut body) = (Arrivals::new(), [0; HEADER_LEN], Vec::new());
    loop {
        if input.read_exact(&mut header).is_err() {
            return arrivals;
        }
        let Some(frame) = parse_header(&header) else { return arrivals };
        body.resize(frame.len, 0);
        if input.read_exact(&mut body).is_err() {
            return arrivals;
        }
        let now = Instant::now();
        let next =
            body.get(NEXT_AT..NEXT_AT + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
        if let (Some(&XID), Some(next)) = (body.get(KIND_AT), next) {
            arrivals.insert(next, now);
        }
    }
}

/// By how much the second is later than the first, when both have had a moment for the rest.
pub(super) fn later([first, second]: [Reader; 2]) -> Result<Later> {
    thread::sleep(Duration::from_millis(500));
    let (first, second) = (first.end()?, second.end()?);
    let mut found = Vec::new();
    for (position, at) in &first {
        let other =
            second.get(position).with_context(|| format!("nothing of {position} behind the relay"))?;
        found.push(other.saturating_duration_since(*at).as_nanos() as u64);
    }
    ensure!(found.len() > 100, "{} transactions are too few", found.len());
    found.sort_unstable();
    let at = |part: usize| float(found[(found.len() - 1) * part / 100]) / 1e3;
    Ok(Later { p50: at(50), p99: at(99), count: found.len() })
}
