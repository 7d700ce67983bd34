//! ROTATE: which file follows.

use crate::{Malformed, Put, Reader};

/// The longest name of a file that a server can have (FN_REFLEN).
const LONGEST_NAME: usize = 512;

/// What ROTATE says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotate<'a> {
    /// Where in the file: 4.
    pub position: u64,
    /// The file's name, without a folder.
    pub name: &'a str,
}

impl<'a> Rotate<'a> {
    /// Reads the body. Fails on a name that is no plain file's name: such a name could lead out of a folder.
    pub fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let position = reader.u64()?;
        let name = std::str::from_utf8(reader.rest())
            .map_err(|_| Malformed("name of a log file that is no text"))?;
        if !is_file_name(name) {
            return Err(Malformed("ROTATE to something that is no log file"));
        }
        Ok(Self { position, name })
    }
}

/// True for names as servers give them: a base and a number, no folder, nothing that a shell or a path would read otherwise.
fn is_file_name(name: &str) -> bool {
    let has_number = name.rsplit_once('.').is_some_and(|(base, number)| {
        !base.is_empty() && !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
    });
    let is_plain = |byte: u8| !byte.is_ascii_control() && byte != b'/' && byte != b'\\';
    has_number && name.len() <= LONGEST_NAME && !name.starts_with('.') && name.bytes().all(is_plain)
}

/// Appends the body of a ROTATE.
pub fn put_rotate(out: &mut Vec<u8>, rotate: Rotate<'_>) {
    out.put_u64(rotate.position);
    out.extend_from_slice(rotate.name.as_bytes());
}
