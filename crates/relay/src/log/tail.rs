//! The end of a file: whether its server has closed it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use delphinus_wire::binlog::{CHECKSUM_LEN, HEADER_LEN, Header, Kind};

/// The longest ROTATE: a position, and the longest name of a file that servers have.
const LONGEST: usize = HEADER_LEN + 8 + 512 + CHECKSUM_LEN;

/// True if the file at `path` ends with ROTATE or STOP, as a server writes when it goes on with the next file, or is shut down.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn is_closed(path: &Path) -> io::Result<bool> {
    let file = File::open(path)?;
    let len = file.metadata()?.len();
    let mut tail = vec![0; LONGEST.min(usize::try_from(len).unwrap_or(LONGEST))];
    let at = len - tail.len() as u64;
    file.read_exact_at(&mut tail, at)?;
    // Its length is not known: a header is one if it names its own place.
    let begins = tail.len().checked_sub(HEADER_LEN).map_or(0..0, |last| 0..last + 1);
    Ok(begins.rev().any(|begin| closes(&tail[begin..], len)))
}

/// True if `event` is one of these two, and ends where the file does.
fn closes(event: &[u8], len: u64) -> bool {
    Header::parse(event).is_ok_and(|header| {
        matches!(header.kind, Kind::ROTATE | Kind::STOP)
            && header.size as usize == event.len()
            && header.log_pos == len as u32
    })
}

#[cfg(test)]
mod tests {
    use delphinus_wire::binlog::{Checksum, MAGIC, build};

    use super::*;

    /// A file that ends with this event.
    fn file(name: &str, kind: Kind, body: &[u8], checksum: Checksum) -> bool {
        let mut bytes = MAGIC.to_vec();
        for (kind, body) in [(Kind::STOP, &[7; 900][..]), (kind, body)] {
            let log_pos = (bytes.len() + HEADER_LEN + body.len() + checksum.len()) as u32;
            let header = Header { timestamp: 1, kind, server_id: 1, size: 0, log_pos, flags: 0 };
            build(&mut bytes, header, body, checksum);
        }
        let path = std::env::temp_dir().join(format!("delphinus-tail-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        let outcome = is_closed(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        outcome
    }

    #[test]
    fn a_file_is_closed_by_its_last_event() {
        for checksum in [Checksum::Crc32, Checksum::Off] {
            let name = |word: &str| format!("{word}-{}", checksum.len());
            assert!(file(&name("rotate"), Kind::ROTATE, b"\x04\0\0\0\0\0\0\0binlog.000002", checksum));
            assert!(file(&name("stop"), Kind::STOP, b"", checksum));
            assert!(!file(&name("xid"), Kind::XID, &[0; 8], checksum));
            assert!(!file(&name("long"), Kind::QUERY, &[0; 2000], checksum));
        }
    }

    #[test]
    fn a_file_of_a_few_bytes_is_not_closed() {
        let path = std::env::temp_dir().join(format!("delphinus-tail-{}-short", std::process::id()));
        for bytes in [&b""[..], &MAGIC] {
            std::fs::write(&path, bytes).unwrap();
            assert!(!is_closed(&path).unwrap());
        }
        std::fs::remove_file(&path).unwrap();
    }
}
