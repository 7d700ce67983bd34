//! Compression with replicas that ask for it: a line between two sites carries less.
//!
//! Owns: when it begins, and who is refused without it. Packets are compressed in `net`, on the thread that serves.

use delphinus_memory::Account;
use delphinus_net::{Buffer, Stream};
use delphinus_session::ClientError;
use delphinus_wire::compression::{Algorithm, CompressedLink, Side};
use delphinus_wire::error_code::ER_WRONG_COMPRESSION_ALGORITHM_CLIENT;
use delphinus_wire::handshake::server::Established;

/// Replicas choose the level; from 10 on, a serving thread would do little else.
const MOST_ZSTD_LEVEL: u8 = 9;
/// So many bytes are compressed at a time, of one replica: others of the thread have their turn in between. A frame has so many.
pub(super) const AT_ONCE: usize = 64 << 10;
/// What a connection without compression is called.
const NONE: &str = "uncompressed";

/// What was agreed.
fn agreed(connection: &Established) -> Option<Algorithm> {
    Algorithm::agreed(connection.capabilities, connection.zstd_level.clamp(1, MOST_ZSTD_LEVEL))
}

/// Why a replica is refused that does not compress; `None`: it does.
pub(super) fn refusal(connection: &Established) -> Option<ClientError> {
    let text = "Invalid compression algorithm 'uncompressed'. The relay's compression_algorithms has no \"uncompressed\": have the \
                replica ask for zlib or zstd";
    let error = || ClientError::new(ER_WRONG_COMPRESSION_ALGORITHM_CLIENT, *b"HY000", text);
    agreed(connection).is_none().then(error)
}

/// Compresses from now on, if that was agreed. What is left in `buffer` came behind the login. What a replica sends takes room of
/// `account` when it is unpacked.
pub(super) fn begin(stream: &mut Stream, buffer: &mut Buffer, connection: &Established, account: &Account) {
    if let Some(algorithm) = agreed(connection) {
        stream.start_compression(CompressedLink::new(algorithm, Side::Server), buffer.data());
        stream.limit_unpacked(account);
        buffer.clear();
    }
}

/// Its name, for operators.
pub(crate) fn name(stream: &Stream) -> &'static str {
    stream.compression().map_or(NONE, Algorithm::name)
}
