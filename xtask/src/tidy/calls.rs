//! Who calls whom between the files of `session`: none in circles, none of a higher layer, and only its root knows the whole.
//!
//! Which function a call means is found out in `graph`, as far as one file can tell. The layers are in `layers`.

mod graph;
mod layers;

use std::collections::BTreeSet;

use self::graph::{Edges, edges, paths, product};
use super::rust_file::RustFile;
use super::scan::{block_end, is_word};
use super::{Project, Violation};

const FOLDER: &str = "crates/session/src";
const OBJECT: &str = "impl Session {";
/// Files with `impl Session`: so many there may be.
const MOST_FILES: usize = 10;
/// Files of the largest strongly connected part: none call each other in circles.
const MOST_KNOTTED: usize = 1;

/// The root, which brings the parts together: only these, and what is below them, know the whole.
const ROOT: [&str; 9] =
    ["command", "lib", "login", "ordinary", "run", "serve", "session", "steered", "worker"];
/// What a part must not take, and its module: it gets the parts, the pool or the counters that it uses.
const WHOLE: [(&str, &str); 2] = [("session", "Session"), ("worker", "Worker")];
/// So many parts a type may borrow to change them.
const MOST_BORROWED: usize = 4;

/// The graph must not become worse.
pub(super) fn check(project: &Project) -> Vec<Violation> {
    let files: Vec<_> = project.tree.rust_below(FOLDER).filter(|file| !file.is_test).collect();
    let objects = files.iter().filter(|file| product(file).contains(OBJECT)).count();
    let edges = edges(&files, FOLDER);
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
    found.extend(layers::check(&files, &edges));
    found.extend(files.iter().filter(|file| !is_root(&file.path)).flat_map(|file| knows_whole(file)));
    found.extend(files.iter().flat_map(|file| borrows_much(file)));
    found
}

fn is_root(path: &str) -> bool {
    ROOT.contains(&top(path))
}

/// The file or folder directly below `src` that a file is, or is in.
fn top(path: &str) -> &str {
    let name = path.trim_start_matches(FOLDER).trim_start_matches('/').trim_end_matches(".rs");
    name.split_once('/').map_or(name, |(top, _)| top)
}

/// What a part names that is the whole session, or its worker: by its module, or from the root of the crate, which hands it on.
fn knows_whole(file: &RustFile) -> Vec<Violation> {
    let paths = paths(file, FOLDER);
    let known = WHOLE.into_iter().filter(|(module, name)| {
        paths.iter().any(|path| match &path[..] {
            [one, rest @ ..] if one == module => rest.first().is_some_and(|rest| rest == name || rest == "*"),
            [one, ..] => one == name,
            [] => false,
        })
    });
    known
        .map(|(_, name)| Violation::new(&file.path, 0, format!("a part of a session takes no `{name}`")))
        .collect()
}

/// The types that borrow too many parts to change them: they would be the session by another name.
fn borrows_much(file: &RustFile) -> Vec<Violation> {
    let code = product(file);
    let types = code.match_indices("struct ").filter_map(|(at, head)| {
        let rest = &code[at + head.len()..];
        let name = rest.split(|c| !is_word(c)).next()?;
        let open =
            at + head.len() + rest.find(['{', ';', '(']).filter(|&open| rest.as_bytes()[open] == b'{')?;
        let fields = &code[open..block_end(&code, open)];
        Some((name, fields.matches("&'a mut ").count()))
    });
    let many = types.filter(|(_, borrowed)| *borrowed > MOST_BORROWED);
    many.map(|(name, borrowed)| {
        let what = format!("`{name}` borrows {borrowed} parts to change them, {MOST_BORROWED} may be");
        Violation::new(&file.path, 0, what)
    })
    .collect()
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

    /// The files, and how many of them each strongly connected part has.
    fn sizes(files: &[(&str, &str)]) -> Vec<usize> {
        let files: Vec<_> =
            files.iter().map(|(name, text)| RustFile::new(&format!("{FOLDER}/{name}.rs"), text)).collect();
        let files: Vec<_> = files.iter().collect();
        let mut sizes: Vec<_> = parts(&edges(&files, FOLDER)).iter().map(Vec::len).collect();
        sizes.sort_unstable();
        sizes
    }

    #[test]
    fn files_that_call_each_other_are_one_part() {
        let files = [
            ("a", "impl Session { fn one(&self) { self.two() } }"),
            ("b", "use crate::c::three;\nimpl Session { fn two(&self) { three() } }"),
            (
                "c",
                "fn three() { session.one() }\nfn new() {}\n#[cfg(test)]\nmod tests { fn t() { self.five() } }",
            ),
            ("d", "impl Session {\nfn four() { session\n    .one(); Self::new() }\nfn new() {} }"),
            ("e", "impl Session {\nfn five() { self.four() } }"),
        ];
        assert_eq!(sizes(&files), [1, 1, 3]);
    }

    #[test]
    fn a_call_is_found_by_its_import_its_path_and_its_impl() {
        for (a, b) in [
            // Imports and paths.
            ("use super::b::two;\nfn one() { two() }", "use super::a;\nfn two() { a::one() }"),
            ("use crate::p::{b::{self, Two}};\nfn one() { b::two() }", "fn two() { super::a::one() }"),
            ("use crate::p::b::two as other;\nfn one() { other() }", "fn two() { crate::p::a::one() }"),
            // Names that are defined twice.
            ("impl One { fn new() { Two::new() } }", "impl Two { fn new() { One::new::<u8>() } }"),
            (
                "struct One {\n    two: Rc<Two>,\n}\nimpl One {\nfn same(&self) { self.two.same() }\n}",
                "impl Two {\nfn same() { One::same() }\n}",
            ),
            (
                "trait One { fn one(&self) { Self::two() } }",
                "impl<'a> A for One<'a> { fn two(&self) { One::one() } }",
            ),
        ] {
            assert_eq!(sizes(&[("p/a", a), ("p/b", b), ("p", "mod a;\nmod b;")]), [1, 2], "{a}\n{b}");
        }
        for (a, b) in [
            ("use super::b::two;\nfn one() { two() }", "fn two() { self.one(); one(); other::one() }"),
            ("impl One { fn new() { Two::new() } }", "impl Two { fn new() { Self::new(); self.one.new() } }"),
            // A field.
            ("impl One { fn one() { Two::two() } }", "impl Two { fn two() { One::two(); self.one } }"),
        ] {
            assert_eq!(sizes(&[("p/a", a), ("p/b", b)]), [1, 1], "{a}\n{b}");
        }
    }

    #[test]
    fn what_a_module_has_from_below_is_that_file() {
        let files = [
            ("p", "mod a;\npub(crate) use a::one;\nfn three() {}"),
            ("p/a", "use crate::q::two;\nfn one() { two() }"),
            ("q", "use crate::p::one;\nfn two() { one() }"),
        ];
        assert_eq!(sizes(&files), [1, 2]);
    }

    #[test]
    fn only_the_root_knows_the_whole() {
        let import = "//! A.\nuse crate::session::{ForNextUser, Session};\nfn a() {}";
        let worker = "//! A.\nuse crate::worker::Parts;\nfn a(worker: &crate::worker::Worker) {}";
        let from_root = "//! A.\nuse crate::{Settings, Session as Whole};\nfn a() {}";
        let from_above = "//! A.\nuse super::super::session::Session;\nfn a() {}";
        let written = "//! A.\nfn a(session: &mut super::super::session::Session) {}";
        let written_from_root = "//! A.\nfn a(session: &mut crate::Session) {}";
        let everything = "//! A.\nuse crate::session::*;";
        let facts = "//! A.\nuse crate::session::ForNextUser;\nfn a() { Consistency::Session }";
        for (name, text, knows) in [
            ("steer", import, true),
            ("steer/rules", worker, true),
            ("rescue/loss", import, true),
            ("steer/rules", from_root, true),
            ("steer/rules", from_above, true),
            ("steer/rules", written, true),
            ("steer/rules", written_from_root, true),
            ("steer/rules", everything, true),
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

    #[test]
    fn a_type_borrows_four_parts_at_most() {
        let fields = |count| {
            format!(
                "struct View<'a> {{ {} shared: &'a Held }}\nfn f<'a>(a: &'a mut A) {{}}",
                "a: &'a mut A, ".repeat(count)
            )
        };
        let found =
            |count| borrows_much(&RustFile::new("crates/session/src/settle.rs", &fields(count))).len();
        assert_eq!((found(4), found(5)), (0, 1));
    }
}
