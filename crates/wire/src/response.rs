//! What a server answers. Where a response ends, and what it changed, is `state`'s business; here is what
//! single packets mean.
//! Source: <https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_response_packets.html>

mod column;
mod eof;
mod err;
mod ok;
mod peer;
mod prepare_ok;
mod result_set;
mod session_change;
mod status;

pub use column::{Column, ColumnKind};
pub use eof::EofPacket;
pub use err::ErrPacket;
pub use ok::OkPacket;
pub use peer::{AGES_ATTRIBUTE, Layer, PeerAge, VERSION_ATTRIBUTE};
pub use prepare_ok::PrepareOk;
pub use result_set::TextResult;
pub use session_change::{SessionChange, SessionChanges};
pub use status::Status;

/// First byte of an OK packet.
pub const OK: u8 = 0x00;
/// First byte of an EOF packet, and of the OK packet that ends a result set.
pub const EOF: u8 = 0xfe;
/// First byte of an ERR packet.
pub const ERR: u8 = 0xff;
/// First byte of a request for a local file.
pub const LOCAL_INFILE: u8 = 0xfb;
