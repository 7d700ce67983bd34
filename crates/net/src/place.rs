//! Where a backend is at the moment, and how it is reached. Only the control plane writes: the monitor, and the one that carries
//! out a changed configuration. Pools and probes read.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use delphinus_wire::compression::Algorithm;
use delphinus_wire::handshake::client::Trust;
use delphinus_wire::proxy_header::ProxyVersion;

use crate::dial::Address;
use crate::tls::ClientTls;

/// Where a backend is, shared by all who connect to it.
#[derive(Debug)]
pub struct Place {
    spot: ArcSwap<Spot>,
    reach: ArcSwap<Reach>,
    moves: AtomicU64,
}

/// How a backend is reached.
#[derive(Debug, Clone, Default)]
pub struct Reach {
    /// How TLS is done, and whether a backend that does not offer it is refused; `None`: without TLS.
    pub tls: Option<(ClientTls, bool)>,
    /// What to compress with, if the backend can: it may refuse a login without.
    pub compression: Option<Algorithm>,
    /// In which form the backend is told where a connection comes from, if it is.
    pub proxy_protocol: Option<ProxyVersion>,
    /// What is known of who answers there.
    pub trust: Trust,
}

/// What a place holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spot {
    /// The backend's name; empty where there is none.
    pub name: Arc<str>,
    /// Where it listens; `None`: there is none.
    pub address: Option<Address>,
    /// To which of the addresses of its name connections go; `None`: each connection looks it up, and takes the first that answers.
    pub ip: Option<IpAddr>,
}

impl Place {
    /// The place of a backend.
    pub fn of(name: Arc<str>, address: Address, reach: Reach) -> Arc<Self> {
        Self::new(Spot { name, address: Some(address), ip: None }, reach)
    }

    /// A place without a backend, for one that comes later and is reached like this.
    pub fn spare(reach: Reach) -> Arc<Self> {
        Self::new(Spot::default(), reach)
    }

    fn new(spot: Spot, reach: Reach) -> Arc<Self> {
        let (spot, reach) = (ArcSwap::from_pointee(spot), ArcSwap::from_pointee(reach));
        Arc::new(Self { spot, reach, moves: AtomicU64::new(0) })
    }

    /// How its backend is reached.
    pub fn reach(&self) -> Arc<Reach> {
        self.reach.load_full()
    }

    /// Reaches its backend in another way from now on. Connections that are open are replaced as if it had moved.
    pub fn reach_by(&self, reach: Reach) {
        self.reach.store(Arc::new(reach));
        // After it, as in `move_to`.
        self.moves.fetch_add(1, Ordering::AcqRel);
    }

    /// What it holds now.
    pub fn spot(&self) -> Arc<Spot> {
        self.spot.load_full()
    }

    /// The name of its backend.
    pub fn name(&self) -> Arc<str> {
        self.spot.load().name.clone()
    }

    /// How often it has moved: a connection that was opened before the last time leads elsewhere.
    #[inline]
    pub fn moves(&self) -> u64 {
        self.moves.load(Ordering::Acquire)
    }

    /// Notes to which address the name of `spot` leads, as long as that is what it holds: nobody has moved.
    pub fn settle(&self, spot: &Spot, ip: IpAddr) {
        if **self.spot.load() == *spot {
            self.spot.store(Arc::new(Spot { ip: Some(ip), ..spot.clone() }));
        }
    }

    /// Puts something else in it; true if it was not there before.
    pub fn move_to(&self, spot: Spot) -> bool {
        if **self.spot.load() == spot {
            return false;
        }
        self.spot.store(Arc::new(spot));
        // After it: who sees the new number finds the new address.
        self.moves.fetch_add(1, Ordering::AcqRel);
        true
    }
}

impl Spot {
    /// The host, if it is a name that has to be looked up.
    pub fn host_name(&self) -> Option<&str> {
        match &self.address {
            Some(Address::Tcp(host, _)) if host.parse::<IpAddr>().is_err() => Some(host),
            _ => None,
        }
    }

    /// The name that a certificate must carry.
    pub fn host(&self) -> &str {
        self.address.as_ref().map_or("", Address::host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_same_is_no_move() {
        let at = |port| Spot { name: "b".into(), address: Some(Address::Tcp("h".into(), port)), ip: None };
        let place = Place::of("b".into(), Address::Tcp("h".into(), 1), Reach::default());
        assert!(!place.move_to(at(1)));
        assert_eq!(place.moves(), 0);
        assert!(place.move_to(at(2)));
        assert_eq!((place.moves(), (*place.spot()).clone()), (1, at(2)));
    }
}
