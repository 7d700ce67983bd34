//! Tests that fail through Delphinus on purpose.

use crate::server_suite::Protocol;

/// So many there may be.
pub(crate) const MOST: usize = 25;

/// A deliberate difference.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    /// The test's name.
    pub test: &'static str,
    /// Only in this protocol, if that is said.
    pub only: Option<Protocol>,
    /// What Delphinus does otherwise, and why.
    pub reason: &'static str,
    /// The page that tells users of it, as seen from docs/.
    pub page: &'static str,
}

/// All of them, by name.
pub(crate) const KNOWN: &[Known] = &[];

/// What is known of a test.
pub(crate) fn known(test: &str, protocol: Protocol) -> Option<&'static Known> {
    KNOWN.iter().find(|one| one.test == test && one.only.is_none_or(|only| only == protocol))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn deliberate_differences_are_few_and_have_a_page_each() {
        assert!(KNOWN.len() <= MOST, "{} of {MOST}", KNOWN.len());
        for one in KNOWN {
            let file = one.page.split('#').next().unwrap();
            let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(file);
            assert!(page.is_file(), "{}: no page {file}", one.test);
            assert!(!one.reason.is_empty(), "{}: no reason", one.test);
        }
    }
}
