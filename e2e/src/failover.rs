//! What a failover costs: clients append to lists through the proxy while a server dies or a role moves, and their history
//! is judged. `cargo xtask e2e failover` writes the table of docs/failover.md with it.

mod direct;
mod fault;
mod history;
mod judge;
mod page;
mod trial;
mod workload;

pub use fault::{Fault, Servers};
pub use history::{History, Outcome, Read, Row, Write};
pub use judge::{Verdict, judge};
pub use page::write_table;
pub use trial::{Trial, run_trial};
