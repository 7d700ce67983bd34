//! The admin listener of a proxy on a stage: a Unix socket of its own, and one operator who may do everything.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};

use crate::client::Client;
use crate::stage::Address;

const USER: &str = "ops";
const PASSWORD: &str = "operator-pw";

/// An admin listener that no other proxy has.
#[derive(Debug)]
pub struct Operators {
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

impl Default for Operators {
    fn default() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("delphinus-operators-{}-{number}", std::process::id());
        Self { socket: std::env::temp_dir().join(name) }
    }
}

impl Operators {
    /// How another process asks a relay of this one, as `[[cluster.failover.remote_relay]]` has it: by TCP at this port.
    pub fn remote_relay(name: &str, port: u16) -> String {
        format!(
            "[[cluster.failover.remote_relay]]\nname = \"{name}\"\naddress = \"127.0.0.1:{port}\"\n\
             user = \"{USER}\"\npassword = \"{PASSWORD}\"\n"
        )
    }

    /// Its sections of the configuration.
    pub fn section(&self) -> String {
        self.section_with("")
    }

    /// The same where operators come by TCP, too.
    pub fn section_with_tcp(&self, port: u16) -> String {
        self.section_with(&format!(", \"127.0.0.1:{port}\""))
    }

    fn section_with(&self, more: &str) -> String {
        format!(
            "[admin]\naddresses = [\"unix:{}\"{more}]\n\
             [[admin.user]]\nname = \"{USER}\"\npassword = \"{PASSWORD}\"\nrole = \"operate\"\n",
            self.socket.display()
        )
    }

    /// How it is reached, where the proxy is reached like this.
    pub fn address(&self, of_clients: &Address) -> Address {
        Address {
            socket: self.socket.clone(),
            user: USER.to_owned(),
            password: PASSWORD.to_owned(),
            database: String::new(),
            ..of_clients.clone()
        }
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
