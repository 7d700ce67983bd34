//! Statement, session and snapshot to a plan with its reason. Pure, and made once for each command: nothing
//! looks at the SQL again afterwards.
//!
//! | question | file |
//! |---|---|
//! | what is asked | `intent` |
//! | what is answered, and why | `plan` |
//! | in which order the rules apply | `router` |
//! | which of several replicas | `balance` |
//! | how people are told | `explain` |

mod balance;
mod explain;
mod intent;
mod plan;
mod router;

pub use balance::Balance;
pub use explain::explain;
pub use intent::Intent;
pub use plan::{Plan, Reason, Target};
pub use router::plan;
