//! What is wrong with a configuration and with the servers that it names. Takes facts, gives findings; pure: no I/O, no clock.
//! Must not know how the facts were found out.
//!
//! | question | file |
//! |---|---|
//! | what is known | `facts` |
//! | what is told | `finding` |
//! | rules, users, schemas of the file | `checks/file` |
//! | the process and its machine; connections | `checks/room` |
//! | what each server has to have | `checks/servers` |
//! | what servers of a cluster have to have in common | `checks/alike` |
//! | replication, semi-sync, read_only, lag | `checks/replication` |
//! | sources of relays: rights, GTIDs, TLS, strong synchronisation | `checks/relays` |
//! | relays of other processes that moves count on | `checks/remote_relays` |
//! | what the monitor's user may do | `checks/rights` |
//! | passwords, TLS | `checks/security` |

mod checks;
mod facts;
mod finding;

pub use facts::{Answer, Channel, Facts, Machine, RemoteRelay, Replication, Server, Source, UserLogin};
pub use finding::{Finding, Severity};

/// Everything that is wrong: the worst first, then in the order of the checks.
pub fn examine(facts: &Facts<'_>) -> Vec<Finding> {
    let mut found = checks::all(facts);
    found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    found
}
