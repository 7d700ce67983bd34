//! What a session's last statement left behind on the connection it ran on: insert id, counted rows, warnings.
//! It stays there as long as nobody else uses the connection; before that, it is saved here.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use delphinus_net::rt;
use delphinus_wire::response::TextResult;

/// One session's memory, shared with the connection that it used last.
#[derive(Debug, Default)]
pub struct Memory {
    /// Counts the session's statements: a connection that has the same number ran the last one.
    pub statement_seq: Cell<u64>,
    /// Counts the changes of LAST_INSERT_ID(): a connection that has the same number has the right one.
    pub insert_seq: Cell<u64>,
    /// LAST_INSERT_ID(): exact once it is saved, what the OK packet said before that.
    pub last_insert_id: Cell<u64>,
    /// How many connections have not told yet what they know, and are not in a seat of this session.
    pub(crate) saving: Cell<u32>,
    /// FOUND_ROWS().
    pub found_rows: Cell<u64>,
    /// ROW_COUNT().
    pub row_count: Cell<i64>,
    /// SHOW WARNINGS; `None` if there are none.
    pub warnings: RefCell<Option<TextResult>>,
    /// What the proxy has answered itself after the statement with this number; see `OwnAnswer`.
    own: RefCell<Option<(u64, OwnAnswer)>>,
}

/// The diagnostics of what the proxy has answered itself, which hide those of the statement before on its connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnAnswer {
    /// It was no error.
    Done,
    /// An error, by its number and its text.
    Failed(u16, Vec<u8>),
}

/// Parts of the memory that only the connection knows.
#[derive(Debug, Default)]
pub(crate) struct Unsaved {
    pub insert_id: bool,
    pub reported: Reported,
    pub diagnostics: Diagnostics,
}

/// Ids that INSERTs reported on a connection whose LAST_INSERT_ID() was another session's before. An id that the
/// statement gave itself is reported as one that the server made is, but leaves LAST_INSERT_ID() as it was.
#[derive(Debug, Default)]
pub(crate) struct Reported {
    ids: Vec<u64>,
    /// LAST_INSERT_ID() if none of them was made by the server.
    before: u64,
}

/// Of more inserts than these in a row the oldest are forgotten.
const MOST_REPORTED: usize = 64;

impl Reported {
    /// One more; before the first of them the session's LAST_INSERT_ID() was `before`.
    pub(crate) fn push(&mut self, id: u64, before: u64) {
        if self.ids.is_empty() {
            self.before = before;
        }
        if self.ids.len() == MOST_REPORTED {
            self.ids.remove(0);
        }
        self.ids.push(id);
    }

    /// True if it is certain that LAST_INSERT_ID() is the session's.
    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// What LAST_INSERT_ID() is for the session if the connection says `id`, and whether it is the same there.
    pub(crate) fn judge(&self, id: u64) -> (u64, bool) {
        let is_own = self.is_empty() || self.ids.contains(&id);
        (if is_own { id } else { self.before }, is_own)
    }
}

/// What of the last statement's diagnostics has to be asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Diagnostics {
    pub found_rows: bool,
    pub warnings: bool,
}

impl Unsaved {
    pub(crate) fn is_empty(&self) -> bool {
        !self.insert_id && self.diagnostics == Diagnostics::default()
    }
}

impl Memory {
    /// The proxy has answered a statement itself: until the next one runs somewhere, diagnostics are about this one.
    pub fn note_own_answer(&self, answer: OwnAnswer) {
        self.own.replace(Some((self.statement_seq.get(), answer)));
    }

    /// What the proxy has answered itself, if that was the last statement.
    pub fn own_answer(&self) -> Option<OwnAnswer> {
        let own = self.own.borrow();
        own.as_ref().filter(|(seq, _)| *seq == self.statement_seq.get()).map(|(_, answer)| answer.clone())
    }

    /// A SELECT of the session was answered with so many rows, and without warnings, by no connection at all.
    pub fn answered_elsewhere(&self, rows: u64) {
        self.statement_seq.set(self.statement_seq.get() + 1);
        self.found_rows.set(rows);
        self.row_count.set(-1);
        self.warnings.replace(None);
    }

    /// Waits until every connection that was taken over has told what it knew. That takes one round trip to a
    /// backend; after some seconds the backend is gone, and what the OK packets said has to do.
    pub async fn wait_until_saved(&self) {
        let deadline = rt::now() + Duration::from_secs(5);
        while self.saving.get() > 0 && rt::now() < deadline {
            rt::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// A connection on its way from one session to another, until it has told what it knows.
#[derive(Debug)]
pub(crate) struct Leaving(Rc<Memory>);

impl Leaving {
    pub(crate) fn begin(owner: Rc<Memory>) -> Self {
        owner.saving.set(owner.saving.get() + 1);
        Self(owner)
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.saving.set(self.0.saving.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_were_given_are_not_the_last_insert_id() {
        let mut reported = Reported::default();
        assert_eq!(reported.judge(992), (992, true));
        reported.push(5000, 2);
        // 992 is what another session left there.
        assert_eq!(reported.judge(992), (2, false));
        reported.push(3, 5000);
        assert_eq!(reported.judge(3), (3, true));
        assert_eq!(reported.judge(992), (2, false));
        for id in 10..1000 {
            reported.push(id, 0);
        }
        assert_eq!(reported.ids.len(), MOST_REPORTED);
    }
}
