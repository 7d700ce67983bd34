//! Backend connections of one worker: who holds them, who waits for one, how they are made ready for a client.
//! A connection leaves the pool as a `Checkout` and comes back only through it; one that is dropped without a
//! word is closed. The numbers are bounded over all workers by `Budget`.
//! Must not know statements, plans or clients' sockets.
//!
//! ## Sharing
//!
//! One pool per worker, one `Budget` per backend over all workers: each worker is sure of its share, may borrow what
//! others do not use, and gives it back when they wait (`pool/src/budget.rs`). Of each budget a part may be taken only by
//! users with `connection_admin`; each user may have a limit; what the monitor has learnt of the server lowers it. Who
//! waits gets its turn by identity: administrators first, and nobody stands in the way of others who could use what is
//! there (`pool/src/waiters.rs`). Connections of the same user and protocol shape (`pool::SHAPE`: the capabilities that
//! change packets or meanings) are shared. Where a backend is told of the client (its address, by the PROXY protocol, or
//! chosen attributes), that is part of the identity, too (`pool/src/identities.rs`). A connection waits in a seat where
//! its session finds it again without a search; the hold (`hold_ms`) is a preference, never a lock. One that is found
//! closed is replaced before anything is sent on it.

mod ask;
mod asked;
mod budget;
mod census;
mod checkout;
mod connection;
mod error;
mod expired;
mod find;
mod first_mode;
mod forgotten_transactions;
mod identities;
mod idle;
mod keys;
mod kill;
mod killing;
mod memory;
mod open;
mod password_check;
mod pool;
mod ready;
mod rights;
mod statements;
mod upkeep;
mod waiters;

pub use asked::{AskedLog, Question};
pub use budget::{BackendLimits, Budget, Claim, Full, Permit, left_to_others};
pub use census::{BackendCensus, Census, Retiring};
pub use checkout::{Checkout, Doing};
pub use connection::{BackendConnId, Connection, Identity, LeftBehind, ListLeft, RowsLeft, SHAPE, Thread};
pub use error::PoolError;
pub use first_mode::FirstMode;
pub use forgotten_transactions::Transactions;
pub use idle::Seat;
pub use keys::{KeyId, Keys, Trust};
pub use memory::{ListCounts, Memory, Warnings};
pub use pool::{Pool, Request, Settings};
pub use ready::{Means, Ready};
pub use rights::{Epoch, Rights};
pub use statements::{BackendStatement, StatementKey, Statements};
pub use upkeep::KeepOpen;
