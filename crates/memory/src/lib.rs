//! One account for the memory that the process keeps: whatever is kept beyond a command, or grows large, takes a permit, which
//! returns what it has taken when it is dropped.
//!
//! Owns: how much there is (`account`), and what one session may have of it (`share`). Must not know what the memory is for,
//! beyond its owner's name. docs/limits.md has the table of all owners and limits.

mod account;
mod share;

pub use account::{Account, Owner, Permit};
pub use share::{Kept, Share};
