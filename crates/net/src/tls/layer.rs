//! Moves records between a socket and rustls, which does no I/O here.

use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use delphinus_memory::Account;
use delphinus_wire::auth::Fingerprint;
use rustls::ProtocolVersion;

use crate::error::NetError;
use crate::outbox;
use crate::socket::{Posted, Socket};

use super::pending::Pending;

/// The TLS state of one connection.
#[derive(Debug)]
pub struct TlsLayer {
    session: rustls::Connection,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    pending: Pending,
    /// Nothing more will be read: the peer has closed, or its records are broken.
    has_ended: bool,
}

/// How much is read from the socket at once: a full record and some.
const CHUNK: usize = 20 * 1024;

/// Posted up to this size, in bytes: with its records' headers it has to fit into the outbox.
const LARGEST_POSTED: usize = outbox::LARGEST / 2;

/// `TLS13_AES_256_GCM_SHA384` is `TLS_AES_256_GCM_SHA384` to OpenSSL, and `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`
/// `ECDHE-RSA-AES128-GCM-SHA256`.
fn openssl_name(name: &str) -> String {
    if let Some(rest) = name.strip_prefix("TLS13_") {
        return format!("TLS_{rest}");
    }
    let name = name.trim_start_matches("TLS_").replace("_WITH_", "_").replace("AES_", "AES");
    name.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305").replace('_', "-")
}

fn broken(error: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("TLS: {error}"))
}

impl TlsLayer {
    pub(super) fn new(session: rustls::Connection) -> Self {
        let pending = Pending::default();
        Self { session, incoming: Vec::new(), outgoing: Vec::new(), pending, has_ended: false }
    }

    /// What waits in it for more takes room of this account: for clients, who may never send more.
    pub(crate) fn limit_to(&mut self, account: &Account) {
        self.pending.limit_to(account);
    }

    pub(crate) fn version(&self) -> Option<&'static str> {
        match self.session.protocol_version()? {
            ProtocolVersion::TLSv1_2 => Some("TLSv1.2"),
            ProtocolVersion::TLSv1_3 => Some("TLSv1.3"),
            _ => None,
        }
    }

    /// What the other side has shown of itself.
    pub(crate) fn peer_certificate(&self) -> Option<Fingerprint> {
        Some(Fingerprint::of(self.session.peer_certificates()?.first()?))
    }

    pub(crate) fn cipher(&self) -> Option<String> {
        let suite = self.session.negotiated_cipher_suite()?.suite();
        Some(openssl_name(suite.as_str()?))
    }

    /// True if there is something to look at before the socket is asked.
    pub(crate) fn has_more(&self) -> bool {
        !self.incoming.is_empty() || self.has_plaintext()
    }

    /// True if there is something to take, or the end. Whole records are always decrypted.
    fn has_plaintext(&self) -> bool {
        self.has_ended || !self.session.wants_read()
    }

    /// True if nothing but records of TLS itself, such as session tickets, has arrived.
    pub(crate) fn is_quiet(&mut self, io: &Socket) -> bool {
        if self.has_ended {
            return false;
        }
        let mut chunk = [0; 1024];
        loop {
            match io.try_read(&mut chunk) {
                Ok(0) => return false,
                Ok(n) => self.incoming.extend_from_slice(&chunk[..n]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return false,
            }
        }
        while !self.incoming.is_empty() {
            let mut rest = self.incoming.as_slice();
            match self.session.read_tls(&mut rest) {
                Ok(0) | Err(_) => return false,
                Ok(n) => drop(self.incoming.drain(..n)),
            }
        }
        self.session
            .process_new_packets()
            .is_ok_and(|state| state.plaintext_bytes_to_read() == 0 && !state.peer_has_closed())
    }

    pub(crate) async fn shake_hands(&mut self, io: &Socket, early: &[u8]) -> Result<(), NetError> {
        self.incoming.extend_from_slice(early);
        while self.session.is_handshaking() {
            if self.session.wants_write() {
                self.flush(io).await?;
                continue;
            }
            let filled = poll_fn(|context| self.poll_fill(io, context)).await;
            filled.map_err(|error| NetError::Tls(error.to_string()))?;
            if self.has_ended {
                return Err(NetError::Closed);
            }
        }
        self.flush(io).await?;
        self.settle();
        Ok(())
    }

    /// Appends decrypted bytes; 0 is the end of the stream.
    pub(crate) async fn read(&mut self, io: &Socket, into: &mut Vec<u8>) -> io::Result<usize> {
        loop {
            if let Some(n) = self.take(into)? {
                return Ok(n);
            }
            poll_fn(|context| self.poll_readable(io, context)).await?;
        }
    }

    /// Waits until there is something to take, or the end. Half a record is neither: who waits for the rest of it waits here, where
    /// limits and others reach it.
    // What TLS itself has to say meanwhile, such as that it agrees on no new keys, leaves with what is written next.
    pub(crate) fn poll_readable(&mut self, io: &Socket, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.has_plaintext() {
            ready!(self.poll_fill(io, context))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Appends what has been decrypted, as far as there is room; 0 is the end of the stream. `None` where that is nothing yet.
    pub(crate) fn take(&mut self, into: &mut Vec<u8>) -> io::Result<Option<usize>> {
        let len = into.len();
        into.resize(into.capacity().max(len + 1024), 0);
        let result = self.session.reader().read(&mut into[len..]);
        let n = *result.as_ref().unwrap_or(&0);
        into.truncate(len + n);
        match result {
            Ok(n) => Ok(Some(n)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(self.has_ended.then_some(0)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Some(0)),
            Err(error) => Err(error),
        }
    }

    /// Feeds rustls with what is there, or with what the socket brings next. An end, or an error, stays.
    fn poll_fill(&mut self, io: &Socket, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.incoming.is_empty() {
            // Who waits holds no buffer.
            ready!(io.poll_readable(context))?;
            self.incoming.reserve(CHUNK);
            let read = io.poll_read(context, &mut self.incoming);
            if self.incoming.is_empty() {
                self.incoming = Vec::new();
            }
            if ready!(read)? == 0 {
                self.has_ended = true;
                return Poll::Ready(Ok(()));
            }
        }
        let fed = self.feed(io);
        self.has_ended |= fed.is_err();
        Poll::Ready(fed)
    }

    /// Feeds rustls with what is there.
    fn feed(&mut self, io: &Socket) -> io::Result<()> {
        let mut rest = self.incoming.as_slice();
        let n = self.session.read_tls(&mut rest)?;
        self.has_ended |= n == 0;
        self.pending.add(&self.incoming[..n])?;
        self.incoming.drain(..n);
        if self.incoming.is_empty() {
            // An idle session holds no buffer.
            self.incoming = Vec::new();
        }
        if let Err(error) = self.session.process_new_packets() {
            self.say_why(io);
            return Err(broken(error));
        }
        if !self.session.is_handshaking() && !self.session.wants_read() {
            self.settle();
        }
        Ok(())
    }

    /// Sends the alert that says what is wrong, if there is room for it: whether it arrives does not matter any more.
    fn say_why(&mut self, io: &Socket) {
        outbox::flush();
        if io.posted() != Posted::Nothing || !self.outgoing.is_empty() {
            return;
        }
        while self.session.wants_write() && self.session.write_tls(&mut self.outgoing).is_ok() {}
        let _ = io.send_now(&self.outgoing);
        self.outgoing.clear();
    }

    /// What was whole has been looked at.
    fn settle(&mut self) {
        if self.pending.settle() {
            // Its buffer becomes small again when it is about to be filled.
            let _ = self.session.read_tls(&mut NothingYet);
        }
    }

    async fn flush(&mut self, io: &Socket) -> io::Result<()> {
        while self.session.wants_write() {
            self.session.write_tls(&mut self.outgoing)?;
        }
        io.write_all(&self.outgoing).await?;
        self.outgoing.clear();
        if self.outgoing.capacity() > 4 * CHUNK {
            self.outgoing = Vec::new();
        }
        Ok(())
    }

    pub(crate) async fn write_all(&mut self, io: &Socket, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let n = self.session.writer().write(bytes)?;
            bytes = &bytes[n..];
            self.flush(io).await?;
        }
        Ok(())
    }

    /// Posts `bytes` encrypted; false if they have to be written.
    pub(crate) fn post(&mut self, io: &Rc<Socket>, bytes: &[u8]) -> bool {
        // What is encrypted has to be sent, and in its order: whether that will do is asked first.
        if bytes.len() > LARGEST_POSTED || !self.outgoing.is_empty() || !outbox::takes(io) {
            return false;
        }
        let is_taken = self.session.writer().write(bytes).is_ok_and(|n| n == bytes.len());
        while is_taken && self.session.wants_write() {
            if self.session.write_tls(&mut self.outgoing).is_err() {
                break;
            }
        }
        if !is_taken || !outbox::post(io, &self.outgoing) {
            // Cannot happen, for it was asked before; but then a record is lost, and no other may follow.
            io.cut();
        }
        self.outgoing.clear();
        true
    }

    pub(crate) async fn close(&mut self, io: &Socket) {
        self.session.send_close_notify();
        let _ = self.flush(io).await;
    }
}

/// Nothing comes, and it is not the end.
struct NothingYet;

impl Read for NothingYet {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::net::UnixStream;

    use super::*;
    use crate::rt;
    use crate::tls::{ClientTls, ServerTls, Verify};

    /// Both ends of a new connection, which have shaken hands.
    async fn pair() -> [(TlsLayer, Socket); 2] {
        let (near, far) = UnixStream::pair().unwrap();
        let (near, far) = (Socket::unix(near), Socket::unix(far));
        let (cert, key) = ServerTls::self_signed().unwrap();
        let mut server = ServerTls::from_pem(cert.as_bytes(), key.as_bytes(), None).unwrap().layer().unwrap();
        let mut client = ClientTls::new(&Verify::Nothing, None).unwrap().layer("localhost").unwrap();
        let (one, two) = tokio::join!(client.shake_hands(&near, b""), server.shake_hands(&far, b""));
        one.and(two).unwrap();
        [(client, near), (server, far)]
    }

    /// Whoever waits for the rest of a record waits where limits and KILL reach it, and not in the read.
    #[test]
    fn half_a_record_is_nothing_to_read_yet() {
        let test = async {
            let [(mut client, near), (mut server, far)] = pair().await;
            client.session.writer().write_all(b"command").unwrap();
            let mut record = Vec::new();
            client.session.write_tls(&mut record).unwrap();
            let (half, rest) = record.split_at(record.len() / 2);
            near.write_all(half).await.unwrap();
            let readable = poll_fn(|context| server.poll_readable(&far, context));
            assert!(rt::timeout(Duration::from_millis(50), readable).await.is_none());
            assert_eq!((server.take(&mut Vec::new()).unwrap(), server.incoming.capacity()), (None, 0));
            near.write_all(rest).await.unwrap();
            poll_fn(|context| server.poll_readable(&far, context)).await.unwrap();
            let mut got = Vec::new();
            assert_eq!(server.take(&mut got).unwrap(), Some(7));
            assert_eq!(got, b"command");
        };
        rt::block_on(test).unwrap();
    }

    #[test]
    fn behind_a_broken_record_is_the_end() {
        let test = async {
            let [(_client, near), (mut server, far)] = pair().await;
            near.write_all(&[23, 3, 3, 0, 5, 1, 2, 3, 4, 5]).await.unwrap();
            poll_fn(|context| server.poll_readable(&far, context)).await.unwrap_err();
            poll_fn(|context| server.poll_readable(&far, context)).await.unwrap();
            assert_eq!(server.read(&far, &mut Vec::new()).await.unwrap(), 0);
        };
        rt::block_on(test).unwrap();
    }

    #[test]
    fn ciphers_have_the_names_that_servers_give_them() {
        for (name, wanted) in [
            ("TLS13_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384"),
            ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
            ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ] {
            assert_eq!(openssl_name(name), wanted);
        }
    }
}
