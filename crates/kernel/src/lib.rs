//! What only the kernel can do and no safe library offers: sending many packets with one system call, telling how a thread is
//! scheduled, frames below IP, and which packets a socket gets. The only crate with unsafe code. It knows nothing of streams, sessions or runtimes.

#![expect(unsafe_code, reason = "system calls that take pointers; each says why those are valid")]

mod filter;
mod link;
mod scheduling;
mod sender;

pub use filter::Filter;
pub use link::LinkSocket;
pub use scheduling::give_way;
pub use sender::Sender;
