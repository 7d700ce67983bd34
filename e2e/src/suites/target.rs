//! Where a suite runs, and in which variant.

use std::fmt;
use std::path::PathBuf;

use crate::stage::Address;

/// What may differ between two runs of the same suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variant {
    /// Connections are encrypted.
    pub tls: bool,
    /// Connections are compressed.
    pub compression: bool,
}

impl Variant {
    /// All there are.
    pub(crate) const ALL: [Self; 4] = [
        Self { tls: false, compression: false },
        Self { tls: true, compression: false },
        Self { tls: false, compression: true },
        Self { tls: true, compression: true },
    ];

    /// True for its name, as it is shown, in upper or lower case.
    pub(crate) fn is_named(self, name: &str) -> bool {
        self.to_string().eq_ignore_ascii_case(name)
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match (self.tls, self.compression) {
            (false, false) => "plain",
            (true, false) => "TLS",
            (false, true) => "compressed",
            (true, true) => "TLS, compressed",
        })
    }
}

/// What a suite is run against.
#[derive(Debug)]
pub(crate) struct Target {
    /// Where and as whom to log in: a user with all rights.
    pub(crate) address: Address,
    pub(crate) variant: Variant,
    /// An empty folder for settings files and the like.
    pub(crate) scratch: PathBuf,
}

impl Target {
    pub(crate) fn on_off(&self) -> &'static str {
        if self.variant.tls { "on" } else { "off" }
    }
}
