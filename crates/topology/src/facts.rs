//! What a server says about itself, as far as clients are told it again.

use crate::collation::Collations;

/// Family of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flavor {
    /// MySQL and its close relatives.
    MySql,
    /// MariaDB.
    MariaDb,
}

impl Flavor {
    /// The family of a server that gives this `@@version` and `@@version_comment`.
    pub fn of(version: &str, comment: &str) -> Self {
        let says_so = |text: &str| text.to_ascii_lowercase().contains("mariadb");
        if says_so(version) || says_so(comment) { Self::MariaDb } else { Self::MySql }
    }

    /// A short word for logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MySql => "mysql",
            Self::MariaDb => "mariadb",
        }
    }
}

/// What the greeting to clients is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFacts {
    /// `@@version`, as `8.0.36` or `10.11.6-MariaDB-log`.
    pub version: String,
    /// The same as a number: major * 10000 + minor * 100 + patch, as 80036 and 101106.
    pub version_number: u32,
    /// Family.
    pub flavor: Flavor,
    /// Id of `@@collation_server`.
    pub default_collation: u16,
    /// Its collations.
    pub collations: Collations,
    /// It is another Delphinus: what it answers may have been kept there from before a write that its server has by now.
    pub is_delphinus: bool,
}

impl ServerFacts {
    /// What is known of a server by its version alone. Tests and simulations begin with it.
    pub fn bare(version: &str) -> Self {
        Self {
            version: version.to_owned(),
            version_number: Self::number_of(version),
            flavor: Flavor::of(version, ""),
            default_collation: 255,
            collations: Collations::default(),
            is_delphinus: false,
        }
    }

    /// The version text as a number, 0 if it is not one. MariaDB before 11 hides behind `5.5.5-` in its greeting;
    /// that prefix does not count.
    pub fn number_of(version: &str) -> u32 {
        let version = match version.strip_prefix("5.5.5-") {
            Some(rest) if rest.starts_with(|c: char| c.is_ascii_digit()) => rest,
            _ => version,
        };
        let mut parts = version.splitn(3, '.').map(leading_number);
        let mut next = |limit: u32| parts.next().unwrap_or(0).min(limit);
        next(9_999) * 10_000 + next(99) * 100 + next(99)
    }
}

fn leading_number(text: &str) -> u32 {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_become_numbers() {
        for (text, number) in [
            ("8.0.36", 80_036),
            ("9.7.0-log", 90_700),
            ("5.5.5-10.11.6-MariaDB-log", 101_106),
            ("5.5.5", 50_505),
            ("5.5.5-log", 50_505),
            ("11.8.3-MariaDB", 110_803),
            ("8.4", 80_400),
            ("", 0),
            ("garbage", 0),
            ("99999999999.1.1", 101),
        ] {
            assert_eq!(ServerFacts::number_of(text), number, "{text}");
        }
    }

    #[test]
    fn families_are_told_apart() {
        assert_eq!(Flavor::of("10.11.6-MariaDB", ""), Flavor::MariaDb);
        assert_eq!(Flavor::of("11.4.2", "mariadb.org binary distribution"), Flavor::MariaDb);
        assert_eq!(Flavor::of("8.0.36", "MySQL Community Server - GPL"), Flavor::MySql);
    }
}
