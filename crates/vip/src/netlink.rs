//! Questions to the kernel by netlink. The kernel answers while the message is being sent, so nothing here waits.
//! Source: <https://man7.org/linux/man-pages/man7/netlink.7.html>

use std::io;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkDeserializable, NetlinkHeader,
    NetlinkMessage, NetlinkPayload, NetlinkSerializable,
};
use netlink_sys::{Socket, SocketAddr};

/// The kernel sends parts of a long answer that are not longer than this.
const LONGEST_PART: usize = 64 * 1024;

/// Asks for something to be done.
pub(crate) fn tell<M>(protocol: isize, message: M, flags: u16) -> io::Result<()>
where
    M: NetlinkSerializable + NetlinkDeserializable + Into<NetlinkPayload<M>>,
{
    exchange(protocol, message, NLM_F_ACK | flags, |_: M| {})
}

/// Asks for a list. The error is `Interrupted` where the list has changed meanwhile.
pub(crate) fn list<M>(protocol: isize, message: M, each: impl FnMut(M)) -> io::Result<()>
where
    M: NetlinkSerializable + NetlinkDeserializable + Into<NetlinkPayload<M>>,
{
    exchange(protocol, message, NLM_F_DUMP, each)
}

fn exchange<M>(protocol: isize, message: M, flags: u16, mut each: impl FnMut(M)) -> io::Result<()>
where
    M: NetlinkSerializable + NetlinkDeserializable + Into<NetlinkPayload<M>>,
{
    let mut socket = Socket::new(protocol)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | flags;
    let mut packet = NetlinkMessage::new(header, message.into());
    packet.finalize();
    let mut bytes = vec![0; packet.buffer_len()];
    packet.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let mut buffer = Vec::with_capacity(LONGEST_PART);
    let mut is_torn = false;
    loop {
        buffer.clear();
        socket.recv(&mut buffer, 0)?;
        let mut rest = &buffer[..];
        while !rest.is_empty() {
            let part = NetlinkMessage::<M>::deserialize(rest).map_err(io::Error::other)?;
            // The list has changed while it was being sent: something may be missing.
            is_torn |= part.header.flags & NLM_F_DUMP_INTR != 0;
            // Lengths are rounded up to four bytes between messages.
            let length = (part.header.length as usize).next_multiple_of(4).clamp(16, rest.len().max(16));
            match part.payload {
                NetlinkPayload::Done(done) => return ended(done.code, is_torn),
                NetlinkPayload::Error(error) => {
                    return if error.code.is_none() { Ok(()) } else { Err(error.to_io()) };
                }
                NetlinkPayload::InnerMessage(message) => each(message),
                _ => {}
            }
            rest = rest.get(length..).unwrap_or_default();
        }
    }
}

/// What the end of a list says. The kernel tells there, and not by an error, that it could not make the list: `sock_diag` without the module
/// `tcp_diag` does so.
fn ended(code: i32, is_torn: bool) -> io::Result<()> {
    match code {
        ..0 => Err(io::Error::from_raw_os_error(code.saturating_neg())),
        _ if is_torn => Err(io::ErrorKind::Interrupted.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_could_not_be_made_is_not_empty() {
        let kind = |code, is_torn| ended(code, is_torn).map_err(|error| error.kind());
        assert_eq!(kind(0, false), Ok(()));
        assert_eq!(kind(0, true), Err(io::ErrorKind::Interrupted));
        assert_eq!(kind(-rustix::io::Errno::NOENT.raw_os_error(), false), Err(io::ErrorKind::NotFound));
    }
}
