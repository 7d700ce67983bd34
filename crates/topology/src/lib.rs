//! The cluster as a value, and the decisions about it. Pure: no sockets and no clock; what was seen and when
//! it was seen are passed in.
//!
//! | question | file |
//! |---|---|
//! | what is known of one server behind the proxy | `backend` |
//! | is it configured, or found in the cluster | `origin` |
//! | by what one server is told from another | `identity` |
//! | is it usable, and since when | `health` |
//! | what it says of its replication, its replicas and its group | `replication`, `followers`, `group` |
//! | what clients are told about the cluster | `facts`, `collation` |
//! | the view that everybody reads | `snapshot` |
//! | what a probe or real traffic saw | `observation` |
//! | is anything being written, and who has it | `rest` |
//! | how late replicas are by the row that a proxy writes, and which one writes it | `heartbeat` |
//! | how the proxy itself moves the primary's role | `promotion` |
//! | for how long may a lease be relied on; when one in a table is over; who stays without the store | `lease`, `lease/failsafe` |
//! | which member should have a virtual IP, and the next step | `vip` |
//! | what follows from it | `decide`, one file in `decide/` for each kind of topology |

mod backend;
mod cluster_id;
mod collation;
mod decide;
mod facts;
mod followers;
mod group;
mod health;
mod heartbeat;
mod identity;
mod lease;
mod limits;
mod observation;
mod origin;
pub mod promotion;
mod replication;
mod rest;
mod snapshot;
mod vip;

pub use backend::{Backend, BackendId, Fault, LagSource, Role, Wish};
pub use cluster_id::ClusterId;
pub use collation::{Collation, Collations};
pub use decide::{Discovery, Event, Flapping, Kind, Lag, Settings, decide};
pub use facts::{Flavor, ServerFacts};
pub use followers::{Follower, Followers};
pub use group::{GroupMember, GroupView, MemberState};
pub use health::Health;
pub use heartbeat::{Beat, Beats, Heartbeat, Turn, Watch};
pub use identity::Identity;
pub use lease::{BootTime, MemberNames, Plea, Promises, Roll, Sighted, Sightings, Tenure, Terms, may_stay};
pub use limits::ServerLimits;
pub use observation::{Answer, Observation, ProbeOutcome, Traffic};
pub use origin::{Found, Origin};
pub use replication::{Following, Receiver, Replication};
pub use rest::Rest;
pub use snapshot::{Member, Snapshot, Succession};
pub use vip::{
    Assigning, Fitness, Floating, Holders, Peer, Serving, Slow, Standing, Step, Vip, VipRole, assign, step,
    tells,
};
