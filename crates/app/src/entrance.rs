//! Keeps clients out who come to addresses that are about to leave this host, while all others are let in. What comes and is not let in gets
//! no answer here: it is the next host's affair.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use delphinus_net::Listener;

/// All listeners of clients, and the addresses that nobody is let in by.
#[derive(Debug, Default)]
pub(crate) struct Entrance(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    listeners: Vec<Weak<Listener>>,
    shut: BTreeSet<IpAddr>,
}

impl Entrance {
    /// One more. It is known for as long as it is there.
    pub(crate) fn knows(&self, listener: &Arc<Listener>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.listeners.push(Arc::downgrade(listener));
        known.apply();
    }

    /// Lets nobody in any more who comes to one of these addresses, or lets all in again. True if that is so at all listeners, and there
    /// are some.
    pub(crate) fn shut(&self, addresses: &[IpAddr], is_shut: bool) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.shut.clone();
        if is_shut {
            known.shut.extend(addresses);
        } else {
            known.shut.retain(|one| !addresses.contains(one));
        }
        let is_done = (is_shut || known.shut != before) && known.apply();
        if is_shut && !is_done {
            // Whoever hears that it is not so does not let clients in again: they are kept out nowhere.
            known.shut = before;
            known.apply();
        }
        is_done
    }
}

impl Known {
    fn apply(&mut self) -> bool {
        self.listeners.retain(|one| one.strong_count() > 0);
        let shut: Vec<IpAddr> = self.shut.iter().copied().collect();
        let mut is_done = !self.listeners.is_empty();
        for listener in self.listeners.iter().filter_map(Weak::upgrade) {
            if let Err(error) = listener.keep_out(&shut) {
                tracing::warn!(%error, "the proxy cannot hold back new clients of an address that leaves this host: \
                 it serves them until the address has left");
                is_done = false;
            }
        }
        is_done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_not_all_listeners_keep_clients_out_none_does() {
        let entrance = Entrance::default();
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        assert!(!entrance.shut(&[address], true), "there is no listener");
        assert!(entrance.0.lock().unwrap().shut.is_empty(), "one that comes later lets clients in");
    }
}
