//! What the monitor knows of a cluster, as everybody else sees it, and their way to tell it what they have seen. The monitor writes
//! it; sessions, the admin side and whatever serves clients read it, on any thread, without a lock on the path of a query.
//!
//! | what | file |
//! |---|---|
//! | the cluster as it is now | `snapshot` |
//! | what each backend has executed, and the writes that this proxy has under way | `positions` |
//! | what code in the database does to the sessions that run it | `stored_code` |
//! | what tables, views, triggers and foreign keys there are | `table_map` |
//! | what real traffic sees | `traffic` |

mod positions;
mod snapshot;
mod stored_code;
mod table_map;
mod traffic;

pub use positions::{Positions, Write, Writes};
pub use snapshot::{Publisher, SnapshotCache, SnapshotReader, channel};
pub use stored_code::StoredCode;
pub use table_map::{Changing, TableMap};
pub use traffic::TrafficReporter;
