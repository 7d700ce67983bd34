//! One account for the memory that the process keeps: whatever is kept beyond a command, or grows large, takes a permit, which
//! returns what it has taken when it is dropped.
//!
//! Owns: how much there is (`account`), and what one session may have of it (`share`). Must not know what the memory is for,
//! beyond its owner's name. docs/limits.md has the table of all owners and limits.
//!
//! ## Accounts, shares, permits
//!
//! `memory::Account` is one for the process (`app/src/memory.rs` makes it). What is kept takes a `Permit`, which returns
//! what it has when it is dropped; what a session keeps takes it from its `Share`, which takes from the account in steps
//! of 16 KiB, so that statements touch no atomic that other threads use. Ordinary buffers are the worker's own and take
//! nothing; what a command makes them grow is in `Session::room`. A permit is where the thing is: in a `StatementKey`, in
//! a `Memory`, with a connection's state. Who gets none keeps nothing: the session is pinned, or told. docs/limits.md has
//! all owners and limits.

mod account;
mod share;

pub use account::{Account, Owner, Permit};
pub use share::{Kept, Share};
