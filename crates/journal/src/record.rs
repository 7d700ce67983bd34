//! An entry as bytes, on its way through a queue: what has a fixed length first, then the texts.

use crate::entry::{Command, Entry, Origin, Route, Side};

/// What stands in front of each record: its length without this.
pub(crate) const LENGTH: usize = 4;

/// The longest name that is kept: no server has longer ones.
const MOST_NAME: usize = 1024;

const HAS_SCHEMA: u8 = 1;
const HAS_BACKEND: u8 = 2;
const HAS_DIGEST: u8 = 4;
const WAS_KILLED: u8 = 8;

/// What follows a text that was cut.
const CUT: &[u8] = b" /* cut */";

/// Makes of `out` the record of this entry. Of its text at most `most_text` bytes are kept.
pub(crate) fn put(entry: &Entry<'_>, most_text: usize, out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&[0; LENGTH]);
    for number in [
        entry.ended_us,
        entry.took_us,
        entry.rows_sent,
        entry.rows_affected,
        entry.bytes_received,
        entry.bytes_sent,
        entry.digest.unwrap_or(0),
    ] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    for number in entry.at_us.into_iter().chain([entry.session, entry.connection]) {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&entry.error.to_le_bytes());
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    let flags = flag(entry.schema.is_some(), HAS_SCHEMA)
        | flag(entry.backend.is_some(), HAS_BACKEND)
        | flag(entry.digest.is_some(), HAS_DIGEST)
        | flag(entry.was_killed, WAS_KILLED);
    out.extend_from_slice(&[
        flags,
        entry.side as u8,
        entry.origin as u8,
        entry.command as u8,
        entry.route as u8,
    ]);
    for name in [entry.user, entry.host, entry.schema.unwrap_or(""), entry.backend.unwrap_or("")] {
        let name = &name.as_bytes()[..name.len().min(MOST_NAME)];
        out.extend_from_slice(&(name.len() as u16).to_le_bytes());
        out.extend_from_slice(name);
    }
    out.extend_from_slice(&entry.text[..entry.text.len().min(most_text)]);
    if entry.text.len() > most_text {
        out.extend_from_slice(CUT);
    }
    let len = (out.len() - LENGTH) as u32;
    out[..LENGTH].copy_from_slice(&len.to_le_bytes());
}

/// The entry of a record, without the length in front of it; `None` for what `put` has not made.
pub(crate) fn entry(record: &[u8]) -> Option<Entry<'_>> {
    let mut rest = record;
    let [ended_us, took_us, rows_sent, rows_affected, bytes_received, bytes_sent, digest] =
        numbers(&mut rest, u64::from_le_bytes)?;
    let at_us: [u32; 5] = numbers(&mut rest, u32::from_le_bytes)?;
    let [session, connection] = numbers(&mut rest, u32::from_le_bytes)?;
    let [error] = numbers(&mut rest, u16::from_le_bytes)?;
    let ([flags, side, origin, command, route], texts) = rest.split_first_chunk()?;
    rest = texts;
    let (user, host) = (name(&mut rest)?, name(&mut rest)?);
    let (schema, backend) = (name(&mut rest)?, name(&mut rest)?);
    let has = |flag: u8| flags & flag != 0;
    Some(Entry {
        ended_us,
        took_us,
        at_us,
        side: Side::from_number(*side)?,
        origin: Origin::from_number(*origin)?,
        command: Command::from_number(*command)?,
        user,
        host,
        session,
        schema: has(HAS_SCHEMA).then_some(schema),
        error,
        was_killed: has(WAS_KILLED),
        rows_sent,
        rows_affected,
        bytes_received,
        bytes_sent,
        backend: has(HAS_BACKEND).then_some(backend),
        connection,
        route: Route::from_number(*route)?,
        digest: has(HAS_DIGEST).then_some(digest),
        text: rest,
    })
}

/// So many numbers from the front.
fn numbers<T: Copy + Default, const N: usize, const BYTES: usize>(
    rest: &mut &[u8],
    read: fn([u8; BYTES]) -> T,
) -> Option<[T; N]> {
    let mut all = [T::default(); N];
    for number in &mut all {
        let (bytes, behind) = rest.split_first_chunk()?;
        (*number, *rest) = (read(*bytes), behind);
    }
    Some(all)
}

/// A name from the front; one that was cut within a character up to there.
fn name<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    let [len] = numbers(rest, u16::from_le_bytes)?;
    let (name, behind) = rest.split_at_checked(usize::from(len))?;
    *rest = behind;
    Some(name.utf8_chunks().next().map_or("", |chunk| chunk.valid()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::tests::entry as sample;

    #[test]
    fn what_goes_in_comes_out() {
        let plain = Entry { schema: None, backend: None, digest: None, text: b"", ..sample("") };
        let own = Entry { side: Side::Both, origin: Origin::Mirror, was_killed: true, error: 1317, ..plain };
        let mut out = Vec::new();
        for one in [sample("SELECT ?"), plain, own] {
            put(&one, 100, &mut out);
            assert_eq!(u32::from_le_bytes(out[..LENGTH].try_into().unwrap()) as usize, out.len() - LENGTH);
            assert_eq!(entry(&out[LENGTH..]), Some(one));
        }
    }

    #[test]
    fn what_is_too_long_is_cut() {
        let name = "ü".repeat(1000);
        let long = Entry { user: &name, text: &[b'x'; 100], ..sample("") };
        let mut out = Vec::new();
        put(&long, 10, &mut out);
        let read = entry(&out[LENGTH..]).unwrap();
        assert_eq!((read.user.len(), read.text), (1024, &b"xxxxxxxxxx /* cut */"[..]));
    }

    #[test]
    fn no_record_is_read_beyond_its_end() {
        let mut out = Vec::new();
        put(&sample("SELECT ?"), 100, &mut out);
        for len in 0..out.len() - LENGTH - "SELECT ?".len() {
            assert_eq!(entry(&out[LENGTH..LENGTH + len]), None, "{len}");
        }
    }
}
