//! How files are named, how they start, and how long they may be.

use super::rust_file::RustFile;
use super::{Project, Violation};

/// Lines of a file without its tests.
const LONGEST_FILE: usize = 500;
/// Lines of inline tests; more go to `foo/tests.rs`.
const LONGEST_INLINE_TESTS: usize = 150;

/// Names files that break the layout.
pub(crate) fn check(project: &Project) -> Vec<Violation> {
    project.tree.rust.iter().flat_map(breaches).collect()
}

fn breaches(file: &RustFile) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut report = |line: usize, what: String| found.push(Violation::new(&file.path, line, what));
    if file.path.ends_with("/mod.rs") {
        report(0, "`foo.rs` beside the folder `foo`, never `mod.rs`".to_owned());
    }
    if !file.text.starts_with("//!") {
        report(1, "a file starts with `//!`: what it owns, and what it must not know".to_owned());
    }
    let (tests, product) = file.sizes();
    if !file.is_test && product > LONGEST_FILE {
        report(0, format!("{product} lines without tests; the limit is {LONGEST_FILE}"));
    }
    if !file.is_test && tests > LONGEST_INLINE_TESTS {
        report(
            0,
            format!(
                "{tests} lines of inline tests; from {LONGEST_INLINE_TESTS} on they go to a file `tests.rs`"
            ),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::testing::files;
    use super::*;

    fn breaches_of(path: &str, text: &str) -> usize {
        check(&files(&[(path, text)])).len()
    }

    #[test]
    fn every_breach_is_found() {
        assert_eq!(breaches_of("crates/net/src/tls/mod.rs", "//! A.\n"), 1);
        assert_eq!(breaches_of("crates/net/src/tls.rs", "fn a() {}\n"), 1);
        assert_eq!(breaches_of("crates/net/src/tls.rs", ""), 1);
        assert_eq!(breaches_of("crates/net/src/tls.rs", "//! A.\n"), 0);
    }

    #[test]
    fn the_product_and_its_inline_tests_have_limits_of_their_own() {
        let text = |product: usize, tests: usize| {
            let head = "//! A.\n".to_owned() + &"fn a() {}\n".repeat(product - 1);
            head + "#[cfg(test)]\nmod tests {\n" + &"fn b() {}\n".repeat(tests - 3) + "}\n"
        };
        assert_eq!(breaches_of("xtask/src/a.rs", &text(500, 150)), 0);
        assert_eq!(breaches_of("xtask/src/a.rs", &text(501, 150)), 1);
        assert_eq!(breaches_of("xtask/src/a.rs", &text(500, 151)), 1);
        assert_eq!(breaches_of("crates/net/tests/a.rs", &text(501, 151)), 0);
    }
}
