//! The head of a file: what it says of itself.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use delphinus_wire::Malformed;
use delphinus_wire::binlog::{
    Checksum, Event, FormatDescription, HEADER_LEN, Header, Kind, MAGIC, MariaDbGtid, gtid_list,
    previous_gtids,
};
use delphinus_wire::gtid::{GtidPosition, GtidSet};

/// The largest event of a head that is read.
const LONGEST: u32 = 64 << 20;

/// What a head says.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) format: FormatDescription,
    /// All groups before the file.
    pub(crate) previous: GtidSet,
    /// MariaDB: the last group of each server in each domain before the file, the latest of a domain last.
    pub(crate) list: Vec<MariaDbGtid>,
    /// When the source began it, in seconds since 1970.
    pub(crate) began: u32,
    /// Its bytes, with the magic.
    pub(crate) len: u64,
}

/// Reads the head that `bytes` begins with. Fails where it is not whole.
pub(crate) fn read_head(bytes: &[u8]) -> Result<Head, Malformed> {
    let mut rest = bytes.strip_prefix(&MAGIC).ok_or(Malformed("not a log file"))?;
    let mut found: Option<(FormatDescription, u32)> = None;
    loop {
        let checksum = found.as_ref().map_or(Checksum::Off, |(format, _)| format.checksum);
        let event = Event::parse(rest, checksum)?;
        rest = &rest[event.bytes.len()..];
        if event.header.log_pos as usize != bytes.len() - rest.len() {
            return Err(Malformed("a log file with a wrong position"));
        }
        match (event.header.kind, found) {
            (Kind::FORMAT_DESCRIPTION, None) => {
                found = Some((FormatDescription::parse(event.body)?, event.header.timestamp));
            }
            (Kind::START_ENCRYPTION, Some(known)) => found = Some(known),
            (Kind::PREVIOUS_GTIDS | Kind::GTID_LIST, Some((format, began))) => {
                let (previous, list) = previous(&event)?;
                return Ok(Head { format, previous, list, began, len: (bytes.len() - rest.len()) as u64 });
            }
            _ => return Err(Malformed("a log file without its head")),
        }
    }
}

fn previous(event: &Event<'_>) -> Result<(GtidSet, Vec<MariaDbGtid>), Malformed> {
    if event.header.kind == Kind::PREVIOUS_GTIDS {
        return Ok((GtidSet::MySql(previous_gtids(event.body)?), Vec::new()));
    }
    let (mut position, list) = (GtidPosition::default(), gtid_list(event.body)?);
    for gtid in &list {
        // The latest of a domain comes last.
        position.insert(*gtid);
    }
    Ok((GtidSet::MariaDb(position), list))
}

/// Reads the head of a file; the inner error is about its bytes.
pub(crate) fn read_head_of(path: &Path) -> io::Result<Result<Head, Malformed>> {
    let mut file = File::open(path)?;
    let mut bytes = Vec::new();
    (&mut file).take(MAGIC.len() as u64).read_to_end(&mut bytes)?;
    loop {
        let start = bytes.len();
        (&mut file).take(HEADER_LEN as u64).read_to_end(&mut bytes)?;
        let Ok(header) = Header::parse(&bytes[start..]) else { break };
        if header.size > LONGEST {
            return Ok(Err(Malformed("very long head of a file")));
        }
        (&mut file).take(u64::from(header.size) - HEADER_LEN as u64).read_to_end(&mut bytes)?;
        let is_head = matches!(header.kind, Kind::FORMAT_DESCRIPTION | Kind::START_ENCRYPTION);
        if !is_head || bytes.len() - start < header.size as usize {
            break;
        }
    }
    Ok(read_head(&bytes))
}
