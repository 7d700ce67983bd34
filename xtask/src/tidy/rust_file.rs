//! A Rust source file: its code without comments and literals, and which of its lines are tests.

use super::scan::{block_end, code_of};

/// What makes an item a test.
const TEST_ATTRIBUTE: &str = "#[cfg(test)]";

/// A Rust source file.
#[derive(Debug)]
pub(crate) struct RustFile {
    pub(crate) path: String,
    pub(crate) text: String,
    /// The text with comments and literals blanked, line for line.
    pub(crate) code: String,
    /// For each line, whether it is in an inline test.
    inline_tests: Vec<bool>,
    /// The whole file is a test or serves only tests.
    pub(crate) is_test: bool,
}

impl RustFile {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let code = code_of(text);
        let inline_tests = inline_tests(&code);
        Self { path: path.to_owned(), text: text.to_owned(), code, inline_tests, is_test: is_test(path) }
    }

    /// Lines of code with their numbers from 1, tests included.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// Lines of code with their numbers from 1, without tests.
    pub(crate) fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines().filter(|&(number, _)| !self.is_test_line(number))
    }

    /// Whether a line, counted from 1, belongs to a test.
    pub(crate) fn is_test_line(&self, number: usize) -> bool {
        self.is_test || self.inline_tests.get(number - 1).copied().unwrap_or(false)
    }

    /// The number of lines in inline tests, and of all others.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        let tests = self.inline_tests.iter().filter(|&&is_test| is_test).count();
        (tests, self.inline_tests.len() - tests)
    }

    /// The line, from 1, of a position in the code.
    pub(crate) fn line_at(&self, position: usize) -> usize {
        self.code[..position].matches('\n').count() + 1
    }

    /// The folder of the crate, as `crates/net`, `e2e` or `xtask`.
    pub(crate) fn package_folder(&self) -> &str {
        let depth = if self.path.starts_with("crates/") { 2 } else { 1 };
        let end = self.path.match_indices('/').nth(depth - 1).map_or(self.path.len(), |(at, _)| at);
        &self.path[..end]
    }
}

fn is_test(path: &str) -> bool {
    let is_test_package =
        path.starts_with("e2e/") || path.starts_with("fuzz/") || path.starts_with("crates/testkit/");
    let is_test_folder = path.split('/').any(|part| matches!(part, "tests" | "benches" | "examples"));
    is_test_package || is_test_folder || path.ends_with("/tests.rs")
}

fn inline_tests(code: &str) -> Vec<bool> {
    let mut is_test = vec![false; code.lines().count()];
    for (from, _) in code.match_indices(TEST_ATTRIBUTE) {
        let first = code[..from].matches('\n').count();
        let last = first + code[from..item_end(code, from + TEST_ATTRIBUTE.len())].matches('\n').count();
        let end = (last + 1).min(is_test.len());
        is_test[first..end].fill(true);
    }
    is_test
}

/// An item ends with its block, or with a semicolon when it has none.
fn item_end(code: &str, from: usize) -> usize {
    match code[from..].find(['{', ';']) {
        Some(offset) if code.as_bytes()[from + offset] == b'{' => block_end(code, from + offset),
        Some(offset) => from + offset,
        None => code.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "//! Head.\nfn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() { \"}\" }\n}\nfn c() {}\n#[cfg(test)]\nuse d;\nfn e() {}\n";

    #[test]
    fn inline_tests_are_told_from_the_product() {
        let file = RustFile::new("crates/net/src/a.rs", TEXT);
        let product: Vec<_> = file.product_lines().map(|(number, _)| number).collect();
        assert_eq!(product, [1, 2, 7, 10]);
        assert_eq!(file.sizes(), (6, 4));
    }

    #[test]
    fn files_of_tests_are_tests() {
        for path in [
            "crates/net/src/rt/tests.rs",
            "crates/net/tests/a.rs",
            "e2e/src/lib.rs",
            "crates/testkit/src/a.rs",
        ] {
            assert!(RustFile::new(path, "").is_test, "{path}");
        }
        for path in ["crates/net/src/attests.rs", "xtask/src/test.rs", "crates/net/src/lib.rs"] {
            assert!(!RustFile::new(path, "").is_test, "{path}");
        }
    }

    #[test]
    fn a_file_knows_its_package() {
        assert_eq!(RustFile::new("crates/net/src/a.rs", "").package_folder(), "crates/net");
        assert_eq!(RustFile::new("xtask/src/a.rs", "").package_folder(), "xtask");
    }
}
