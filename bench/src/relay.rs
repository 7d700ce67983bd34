//! The least that a proxy costs: it reads bytes on one connection and writes them on another, and looks at none. One thread waits
//! for all connections, and sends what they bring by one system call, as Delphinus does.
//!
//! It is measured beside the proxies, and is none: it knows no end of a server, no user, and no statement. What does not fit
//! into a socket's buffer at once closes the connection, which fails the load; so it is for small answers only.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use anyhow::{Context, Result};
use clap::Args;
use delphinus_kernel::{Sender, give_way};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

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
}

/// Relays until it is killed.
pub fn relay(args: &RelayArgs) -> Result<()> {
    // Without it, it costs a little more.
    let _ = give_way();
    let listener =
        TcpListener::bind(args.listen).with_context(|| format!("cannot listen on {}", args.listen))?;
    listener.set_nonblocking(true)?;
    let mut relay = Relay {
        epoll: epoll::create(CreateFlags::CLOEXEC)?,
        listener,
        backends: args.backend.clone(),
        sockets: Vec::new(),
        buffers: vec![vec![0; PIECE]; TURN],
        pieces: Vec::with_capacity(TURN),
    };
    relay.watch(relay.listener.as_fd(), LISTENER)?;
    let mut sender = Sender::new().context("io_uring")?;
    let mut events = Vec::with_capacity(TURN);
    loop {
        events.clear();
        match epoll::wait(&relay.epoll, spare_capacity(&mut events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("epoll"),
        }
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
    buffers: Vec<Vec<u8>>,
    /// What was read in this turn.
    pieces: Vec<Piece>,
}

/// The first bytes of the buffer of the same place.
struct Piece {
    to: usize,
    len: usize,
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
        }
        Ok(())
    }

    fn read(&mut self, from: usize) {
        let Some(socket) = &mut self.sockets[from] else { return };
        match socket.read(&mut self.buffers[self.pieces.len()]) {
            Ok(len) if len > 0 => self.pieces.push(Piece { to: from ^ 1, len }),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(_) | Err(_) => self.close(from),
        }
    }

    /// Both ends.
    fn close(&mut self, one: usize) {
        self.sockets[one] = None;
        self.sockets[one ^ 1] = None;
    }

    fn send(&mut self, sender: &mut Sender) -> Result<()> {
        let mut failed = Vec::new();
        let (sockets, buffers, pieces) = (&self.sockets, &self.buffers, &self.pieces);
        let ready = |at: usize| {
            sockets[pieces[at].to].as_ref().map(|socket| (socket.as_fd(), &buffers[at][..pieces[at].len]))
        };
        let alive: Vec<_> = (0..pieces.len()).filter(|at| ready(*at).is_some()).collect();
        let packet = |at: usize| ready(alive[at]).expect("invariant: only those that are there");
        sender.send_all(alive.len(), packet, |at, sent| {
            let piece = &pieces[alive[at]];
            if !sent.is_ok_and(|len| len == piece.len) {
                failed.push(piece.to);
            }
        })?;
        for one in failed {
            self.close(one);
        }
        self.pieces.clear();
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
        let args = RelayArgs { listen, backend: vec![server.local_addr().unwrap()] };
        let relaying = thread::spawn(move || relay(&args).unwrap());
        let mut clients: Vec<TcpStream> = Vec::new();
        while clients.len() < 2 {
            assert!(!relaying.is_finished(), "it needs io_uring");
            clients.extend(TcpStream::connect(listen));
        }
        for (number, client) in clients.iter_mut().enumerate() {
            let (mut behind, _) = server.accept().unwrap();
            let mut bytes = [0; 4];
            client.write_all(format!("to {number}").as_bytes()).unwrap();
            behind.read_exact(&mut bytes).unwrap();
            assert_eq!(bytes, format!("to {number}").as_bytes());
            behind.write_all(b"back").unwrap();
            client.read_exact(&mut bytes).unwrap();
            assert_eq!(&bytes, b"back");
            drop(behind);
            assert_eq!(client.read(&mut bytes).unwrap(), 0);
        }
    }
}
