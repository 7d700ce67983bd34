//! The operators' way into a proxy: its section of the configuration, and where it is.

use std::path::PathBuf;

use anyhow::{Context, Result};
use delphinus_sandbox::PortLease;

use crate::client::Client;
use crate::stage::Address;

/// A listener for operators, whose port stays taken for as long as this lives.
#[derive(Debug)]
pub struct Operators {
    lease: PortLease,
    socket: PathBuf,
}

/// One backend in `SHOW BACKENDS`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendRow {
    /// Its name.
    pub name: String,
    /// `primary` or `replica`.
    pub role: String,
    /// `up`, `down`, ...
    pub state: String,
    /// Why.
    pub reason: String,
    /// How far it is behind, in milliseconds; empty: not known.
    pub lag_ms: String,
    /// By what that is known.
    pub lag_source: String,
    /// How it has come to be a backend.
    pub origin: String,
}

impl Operators {
    /// Takes a port.
    pub fn reserve() -> Result<Self> {
        let lease = PortLease::take()?;
        let socket = std::env::temp_dir().join(format!("delphinus-operators-{}", lease.port()));
        Ok(Self { lease, socket })
    }

    /// The lines for the configuration, with one user, who may do everything.
    pub fn section(&self) -> String {
        let (port, socket) = (self.lease.port(), self.socket.display());
        format!(
            "[admin]\naddresses = [\"127.0.0.1:{port}\", \"unix:{socket}\"]\n\
             [[admin.user]]\nname = \"ops\"\npassword = \"pw\"\nrole = \"operate\"\n"
        )
    }

    /// Where it is. `like`: any other address of the same proxy.
    pub fn address(&self, like: &Address) -> Address {
        let (user, password, database) = ("ops".to_owned(), "pw".to_owned(), String::new());
        let (port, socket) = (self.lease.port(), self.socket.clone());
        Address { port, socket, user, password, database, ..like.clone() }
    }

    /// A client of the operators' commands.
    pub fn connect(&self, like: &Address) -> Result<Client> {
        self.address(like).connect()
    }

    /// All backends.
    pub fn backends(&self, like: &Address) -> Result<Vec<BackendRow>> {
        let rows = self.connect(like)?.rows("SHOW BACKENDS")?;
        let row = |row: &Vec<Option<String>>| {
            let text = |at: usize| row.get(at).cloned().flatten().unwrap_or_default();
            BackendRow {
                name: text(0),
                role: text(2),
                state: text(3),
                reason: text(5),
                lag_ms: text(13),
                lag_source: text(17),
                origin: text(18),
            }
        };
        Ok(rows.iter().map(row).collect())
    }

    /// The one with this name.
    pub fn backend(&self, like: &Address, name: &str) -> Result<BackendRow> {
        let found = self.backends(like)?.into_iter().find(|row| row.name == name);
        found.with_context(|| format!("there is no backend {name}"))
    }
}
