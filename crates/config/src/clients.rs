//! Where clients come from, as lists of addresses name it: networks, prefixes as Cetus and Atlas write them, Unix sockets.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use crate::address::Network;

/// Some clients, by where they come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Clients {
    /// All, those of Unix sockets, too.
    All,
    /// Those of Unix sockets.
    Unix,
    /// Those of a network.
    Of(Network),
}

impl FromStr for Clients {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "*" => return Ok(Self::All),
            "unix" => return Ok(Self::Unix),
            _ => {}
        }
        if let Some(network) = prefix(text) {
            return Ok(Self::Of(network));
        }
        text.parse().map(Self::Of).map_err(|_| {
            "write networks like \"10.0.0.0/8\" or \"fd00::/8\", prefixes like \"10.1.*\", IP addresses, \"unix\" or \"*\""
                .to_owned()
        })
    }
}

/// `10.1.*` and `10.1.2.*` (Cetus), `10.1` and `10.1.2` (Atlas), with or without a dot at the end.
fn prefix(text: &str) -> Option<Network> {
    let text = text.strip_suffix('*').filter(|rest| rest.ends_with('.')).unwrap_or(text);
    let parts: Vec<&str> = text.strip_suffix('.').unwrap_or(text).split('.').collect();
    if parts.len() > 3 || text.is_empty() {
        return None;
    }
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !parts.iter().all(is_number) || (parts.len() == 1 && !text.ends_with('.')) {
        return None;
    }
    let mut octets = [0; 4];
    for (octet, part) in octets.iter_mut().zip(&parts) {
        *octet = part.parse().ok()?;
    }
    let bits = u8::try_from(8 * parts.len()).ok()?;
    Some(Network { ip: IpAddr::V4(Ipv4Addr::from(octets)), prefix: bits })
}

impl fmt::Display for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("*"),
            Self::Unix => f.write_str("unix"),
            Self::Of(network) => network.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_read() {
        for (text, meant) in [
            ("*", "*"),
            ("unix", "unix"),
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("fd00::/8", "fd00::/8"),
            ("::1", "::1/128"),
            ("10.1.2.3", "10.1.2.3/32"),
            ("10.1.2.*", "10.1.2.0/24"),
            ("10.1.*", "10.1.0.0/16"),
            ("10.*", "10.0.0.0/8"),
            ("10.1.2", "10.1.2.0/24"),
            ("10.1", "10.1.0.0/16"),
            ("10.1.", "10.1.0.0/16"),
        ] {
            assert_eq!(text.parse::<Clients>().map(|one| one.to_string()).as_deref(), Ok(meant), "{text}");
        }
        for text in [
            "",
            "10",
            "10*",
            "10.1*",
            "256.1.*",
            "a.b.*",
            "10.1.2.3.*",
            "10..1",
            "*.1",
            "localhost",
            ".",
            "10.0.0.0/33",
            "1.2.3.4.5",
        ] {
            assert!(text.parse::<Clients>().is_err(), "{text}");
        }
    }
}
