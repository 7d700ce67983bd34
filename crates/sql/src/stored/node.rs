//! Which code a piece of code may run, by the words in it.

use super::Body;
use super::body::{NOT_BUILT_IN, OF_PLACE};

/// What a piece of code is run by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum RunBy {
    Call,
    /// Reading a view runs no trigger.
    Read,
    Write,
}

/// A piece of code without what it does itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) run_by: RunBy,
    is_view: bool,
    /// See `Body`; in order.
    pub(super) words: Box<[u64]>,
    /// Those that are calls: only a view has other words, too, that may be names of routines.
    pub(super) calls: Box<[u64]>,
}

impl Node {
    pub(super) fn new(run_by: RunBy, is_view: bool, body: &Body) -> Self {
        let words = body.words.iter().copied().collect();
        let calls = if is_view { body.calls.iter().copied().collect() } else { Box::default() };
        Self { run_by, is_view, words, calls }
    }

    pub(super) fn without_words(&self) -> Self {
        Self { words: Box::default(), calls: Box::default(), ..*self }
    }

    /// How it may run what its words name. What a view calls stands beside that.
    pub(super) fn runs(&self) -> &'static [RunBy] {
        match (self.is_view, self.run_by) {
            (true, RunBy::Write) => &[RunBy::Read, RunBy::Write],
            (true, _) => &[RunBy::Read],
            (false, _) => &[RunBy::Call, RunBy::Read, RunBy::Write],
        }
    }

    /// True for a view that calls what is not built in.
    pub(super) fn calls_foreign(&self) -> bool {
        self.calls.binary_search(&NOT_BUILT_IN).is_ok()
    }

    /// True for a view whose rows are its session's or its server's own, or that changes a sequence when it is read.
    pub(super) fn is_of_place(&self) -> bool {
        self.calls.binary_search(&OF_PLACE).is_ok()
    }

    /// True if both are code of one kind.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        (self.run_by, self.is_view) == (other.run_by, other.is_view)
    }

    /// Takes in what another one may run.
    pub(super) fn add(&mut self, other: &Self) {
        for (own, more) in [(&mut self.words, &other.words), (&mut self.calls, &other.calls)] {
            let news: Vec<u64> =
                more.iter().filter(|word| own.binary_search(word).is_err()).copied().collect();
            if !news.is_empty() {
                let mut all = [&own[..], &news].concat();
                all.sort_unstable();
                *own = all.into();
            }
        }
    }

    /// What its words take, in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of::<u64>() * (self.words.len() + self.calls.len())
    }
}
