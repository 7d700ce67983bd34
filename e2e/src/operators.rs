//! The admin listener of a proxy on a stage: a Unix socket of its own, and one operator who may do everything.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::stage::Address;

const USER: &str = "ops";
const PASSWORD: &str = "operator-pw";

/// An admin listener that no other proxy has.
#[derive(Debug)]
pub struct Operators {
    socket: PathBuf,
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
    /// Its sections of the configuration.
    pub fn section(&self) -> String {
        format!(
            "[admin]\naddresses = [\"unix:{}\"]\n\
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
}
