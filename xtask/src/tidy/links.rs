//! A link of a page to a file of the project leads to one.

use std::collections::HashSet;
use std::path::Path;

use super::{Project, Violation};

/// Names every such link that leads nowhere. What is behind its `#` is not looked at.
pub(crate) fn check(project: &Project) -> Vec<Violation> {
    let files = &project.tree.files;
    let known: HashSet<&str> = files.iter().flat_map(|file| with_folders(&file.path)).collect();
    let mut found = Vec::new();
    for page in files.iter().filter(|file| is_page(&file.path)) {
        for (index, line) in page.text.lines().enumerate() {
            let lost = targets(line).filter(|target| !known.contains(resolved(&page.path, target).as_str()));
            found.extend(lost.map(|target| {
                Violation::new(&page.path, index + 1, format!("a link leads to {target}, which is not there"))
            }));
        }
    }
    found
}

fn is_page(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|ending| ending == "md")
}

/// A file, and the folders that it is in.
fn with_folders(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at]).chain([path])
}

/// What the links of a line name that is in the project.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("](").filter_map(|(at, head)| {
        let rest = &line[at + head.len()..];
        let target = &rest[..rest.find([')', ' '])?];
        let file = target.split_once('#').map_or(target, |(file, _)| file);
        (!file.is_empty() && !file.contains(':')).then_some(file)
    })
}

/// The path from the root of what a link in this page names.
fn resolved(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::super::testing::{files, places};
    use super::*;

    fn found_in(page: &str) -> Vec<String> {
        let others = [("docs/b.md", ""), ("README.md", ""), ("crates/net/src/a.rs", "//! A.\n")];
        places(&check(&files(&[&[("docs/a.md", page)][..], &others].concat())))
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        assert_eq!(found_in("# A\n[b](b.md) and [c](gone.md#c)\n"), ["docs/a.md:2"]);
        assert_eq!(found_in("| a | [b](../crates/net/src/b.rs) |\n"), ["docs/a.md:1"]);
    }

    #[test]
    fn files_folders_headings_and_other_sites_are_not() {
        for link in ["b.md", "../README.md#a", "../crates/net", "#here", "https://example.org/a"] {
            assert!(found_in(&format!("[a]({link})\n")).is_empty(), "{link}");
        }
    }
}
