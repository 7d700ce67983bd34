//! Which function a call means: by the imports of its file, by the path before it, by the `impl` that it stands in.
//!
//! What stands behind a variable is not known, and so it is no call; but `session` is a `Session`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::super::rust_file::RustFile;
use super::super::scan::{block_end, is_word, words};

/// For each file the files whose functions it calls.
pub(super) type Edges<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// The files whose functions each file calls; modules are named by their files below `folder`.
pub(super) fn edges<'a>(files: &[&'a RustFile], folder: &str) -> Edges<'a> {
    let sources: Vec<_> = files.iter().map(|file| Source::new(file, folder)).collect();
    let known = Known::of(&sources);
    sources.iter().map(|source| (source.path, known.used_by(source))).collect()
}

/// The modules directly below the root of the crate that a file names, in its imports and elsewhere.
pub(super) fn named(file: &RustFile, folder: &str) -> BTreeSet<String> {
    let source = Source::new(file, folder);
    let imported = source.imports.values().filter_map(|path| path.first().cloned());
    let heads = source.code.match_indices("crate::").map(|(at, head)| at + head.len());
    let written = heads.filter_map(|at| word_at(&source.code, at)).map(str::to_owned);
    imported.chain(written).collect()
}

/// All paths below the root of the crate that a file names, in its imports and elsewhere.
pub(super) fn paths(file: &RustFile, folder: &str) -> Vec<Vec<String>> {
    let source = Source::new(file, folder);
    let is_path = |c: char| is_word(c) || c == ':';
    let written = source.code.split(|c| !is_path(c)).filter_map(|path| {
        let parts: Vec<_> = path.split("::").filter(|part| !part.is_empty()).collect();
        let is_ours = matches!(parts.first(), Some(&("crate" | "super" | "self")));
        is_ours.then(|| absolute(&parts, &source.module))
    });
    let written: Vec<_> = written.collect();
    source.imports.values().cloned().chain(written).collect()
}

/// The code without tests.
pub(super) fn product(file: &RustFile) -> String {
    file.product_lines().flat_map(|(_, line)| [line, "\n"]).collect()
}

/// A file.
struct Source<'a> {
    path: &'a str,
    module: Vec<String>,
    /// A chain of calls is in one line here.
    code: String,
    /// Its blocks `impl` and `trait`, with the type.
    impls: Vec<(Range<usize>, String)>,
    /// What its imports mean by a name.
    imports: BTreeMap<String, Vec<String>>,
}

impl<'a> Source<'a> {
    fn new(file: &'a RustFile, folder: &str) -> Self {
        let code = unchained(&product(file));
        let name = file.path.trim_start_matches(folder).trim_matches('/').trim_end_matches(".rs");
        let module: Vec<_> = name.split('/').filter(|part| *part != "lib").map(str::to_owned).collect();
        let imports = imports(&code, &module);
        Self { path: &file.path, module, impls: impls(&code), code, imports }
    }

    /// The type whose `impl` this place is in.
    fn owner(&self, at: usize) -> Option<&str> {
        self.impls.iter().find(|(range, _)| range.contains(&at)).map(|(_, name)| name.as_str())
    }

    /// The module that a path of modules means here.
    fn module_of(&self, path: &[&str]) -> Vec<String> {
        match self.imports.get(path[0]) {
            Some(known) => {
                known.iter().cloned().chain(path[1..].iter().map(|&part| part.to_owned())).collect()
            }
            None => absolute(path, &self.module),
        }
    }
}

/// What all files define.
#[derive(Default)]
struct Known<'s, 'a> {
    /// Functions by module and name.
    free: BTreeMap<(&'s [String], &'s str), &'a str>,
    /// Methods by type and name.
    methods: BTreeMap<(&'s str, &'s str), BTreeSet<&'a str>>,
    /// The type of a field of a type; of none that is defined twice.
    fields: BTreeMap<(&'s str, &'s str), Option<&'s str>>,
}

impl<'s, 'a> Known<'s, 'a> {
    fn of(sources: &'s [Source<'a>]) -> Self {
        let mut known = Self::default();
        for source in sources {
            for (at, name) in defined(&source.code) {
                match source.owner(at) {
                    Some(owner) => _ = known.methods.entry((owner, name)).or_default().insert(source.path),
                    None => _ = known.free.insert((&source.module, name), source.path),
                }
            }
            for (of, name, kind) in fields(&source.code) {
                known.fields.entry((of, name)).and_modify(|known| *known = None).or_insert(Some(kind));
            }
        }
        known
    }

    /// The other files whose functions this one uses.
    fn used_by(&self, source: &Source<'a>) -> BTreeSet<&'a str> {
        let imported = source.imports.values().filter_map(|path| self.free(path));
        let called = calls(&source.code).into_iter().filter_map(|(at, path)| self.meant(source, at, &path));
        imported.chain(called).filter(|path| *path != source.path).collect()
    }

    /// The file of the function that a call in this place means.
    fn meant(&self, source: &Source<'a>, at: usize, path: &str) -> Option<&'a str> {
        if let Some((fields, name)) = path.rsplit_once('.') {
            let mut fields = fields.split('.');
            let mut owner = match fields.next()? {
                "self" => source.owner(at)?,
                "session" => "Session",
                _ => return None,
            };
            for field in fields {
                owner = (*self.fields.get(&(owner, field))?)?;
            }
            return self.method(owner, name, source.path);
        }
        let (path, name) = path.rsplit_once("::")?;
        let parts: Vec<_> = path.split("::").collect();
        match *parts.last()? {
            "Self" => self.method(source.owner(at)?, name, source.path),
            owner if owner.starts_with(char::is_uppercase) => self.method(owner, name, source.path),
            _ => {
                let mut full = source.module_of(&parts);
                full.push(name.to_owned());
                self.free(&full)
            }
        }
    }

    /// The function of this path; a module may have it from one below itself.
    fn free(&self, path: &[String]) -> Option<&'a str> {
        let (name, module) = path.split_last().filter(|(_, module)| !module.is_empty())?;
        if let Some(found) = self.free.get(&(module, name.as_str())) {
            return Some(found);
        }
        let mut below =
            self.free.iter().filter(|((of, known), _)| *known == name.as_str() && of.starts_with(module));
        below.next().map(|(_, path)| *path).filter(|_| below.next().is_none())
    }

    /// A method of this type, called there; `None` if it is not known which.
    fn method(&self, owner: &str, name: &str, from: &str) -> Option<&'a str> {
        let files = self.methods.get(&(owner, name))?;
        files.first().copied().filter(|_| files.len() == 1 && !files.contains(from))
    }
}

/// The code with the calls of a chain in one line.
fn unchained(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    for line in code.lines() {
        if line.trim_start().starts_with('.') {
            out.truncate(out.trim_end().len());
            out.push_str(line.trim_start());
        } else {
            out.push_str(line);
        }
        out.push('\n');
    }
    out
}

/// Functions that a file defines, and where.
fn defined(code: &str) -> impl Iterator<Item = (usize, &str)> {
    code.match_indices("fn ")
        .filter(|(at, _)| !code[..*at].chars().next_back().is_some_and(is_word))
        .filter_map(|(at, head)| Some((at, word_at(code, at + head.len())?)))
}

/// The blocks of `impl` and `trait`, with the type.
fn impls(code: &str) -> Vec<(Range<usize>, String)> {
    let mut found = Vec::new();
    let mut line_at = 0;
    for line in code.lines() {
        let head = line.trim_start_matches("pub(crate) ").trim_start_matches("pub ");
        if let Some(open) = code[line_at..].find('{').map(|at| line_at + at)
            && (head.starts_with("impl ") || head.starts_with("impl<") || head.starts_with("trait "))
        {
            let head = code[line_at..open].rsplit(" for ").next().unwrap_or_default();
            // After `impl<T>`, a name of more than one letter.
            let is_type = |word: &&str| word.len() > 1 && word.starts_with(char::is_uppercase);
            let name = words(head).find(is_type).unwrap_or_default();
            found.push((open..block_end(code, open), name.to_owned()));
        }
        line_at += line.len() + 1;
    }
    found
}

/// The fields of a file's types: of which type, name, and its own type.
fn fields(code: &str) -> Vec<(&str, &str, &str)> {
    let mut found = Vec::new();
    for (at, head) in code.match_indices("struct ") {
        let (Some(of), Some(open)) = (word_at(code, at + head.len()), code[at..].find(['{', ';', '(']))
        else {
            continue;
        };
        let open = at + open;
        if code.as_bytes()[open] != b'{' {
            continue;
        }
        for line in code[open..block_end(code, open)].lines() {
            let Some((name, kind)) = line.split_once(": ") else { continue };
            let name = name.rsplit(' ').next().unwrap_or_default();
            let kind = words(kind).filter(|word| word.starts_with(char::is_uppercase)).last();
            found.extend(kind.map(|kind| (of, name, kind)));
        }
    }
    found
}

/// What the imports of a file mean by a name: its path from the root of the crate.
fn imports(code: &str, module: &[String]) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    for (at, head) in code.match_indices("use ") {
        let end = code[at..].find(';').map_or(code.len(), |len| at + len);
        let tree: String = code[at + head.len()..end].split_whitespace().collect::<Vec<_>>().join(" ");
        let is_ours = ["crate::", "super::", "self::"].iter().any(|root| tree.starts_with(root));
        if !code[..at].chars().next_back().is_some_and(is_word) && is_ours {
            let mut paths = Vec::new();
            branches("", &tree, &mut paths);
            for path in paths {
                let (path, name) = path.split_once(" as ").unwrap_or((&path, ""));
                let parts: Vec<_> = path.split("::").filter(|part| !part.is_empty()).collect();
                let name = if name.is_empty() { parts.last().copied().unwrap_or_default() } else { name };
                if name == "self" {
                    let path = absolute(&parts[..parts.len() - 1], module);
                    found.extend(path.last().cloned().map(|name| (name, path)));
                } else {
                    found.insert(name.to_owned(), absolute(&parts, module));
                }
            }
        }
    }
    found
}

/// The paths of a tree of imports.
fn branches(before: &str, tree: &str, paths: &mut Vec<String>) {
    let Some(open) = tree.find('{') else {
        return paths.push(format!("{before}{tree}"));
    };
    let before = format!("{before}{}", &tree[..open]);
    let (mut depth, mut from) = (0, open + 1);
    for (at, byte) in tree.bytes().enumerate().skip(open + 1) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth > 0 => depth -= 1,
            b',' | b'}' if depth == 0 => {
                let branch = tree[from..at].trim();
                if !branch.is_empty() {
                    branches(&before, branch, paths);
                }
                from = at + 1;
            }
            _ => {}
        }
    }
}

/// A path from the root of the crate, of one that is written in this module.
fn absolute(path: &[&str], module: &[String]) -> Vec<String> {
    let mut full = module.to_vec();
    let mut path = path.iter().copied().peekable();
    if path.next_if_eq(&"crate").is_some() {
        full.clear();
    }
    path.next_if_eq(&"self");
    while path.next_if_eq(&"super").is_some() {
        full.pop();
    }
    full.into_iter().chain(path.map(str::to_owned)).collect()
}

/// Calls with a path or a value before the name, and where.
fn calls(code: &str) -> Vec<(usize, String)> {
    let is_part = |c: char| is_word(c) || matches!(c, '.' | ':');
    let starts = code.char_indices().filter(|&(at, c)| {
        (is_word(c) && !c.is_numeric()) && !code[..at].chars().next_back().is_some_and(is_part)
    });
    starts
        .filter_map(|(at, _)| {
            let len = code[at..].find(|c| !is_part(c))?;
            let path = &code[at..at + len];
            (code[at + len..].starts_with(['(', '<']) && path.contains(['.', ':']))
                .then(|| (at, path.trim_end_matches(':').to_owned()))
        })
        .collect()
}

fn word_at(code: &str, at: usize) -> Option<&str> {
    let rest = &code[at..];
    let len = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
    (len > 0).then(|| &rest[..len])
}
