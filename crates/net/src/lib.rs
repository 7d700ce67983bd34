//! The only crate that touches sockets, timers and spawn. Everything above uses these streams, buffers and
//! timers, so that a completion-based driver can stand beside the readiness-based one without a change there:
//! reads and writes hand the buffer over and get it back.

mod buffer;
mod byte_stream;
mod compression;
mod dial;
mod error;
mod handshake;
mod listen;
mod lookup;
mod nonce;
mod outbox;
mod packet_io;
mod place;
mod proxy_protocol;
pub mod rt;
mod socket;
mod stream;
pub mod tls;

pub use buffer::{Buffer, BufferPool};
pub use byte_stream::{ByteStream, is_local};
pub use dial::{Address, Announce, NoAddress, dial, dial_at};
pub use error::{NetError, retry_after_refusal};
pub use handshake::{
    BackendLogin, LoggedIn, LoginEnd, LoginError, LoginServices, Pausing, Verifying, change_user,
    inspect_certificate, inspect_key, log_in, serve_change_user, serve_login,
};
pub use listen::{ListenAddress, Listener, Peer};
pub use lookup::Resolver;
pub use nonce::{fresh_bytes, fresh_nonce};
pub use packet_io::{Packet, PacketIo, Passed};
pub use place::{Place, Reach, Spot};
pub use proxy_protocol::{Network, read_proxy_header};
pub use stream::Stream;
