//! The least that a proxy costs: it reads bytes on one connection and writes them on another, and looks at none. One thread waits
//! for all connections, and sends what they bring by one system call, as Delphinus does.
//!
//! With a delay it is the wire between two hosts: a host is a network namespace, and the relay is in both.
//!
//! With `--one-by-one` it stands for a source of semi-sync that sends nothing before the last event is acknowledged.
//!
//! It is measured beside the proxies, and is none: it knows no end of a server, no user, and no statement. What does not fit
//! into a socket's buffer at once closes the connection, which fails the load; so it is for small answers only.

mod one_by_one;

use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use delphinus_kernel::{Sender, give_way};
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use self::one_by_one::OneByOne;
use crate::cache::enter;

/// Connections that are served in one turn.
const TURN: usize = 256;
/// The largest piece that is passed on, in bytes.
const PIECE: usize = 16 * 1024;
/// What the listener is called among the connections.
const LISTENER: u64 = u64::MAX;

/// `delphinus-bench relay`: the process that is measured.
#[derive(Debug, Args)]
pub struct RelayArgs {
    /// Where clients connect.
    #[arg(long, value_name = "ADDRESS")]
    listen: SocketAddr,
    /// A server; may be repeated: each client gets the next one.
    #[arg(long, value_name = "ADDRESS", required = true)]
    backend: Vec<SocketAddr>,
    /// Bytes arrive so much later than they were sent, in microseconds.
    #[arg(long, value_name = "US", default_value_t = 0)]
    delay_us: u64,
    /// After an event that asks for an acknowledgement the next is sent when that has arrived.
    #[arg(long)]
    one_by_one: bool,
    /// The network namespace in which it listens.
    #[arg(long, value_name = "FILE")]
    listen_in: Option<PathBuf>,
    /// The network namespace in which the servers are.
    #[arg(long, value_name = "FILE")]
    backend_in: Option<PathBuf>,
}

/// Relays until it is killed.
pub fn relay(args: &RelayArgs) -> Result<()> {
    // Without it, it costs a little more.
    let _ = give_way();
    if let Some(namespace) = &args.listen_in {
        enter(namespace)?;
    }
    let listener =
        TcpListener::bind(args.listen).with_context(|| format!("cannot listen on {}", args.listen))?;
    listener.set_nonblocking(true)?;
    if let Some(namespace) = &args.backend_in {
        enter(namespace)?;
    }
    let mut relay = Relay {
        epoll: epoll::create(CreateFlags::CLOEXEC)?,
        listener,
        backends: args.backend.clone(),
        sockets: Vec::new(),
        spare: Vec::with_capacity(TURN),
        pieces: VecDeque::with_capacity(TURN),
        delay: Duration::from_micros(args.delay_us),
        held: args.one_by_one.then(Vec::new),
        now: Instant::now(),
    };
    relay.watch(relay.listener.as_fd(), LISTENER)?;
    let mut sender = Sender::new().context("io_uring")?;
    let mut events = Vec::with_capacity(TURN);
    loop {
        events.clear();
        let limit = relay.until_next();
        match epoll::wait(&relay.epoll, spare_capacity(&mut events), limit.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("epoll"),
        }
        relay.now = Instant::now();
        for event in &events {
            match event.data.u64() {
                LISTENER => relay.accept()?,
                socket => relay.read(socket as usize),
            }
        }
        relay.send(&mut sender)?;
    }
}

struct Relay {
    epoll: OwnedFd,
    listener: TcpListener,
    backends: Vec<SocketAddr>,
    /// A client, and behind it its server; `None` once they are gone.
    sockets: Vec<Option<TcpStream>>,
    /// Buffers without bytes.
    spare: Vec<Vec<u8>>,
    /// What was read and is not sent, in the order in which it is due.
    pieces: VecDeque<Piece>,
    delay: Duration,
    /// What each connection holds back until an acknowledgement has arrived, where that is wished.
    held: Option<Vec<OneByOne>>,
    /// When this turn began.
    now: Instant,
}

/// The first bytes of a buffer, which are on their way.
struct Piece {
    to: usize,
    buffer: Vec<u8>,
    len: usize,
    due: Instant,
}

impl Relay {
    fn watch(&self, socket: BorrowedFd<'_>, name: u64) -> Result<()> {
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(name), EventFlags::IN)?)
    }

    fn accept(&mut self) -> Result<()> {
        while let Ok((client, _)) = self.listener.accept() {
            let backend = self.backends[self.sockets.len() / 2 % self.backends.len()];
            let backend =
                TcpStream::connect(backend).with_context(|| format!("cannot connect to {backend}"))?;
            for socket in [client, backend] {
                socket.set_nodelay(true)?;
                socket.set_nonblocking(true)?;
                self.watch(socket.as_fd(), self.sockets.len() as u64)?;
                self.sockets.push(Some(socket));
            }
            if let Some(held) = &mut self.held {
                held.push(OneByOne::default());
            }
        }
        Ok(())
    }

    fn read(&mut self, from: usize) {
        let Some(socket) = &mut self.sockets[from] else { return };
        let mut buffer = self.spare.pop().unwrap_or_else(|| vec![0; PIECE]);
        match socket.read(&mut buffer) {
            Ok(len) if len > 0 => match &mut self.held {
                // From a server.
                Some(held) if from % 2 == 1 => {
                    let passed = held[from / 2].take(&buffer[..len]);
                    self.push(from ^ 1, passed);
                }
                _ => {
                    let due = self.now + self.delay;
                    return self.pieces.push_back(Piece { to: from ^ 1, buffer, len, due });
                }
            },
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(_) | Err(_) => self.close(from),
        }
        self.spare.push(buffer);
    }

    fn push(&mut self, to: usize, buffer: Vec<u8>) {
        if !buffer.is_empty() {
            let (len, due) = (buffer.len(), self.now + self.delay);
            self.pieces.push_back(Piece { to, buffer, len, due });
        }
    }

    /// What was held back for what these pieces have brought to servers.
    fn go_on(&mut self, brought: &[usize]) {
        for to in brought {
            let passed = self.held.as_mut().map(|held| held[to / 2].acknowledged());
            self.push(to ^ 1, passed.unwrap_or_default());
        }
    }

    /// How long it is until something is due.
    fn until_next(&self) -> Option<Timespec> {
        let next = self.pieces.front()?.due.saturating_duration_since(Instant::now());
        Some(Timespec { tv_sec: next.as_secs().cast_signed(), tv_nsec: next.subsec_nanos().into() })
    }

    /// Both ends.
    fn close(&mut self, one: usize) {
        self.sockets[one] = None;
        self.sockets[one ^ 1] = None;
    }

    fn send(&mut self, sender: &mut Sender) -> Result<()> {
        let mut failed = Vec::new();
        let due = self.pieces.iter().take_while(|piece| piece.due <= self.now).count();
        let (sockets, pieces) = (&self.sockets, &self.pieces);
        let ready = |at: usize| {
            let piece = &pieces[at];
            sockets[piece.to].as_ref().map(|socket| (socket.as_fd(), &piece.buffer[..piece.len]))
        };
        let alive: Vec<_> = (0..due).filter(|at| ready(*at).is_some()).collect();
        let packet = |at: usize| ready(alive[at]).expect("invariant: only those that are there");
        sender.send_all(alive.len(), packet, |at, sent| {
            let piece = &pieces[alive[at]];
            if !sent.is_ok_and(|len| len == piece.len) {
                failed.push(piece.to);
            }
        })?;
        let to_servers = |piece: &Piece| (piece.to % 2 == 1).then_some(piece.to);
        let brought: Vec<usize> = match self.held {
            Some(_) => self.pieces.iter().take(due).filter_map(to_servers).collect(),
            None => Vec::new(),
        };
        // Buffers of another size are those that were held back.
        let spare = self.pieces.drain(..due).map(|piece| piece.buffer).filter(|buffer| buffer.len() == PIECE);
        self.spare.extend(spare);
        self.go_on(&brought);
        for one in failed {
            self.close(one);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::thread;

    use delphinus_sandbox::PortLease;

    use super::*;

    #[test]
    fn bytes_go_both_ways_and_an_end_is_passed_on() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = PortLease::take().unwrap();
        let listen = SocketAddr::from(([127, 0, 0, 1], port.port()));
        let backend = vec![server.local_addr().unwrap()];
        let args = RelayArgs {
            listen,
            backend,
            delay_us: 20_000,
            one_by_one: false,
            listen_in: None,
            backend_in: None,
        };
        let relaying = thread::spawn(move || relay(&args).unwrap());
        let mut clients: Vec<TcpStream> = Vec::new();
        while clients.len() < 2 {
            assert!(!relaying.is_finished(), "it needs io_uring");
            clients.extend(TcpStream::connect(listen));
        }
        for (number, client) in clients.iter_mut().enumerate() {
            let (mut behind, _) = server.accept().unwrap();
            let mut bytes = [0; 4];
            let sent = Instant::now();
            client.write_all(format!("to {number}").as_bytes()).unwrap();
            behind.read_exact(&mut bytes).unwrap();
            assert!(sent.elapsed() >= Duration::from_millis(20), "{:?}", sent.elapsed());
            assert_eq!(bytes, format!("to {number}").as_bytes());
            behind.write_all(b"back").unwrap();
            client.read_exact(&mut bytes).unwrap();
            assert_eq!(&bytes, b"back");
            drop(behind);
            assert_eq!(client.read(&mut bytes).unwrap(), 0);
        }
    }
}
