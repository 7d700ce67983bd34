//! Exceptions from lints: `#[expect(..)]` with a reason, listed so that somebody looks at them. No `#[allow]`.

use super::rust_file::RustFile;
use super::{Project, Violation};

/// The exceptions of the product, as lines to print.
pub(crate) fn list(project: &Project) -> Vec<String> {
    let all = product_attributes(project, "expect(");
    all.map(|(file, line, text)| format!("{}:{line}: {text}", file.path)).collect()
}

/// Names exceptions without a reason, and lints that are switched off.
pub(crate) fn check(project: &Project) -> Vec<Violation> {
    let bare = product_attributes(project, "expect(").filter(|(_, _, text)| !text.contains("reason = \""));
    let bare = bare.map(|(file, line, _)| Violation::new(&file.path, line, "an exception has a `reason`"));
    let off = product_attributes(project, "allow(");
    let off = off.map(|(file, line, _)| {
        Violation::new(
            &file.path,
            line,
            "`#[expect(lint, reason = \"..\")]`, which ends when it is not needed",
        )
    });
    bare.chain(off).collect()
}

/// Attributes outside of tests that start so: file, line, text.
fn product_attributes<'a>(
    project: &'a Project,
    start: &'a str,
) -> impl Iterator<Item = (&'a RustFile, usize, String)> + 'a {
    let heads = [format!("#[{start}"), format!("#![{start}")];
    project.tree.rust.iter().flat_map(move |file| {
        let lines =
            file.product_lines().filter(|(_, line)| heads.iter().any(|head| line.contains(head.as_str())));
        lines.map(|(number, _)| (file, number, attribute(&file.text, number))).collect::<Vec<_>>()
    })
}

/// The attribute that starts on this line, on one line.
fn attribute(text: &str, number: usize) -> String {
    let mut whole = String::new();
    for line in text.lines().skip(number - 1) {
        whole += line.trim();
        if line.trim_end().ends_with(")]") {
            break;
        }
        whole.push(' ');
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::super::testing::{files, places};
    use super::*;

    #[test]
    fn exceptions_are_listed_and_need_a_reason() {
        let text = "//! A.\n#[expect(a, reason = \"b\")]\nfn c() {}\n#[expect(\n    d,\n    reason = \"e\"\n)]\nfn f() {}\n#[expect(g)]\nfn h() {}\n";
        let project = files(&[("xtask/src/a.rs", text)]);
        let listed = list(&project);
        assert_eq!(listed.len(), 3);
        assert_eq!(listed[1], "xtask/src/a.rs:4: #[expect( d, reason = \"e\" )]");
        assert_eq!(places(&check(&project)), ["xtask/src/a.rs:9"]);
    }

    #[test]
    fn a_lint_that_is_switched_off_is_found_outside_of_tests() {
        let text = "//! A.\n#![allow(b, reason = \"c\")]\n";
        let project = files(&[("xtask/src/a.rs", text), ("e2e/tests/a.rs", text)]);
        assert_eq!(places(&check(&project)), ["xtask/src/a.rs:2"]);
    }
}
