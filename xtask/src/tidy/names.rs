//! Words that names must not have.

use super::rust_file::RustFile;
use super::scan::words;
use super::{Project, Violation};

/// Words that say nothing about what a type keeps or does.
const EMPTY_WORDS: [&str; 8] = ["Manager", "Handler", "Helper", "Helpers", "Util", "Utils", "Impl", "Inner"];
/// As above, but a word of its own at the end only: `BaseDir` is a folder, `ClusterBase` says nothing.
const EMPTY_ENDING: &str = "Base";
/// What makes a type.
const TYPES: [&str; 5] = ["struct", "enum", "union", "trait", "type"];
/// Other people's words for the two sides of the proxy, and ours.
const SIDES: [(&str, &str); 3] =
    [("frontend", "client"), ("upstream", "backend"), ("hostgroup", "cluster and role")];

/// Names every type and identifier with such a word. Comments and strings may have them.
pub(crate) fn check(project: &Project) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in &project.tree.rust {
        found.extend(types(file));
        if file.path.starts_with("crates/") {
            found.extend(sides(file));
        }
    }
    found
}

fn types(file: &RustFile) -> Vec<Violation> {
    let mut found = Vec::new();
    for (number, line) in file.lines() {
        let mut before = "";
        for word in words(line) {
            if TYPES.contains(&before) && has_empty_word(word) {
                let what = format!("`{word}`: name the thing that it keeps or does");
                found.push(Violation::new(&file.path, number, what));
            }
            before = word;
        }
    }
    found
}

fn has_empty_word(name: &str) -> bool {
    let starts = name.char_indices().filter(|(_, c)| c.is_uppercase()).map(|(at, _)| at);
    let starts: Vec<usize> = starts.chain([name.len()]).collect();
    let parts: Vec<&str> = starts.windows(2).map(|pair| &name[pair[0]..pair[1]]).collect();
    parts.iter().any(|part| EMPTY_WORDS.contains(part)) || parts.last() == Some(&EMPTY_ENDING)
}

fn sides(file: &RustFile) -> Vec<Violation> {
    let mut found = Vec::new();
    for (number, line) in file.lines() {
        for word in words(line) {
            let lower = word.to_lowercase();
            let wrong = SIDES.iter().find(|(theirs, _)| lower.contains(theirs));
            found.extend(wrong.map(|(_, ours)| {
                Violation::new(&file.path, number, format!("`{word}`: the word here is {ours}"))
            }));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::testing::{files, places};
    use super::*;

    #[test]
    fn types_that_say_nothing_are_found() {
        for name in
            ["PoolManager", "QueryHandler", "Helper", "StringUtils", "InnerPool", "PoolImpl", "StreamBase"]
        {
            for kind in TYPES {
                let text = format!("//! A.\npub {kind} {name};\n");
                assert_eq!(
                    places(&check(&files(&[("crates/net/src/a.rs", &text)]))),
                    ["crates/net/src/a.rs:2"],
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn types_that_only_look_like_it_are_not() {
        let text = "//! A manager.\nstruct Implicit; struct BaseDir; enum Utility {} fn handler() { \"struct Inner\" }\n";
        assert_eq!(check(&files(&[("crates/net/src/a.rs", text)])), []);
    }

    #[test]
    fn other_peoples_words_for_the_sides_are_found() {
        let text =
            "//! The frontend.\nlet a = 1;\nlet upstream_addr = \"hostgroup\";\nstruct FrontendConn;\n";
        let project = files(&[("crates/net/src/a.rs", text), ("e2e/src/a.rs", text)]);
        assert_eq!(places(&check(&project)), ["crates/net/src/a.rs:3", "crates/net/src/a.rs:4"]);
    }
}
