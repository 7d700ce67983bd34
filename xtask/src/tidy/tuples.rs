//! Functions take no tuple of three values or more: where one is called, no name says what each value is.
//!
//! A type with names says it. The rule is for the product's functions, not for closures, and not for tuples inside another type, such as
//! a slice of them.

use super::rust_file::RustFile;
use super::scan::is_word;
use super::{Project, Violation};

/// A tuple of a parameter has so many values at most.
const MOST: usize = 2;

/// Names every function that takes a larger one.
pub(crate) fn check(project: &Project) -> Vec<Violation> {
    project.tree.rust_below("crates").flat_map(in_file).collect()
}

fn in_file(file: &RustFile) -> Vec<Violation> {
    let mut found = Vec::new();
    for (at, _) in file.code.match_indices("fn ") {
        let line = file.line_at(at);
        let is_whole = !file.code[..at].chars().next_back().is_some_and(is_word);
        let Some((name, parameters)) = function(&file.code[at + 3..]) else { continue };
        if !is_whole || file.is_test_line(line) {
            continue;
        }
        for count in parts(parameters).into_iter().filter_map(tuple_of).filter(|count| *count > MOST) {
            let what = format!("`{name}` takes a tuple of {count} values: name them in a type of their own");
            found.push(Violation::new(&file.path, line, what));
        }
    }
    found
}

/// The name of a function that begins here, and what is between its parentheses.
fn function(code: &str) -> Option<(&str, &str)> {
    let (name, rest) = code.split_at(code.find(|c| !is_word(c))?);
    let rest = if rest.starts_with('<') { rest[bracketed(rest)?..].trim_start() } else { rest };
    if name.is_empty() || !rest.starts_with('(') {
        return None;
    }
    Some((name, &rest[1..bracketed(rest)? - 1]))
}

/// How many values a parameter has that is a tuple, or a reference to one.
fn tuple_of(parameter: &str) -> Option<usize> {
    let of = type_of(parameter)?.trim();
    let open = of.find('(')?;
    let before = of[..open].replace('&', " ");
    let is_tuple = before.split_whitespace().all(|word| word == "mut" || word.starts_with('\''));
    let end = open + bracketed(&of[open..])?;
    is_tuple.then(|| parts(&of[open + 1..end - 1]).len())
}

/// What stands behind the colon that is in no brackets and in no path.
fn type_of(parameter: &str) -> Option<&str> {
    let bytes = parameter.as_bytes();
    let is_path = |at: usize| bytes.get(at + 1) == Some(&b':') || at > 0 && bytes[at - 1] == b':';
    let (at, ..) = depths(parameter).find(|&(at, c, depth)| c == ':' && depth == 0 && !is_path(at))?;
    Some(&parameter[at + 1..])
}

/// What is between commas that are in no brackets.
fn parts(code: &str) -> Vec<&str> {
    let commas = depths(code).filter(|&(_, c, depth)| c == ',' && depth == 0).map(|(at, ..)| at);
    let mut start = 0;
    let mut parts = Vec::new();
    for end in commas.chain([code.len()]) {
        parts.push(&code[start..end]);
        start = end + 1;
    }
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// Where the bracket that code begins with has been closed.
fn bracketed(code: &str) -> Option<usize> {
    depths(code).find(|&(_, _, depth)| depth == 0).map(|(at, c, _)| at + c.len_utf8())
}

/// Each character, where it is, and in how many brackets; a bracket that closes is behind its own pair.
fn depths(code: &str) -> impl Iterator<Item = (usize, char, usize)> {
    let (mut depth, mut before) = (0_usize, ' ');
    code.char_indices().map(move |(at, c)| {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            // An arrow.
            '>' if matches!(before, '-' | '=') => {}
            ')' | ']' | '}' | '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        before = c;
        (at, c, depth)
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{files, places};
    use super::*;

    fn found_in(function: &str) -> usize {
        let text = format!("//! A.\n{function}\n");
        let found = check(&files(&[("crates/net/src/a.rs", &text)]));
        assert!(places(&found).iter().all(|place| place == "crates/net/src/a.rs:2"), "{found:?}");
        found.len()
    }

    #[test]
    fn large_tuples_are_found_in_every_form() {
        for function in [
            "fn a((b, c, d): (B, C, D)) {}",
            "pub(crate) async fn a(&mut self, b: &(B, C, D)) -> E {}",
            "fn a<'a, F: Fn(B) -> C>(f: F, b: &'a mut (B, C, D,)) {}",
            "fn a((b, (c, d), e): (B, (C, D), E)) {}",
            "fn a(\n    x: X,\n    crate::B { c, d }: crate::B,\n    y: (Vec<(A, B)>, B, C),\n) {}",
            "fn a(x: X, b: (A, B, C, D));",
        ] {
            assert_eq!(found_in(function), 1, "{function}");
        }
        assert_eq!(found_in("fn a(b: (A, B, C), c: (A, B, C)) {}"), 2);
    }

    #[test]
    fn small_ones_and_those_of_closures_are_free() {
        for function in [
            "fn a((b, c): (B, C), d: D) -> (B, C, D) {}",
            "fn a(b: impl Fn(B, C, D) -> E, c: fn(A, B, C)) {}",
            "fn a(b: &dyn Fn((B, C, D))) { let c = |(x, y, z): (X, Y, Z)| x; }",
            "fn a(b: &[(B, C, D)], c: Option<(B, C, D)>, d: ()) {}",
            "fn a((b, c): (HashMap<A, B>, Result<A, (B, C)>)) {}",
            "fn a(B { c, d, e }: B<'_, C, D>, (f, g): (F, G<A, B>)) {}",
            "#[cfg(test)] fn a(b: (A, B, C)) {}",
            "// fn a(b: (A, B, C)) {}",
        ] {
            assert_eq!(found_in(function), 0, "{function}");
        }
        let test = files(&[("crates/net/tests/a.rs", "//! A.\nfn a(b: (A, B, C)) {}\n")]);
        assert_eq!(check(&test), []);
    }
}
