//! One connection's stream: read, taken in, committed, acknowledged, until something ends it.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use delphinus_memory::{Account, Owner};
use delphinus_net::rt::{self, Either};
use delphinus_net::{Buffer, NetError};
use delphinus_wire::binlog::dump::put_ack;
use delphinus_wire::put_packet;

use crate::fence::Fence;
use crate::intake::{Ack, Disk, IntakeError, Packets, Writer};
use crate::source::{Connection, SourceError};
use crate::status::Status;

/// So much is read at a time, and gathered before it is committed although more has arrived.
const BATCH: usize = 1 << 20;
/// The size of the buffer.
const BUFFER: usize = BATCH + (64 << 10);
/// How long bytes that the socket has and TLS does not give are waited for.
const MOMENT: Duration = Duration::from_millis(2);

/// What a stream goes with.
pub(crate) struct Stream<'a, D> {
    pub(crate) connection: Connection,
    pub(crate) writer: &'a mut Writer<D>,
    pub(crate) status: &'a Status,
    pub(crate) fence: &'a Fence,
    /// In which it began.
    pub(crate) epoch: u64,
    /// A source that says nothing for so long is gone.
    pub(crate) patience: Duration,
    pub(crate) memory: &'a Account,
}

impl<D: Disk> Stream<'_, D> {
    /// Runs until the stream ends, which is always an error.
    pub(crate) async fn run(mut self) -> SourceError {
        let has_marks = self.status.semi_sync.load(Relaxed);
        let mut packets = if has_marks { Packets::default() } else { Packets::bare() };
        let early = std::mem::take(&mut self.connection.buffer);
        let _room = self.memory.reserve(Owner::Relay, BUFFER);
        self.connection.buffer = Buffer::with_capacity(BUFFER);
        self.connection.buffer.extend(early.data());
        loop {
            if let Err(error) = self.batch(&mut packets).await {
                return error;
            }
        }
    }

    /// Waits for bytes, takes in all that have come, and makes them durable.
    async fn batch(&mut self, packets: &mut Packets) -> Result<(), SourceError> {
        if self.take_in(packets)? == 0 {
            self.read().await?;
        }
        let began = Instant::now();
        let mut gathered = 0;
        loop {
            gathered += self.take_in(packets)?;
            // A large group is committed on the way.
            self.acknowledge(began).await?;
            if gathered >= BATCH || !self.read_more().await? {
                break;
            }
        }
        if self.writer.has_whole() {
            let written = Instant::now();
            self.writer.commit()?;
            self.status.commits.fetch_add(1, Relaxed);
            self.status.sync_times.add(written.elapsed());
            self.acknowledge(began).await?;
            self.status.see(self.writer.newest());
        }
        Ok(())
    }

    /// Takes in what is in the buffer; gives the number of bytes used.
    fn take_in(&mut self, packets: &mut Packets) -> Result<usize, IntakeError> {
        let mut total = 0;
        loop {
            packets.expect(self.writer.at());
            let next = packets.next(self.connection.buffer.data());
            let (used, piece) = next.map_err(|error| self.writer.read_error(error))?;
            if let Some(piece) = piece {
                self.writer.take(piece)?;
            }
            self.connection.buffer.consume(used);
            total += used;
            if used == 0 {
                return Ok(total);
            }
        }
    }

    async fn read(&mut self) -> Result<(), SourceError> {
        let mut buffer = std::mem::take(&mut self.connection.buffer);
        buffer.reserve(BATCH / 4);
        let reading = self.connection.stream.read(buffer);
        let silent = || SourceError::Silent(self.patience.as_millis() as u64);
        let (result, buffer) = rt::timeout(self.patience, reading).await.ok_or_else(silent)?;
        self.connection.buffer = buffer;
        self.heard(result)
    }

    fn heard(&self, result: std::io::Result<usize>) -> Result<(), SourceError> {
        match result.map_err(NetError::from)? {
            0 => Err(NetError::Closed.into()),
            n => {
                self.status.hear(n);
                Ok(())
            }
        }
    }

    /// Reads what has arrived by now; false if that is nothing.
    async fn read_more(&mut self) -> Result<bool, SourceError> {
        let Connection { stream, buffer, .. } = &mut self.connection;
        buffer.reserve(BATCH / 4);
        if !stream.is_tls() && !stream.is_compressed() {
            // An end, or an error, is seen by the next read: what is whole is committed first.
            return match stream.read_at_once(buffer) {
                Some(Ok(n)) if n > 0 => self.heard(Ok(n)).map(|()| true),
                _ => Ok(false),
            };
        }
        if !stream.has_arrived() {
            return Ok(false);
        }
        // Into a buffer of its own: it is lost where nothing comes, and what was read before must not be.
        let reading = stream.read(Buffer::with_capacity(64 << 10));
        match rt::either(reading, rt::sleep(MOMENT)).await {
            Either::First((Ok(n), more)) if n > 0 => {
                buffer.extend(more.data());
                self.heard(Ok(n)).map(|()| true)
            }
            _ => Ok(false),
        }
    }

    /// Sends the acknowledgement that is due, if this source may still have one.
    async fn acknowledge(&mut self, began: Instant) -> Result<(), SourceError> {
        let Some(Ack { file, position }) = self.writer.take_due() else { return Ok(()) };
        let mut payload = Vec::with_capacity(64);
        put_ack(&mut payload, file.name.as_bytes(), position);
        let mut packet = Vec::with_capacity(payload.len() + 4);
        put_packet(&mut packet, 0, &payload);
        if !self.fence.is_open(self.epoch) {
            return Err(SourceError::Stop("the source was cut off".to_owned()));
        }
        // One that takes no acknowledgements is as good as gone.
        let late = || NetError::TimedOut(self.patience.as_millis() as u64);
        let writing = self.connection.stream.write_bytes(&packet);
        rt::timeout(self.patience, writing).await.ok_or_else(late)?.map_err(NetError::from)?;
        self.status.acks.fetch_add(1, Relaxed);
        self.status.ack_times.add(began.elapsed());
        Ok(())
    }
}
