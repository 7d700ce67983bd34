//! Answers of backends that are kept for a while, and given to who asks the same again.
//!
//! Owns: what is the same question (`key`), whether an answer has what a session has written (`origin`), which tables have been written
//! since (`tables`), and how long and how many answers are kept (`store`). Must not know of sockets, sessions or the clock: `now` is an argument.

mod answer;
mod flights;
mod key;
mod origin;
mod store;
mod tables;
mod tally;

pub use answer::{Answer, Transcript};
pub use flights::{Flight, Flights, Landing, Takeoff};
pub use key::{Asker, Command, Key, Settings};
pub use origin::{Origin, Own, Write};
pub use store::{Age, Cache, Found, Incoming, Kept, Limits, Stored};
pub use tables::{
    About, Feed, Noted, Place, Primary, Reads, Regime, Running, SETTLING, Seen, Spot, Tables, Untold,
};
pub use tally::{Counts, Event, Group, Named, Tallies, Tally};
