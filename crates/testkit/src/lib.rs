//! Test peers that speak the protocol: a small blocking client.
//!
//! | what | file |
//! |---|---|
//! | who logs in, with which capabilities | `login` |
//! | the commands | `client` |
//! | answers as values that can be compared | `reply` |
//! | parameters of prepared statements, binary rows as text | `binary` |
//!
//! It shares the packets with the proxy (`wire`), but neither its I/O nor its session: what it says is what a server
//! or the proxy has put on the wire.

mod binary;
mod client;
mod login;
mod packets;
mod reply;

pub use binary::Param;
pub use client::{Client, Prepared};
pub use login::Login;
pub use reply::{Change, ColumnShape, Failure, Reply, Rows, Success};
