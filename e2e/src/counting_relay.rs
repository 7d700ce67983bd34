//! A relay for TCP connections that counts what passes: how many connections there were, and how many bytes they took.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::Result;

use crate::stage::Address;

/// A running relay. It ends with the process.
#[derive(Debug)]
pub struct CountingRelay {
    /// Where to connect.
    pub port: u16,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    connections: AtomicU64,
    bytes: AtomicU64,
}

impl CountingRelay {
    /// Relays to the TCP port of `address`.
    pub fn to(address: &Address) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let port = listener.local_addr()?.port();
        let counts = Arc::<Counts>::default();
        let (counted, target) = (counts.clone(), (address.host.clone(), address.port));
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                counted.connections.fetch_add(1, Ordering::SeqCst);
                let Ok(server) = TcpStream::connect((target.0.as_str(), target.1)) else { continue };
                let copies = [(client.try_clone(), server.try_clone()), (Ok(server), Ok(client))];
                for (from, to) in copies {
                    let (Ok(from), Ok(to)) = (from, to) else { continue };
                    let counted = counted.clone();
                    thread::spawn(move || copy(from, to, &counted.bytes));
                }
            }
        });
        Ok(Self { port, counts })
    }

    /// Connections so far.
    pub fn connections(&self) -> u64 {
        self.counts.connections.load(Ordering::SeqCst)
    }

    /// Bytes so far, both ways together.
    pub fn bytes(&self) -> u64 {
        self.counts.bytes.load(Ordering::SeqCst)
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream, bytes: &AtomicU64) {
    let mut chunk = vec![0; 64 * 1024];
    while let Ok(n @ 1..) = from.read(&mut chunk) {
        bytes.fetch_add(n as u64, Ordering::SeqCst);
        if to.write_all(&chunk[..n]).is_err() {
            break;
        }
    }
    // The other direction goes on.
    let _ = to.shutdown(Shutdown::Write);
}
