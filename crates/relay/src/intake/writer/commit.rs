//! One write, one fdatasync, and the end moves on.

use std::sync::atomic::Ordering;

use super::{Ack, Place, Writer};
use crate::intake::{Disk, IntakeError};
use crate::log::Position;

impl<D: Disk> Writer<D> {
    /// Makes all whole groups durable and visible. After it, and not before, what is due may be acknowledged.
    pub(crate) fn commit(&mut self) -> Result<(), IntakeError> {
        let Place::In(current) = &mut self.place else { return Ok(()) };
        if self.whole == 0 {
            return Ok(());
        }
        let failed = |error| IntakeError::Disk { path: current.path.clone(), error };
        let bytes = &self.buffer[..self.whole];
        self.refused = current.written - current.synced() + bytes.len() as u64;
        self.disk.write(&current.handle, &current.path, current.written, bytes).map_err(failed)?;
        self.disk.sync(&current.handle, &current.path).map_err(failed)?;
        if current.previous.is_some() {
            self.disk.sync_folder(&current.file.folder.path).map_err(failed)?;
        }
        // Not before: until here the file goes again with the connection.
        let previous = current.previous.take();
        current.written += self.whole as u64;
        let end = Position { ordinal: current.file.ordinal, offset: current.written };
        if end.offset > Position::MOST {
            return Err(failed(std::io::Error::other("a log file of more than 1 TiB")));
        }
        current.file.len.store(end.offset, Ordering::Release);
        let begins = previous.as_ref().map(|_| &current.file);
        let last_folder = self.log.files().last().map(|file| file.folder.number);
        self.log.advance(end, begins, |executed| {
            if let Some(previous) = &previous {
                if last_folder.is_some_and(|last| last != current.file.folder.number) {
                    executed.begins_folder();
                }
                executed.merge(previous, &current.file.list);
            }
            for gtid in self.gtids.drain(..) {
                executed.insert(&gtid);
            }
        });
        self.buffer.copy_within(self.whole.., 0);
        self.buffer.truncate(self.buffer.len() - self.whole);
        self.event -= self.whole;
        self.whole = 0;
        if let Some(position) = self.awaited.take() {
            self.due = Some(Ack { file: current.file.clone(), position });
        }
        Ok(())
    }
}
