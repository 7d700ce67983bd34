//! What may panic, what may be skipped and what may be unsafe: nothing, but an `expect` that says why it cannot.

use super::rust_file::RustFile;
use super::scan::words;
use super::{Project, Violation};

const EXPECT: &str = ".expect(";

/// The one file that talks to the kernel by pointers.
const UNSAFE: &str = "crates/kernel/src/";

/// Names every breach.
pub(crate) fn check(project: &Project) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in &project.tree.rust {
        for (number, line) in file.lines() {
            let whats = everywhere(&file.path, line)
                .chain((!file.is_test_line(number)).then(|| in_product(line)).flatten());
            found.extend(whats.map(|what| Violation::new(&file.path, number, what)));
        }
        found.extend(expectations(file));
    }
    found
}

/// What not even a test may have.
fn everywhere(path: &str, line: &str) -> impl Iterator<Item = &'static str> {
    let is_skipped = line.contains("#[ignore");
    let is_unsafe = !path.starts_with(UNSAFE) && words(line).any(|word| word == "unsafe");
    let skipped = is_skipped.then_some("a test that is not run tests nothing");
    skipped.into_iter().chain(is_unsafe.then_some("no `unsafe` but in crates/kernel"))
}

fn in_product(line: &str) -> Option<&'static str> {
    let is_unwrap = line.contains(".unwrap()") || line.contains("::unwrap)");
    is_unwrap.then_some("no `unwrap`: handle it, or `expect(\"invariant: why it cannot happen\")`")
}

/// `expect` with anything but an invariant. The text is read behind the call, on the same line or the next.
fn expectations(file: &RustFile) -> Vec<Violation> {
    let mut found = Vec::new();
    let lines: Vec<&str> = file.text.lines().collect();
    for (number, line) in file.product_lines() {
        // Positions in the code are counted in characters: what is blank there may be wider in the text.
        for (at, _) in line.match_indices(EXPECT) {
            let skip = line[..at + EXPECT.len()].chars().count();
            let rest: String = lines[number - 1].chars().skip(skip).collect();
            let next = lines.get(number).copied().unwrap_or_default();
            let said = if rest.trim().is_empty() { next.trim() } else { rest.trim() };
            if said.starts_with('"') && !said.starts_with("\"invariant: ") {
                let what = "`expect(\"invariant: why it cannot happen\")`, or handle it";
                found.push(Violation::new(&file.path, number, what));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::testing::{files, places};
    use super::*;

    fn lines_of(text: &str) -> Vec<String> {
        places(&check(&files(&[("crates/net/src/a.rs", text)])))
    }

    #[test]
    fn unwrap_is_found_outside_of_tests() {
        let text = "//! A.unwrap()\nfn a() { b.unwrap() }\nfn c() { d.map(Result::unwrap) }\n#[cfg(test)]\nmod tests { e.unwrap() }\n";
        assert_eq!(lines_of(text), ["crates/net/src/a.rs:2", "crates/net/src/a.rs:3"]);
        assert_eq!(lines_of("//! A.\nfn a() { b.unwrap_or(c) }\n"), Vec::<String>::new());
    }

    #[test]
    fn an_expectation_is_an_invariant() {
        let text =
            "//! A.\na.expect(\"it works\");\na.expect(\"invariant: b\");\na.expect(\n    \"luck\",\n);\n";
        assert_eq!(lines_of(text), ["crates/net/src/a.rs:2", "crates/net/src/a.rs:4"]);
        // A parser's own method of the name.
        assert_eq!(lines_of("//! A.\nself.expect(b'x');\n"), Vec::<String>::new());
    }

    #[test]
    fn skipped_tests_and_unsafe_are_found_in_tests_too() {
        let text = "//! A.\n#[cfg(test)]\nmod tests {\n#[ignore]\nfn a() { unsafe { b() } }\n}\n#![forbid(unsafe_code)]\n";
        assert_eq!(lines_of(text), ["crates/net/src/a.rs:4", "crates/net/src/a.rs:5"]);
    }
}
