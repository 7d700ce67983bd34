//! Which way the files of `session` may use each other: from the commands down to the bytes, and never up.

use super::super::Violation;
use super::super::rust_file::RustFile;
use super::graph::{Edges, named};
use super::{FOLDER, top};

const HERE: &str = "xtask/src/tidy/calls/layers.rs";

/// The files and folders of `session/src`, the lowest layer first. Those of one layer may use each other; in circles they do not.
const LAYERS: [&[&str]; 16] = [
    // What every part may know: errors, what was settled before the statement, how the cluster looks, what is waited for.
    &["client_error", "login_facts", "outlook", "proxy_error", "served", "settings", "spent"],
    &["io"],
    &["costs", "state"],
    &["hold", "interruptions"],
    &["follow", "fresh", "statements"],
    &["answer", "steer"],
    // What acts on several parts.
    &["planner"],
    &["rescue"],
    &["explain", "logged", "needs", "ready", "route", "settle", "watch"],
    // The root, which brings the parts together.
    &["worker"],
    &["login", "session"],
    &["steered"],
    &["ordinary", "run"],
    &["command"],
    &["serve"],
    &["lib"],
];

/// Names every file that uses a higher layer, and every one that has no layer.
pub(super) fn check(files: &[&RustFile], edges: &Edges<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in files {
        let own = top(&file.path);
        let Some(layer) = layer_of(own) else {
            found.push(Violation::new(&file.path, 0, format!("`{own}` has no layer in {HERE}")));
            continue;
        };
        let mut used = named(file, FOLDER);
        let called = edges.get(file.path.as_str()).into_iter().flatten();
        used.extend(called.map(|path| top(path).to_owned()));
        let higher = used.iter().filter(|used| layer_of(used).is_some_and(|other| other > layer));
        found.extend(higher.map(|used| {
            let what = format!("`{own}` must not use `{used}`: that is a higher layer in {HERE}");
            Violation::new(&file.path, 0, what)
        }));
    }
    found
}

fn layer_of(top: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&top))
}

#[cfg(test)]
mod tests {
    use super::super::super::tree::Tree;
    use super::super::graph::edges;
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> =
            files.iter().map(|(name, text)| RustFile::new(&format!("{FOLDER}/{name}.rs"), text)).collect();
        let files: Vec<_> = files.iter().collect();
        check(&files, &edges(&files, FOLDER)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_arrow_that_goes_up_is_found() {
        for (name, text, higher) in [
            ("io/send", "use crate::steer::Steering;", "steer"),
            ("io/send", "use crate::{io::Input, costs};", "costs"),
            ("hold", "fn a(waits: &crate::rescue::Waits) {}", "rescue"),
            ("state/lex", "use super::super::follow::Noted;", "follow"),
            ("steer/cache/keeping", "use crate::session::LoginFacts;", "session"),
            ("session", "use crate::command::carry_out_kill;", "command"),
        ] {
            let found = found(&[(name, text)]);
            let expected = format!("must not use `{higher}`");
            assert!(found.len() == 1 && found[0].contains(&expected), "{name}: {found:?}");
        }
    }

    #[test]
    fn a_method_of_a_higher_layer_is_found_without_an_import() {
        let found = found(&[
            ("state", "impl Wanted { fn one(&self) { self.two() } }"),
            ("follow/questions", "impl Wanted { fn two(&self) {} }"),
        ]);
        assert!(found.len() == 1 && found[0].contains("`state` must not use `follow`"), "{found:?}");
    }

    #[test]
    fn what_goes_down_or_stays_in_its_layer_is_free() {
        for (name, text) in [
            ("steer/limits", "use super::Steering;\nuse crate::state::Wanted;\nuse crate::answer::Answer;"),
            ("command/query", "use crate::run::Job;"),
            ("lib", "pub use session::Session;"),
            ("hold", "#[cfg(test)]\nmod tests { use crate::rescue::Waits; }"),
            ("io", "// use crate::steer::Steering;\nuse delphinus_state::Ages;"),
        ] {
            assert!(found(&[(name, text)]).is_empty(), "{name}");
        }
    }

    #[test]
    fn a_file_without_a_layer_is_found() {
        assert_eq!(found(&[("misc/a", "fn a() {}")]).len(), 1);
    }

    #[test]
    fn each_layer_has_files() {
        let tree = Tree::read(&crate::cargo::root()).unwrap();
        for name in LAYERS.iter().copied().flatten() {
            assert!(tree.rust_below(FOLDER).any(|file| top(&file.path) == *name), "there is no `{name}`");
        }
    }
}
