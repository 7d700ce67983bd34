//! What a failover costs: clients append to lists through the proxy while a server dies or a role moves, and their history
//! is judged. `cargo xtask e2e failover` writes the table of docs/failover.md with it.

pub(crate) mod direct;
mod fault;
mod history;
mod judge;
mod kept;
mod page;
mod run;
mod scene;
mod servers;
mod strike;
pub(crate) mod tool;
mod trial;
pub(crate) mod workload;

pub use fault::{Case, Fault, Through};
pub use history::{History, Outcome, Read, Row, Write};
pub use judge::{Verdict, judge};
pub use kept::Kept;
pub use page::write_table;
pub use run::run_trial;
pub use servers::Servers;
pub use trial::Trial;
