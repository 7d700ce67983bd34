//! A replica that is behind on purpose.

use anyhow::Result;
use delphinus_sandbox::{Flavor, Server};

/// From now on a replica runs what it gets so many seconds later.
///
/// # Errors
/// It cannot be asked, or refuses.
pub fn delay_replica(flavor: Flavor, replica: &Server, seconds: u32) -> Result<()> {
    let sql = match flavor {
        Flavor::MariaDb => format!("STOP SLAVE; CHANGE MASTER TO MASTER_DELAY={seconds}; START SLAVE"),
        Flavor::MySql | Flavor::Group => {
            format!("STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_DELAY={seconds}; START REPLICA")
        }
    };
    replica.query(&sql).map(drop)
}
