//! What only the kernel can do and no safe library offers: sending many packets with one system call, and telling how a
//! thread is scheduled. The only crate with unsafe code. It knows nothing of streams, sessions or runtimes.

#![expect(unsafe_code, reason = "system calls that take pointers; each says why those are valid")]

mod scheduling;
mod sender;

pub use scheduling::give_way;
pub use sender::Sender;
