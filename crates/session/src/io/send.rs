//! Sends a client's command to a backend, and the file that one may ask for: a short command at once, a long one as it comes.

use std::pin::pin;
use std::time::Duration;

use delphinus_net::rt;
use delphinus_net::{Buffer, NetError};
use delphinus_pool::{Checkout, Doing};
use delphinus_wire::response::ErrPacket;
use delphinus_wire::{HEADER_LEN, error_code, header, parse_header};

use super::beside::{Beside, Break, while_wanted};
use super::broken::Cut;
use super::input::shifted;
use super::passage::LARGE_READ;
use super::{Client, Input};
use crate::client_error::{ClientError, ProxyError};

/// How long a server has to say why it has closed a connection.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Why a server takes no more of a command: the error that it has sent before it closed the connection.
async fn last_words(checkout: &mut Checkout) -> Option<ErrPacket> {
    let mut bytes = Buffer::with_capacity(1024);
    let stream = &mut checkout.connection().stream;
    loop {
        if let Some(frame) = parse_header(bytes.data()) {
            let end = HEADER_LEN + frame.len;
            if let Some(packet) = bytes.data().get(HEADER_LEN..end) {
                return ErrPacket::parse(packet).ok();
            }
            if bytes.spare() == 0 {
                return None;
            }
        }
        let (result, buffer) = rt::timeout(LAST_WORDS, stream.read(bytes)).await?;
        bytes = buffer;
        if result.ok()? == 0 {
            return None;
        }
    }
}

/// Why no more of a command is sent. The rest is read all the same: no client looks for an answer before it has sent all of it.
struct Stopped {
    /// What the client is told; `None` if the server has said nothing.
    refusal: Option<ErrPacket>,
    error: NetError,
}

impl Stopped {
    /// Asks the server why, unless it is the client that has gone.
    async fn by(broken: Break, checkout: &mut Checkout) -> Result<Box<Self>, Cut> {
        match broken {
            Break::Client(error) => Err(Cut::Client(error)),
            Break::Backend(error) => Ok(Box::new(Self { refusal: last_words(checkout).await, error })),
        }
    }

    /// The command is larger than the proxy takes.
    fn too_large(total: u64) -> Self {
        let refusal = Some(ClientError::from(&ProxyError::PacketTooLarge).into_packet());
        Self { refusal, error: NetError::TooLarge(usize::try_from(total).unwrap_or(usize::MAX)) }
    }
}

impl Client {
    /// Posts a command that is whole and short, as most are; false if it has to be sent.
    #[inline]
    pub(crate) fn post(&mut self, checkout: &mut Checkout, input: Input) -> bool {
        let stream = &mut checkout.connection().stream;
        let is_posted = input.is_whole() && stream.post(&self.buffer.data()[..input.held]);
        if is_posted {
            self.equipment.counters.backend_bytes_out.add(input.held as u64);
            self.kept = input.held;
        }
        is_posted
    }

    /// Sends a command. A whole one stays in the buffer, to be sent again should the connection break.
    pub(crate) async fn send(
        &mut self,
        checkout: &mut Checkout,
        input: Input,
        beside: &mut impl Beside,
    ) -> Result<(), Cut> {
        checkout.note(Doing::Sending);
        let mut stopped = match self.send_held(checkout, input.held, self.patience(), beside).await {
            Ok(()) => None,
            Err(broken) => Some(Box::pin(Stopped::by(broken, checkout)).await?),
        };
        if input.is_whole() {
            return match stopped {
                None => {
                    checkout.note(Doing::Nothing);
                    self.kept = input.held;
                    Ok(())
                }
                Some(stopped) => Err(match stopped.refusal {
                    Some(refusal) if refusal.code == error_code::ER_NET_PACKET_TOO_LARGE => {
                        Box::pin(self.tell_refusal(&refusal)).await
                    }
                    _ => Cut::before_response(stopped.error, true),
                }),
            };
        }
        self.buffer.consume(input.held);
        let (mut frame, mut over) = shifted(input.frame, input.shift);
        let mut missing = HEADER_LEN + frame.len - input.held;
        let mut total = input.frame.len as u64;
        loop {
            // Boxed: no short command comes here, and its room would be every idle session's.
            Box::pin(self.send_coming(checkout, missing, &mut stopped, beside)).await?;
            if let Some(len) = over {
                // The client has not sent this frame, and counts its own only.
                let made = header(len, frame.seq.wrapping_add(1));
                Box::pin(self.send_made(checkout, &made, &mut stopped, beside)).await?;
                Box::pin(self.send_coming(checkout, len, &mut stopped, beside)).await?;
            }
            self.error_seq = Some(frame.seq.wrapping_add(1));
            if over.is_some() || !frame.is_continued() {
                let Some(stopped) = stopped else {
                    checkout.note(Doing::Nothing);
                    self.renumbering = over.map(|_| Box::default());
                    return Ok(());
                };
                return Err(match *stopped {
                    Stopped { refusal: Some(refusal), .. } => Box::pin(self.tell_refusal(&refusal)).await,
                    Stopped { refusal: None, error } => {
                        Cut::Backend { error, is_repeatable: false, is_in_step: true }
                    }
                });
            }
            (frame, over) = self.next_frame(input.shift).await.map_err(Cut::Client)?;
            missing = HEADER_LEN + frame.len;
            total += (frame.len + over.unwrap_or(0)) as u64;
            // What was put into it is not its client's.
            if stopped.is_none() && total > self.equipment.max_command.get() + input.shift as u64 {
                stopped = Some(Box::new(Stopped::too_large(total)));
            }
        }
    }

    /// Sends the next bytes of a command as they come.
    async fn send_coming(
        &mut self,
        checkout: &mut Checkout,
        mut missing: usize,
        stopped: &mut Option<Box<Stopped>>,
        beside: &mut impl Beside,
    ) -> Result<(), Cut> {
        while missing > 0 {
            if self.buffer.is_empty() {
                self.reserve_for_stream();
                self.read_in_time().await.map_err(Cut::Client)?;
            }
            let n = missing.min(self.buffer.len());
            if stopped.is_none()
                && let Err(broken) = self.send_held(checkout, n, self.patience(), beside).await
            {
                *stopped = Some(Box::pin(Stopped::by(broken, checkout)).await?);
            }
            self.buffer.consume(n);
            missing -= n;
        }
        Ok(())
    }

    /// Sends bytes of the proxy's own in the middle of a command.
    async fn send_made(
        &mut self,
        checkout: &mut Checkout,
        bytes: &[u8],
        stopped: &mut Option<Box<Stopped>>,
        beside: &mut impl Beside,
    ) -> Result<(), Cut> {
        if stopped.is_some() {
            return Ok(());
        }
        self.equipment.counters.backend_bytes_out.add(bytes.len() as u64);
        if let Err(broken) = self.write_attended(checkout, bytes, self.patience(), beside).await {
            *stopped = Some(Box::pin(Stopped::by(broken, checkout)).await?);
        }
        Ok(())
    }

    /// Tells the client why its command is not read to its end, and ends the session as servers do. The number of the packet is the one that the client expects behind all of its own.
    pub(super) async fn tell_refusal(&mut self, refusal: &ErrPacket) -> Cut {
        let mut out = Vec::new();
        let error = ClientError::new(refusal.code, refusal.state, refusal.text());
        error.put(&mut out, self.error_seq.unwrap_or(1), self.capabilities);
        let told = self.write_bytes(&out).await;
        Cut::Client(told.err().unwrap_or(NetError::Closed))
    }

    /// Makes room for large reads, if there is any to be had.
    fn reserve_for_stream(&mut self) {
        let before = self.before_file.as_ref().map_or(0, |before| before.capacity());
        if self.room.grow_to(before + LARGE_READ / 2) {
            self.buffer.reserve(LARGE_READ / 2);
        }
    }

    /// How long a server may take for the next bytes of a command.
    fn patience(&self) -> Duration {
        Duration::from_secs(self.equipment.net_timeout_s)
    }

    #[inline]
    async fn send_held(
        &mut self,
        checkout: &mut Checkout,
        n: usize,
        limit: Duration,
        beside: &mut impl Beside,
    ) -> Result<(), Break> {
        self.equipment.counters.backend_bytes_out.add(n as u64);
        let stream = &mut checkout.connection().stream;
        if stream.post(&self.buffer.data()[..n]) {
            return Ok(());
        }
        // Boxed: it is too large to be posted.
        Box::pin(self.write_attended(checkout, &self.buffer.data()[..n], limit, beside)).await
    }

    /// Writes to a server that may have stopped reading, as long as anybody wants it to have the bytes, and not for longer than `limit`,
    /// which is looked at once a second. A connection that is left in the middle of it is closed by whoever drops it.
    // By `write_bytes`, which leaves the buffer here: what is behind these bytes in it has to stay, whatever becomes of them.
    async fn write_attended(
        &self,
        checkout: &mut Checkout,
        bytes: &[u8],
        limit: Duration,
        beside: &mut impl Beside,
    ) -> Result<(), Break> {
        let (backend, began) = (checkout.backend(), rt::now());
        let activity = beside.activity().clone();
        let disturbed = || {
            beside.disturbed(self, None, backend)?;
            if began.elapsed() < limit {
                return Ok(());
            }
            Err(NetError::TimedOut(limit.as_millis() as u64).into())
        };
        let write = pin!(checkout.connection().stream.write_bytes(bytes));
        Ok(while_wanted(write, &activity, disturbed).await??)
    }

    /// Relays a file from the client to the backend: packets up to an empty one, whose sequence id is the answer.
    pub(super) async fn relay_file(
        &mut self,
        checkout: &mut Checkout,
        beside: &mut impl Beside,
    ) -> Result<u8, Break> {
        // The command that asked for it has been sent; what follows is the file. Its text is still learnt from.
        let kept = std::mem::take(&mut self.kept);
        if kept > 0 {
            // The buffer keeps it, and the room that it has; the file gets another one.
            let mut before = std::mem::replace(&mut self.buffer, self.equipment.buffers.take());
            self.buffer.extend(&before.data()[kept..]);
            before.truncate(kept);
            self.before_file = Some(Box::new(before));
        }
        checkout.note(Doing::Sending);
        loop {
            let frame = loop {
                if let Some(frame) = parse_header(self.buffer.data()) {
                    break frame;
                }
                self.reserve_for_stream();
                self.read_in_time().await.map_err(Break::Client)?;
            };
            let mut missing = HEADER_LEN + frame.len;
            while missing > 0 {
                if self.buffer.is_empty() {
                    self.read_in_time().await.map_err(Break::Client)?;
                }
                let n = missing.min(self.buffer.len());
                // For ever, as the answer: the server reads while it writes rows, which may wait for locks.
                self.send_held(checkout, n, Duration::MAX, beside).await?;
                self.buffer.consume(n);
                missing -= n;
            }
            if frame.len == 0 {
                checkout.note(Doing::Running);
                return Ok(frame.seq);
            }
        }
    }
}
