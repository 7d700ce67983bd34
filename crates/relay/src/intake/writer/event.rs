//! A whole event: where it belongs.

use delphinus_wire::Malformed;
use delphinus_wire::binlog::{Border, Event, FormatDescription, HEADER_LEN, Header, Kind, MAGIC, Rotate};

use super::{Ack, Current, Opening, Place, Writer};
use crate::intake::{Disk, IntakeError};

/// What becomes of an event.
enum Fate {
    /// It is in no file.
    Dropped,
    /// What follows is in this file.
    Into(Box<str>),
    /// It belongs into the file that is open.
    Stored(Border),
    /// It belongs to the head of a file; true if the head is whole with it.
    Head(bool),
}

impl<D: Disk> Writer<D> {
    pub(super) fn end_event(&mut self, wants_ack: bool) -> Result<(), IntakeError> {
        let (header, fate) = self.fate()?;
        match fate {
            Fate::Dropped => self.buffer.truncate(self.event),
            Fate::Into(name) => {
                self.buffer.truncate(self.event);
                self.turn_to(name)?;
            }
            Fate::Head(false) => self.event = self.buffer.len(),
            Fate::Head(true) => {
                self.event = self.buffer.len();
                self.begin_file()?;
            }
            Fate::Stored(border) => self.store(header, border, wants_ack)?,
        }
        self.spilled = None;
        Ok(())
    }

    /// Checks the event that has ended, and says what becomes of it.
    fn fate(&mut self) -> Result<(Header, Fate), IntakeError> {
        let Self { buffer, event, spilled, place, groups, checksum, .. } = self;
        let bytes = &buffer[*event..];
        let front;
        let event = match spilled.as_mut() {
            None => Event::parse(bytes, *checksum)?,
            Some(spilled) => {
                let header = spilled.header;
                if spilled.len + bytes.len() != header.size as usize {
                    return Err(Malformed("an event of another length than its packets").into());
                }
                let covered = bytes.len().checked_sub(checksum.len()).ok_or(Malformed("cut checksum"))?;
                let (covered, sum) = bytes.split_at(covered);
                spilled.pass(covered);
                if !sum.is_empty() && spilled.crc.sum().to_le_bytes() != sum {
                    return Err(Malformed("event with a wrong checksum").into());
                }
                front = &spilled.front;
                Event { header, body: &front[HEADER_LEN..], bytes: front }
            }
        };
        let header = event.header;
        let fate = match place {
            _ if header.kind == Kind::ROTATE && header.is_artificial() => {
                Fate::Into(Rotate::parse(event.body)?.name.into())
            }
            _ if header.is_artificial() => Fate::Dropped,
            Place::Opening(opening) => {
                let is_whole = opening.take(&event)?;
                if let Some(format) = &opening.format {
                    *checksum = format.checksum;
                }
                Fate::Head(is_whole)
            }
            Place::In(current) => {
                if header.kind == Kind::FORMAT_DESCRIPTION {
                    current.check_format(&event)?;
                    // Until here it is the source's own, which may have changed since the file was begun.
                    *checksum = current.file.format.checksum;
                }
                if current.is_sent_again(&header) {
                    Fate::Dropped
                } else {
                    Fate::Stored(groups.take(&event)?)
                }
            }
            Place::Nowhere | Place::Expecting(..) => return Err(Malformed("an event of no file").into()),
        };
        Ok((header, fate))
    }

    /// Counts an event that is in the buffer (its end, at least) as a part of the file.
    fn store(&mut self, header: Header, border: Border, wants_ack: bool) -> Result<(), IntakeError> {
        let Place::In(current) = &mut self.place else {
            return Err(Malformed("an event of no file").into());
        };
        let is_again = current.at < current.synced();
        let end = current.at + u64::from(header.size);
        let is_inside = !border.is_whole() && !header.kind.begins_group() && current.file.format.is_mariadb();
        if !header.ends_at(end, is_inside) {
            let name = current.file.name.clone();
            return Err(IntakeError::Gap { name, at: end, log_pos: header.log_pos });
        }
        if is_again {
            if end > current.synced() {
                return Err(IntakeError::OtherHistory(current.file.name.clone()));
            }
            current.at = end;
            self.buffer.truncate(self.event);
            if wants_ack && border.is_whole() {
                // It is durable: nothing that is not gets published. Of a source that asks for it again a client waits.
                self.due = Some(Ack { file: current.file.clone(), position: end });
            }
            return Ok(());
        }
        current.at = end;
        self.newest = header.timestamp;
        self.event = self.buffer.len();
        if border.is_whole() {
            self.whole = self.buffer.len();
            if let Border::Group(gtid) = border {
                self.gtids.push(gtid);
            }
            if wants_ack {
                self.awaited = Some(end);
            }
        }
        Ok(())
    }
}

impl Current {
    /// Up to where the file is published. What comes before that comes again.
    pub(super) fn synced(&self) -> u64 {
        self.file.len()
    }

    /// True for what a connection begins with inside of a file: the file has it. MariaDB does not mark its START_ENCRYPTION as made for
    /// the connection.
    fn is_sent_again(&self, header: &Header) -> bool {
        let is_inside = self.at > MAGIC.len() as u64;
        match header.kind {
            Kind::FORMAT_DESCRIPTION => is_inside,
            Kind::START_ENCRYPTION => is_inside && header.log_pos == 0,
            _ => false,
        }
    }

    fn check_format(&self, event: &Event<'_>) -> Result<(), IntakeError> {
        let format = FormatDescription::parse(event.body)?;
        let is_same = format.server_version == self.file.format.server_version
            && format.checksum == self.file.format.checksum
            && event.header.timestamp == self.file.began;
        if is_same { Ok(()) } else { Err(IntakeError::OtherHistory(self.file.name.clone())) }
    }
}

impl Opening {
    /// Takes in an event of the head; true if it is the last one.
    fn take(&mut self, event: &Event<'_>) -> Result<bool, IntakeError> {
        match event.header.kind {
            Kind::FORMAT_DESCRIPTION => {
                if event.header.log_pos == 0 {
                    return Err(Malformed("the source begins in the middle of a file").into());
                }
                self.format = Some(FormatDescription::parse(event.body)?);
                self.began = event.header.timestamp;
                Ok(false)
            }
            _ if self.format.is_none() => Err(Malformed("a file without FORMAT_DESCRIPTION").into()),
            Kind::START_ENCRYPTION => Ok(false),
            Kind::PREVIOUS_GTIDS | Kind::GTID_LIST => Ok(true),
            _ => Err(Malformed("a file without PREVIOUS_GTIDS or GTID_LIST").into()),
        }
    }
}
