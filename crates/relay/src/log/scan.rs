//! Reads a file from its head on: where its last whole group ends, and which groups are in it.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use delphinus_wire::binlog::{
    Border, Checksum, Crc, Event, FormatDescription, Groups, HEADER_LEN, Header, Kind, MAGIC, PREFIX_LEN,
};

use super::Executed;

/// What is in a file.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Scanned {
    /// Where the last whole group, or the last event between groups, ends.
    pub(crate) whole: u64,
    /// Where reading has ended: the file's end, or what cannot be read.
    pub(crate) read: u64,
    /// It has ended before the file's end, with something that is no event of this place.
    pub(crate) is_damaged: bool,
}

/// Reads on, as long as events are whole and their checksums right; adds groups to `executed`.
pub(crate) fn scan(path: &Path, format: &FormatDescription, executed: &mut Executed) -> io::Result<Scanned> {
    let mut input = BufReader::with_capacity(1 << 20, File::open(path)?);
    let mut magic = [0; MAGIC.len()];
    if !fill(&mut input, &mut magic)? || magic != MAGIC {
        return Ok(Scanned::default());
    }
    let start = MAGIC.len() as u64;
    let mut scanned = Scanned { whole: start, read: start, is_damaged: false };
    let (mut groups, mut front, is_mariadb) = (Groups::default(), Vec::new(), format.is_mariadb());
    loop {
        let place = Spot { at: scanned.read, is_inside: is_mariadb && groups.open().is_some() };
        let header = match next_event(&mut input, place, format.checksum, &mut front)? {
            Found::Event(header) => header,
            Found::End => return Ok(scanned),
            Found::Damage => break,
        };
        let body = &front[HEADER_LEN..];
        let Ok(border) = groups.take(&Event { header, body, bytes: &front }) else { break };
        scanned.read += u64::from(header.size);
        if border.is_whole() {
            scanned.whole = scanned.read;
        }
        if let Border::Group(gtid) = border {
            executed.insert(&gtid);
        }
    }
    scanned.is_damaged = true;
    Ok(scanned)
}

/// What follows in a file.
enum Found {
    Event(Header),
    /// Nothing, or an event that is not whole.
    End,
    /// Something that is no event of this place, or has a wrong checksum.
    Damage,
}

/// Where an event begins.
#[derive(Clone, Copy)]
struct Spot {
    at: u64,
    /// In a group, where MariaDB leaves places out.
    is_inside: bool,
}

/// The head of the event at this place, with its front in `front`.
fn next_event(
    input: &mut impl Read,
    place: Spot,
    checksum: Checksum,
    front: &mut Vec<u8>,
) -> io::Result<Found> {
    front.resize(HEADER_LEN, 0);
    if !fill(input, front)? {
        return Ok(Found::End);
    }
    let Ok(header) = Header::parse(front) else { return Ok(Found::Damage) };
    // Before its body is read: a wrong size may point past the end of the file, where a crash has cut nothing off. Without checksums
    // this also tells a torn head apart.
    if !header.ends_at(place.at + u64::from(header.size), place.is_inside) {
        return Ok(Found::Damage);
    }
    let is_format = header.kind == Kind::FORMAT_DESCRIPTION;
    let tail = if is_format { Checksum::Crc32.len() } else { checksum.len() };
    let Some(mut left) = (header.size as usize).checked_sub(HEADER_LEN + tail) else {
        return Ok(Found::Damage);
    };
    let mut crc = Crc::new();
    crc.update(front);
    let mut piece = [0; 8 << 10];
    while left > 0 {
        let part = &mut piece[..left.min(8 << 10)];
        if !fill(input, part)? {
            return Ok(Found::End);
        }
        crc.update(part);
        let room = PREFIX_LEN.saturating_sub(front.len());
        front.extend_from_slice(&part[..part.len().min(room)]);
        left -= part.len();
    }
    let mut sum = [0; 4];
    if tail > 0 && !fill(input, &mut sum)? {
        return Ok(Found::End);
    }
    if tail > 0 && sum != crc.sum().to_le_bytes() {
        return Ok(Found::Damage);
    }
    Ok(Found::Event(header))
}

/// Fills all of `bytes`; false at the end of the file.
fn fill(input: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match input.read_exact(bytes) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        result => result.map(|()| true),
    }
}
