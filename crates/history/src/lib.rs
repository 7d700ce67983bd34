//! What has been: samples of what sessions did, their sums by minute and hour, and snapshots of counters. Owns how that is stored, how
//! much of it, and for how long. Must not know sessions, where numbers come from, or who asks.
//!
//! | question | file |
//! |---|---|
//! | what is one sample | `sample` |
//! | what is one snapshot | `snapshot` |
//! | where files are, and what they are called | `place` |
//! | one file: how it is opened, checked, and moved aside | `database` |
//! | names and texts of one file | `names` |
//! | rows by moments: samples, minutes, hours | `series` |
//! | how many become few, and the rest | `roll_up` |
//! | all files: what goes where, how long it stays | `store` |
//! | the thread, its queue, and what is counted of it | `history` |
//! | how each table is read from its files | `tables` |
//!
//! Samples are in one SQLite file for each day. Minutes, hours and snapshots have a file each, whose old rows make room for new ones.
//! Minutes are made of the samples in the files, and hours of the minutes: so they agree, also after a kill. All is written by one
//! thread; operators' statements read the files beside it.

mod database;
mod history;
mod names;
mod place;
mod roll_up;
mod sample;
mod series;
mod snapshot;
mod store;
mod tables;

pub use history::{Counts, History, Settings, State, TextOf};
pub use place::Place;
pub use sample::{Row, Sample};
pub use snapshot::{Grouped, Snapshot, StatementRow, TOTALS};
pub use store::{Limits, Store, Trouble};
pub use tables::{Files, Stored};
