//! Backend connections of one worker: who holds them, who waits for one, how they are made ready for a client.
//! A connection leaves the pool as a `Checkout` and comes back only through it; one that is dropped without a
//! word is closed. The numbers are bounded over all workers by `Budget`.
//! Must not know statements, plans or clients' sockets.

mod ask;
mod budget;
mod census;
mod checkout;
mod connection;
mod error;
mod find;
mod forgotten;
mod identities;
mod idle;
mod keys;
mod kill;
mod memory;
mod open;
mod pool;
mod prove;
mod ready;
mod rights;
mod statements;
mod tend;
mod waiters;

pub use budget::{BackendLimits, Budget, Claim, Full, Permit, left_to_others};
pub use census::{BackendCensus, Census};
pub use checkout::{Checkout, Doing};
pub use connection::{BackendConnId, Connection, Identity, LeftBehind, ListLeft, RowsLeft, SHAPE, Thread};
pub use error::PoolError;
pub use forgotten::Transactions;
pub use idle::Seat;
pub use keys::{KeyId, Keys, Trust};
pub use memory::{ListCounts, Memory, Warnings};
pub use pool::{Pool, Request, Settings, Target};
pub use ready::{Means, Ready};
pub use rights::{Epoch, Rights};
pub use statements::{BackendStatement, StatementKey, Statements};
pub use tend::KeepOpen;
