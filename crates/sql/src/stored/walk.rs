//! From the names in a statement to the code that has changed, also by way of other code.

use std::collections::HashSet;

use super::Hidden;
use super::catalog::Catalog;
use super::node::{Node, RunBy};

/// A statement that leads to code with more words than this may do anything: nobody waits until all are looked at.
const MOST_WORDS: usize = 32_768;

/// What was found.
pub(super) struct Walk<'a> {
    catalog: &'a Catalog,
    seen: HashSet<(u64, RunBy)>,
    /// What is yet to be looked at.
    ahead: Vec<(u64, RunBy)>,
    words: usize,
    pub(super) hidden: Hidden,
    /// It runs a routine, or reads a view that is not the same everywhere.
    pub(super) calls: bool,
}

impl<'a> Walk<'a> {
    pub(super) fn new(catalog: &'a Catalog) -> Self {
        let (seen, ahead) = (HashSet::new(), Vec::new());
        Self { catalog, seen, ahead, words: 0, hidden: Hidden::default(), calls: false }
    }

    /// Something runs what goes by this name.
    pub(super) fn add(&mut self, name: u64, run_by: RunBy) {
        if self.catalog.has(name) && self.seen.insert((name, run_by)) {
            self.ahead.push((name, run_by));
        }
    }

    /// Goes on from all that was added.
    pub(super) fn go(&mut self) {
        let catalog = self.catalog;
        while let Some((name, run_by)) = self.ahead.pop() {
            let mut is_code = catalog.changes.is_unknown(name);
            self.hidden.is_unknown |= is_code;
            for changed in catalog.changes.of(name, run_by) {
                self.hidden.add(&changed.own);
                self.follow(&changed.node);
                is_code |= !changed.is_common;
            }
            if let Some(hidden) = catalog.known.of(run_by).get(&name) {
                self.hidden.add(hidden);
            }
            for node in catalog.known.nodes(name, run_by) {
                self.follow(node);
                is_code = true;
            }
            self.calls |= is_code && (run_by == RunBy::Call || catalog.changes.is_unknown(name));
        }
    }

    fn follow(&mut self, node: &Node) {
        self.words += node.words.len();
        if self.words > MOST_WORDS {
            self.hidden.is_unknown = true;
            return;
        }
        // It is among those that nobody may read.
        self.calls |= self.catalog.is_unreadable() && node.calls_foreign() || node.is_of_place();
        for word in &node.words {
            for run_by in node.runs() {
                self.add(*word, *run_by);
            }
        }
        for call in &node.calls {
            self.add(*call, RunBy::Call);
        }
    }
}
