//! How a backend has come to be one: by the configuration, which may change, or found in the cluster.

use std::sync::Arc;
use std::time::Instant;

/// Where a backend is from. A place that was once a server's is never another's: whatever remembers its number means that server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Origin {
    /// From the configuration: it stays, whatever is seen.
    #[default]
    Configured,
    /// No backend: a place whose backend was removed from the configuration.
    Vacant,
    /// No backend yet: a place for one that is found.
    Spare,
    /// The cluster has named it.
    Found(Found),
    /// It was found, and is no part of the cluster any more.
    Left(Found),
}

/// A server that the cluster has named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What it is known by: its `@@server_uuid`, or its `@@server_id` where that is all that its primary knows.
    pub id: Arc<str>,
    /// Where it says that it can be reached: host and port.
    pub address: Arc<str>,
    /// Name of the backend that has named it first.
    pub by: Arc<str>,
    /// Since when it is looked for there.
    pub(crate) since: Instant,
    /// At how many addresses it was looked for before.
    pub(crate) tries: u32,
    /// Since when the cluster has been without it.
    pub(crate) missing: Option<Instant>,
}

impl Origin {
    /// True for a backend that there is.
    #[inline]
    pub fn is_present(&self) -> bool {
        matches!(self, Self::Configured | Self::Found(_))
    }

    /// What the cluster says of it, if it was found.
    pub fn found(&self) -> Option<&Found> {
        match self {
            Self::Found(found) => Some(found),
            Self::Configured | Self::Vacant | Self::Spare | Self::Left(_) => None,
        }
    }
}

impl Found {
    /// Host and port, if that is an address to connect to.
    pub fn host_and_port(&self) -> Option<(&str, u16)> {
        split(&self.address)
    }
}

/// The parts of an address as servers tell it. An IPv6 address has no brackets there, but where an operator has written some into
/// `report_host`.
pub(crate) fn split(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port > 0)?;
    let in_brackets = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = in_brackets.unwrap_or(host);
    (!host.is_empty()).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_host_and_port() {
        for (text, parts) in [
            ("db1.example:3306", Some(("db1.example", 3306))),
            ("fd00::1:3307", Some(("fd00::1", 3307))),
            ("[fd00::1]:3307", Some(("fd00::1", 3307))),
            (":3306", None),
            ("[]:3306", None),
            ("db1:0", None),
            ("db1:70000", None),
            ("db1", None),
            ("", None),
        ] {
            assert_eq!(split(text), parts, "{text}");
        }
    }
}
