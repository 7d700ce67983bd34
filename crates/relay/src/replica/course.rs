//! Bytes of a log file to the packets of one replica: what is sent is copied once, what is left out is passed over.
//!
//! Owns: where in an event the stream is, whether a group is being left out, and what has to be said of that. Must not know files or
//! sockets: bytes come in pieces of any size, in their order. No allocation for an event.

use delphinus_wire::binlog::{
    AnyGtid, Checksum, Event, FLAG_SKIP_REPLICATION, HEADER_LEN, Header, Kind, MariaDbGtid, Rotate,
};

use delphinus_wire::gtid::GtidSet;

use super::asked::{Asked, HeartbeatForm};
use super::fatal::Fatal;
use super::filter::Filter;
use super::frame::Framer;
use super::made::{self, Spot};
use crate::log::Past;

/// So much is made of a piece of a file at a time: a replica that is told again and again what it has by now, of very many domains, is told
/// more than there is in the file.
const MOST_OUT: usize = 1 << 20;

/// What one replica is sent, from its request to the end of its connection.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts about where a replica is")]
pub(crate) struct Course {
    asked: Asked,
    filter: Filter,
    framer: Framer,
    /// `server_id` of events that are made.
    server_id: u32,
    /// The file that the stream is in.
    name: Box<str>,
    /// The file has ended with ROTATE: a replica takes itself for at the begin of the next one, of which there is nothing yet.
    has_rotated: bool,
    /// Of the events of this file.
    checksum: Checksum,
    open: Open,
    group: Group,
    /// The last event that was sent is a part of a group, and no other group has begun since: a replica is inside of one.
    is_inside: bool,
    /// Groups were left out since something was sent: the replica is to be told where it is.
    has_omitted: bool,
    counted: Counted,
    /// For events that are made.
    scratch: Vec<u8>,
}

/// What was sent since it was asked last.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counted {
    /// Bytes of events.
    pub(crate) bytes: u64,
    /// Events.
    pub(crate) events: u64,
    /// Of the last event that was sent or left out: its time, in seconds since 1970; 0: none.
    pub(crate) event_s: u32,
}

/// What becomes of the group that is open, if one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    Sent,
    Omitted,
}

/// The event that the stream is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Nothing,
    /// It is sent; `Framer` knows how much is left.
    Sent,
    /// So many bytes of it are to be passed over.
    Omitted(u64),
}

/// The head of a file, as it is read at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head<'a> {
    /// The file's name.
    pub(crate) name: &'a str,
    /// From the file's begin to the end of PREVIOUS_GTIDS or GTID_LIST, without the magic.
    pub(crate) bytes: &'a [u8],
    /// Where the replica begins: behind the head, unless it asked for a place.
    pub(crate) from: u64,
    /// The first file of this connection, or of another source.
    pub(crate) is_first: bool,
    /// Of its events.
    pub(crate) checksum: Checksum,
    /// What the file says is before it.
    pub(crate) previous: &'a GtidSet,
}

impl Course {
    /// A replica that has asked, and what it needs.
    pub(crate) fn new(asked: Asked, filter: Filter, server_id: u32) -> Self {
        let checksum = asked.checksum.unwrap_or_default();
        Self {
            asked,
            filter,
            framer: Framer::new(1),
            server_id,
            name: "".into(),
            has_rotated: false,
            checksum,
            open: Open::Nothing,
            group: Group::Sent,
            is_inside: false,
            has_omitted: false,
            counted: Counted::default(),
            scratch: Vec::new(),
        }
    }

    /// The sequence number of the next packet.
    pub(crate) fn seq(&self) -> u8 {
        self.framer.seq()
    }

    /// What was sent since the last call.
    pub(crate) fn take_counted(&mut self) -> Counted {
        std::mem::take(&mut self.counted)
    }

    /// What the replica has asked for.
    pub(crate) fn asked(&self) -> &Asked {
        &self.asked
    }

    /// The next file is sent from its head on; before it is `previous`.
    pub(crate) fn begins_file(&mut self, previous: &GtidSet) {
        self.filter.begins_file(previous);
    }

    /// The files of another source follow.
    pub(crate) fn goes_on(&mut self, before: (&[MariaDbGtid], &Past)) -> Result<(), Fatal> {
        self.filter.goes_on(before)
    }

    /// A file begins: its name, and its head as far as the replica is to see it.
    pub(crate) fn begin(&mut self, out: &mut Vec<u8>, head: Head<'_>) -> Result<(), Fatal> {
        debug_assert!(self.open == Open::Nothing, "a file ends inside of an event");
        let unreadable =
            |error: delphinus_wire::Malformed| Fatal::Unreadable(format!("{}: {error}", head.name));
        self.name = head.name.into();
        self.has_rotated = false;
        self.group = Group::Sent;
        self.is_inside = false;
        let header = Header::parse(head.bytes).map_err(unreadable)?;
        let (format, rest) = head
            .bytes
            .split_at_checked(header.size as usize)
            .ok_or_else(|| Fatal::Unreadable(format!("{}: its head is not whole", head.name)))?;
        let end_of_head = 4 + head.bytes.len() as u64;
        let is_inside = head.from > end_of_head;
        // In the checksum of what came before: FORMAT_DESCRIPTION says what follows it.
        let position = if is_inside { head.from } else { 4 };
        self.make(out, |scratch, course| made::fake_rotate(scratch, course.spot(position), course.checksum));
        self.scratch.clear();
        // A source that was started with this file says so there: a replica then drops temporary tables, and what was open. Who has
        // something of the file had that already.
        let has_some = || is_inside || self.filter.may_pass_over(head.previous);
        let kind = (head.is_first && has_some(), is_inside);
        made::format_description(&mut self.scratch, format, kind).map_err(unreadable)?;
        self.put_scratch(out);
        self.checksum = head.checksum;
        if !is_inside {
            self.take_for(out, (rest, 4 + u64::from(header.size)), usize::MAX).map(drop)?;
        }
        Ok(())
    }

    /// Takes in bytes that stand at `position` in the file, and appends packets. Gives how many of them it has taken: the rest is the
    /// begin of an event of which it needs more, or comes after what has become of the front was sent.
    pub(crate) fn take(&mut self, out: &mut Vec<u8>, bytes: &[u8], position: u64) -> Result<usize, Fatal> {
        self.take_for(out, (bytes, position), MOST_OUT)
    }

    fn take_for(
        &mut self,
        out: &mut Vec<u8>,
        (bytes, position): (&[u8], u64),
        most: usize,
    ) -> Result<usize, Fatal> {
        let (mut at, begin) = (0, out.len());
        while at < bytes.len() {
            let rest = &bytes[at..];
            match self.open {
                Open::Nothing => {
                    if at > 0 && out.len() - begin >= most {
                        break;
                    }
                    if !self.meet(out, rest, position + at as u64)? {
                        break;
                    }
                }
                Open::Sent => {
                    let now = rest.len().min(self.framer.left() as usize);
                    self.framer.put(out, &rest[..now]);
                    at += now;
                    if self.framer.left() == 0 {
                        self.open = Open::Nothing;
                    }
                }
                Open::Omitted(left) => {
                    let now = (rest.len() as u64).min(left);
                    at += now as usize;
                    self.open = if now == left { Open::Nothing } else { Open::Omitted(left - now) };
                }
            }
        }
        Ok(at)
    }

    /// The event that `rest` begins with: sent or left out. False: more of it is needed to tell.
    fn meet(&mut self, out: &mut Vec<u8>, rest: &[u8], position: u64) -> Result<bool, Fatal> {
        if rest.len() < HEADER_LEN {
            return Ok(false);
        }
        let unreadable =
            |error: delphinus_wire::Malformed| Fatal::Unreadable(format!("at {position}: {error}"));
        let header = Header::parse(rest).map_err(unreadable)?;
        let is_whole = rest.len() >= header.size as usize;
        if !is_whole && (header.kind.begins_group() || header.kind == Kind::ROTATE) {
            return Ok(false);
        }
        if header.kind.begins_group() {
            let event = Event::parse_unchecked(rest, self.checksum).map_err(unreadable)?;
            let gtid = AnyGtid::parse(&event).map_err(unreadable)?.unwrap_or(AnyGtid::Anonymous);
            self.group = if self.filter.passes(&gtid)? { Group::Sent } else { Group::Omitted };
            self.has_omitted |= self.group == Group::Omitted;
            self.is_inside = false;
        } else if stands_between_groups(header.kind) {
            self.group = Group::Sent;
        }
        self.counted.event_s = header.timestamp;
        if self.omits(&header) {
            self.open = Open::Omitted(u64::from(header.size));
            return Ok(true);
        }
        self.tell_omitted(out, position);
        if header.kind == Kind::ROTATE {
            let event = Event::parse_unchecked(rest, self.checksum).map_err(unreadable)?;
            self.name = Rotate::parse(event.body).map_err(unreadable)?.name.into();
            self.has_rotated = true;
        }
        self.framer.begin(out, header.size);
        self.is_inside = !stands_between_groups(header.kind);
        self.counted.bytes += u64::from(header.size);
        self.counted.events += 1;
        self.open = Open::Sent;
        Ok(true)
    }

    fn omits(&self, header: &Header) -> bool {
        let unwanted = self.asked.unwanted;
        let is_annotation = header.kind == Kind::ANNOTATE_ROWS && unwanted.annotations;
        let is_marked = unwanted.marked && header.flags & FLAG_SKIP_REPLICATION != 0;
        self.group == Group::Omitted || is_annotation || is_marked
    }

    /// Where groups were left out, the replica is told where it is by now.
    pub(crate) fn tell_omitted(&mut self, out: &mut Vec<u8>, position: u64) {
        if !std::mem::take(&mut self.has_omitted) {
            return;
        }
        match self.filter.reached() {
            Some(list) => {
                self.make(out, |scratch, course| {
                    made::fake_gtid_list(scratch, course.spot(position), &list, course.checksum);
                });
            }
            None => self.put_heartbeat(out, position),
        }
    }

    /// A sign of life while events up to `position` are left out: it names the end of the one that is being left out. None for a replica
    /// that is inside of a group, where it would take the place for one to go on at.
    pub(crate) fn put_heartbeat_between(&mut self, out: &mut Vec<u8>, position: u64) {
        let left = match self.open {
            Open::Nothing => 0,
            Open::Omitted(left) => left,
            Open::Sent => return,
        };
        if !self.is_inside {
            self.put_heartbeat(out, position + left);
        }
    }

    /// A sign of life. Replicas stop where it names another place than the one that they are at.
    pub(crate) fn put_heartbeat(&mut self, out: &mut Vec<u8>, position: u64) {
        let position = if self.has_rotated { 4 } else { position };
        let is_v2 = self.asked.form == HeartbeatForm::V2;
        if !is_v2 && position > u64::from(u32::MAX) {
            // Its position has 32 bits there; the replica would take it for another place. This one says the same.
            self.make(out, |scratch, course| {
                made::fake_rotate(scratch, course.spot(position), course.checksum);
            });
            return;
        }
        self.make(out, |scratch, course| {
            made::heartbeat_of(scratch, course.spot(position), is_v2, course.checksum);
        });
    }

    fn spot(&self, position: u64) -> Spot<'_> {
        Spot { server_id: self.server_id, name: &self.name, position }
    }

    fn make(&mut self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>, &Self)) {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        write(&mut scratch, self);
        self.scratch = scratch;
        self.put_scratch(out);
    }

    fn put_scratch(&mut self, out: &mut Vec<u8>) {
        self.framer.put_whole(out, &self.scratch);
    }
}

/// Kinds that are no part of a group: one that is left out ends before them.
fn stands_between_groups(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::ROTATE
            | Kind::STOP
            | Kind::FORMAT_DESCRIPTION
            | Kind::PREVIOUS_GTIDS
            | Kind::GTID_LIST
            | Kind::BINLOG_CHECKPOINT
            | Kind::START_ENCRYPTION
    )
}

#[cfg(test)]
mod tests;
