//! The replication relay: it takes a source's binary log as a replica would, writes it down byte by byte, acknowledges what is on disk,
//! and serves any number of replicas from the files.
//!
//! | question | file |
//! |---|---|
//! | replicas connect and are sent the log | `replica` |
//! | what a relay can be told to do | `relay` |
//! | what it is configured with | `settings` |
//! | the files, what is visible of them, how readers follow, recovery | `log` |
//! | how long files stay, and the archive | `keep` |
//! | from a connection's bytes to durable groups, and what may be acknowledged | `intake` |
//! | connecting again and again; where a stream goes on | `receiver` |
//! | one connection's stream | `receive` |
//! | what a source is asked, and how | `source` |
//! | which source may be acknowledged | `fence` |
//! | what waits for a disk that may hang | `at_disk` |
//! | the source begins a new file because an operator wants it | `rotate` |
//! | the stream inside the product: tables and GTIDs of committed transactions | `changes` |
//! | what operators see of the incoming side | `status` |

mod at_disk;
pub mod changes;
mod fence;
mod intake;
pub mod keep;
pub mod log;
mod receive;
mod receiver;
mod relay;
pub mod replica;
mod rotate;
mod settings;
mod source;
mod status;

pub use fence::{CutBy, Epoch, Turned};
pub use relay::Relay;
pub use settings::{Settings, Target};
pub use status::{State, Status, Times, Told};
