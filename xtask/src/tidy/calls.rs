//! Who calls whom between the files of `session`: none in circles, and only its root knows the whole.
//!
//! A call is told by its name: a function that the crate defines once, used in another file as a method of the session, or
//! imported. That misses names that are defined twice, and takes fields for functions of the same name, which is why the limit is
//! a ratchet and no truth.

use std::collections::{BTreeMap, BTreeSet};

use super::rust_file::RustFile;
use super::scan::is_word;
use super::{Project, Violation};

const FOLDER: &str = "crates/session/src";
const OBJECT: &str = "impl Session {";
/// Files with `impl Session`: so many there may be.
const MOST_FILES: usize = 10;
/// Files of the largest strongly connected part: none call each other in circles.
const MOST_KNOTTED: usize = 1;

/// The root, which brings the parts together: only these, and what is below them, know the whole.
const ROOT: [&str; 9] =
    ["command", "extras", "lib", "login", "ordinary", "run", "serve", "session", "worker"];
/// What a part must not take: it gets the parts, the pool or the counters that it uses.
const WHOLE: [(&str, &str); 2] = [("crate::session::", "Session"), ("crate::worker::", "Worker")];

type Edges<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// The graph must not become worse.
pub(super) fn check(project: &Project) -> Vec<Violation> {
    let files: Vec<_> = project.tree.rust_below(FOLDER).filter(|file| !file.is_test).collect();
    let objects = files.iter().filter(|file| product(file).contains(OBJECT)).count();
    let edges = edges(&files);
    let knot = parts(&edges).into_iter().max_by_key(Vec::len).unwrap_or_default();
    let mut found = Vec::new();
    if objects > MOST_FILES {
        let what = format!("{objects} files have `{OBJECT} .. }}`, {MOST_FILES} may");
        found.push(Violation::new(FOLDER, 0, what));
    }
    if knot.len() > MOST_KNOTTED {
        let names: Vec<_> =
            knot.iter().map(|path| path.trim_start_matches(FOLDER).trim_start_matches('/')).collect();
        let what = format!(
            "{} files call each other in circles, {MOST_KNOTTED} may: {}",
            knot.len(),
            names.join(", ")
        );
        found.push(Violation::new(FOLDER, 0, what));
    }
    found.extend(files.iter().filter(|file| !is_root(&file.path)).flat_map(|file| knows_whole(file)));
    found
}

fn is_root(path: &str) -> bool {
    let name = path.trim_start_matches(FOLDER).trim_start_matches('/').trim_end_matches(".rs");
    let top = name.split_once('/').map_or(name, |(top, _)| top);
    ROOT.contains(&top)
}

/// The imports of a part that knows the whole session, or its worker.
fn knows_whole(file: &RustFile) -> Vec<Violation> {
    let code = product(file);
    let imports = WHOLE.into_iter().flat_map(|(path, name)| {
        let places: Vec<_> = code.match_indices(path).map(|(at, _)| at + path.len()).collect();
        places.into_iter().map(move |at| (at, name))
    });
    let known = imports.filter(|&(at, name)| {
        let end = code[at..].find(';').map_or(code.len(), |len| at + len);
        code[at..end].split(|c| !is_word(c)).any(|word| word == name)
    });
    known
        .map(|(_, name)| Violation::new(&file.path, 0, format!("a part of a session takes no `{name}`")))
        .collect()
}

/// The code without tests.
fn product(file: &RustFile) -> String {
    file.product_lines().flat_map(|(_, line)| [line, "\n"]).collect()
}

/// For each file the files whose functions it uses.
fn edges<'a>(files: &[&'a RustFile]) -> Edges<'a> {
    let codes: Vec<_> = files.iter().map(|file| (file.path.as_str(), product(file))).collect();
    let mut owners: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (path, code) in &codes {
        for name in defined(code) {
            owners.entry(name.to_owned()).or_default().push(path);
        }
    }
    let mut edges = Edges::new();
    for (path, code) in &codes {
        let uses = edges.entry(path).or_default();
        for name in used(code) {
            if let Some([owner]) = owners.get(name).map(Vec::as_slice)
                && owner != path
            {
                uses.insert(owner);
            }
        }
    }
    edges
}

/// Names of functions that a file defines.
fn defined(code: &str) -> Vec<&str> {
    code.match_indices("fn ")
        .filter(|(at, _)| !code[..*at].chars().next_back().is_some_and(is_word))
        .filter_map(|(at, head)| word_at(code, at + head.len()))
        .collect()
}

/// Words behind the session, and words of imports.
fn used(code: &str) -> Vec<&str> {
    let behind = |mark: &'static str| {
        code.match_indices(mark).filter_map(move |(at, _)| word_at(code, at + mark.len()))
    };
    let imports = code.match_indices("use crate::").flat_map(|(at, _)| {
        let end = code[at..].find(';').map_or(code.len(), |len| at + len);
        code[at..end].split(|c| !is_word(c)).filter(|word| !word.is_empty())
    });
    ["self.", "session.", "Self::"].into_iter().flat_map(behind).chain(imports).collect()
}

fn word_at(code: &str, at: usize) -> Option<&str> {
    let rest = &code[at..];
    let len = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
    (len > 0).then(|| &rest[..len])
}

/// The strongly connected parts, by Kosaraju's way.
fn parts<'a>(edges: &Edges<'a>) -> Vec<Vec<&'a str>> {
    let mut back = Edges::new();
    for (from, to) in edges {
        for to in to {
            back.entry(to).or_default().insert(from);
        }
    }
    let (mut order, mut seen) = (Vec::new(), BTreeSet::new());
    for from in edges.keys() {
        visit(edges, from, &mut seen, &mut order);
    }
    let (mut all, mut seen) = (Vec::new(), BTreeSet::new());
    for from in order.iter().rev() {
        let mut part = Vec::new();
        visit(&back, from, &mut seen, &mut part);
        all.extend((!part.is_empty()).then_some(part));
    }
    all
}

/// Adds what can be reached from here and was not seen yet, the farthest first.
fn visit<'a>(edges: &Edges<'a>, from: &'a str, seen: &mut BTreeSet<&'a str>, order: &mut Vec<&'a str>) {
    if !seen.insert(from) {
        return;
    }
    for to in edges.get(from).into_iter().flatten() {
        visit(edges, to, seen, order);
    }
    order.push(from);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_call_each_other_are_one_part() {
        let file = |name: &str, text: &str| RustFile::new(&format!("{FOLDER}/{name}.rs"), text);
        let files = [
            file("a", "impl Session { fn one(&self) { self.two() } }"),
            file("b", "use crate::c::three;\nimpl Session { fn two(&self) { three() } }"),
            file(
                "c",
                "fn three() { session.one() }\nfn new() {}\n#[cfg(test)]\nmod tests { fn t() { self.five() } }",
            ),
            file("d", "fn four() { session.one(); Self::new() }\nfn new() {}"),
            file("e", "fn five() { self.four() }"),
        ];
        let files: Vec<_> = files.iter().collect();
        let edges = edges(&files);
        let mut sizes: Vec<_> = parts(&edges).iter().map(Vec::len).collect();
        sizes.sort_unstable();
        assert_eq!(sizes, [1, 1, 3]);
        // A name that is defined twice, and a test, are no calls.
        assert_eq!(edges["crates/session/src/d.rs"].len(), 1);
        assert!(edges["crates/session/src/c.rs"].iter().all(|to| !to.ends_with("e.rs")));
    }

    #[test]
    fn only_the_root_knows_the_whole() {
        let import = "//! A.\nuse crate::session::{LoginFacts, Session};\nfn a() {}";
        let worker = "//! A.\nuse crate::worker::Routing;\nfn a(worker: &crate::worker::Worker) {}";
        let facts = "//! A.\nuse crate::session::LoginFacts;\nfn a() { Consistency::Session }";
        for (name, text, knows) in [
            ("steer", import, true),
            ("steer/rules", worker, true),
            ("rescue/loss", import, true),
            ("steer/scope", facts, false),
            ("rescue", import, true),
            ("command/kill", import, false),
            ("login/entrance", worker, false),
        ] {
            let file = RustFile::new(&format!("{FOLDER}/{name}.rs"), text);
            let found = !is_root(&file.path) && !knows_whole(&file).is_empty();
            assert_eq!(found, knows, "{name}");
        }
    }
}
