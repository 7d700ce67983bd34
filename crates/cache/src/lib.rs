//! Answers of backends that are kept for a while, and given to who asks the same again.
//!
//! Owns: what is the same question (`key`), whether an answer has what a session has written (`origin`), and how long and
//! how many answers are kept (`store`). Must not know of sockets, sessions or the clock: `now` is an argument.

mod answer;
mod flights;
mod key;
mod origin;
mod store;

pub use answer::{Answer, Transcript};
pub use flights::{Flight, Flights, Takeoff};
pub use key::{Asker, Command, Key, Settings};
pub use origin::{Origin, Own, Write};
pub use store::{Cache, Found, Limits, Stored};
