//! Where clients may come from: two lists, of which the one of those that may not is stronger.

use std::net::IpAddr;

use delphinus_net::Network;

/// Some places that clients come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origins {
    /// All.
    All,
    /// Unix sockets.
    Unix,
    /// A network.
    Of(Network),
}

/// Who may come in by where it comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Addresses {
    /// The only ones that may; empty: all.
    pub allow: Vec<Origins>,
    /// Those that may not, also where the other list has them.
    pub deny: Vec<Origins>,
}

impl Origins {
    fn hold(self, ip: Option<IpAddr>) -> bool {
        match (self, ip) {
            (Self::All, _) | (Self::Unix, None) => true,
            (Self::Of(network), Some(ip)) => network.contains(ip),
            (Self::Unix, Some(_)) | (Self::Of(_), None) => false,
        }
    }
}

impl Addresses {
    /// True for a client from this address; `None`: from a Unix socket.
    pub fn admit(&self, ip: Option<IpAddr>) -> bool {
        // An IPv4 address that a listener on [::] sees is one of IPv4.
        let ip = ip.map(|ip| ip.to_canonical());
        let hold = |list: &[Origins]| list.iter().any(|origins| origins.hold(ip));
        (self.allow.is_empty() || hold(&self.allow)) && !hold(&self.deny)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str, bits: u8) -> Origins {
        Origins::Of(Network::new(text.parse().unwrap(), bits))
    }

    #[test]
    fn the_list_of_those_that_may_not_is_stronger() {
        let ip = |text: &str| Some(text.parse().unwrap());
        let all = Addresses::default();
        assert!(all.admit(None) && all.admit(ip("10.1.2.3")));
        let inside = Addresses { allow: vec![network("10.0.0.0", 8)], deny: vec![network("10.9.0.0", 16)] };
        assert!(inside.admit(ip("10.1.2.3")) && inside.admit(ip("::ffff:10.1.2.3")));
        assert!(!inside.admit(ip("11.1.2.3")) && !inside.admit(ip("10.9.2.3")));
        assert!(!inside.admit(ip("::ffff:10.9.2.3")));
        assert!(!inside.admit(None) && !inside.admit(ip("fd00::1")));
        let local = Addresses { allow: vec![Origins::Unix, network("fd00::", 8)], deny: Vec::new() };
        assert!(local.admit(None) && local.admit(ip("fd00::1")) && !local.admit(ip("127.0.0.1")));
        let nobody = Addresses { allow: Vec::new(), deny: vec![Origins::All] };
        assert!(!nobody.admit(None) && !nobody.admit(ip("127.0.0.1")));
        assert!(!Addresses { allow: Vec::new(), deny: vec![Origins::Unix] }.admit(None));
        // Every address of either family.
        let any = Addresses { allow: vec![network("0.0.0.0", 0), network("::", 0)], deny: Vec::new() };
        assert!(any.admit(ip("255.1.1.1")) && any.admit(ip("ffff::1")) && !any.admit(None));
    }
}
