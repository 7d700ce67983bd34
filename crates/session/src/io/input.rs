//! Reading a client's next command. Short ones are read whole; of longer ones the first part is kept to be
//! looked at, and the rest streams through when the command is forwarded.

use std::io;
use std::time::Duration;

use delphinus_clients::Activity;
use delphinus_net::rt::{self, Either};
use delphinus_net::{Buffer, NetError};
use delphinus_telemetry::Wait;
use delphinus_wire::{Frame, HEADER_LEN, MAX_PAYLOAD, header, parse_header};

use super::Client;
use crate::spent::Timed;

/// Bytes of a buffer: most commands and results fit.
pub(crate) const BUFFER_SIZE: usize = 16 * 1024;

/// Commands up to this size are held whole, in bytes; of longer ones this much is classified.
pub(crate) const HELD: usize = 256 * 1024;

/// So much may wait for the rest of its command in a buffer of its own, in bytes; it is copied for that.
const SMALL: usize = 4 * 1024;

/// So much of a command tells what it is, and of which statement, in bytes.
const BEGINNING: usize = 10;

/// A command at the front of the session's buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input {
    /// Its first frame, as the client has sent it if there is a shift.
    pub frame: Frame,
    /// Bytes of it in the buffer, header included.
    pub held: usize,
    /// Bytes that were put into its first frame, which is full with them: each frame behind it now begins so many bytes earlier.
    pub shift: usize,
}

impl Input {
    /// True if all of it is in the buffer.
    #[inline]
    pub(crate) fn is_whole(self) -> bool {
        self.held == HEADER_LEN + self.frame.len && !self.frame.is_continued()
    }

    /// Bytes of the first frame that are still to come.
    pub(crate) fn missing(self) -> usize {
        HEADER_LEN + self.frame.len - self.held
    }
}

/// A frame as it is sent with `shift` more bytes, which came out of the one before or were put into it; and how many bytes then need a
/// frame of their own behind it, if it is the client's last one. All others stay full.
pub(super) fn shifted(frame: Frame, shift: usize) -> (Frame, Option<usize>) {
    if shift == 0 || frame.is_continued() {
        return (frame, None);
    }
    let len = frame.len + shift;
    (Frame { len: len.min(MAX_PAYLOAD), ..frame }, len.checked_sub(MAX_PAYLOAD))
}

/// What happened while waiting for a command.
#[derive(Debug)]
pub(crate) enum Waited {
    /// A command is there.
    Command(Input),
    /// Part of one is there, and no memory for the rest.
    Crowded(Input),
    /// Somebody wants something of the session.
    Disturbed,
    /// The client has gone.
    Gone,
    /// The client has sent nothing for the `wait_timeout` that it has set.
    Expired,
}

/// Who woke an idle session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Woken {
    ByClient,
    Disturbed,
}

impl Client {
    /// Waits for the next command; an idle session holds no buffer.
    #[inline]
    pub(crate) async fn next_command(
        &mut self,
        activity: &Activity,
        idle_limit_s: u32,
    ) -> Result<Waited, NetError> {
        while self.buffer.is_empty() {
            let woken = match idle_limit_s {
                0 => self.wait_for_client(activity).await?,
                // Boxed, so that an idle session without a limit of its own does not carry the timer's room.
                limit_s => {
                    let limit = Duration::from_secs(limit_s.into());
                    match Box::pin(rt::timeout(limit, self.wait_for_client(activity))).await {
                        Some(woken) => woken?,
                        None => return Ok(Waited::Expired),
                    }
                }
            };
            if woken == Woken::Disturbed {
                return Ok(Waited::Disturbed);
            }
            if self.buffer.capacity() == 0 {
                self.buffer = self.equipment.buffers.take();
            }
            let Some(result) = self.stream.read_at_once(&mut self.buffer) else {
                // Nothing has come after all.
                self.give_buffer_back();
                continue;
            };
            if self.count_read(result)? == 0 {
                return Ok(Waited::Gone);
            }
        }
        loop {
            if let Some(frame) = parse_header(self.buffer.data()) {
                let total = HEADER_LEN + frame.len;
                let held = total.min(HELD);
                let len = self.buffer.len();
                // A spare buffer may be larger than it has to be. Without its beginning nobody knows whether it has an answer.
                if held > BUFFER_SIZE && len >= HEADER_LEN + BEGINNING && !self.has_room() {
                    return Ok(Waited::Crowded(Input { frame, held: held.min(len), shift: 0 }));
                }
                if len >= held {
                    return Ok(Waited::Command(Input { frame, held, shift: 0 }));
                }
            }
            self.read_in_time().await?;
        }
    }

    #[inline]
    async fn wait_for_client(&mut self, activity: &Activity) -> Result<Woken, NetError> {
        debug_assert!(self.buffer.capacity() == 0, "an idle session holds a buffer");
        match rt::either(self.stream.readable(), activity.disturbed()).await {
            Either::First(ready) => Ok(ready.map(|()| Woken::ByClient)?),
            Either::Second(()) => Ok(Woken::Disturbed),
        }
    }

    /// Reads more of a command that has begun.
    pub(crate) async fn read_in_time(&mut self) -> Result<usize, NetError> {
        let (seconds, spent) = (self.equipment.net_timeout_s, self.spent.clone());
        // Boxed, as writes are below: few commands come in pieces, and every session would carry the room.
        let read = Box::pin(async {
            let _waiting = spent.waits().begin(Wait::Receive, rt::now());
            rt::timeout(Duration::from_secs(seconds), self.read_rest()).await
        })
        .await;
        match read.ok_or(NetError::TimedOut(seconds * 1000))?? {
            0 => Err(NetError::Closed),
            n => Ok(n),
        }
    }

    /// The same, however long that takes. Who waits holds what has come, and not the room for the rest: that may never come.
    async fn read_rest(&mut self) -> Result<usize, NetError> {
        if let Some(result) = self.stream.read_at_once(&mut self.buffer) {
            return self.count_read(result);
        }
        let size = self.buffer.capacity();
        if self.buffer.len() <= SMALL && size > SMALL {
            let held = self.buffer.take_exactly();
            self.equipment.buffers.give(std::mem::replace(&mut self.buffer, held));
            self.stream.readable().await?;
            let mut buffer = self.equipment.buffers.take();
            buffer.extend(self.buffer.data());
            buffer.reserve(size - buffer.len());
            self.buffer = buffer;
        }
        self.read_some().await
    }

    /// True if the buffer may be as large as it is: what a command makes it grow beyond the ordinary size has a permit, until
    /// the command has ended.
    #[inline]
    fn has_room(&mut self) -> bool {
        let size = self.buffer.capacity();
        size <= BUFFER_SIZE || self.room.grow_to(size)
    }

    /// Gives back what was taken for more than the buffer, which has something in it if the client has sent more commands.
    fn keep_room(&mut self) {
        let size = self.buffer.capacity();
        self.room.shrink_to(if size > BUFFER_SIZE { size } else { 0 });
    }

    async fn read_some(&mut self) -> Result<usize, NetError> {
        let buffer = std::mem::take(&mut self.buffer);
        let (result, buffer) = self.stream.read(buffer).await;
        self.buffer = buffer;
        self.count_read(result)
    }

    #[inline]
    fn count_read(&mut self, result: io::Result<usize>) -> Result<usize, NetError> {
        let n = result?;
        self.received += n as u64;
        self.equipment.counters.client_bytes_in.add(n as u64);
        Ok(n)
    }

    /// Gives the buffer back, unless the client has sent more already.
    #[inline]
    pub(crate) fn give_buffer_back(&mut self) {
        if self.buffer.is_empty() {
            self.equipment.buffers.give(std::mem::take(&mut self.buffer));
        }
        if self.room.bytes() > 0 {
            self.keep_room();
        }
    }

    /// The next frame of a command into whose first frame `shift` bytes were put: as many of the frame before are at the
    /// front of the buffer, and now get into this one. Its header is put before them. The rest is as of [`shifted`].
    pub(super) async fn next_frame(&mut self, shift: usize) -> Result<(Frame, Option<usize>), NetError> {
        while self.buffer.len() < shift + HEADER_LEN {
            self.read_in_time().await?;
        }
        let bytes = self.buffer.data_mut();
        let malformed = delphinus_wire::Malformed("a frame without a header");
        let (frame, over) = shifted(parse_header(&bytes[shift..]).ok_or(malformed)?, shift);
        if shift > 0 {
            bytes.copy_within(..shift, HEADER_LEN);
            bytes[..HEADER_LEN].copy_from_slice(&header(frame.len, frame.seq));
        }
        Ok((frame, over))
    }

    /// Drops a command that is whole.
    #[inline]
    pub(crate) fn drop_command(&mut self, input: Input) {
        debug_assert!(input.is_whole());
        self.kept = 0;
        self.buffer.consume(input.held);
    }

    /// Passes over a command that is not forwarded, all of its frames.
    pub(crate) async fn skip(&mut self, input: Input) -> Result<(), NetError> {
        // It may have been sent, and kept to be sent again: what is behind it in the buffer is the next command.
        self.kept = 0;
        self.buffer.consume(input.held);
        let (mut missing, mut continued) = (input.missing(), input.frame.is_continued());
        loop {
            while missing > 0 {
                let n = missing.min(self.buffer.len());
                self.buffer.consume(n);
                missing -= n;
                if missing > 0 {
                    self.read_in_time().await?;
                }
            }
            if !continued {
                return Ok(());
            }
            let frame = loop {
                match parse_header(self.buffer.data()) {
                    Some(frame) => break frame,
                    None => self.read_in_time().await?,
                };
            };
            continued = frame.is_continued();
            missing = HEADER_LEN + frame.len;
            // The answer counts on from the last frame.
            self.error_seq = Some(frame.seq.wrapping_add(1));
        }
    }

    /// Writes to the client, which may be slow but not for ever.
    #[inline]
    pub(crate) async fn write(&mut self, buffer: Buffer, n: usize) -> Result<Buffer, NetError> {
        self.count_sent(n);
        if self.stream.post(&buffer.data()[..n]) {
            return Ok(buffer);
        }
        Box::pin(self.write_long(buffer, n)).await
    }

    async fn write_long(&mut self, buffer: Buffer, n: usize) -> Result<Buffer, NetError> {
        let _timed = Timed::by(Wait::Send, &self.spent);
        let seconds = self.equipment.net_timeout_s;
        let write = rt::timeout(Duration::from_secs(seconds), self.stream.write(buffer, 0..n));
        let (result, buffer) = write.await.ok_or(NetError::TimedOut(seconds * 1000))?;
        result?;
        Ok(buffer)
    }

    /// Writes packets that the proxy made.
    pub(crate) async fn write_bytes(&mut self, bytes: &[u8]) -> Result<(), NetError> {
        self.count_sent(bytes.len());
        let seconds = self.equipment.net_timeout_s;
        let write = Box::pin(async {
            let _waiting = self.spent.waits().begin(Wait::Send, rt::now());
            rt::timeout(Duration::from_secs(seconds), self.stream.write_bytes(bytes)).await
        });
        write.await.ok_or(NetError::TimedOut(seconds * 1000))??;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_into_the_last_frame_gets_one_of_its_own() {
        let frame = |len| Frame { len, seq: 3 };
        for (len, shift, sent, over) in [
            (MAX_PAYLOAD - 2, 0, MAX_PAYLOAD - 2, None),
            (MAX_PAYLOAD - 3, 2, MAX_PAYLOAD - 1, None),
            (MAX_PAYLOAD - 2, 2, MAX_PAYLOAD, Some(0)),
            (MAX_PAYLOAD - 1, 2, MAX_PAYLOAD, Some(1)),
            (MAX_PAYLOAD, 2, MAX_PAYLOAD, None),
            (0, 2, 2, None),
        ] {
            assert_eq!(shifted(frame(len), shift), (frame(sent), over), "{len} and {shift}");
        }
    }
}
