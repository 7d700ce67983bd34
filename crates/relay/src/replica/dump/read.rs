//! Reading of a file that is served: what is in memory at once, and what the disk has to bring on another thread.
//!
//! Owns: on which thread. Must not know what is read for.

use std::io::{self, IoSliceMut};
use std::sync::Arc;

use delphinus_net::{NetError, rt};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use super::PIECE;
use crate::log::Reader;

/// The longest head of a file: PREVIOUS_GTIDS of a long life.
const LONGEST_HEAD: u64 = 64 << 20;

/// The head of a file, without the magic. One that is in memory is read at once; a long one on another thread all the same.
pub(super) async fn read_head(reader: &Arc<Reader>) -> Result<io::Result<Vec<u8>>, NetError> {
    let wanted = (reader.file().head_len as usize).saturating_sub(4);
    if wanted <= PIECE {
        let mut head = vec![0; wanted];
        if let Some(Ok(read)) = read_at_once(reader, &mut head, 4)
            && read == wanted
        {
            return Ok(Ok(head));
        }
    }
    let reader = reader.clone();
    rt::compute(move || head_of(&reader)).await.ok_or(NetError::Closed)
}

/// The head of a file, without the magic.
fn head_of(reader: &Reader) -> io::Result<Vec<u8>> {
    let len = reader.file().head_len;
    if !(4..=LONGEST_HEAD).contains(&len) {
        return Err(io::Error::other("its head is too long"));
    }
    let mut head = vec![0; len as usize - 4];
    let mut at = 0;
    while at < head.len() {
        match reader.read_at(&mut head[at..], 4 + at as u64)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => at += read,
        }
    }
    Ok(head)
}

/// Reads what is in memory; `None`: it would wait for the disk.
pub(super) fn read_at_once(reader: &Reader, piece: &mut [u8], offset: u64) -> Option<io::Result<usize>> {
    match preadv2(reader.handle(), &mut [IoSliceMut::new(piece)], offset, ReadWriteFlags::NOWAIT) {
        Ok(read) if read > 0 => Some(Ok(read)),
        Err(error) if error != Errno::AGAIN && error != Errno::OPNOTSUPP && error != Errno::INTR => {
            Some(Err(error.into()))
        }
        _ => None,
    }
}

/// Reads up to `wanted` bytes at `offset`. What is in memory is read at once; what is not is read on another thread.
pub(super) async fn read(
    reader: &Arc<Reader>,
    mut piece: Vec<u8>,
    wanted: usize,
    offset: u64,
) -> Result<(Vec<u8>, io::Result<usize>), NetError> {
    if let Some(read) = read_at_once(reader, &mut piece[..wanted], offset) {
        return Ok((piece, read));
    }
    let reader = reader.clone();
    let done = rt::compute(move || {
        let read = reader.read_at(&mut piece[..wanted], offset);
        (piece, read)
    });
    done.await.ok_or(NetError::Closed)
}
