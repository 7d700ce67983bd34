//! What the servers themselves need: they are asked directly, past the proxy, until one takes a write.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use delphinus_sandbox::Cluster;

use super::history::Row;
use super::workload::{Ground, LARGE_ROWS};
use crate::stage::Address;

/// Between two tries at one server.
const PAUSE: Duration = Duration::from_millis(5);

/// A server that may become the primary.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) server_id: u32,
    address: Address,
}

/// All servers.
pub(crate) fn candidates(cluster: &Cluster, proxy: &Address) -> Vec<Candidate> {
    let of = |server: &delphinus_sandbox::Server| Candidate {
        server_id: server.server_id,
        address: Address { socket: server.socket.clone(), port: server.port, ..proxy.clone() },
    };
    cluster.servers.iter().map(of).collect()
}

impl Candidate {
    /// The rows of the lists that it has, in their order.
    pub(crate) fn rows(&self) -> Result<Vec<Row>> {
        let rows = self.address.connect()?.rows("SELECT list, value, server FROM app.lists ORDER BY id")?;
        let number = |cell: &Option<String>| anyhow::Ok(cell.as_deref().unwrap_or_default().parse::<u64>()?);
        rows.iter()
            .map(|row| {
                let (list, value, server) = (number(&row[0])?, number(&row[1])?, number(&row[2])?);
                Ok(Row { list: u32::try_from(list)?, value, server: u32::try_from(server)? })
            })
            .collect()
    }

    /// True if it has all of the large table.
    pub(crate) fn has_large(&self) -> Result<bool> {
        Ok(self.address.connect()?.value("SELECT COUNT(*) FROM app.large")? == LARGE_ROWS.to_string())
    }

    /// Tries to write until that succeeds, or it is over; gives the time of the run.
    pub(crate) fn until_it_writes(&self, ground: &Ground, is_over: &AtomicBool) -> Option<u64> {
        let mut client = None;
        while !is_over.load(Ordering::Relaxed) && !ground.is_over.load(Ordering::Relaxed) {
            if client.is_none() {
                client = self.address.connect().ok();
            }
            let told = client
                .as_mut()
                .map(|client| client.query("INSERT INTO app.polled (server) VALUES (@@server_id)"));
            match told {
                Some(Ok(_)) => return Some(ground.now_us()),
                Some(Err(error)) if !error.is::<crate::client::ServerError>() => client = None,
                _ => {}
            }
            std::thread::sleep(PAUSE);
        }
        None
    }
}
