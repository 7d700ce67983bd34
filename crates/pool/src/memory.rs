//! What a session's last statement left behind on the connection it ran on: LAST_INSERT_ID(), FOUND_ROWS(), ROW_COUNT(), warnings.
//! They stay there as long as nobody else uses the connection. Before somebody else does, they are saved here, and are restored or
//! answered from here.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use delphinus_memory::{Kept, Share};
use delphinus_net::rt;
use delphinus_wire::response::TextResult;

use crate::first_mode::FirstMode;

/// One session's memory, shared with the connections that it has used. Of each thing it counts the changes: a connection
/// that has the same number knows the thing as it is.
#[derive(Debug, Default)]
pub struct Memory {
    /// The session's id; 0: it is no session's.
    session: u32,
    /// The `sql_mode` that it has begun with, where that is known.
    first_mode: Option<Rc<FirstMode>>,
    /// Counts the session's statements: a connection that has the same number ran the last one.
    statement_seq: Cell<u64>,
    /// Counts the changes of LAST_INSERT_ID().
    insert_seq: Cell<u64>,
    /// Counts the changes of FOUND_ROWS(), which a statement without rows leaves as it was.
    rows_seq: Cell<u64>,
    /// Counts the lists of warnings. On MariaDB, a statement without tables leaves the list as it was.
    list_seq: Cell<u64>,
    /// LAST_INSERT_ID(): exact once it is saved, what the OK packet said before that.
    pub last_insert_id: Cell<u64>,
    /// How many connections have not told yet what they know, and are not in a seat of this session.
    pub(crate) saving: Cell<u32>,
    found_rows: Cell<FoundRows>,
    /// ROW_COUNT().
    pub row_count: Cell<i64>,
    warnings: RefCell<Warnings>,
    /// Where there is room for the warnings; none for what belongs to no session.
    share: Option<Share>,
    /// The room that they have.
    room: RefCell<Option<Kept>>,
}

/// Of more warnings than these nothing is kept: servers list as many, unless told otherwise (`max_error_count`).
pub(crate) const MOST_WARNINGS: usize = 1024;

/// What a cell takes beside its bytes.
const EACH_CELL: usize = 32;

/// FOUND_ROWS().
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FoundRows {
    Known(u64),
    /// Only the connection with the right number knows it; nobody, where that is gone.
    OnConnection,
    /// Nobody knows it: whether a statement has counted rows is not known, and what it was before another connection knew.
    Gone,
}

impl Default for FoundRows {
    fn default() -> Self {
        Self::Known(0)
    }
}

/// What SHOW WARNINGS lists.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Warnings {
    /// Nothing.
    #[default]
    None,
    /// Only the connection with the right number knows it; nobody, where that is gone.
    OnConnection,
    /// Those of that connection or, where it has none, still these: it was another one, and nobody knows whether one of the
    /// statements that it ran had warnings of its own.
    Unclear(Box<Warnings>),
    /// Nobody knows: a statement has run on another connection that may have emptied the list, or left it.
    Gone,
    /// What a server has listed, its texts in this `character_set_results`, if the session had set that, and what it counts, if that
    /// follows from the list.
    Listed(TextResult, Option<Box<[u8]>>, Option<ListCounts>),
    /// An error of the proxy's own, by its number and its text.
    Own(u16, Vec<u8>),
}

/// `@@warning_count` and `@@error_count`. Servers count what there was no room for in the list, too (`max_error_count`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ListCounts {
    /// All of them.
    pub warnings: u64,
    /// Those that are errors.
    pub errors: u64,
}

/// The shortest list that servers cut, unless the session has set another length.
const SHORTEST_CUT: usize = 64;

impl ListCounts {
    /// What is counted of this list; `None` where it may have been cut: what was left out counts, too. `most`: the session's
    /// `max_error_count`, if it has set that.
    pub(crate) fn of(list: &TextResult, most: Option<usize>) -> Option<Self> {
        let is_error =
            |row: &&Vec<Option<Vec<u8>>>| matches!(row.first(), Some(Some(level)) if level == b"Error");
        let errors = list.rows.iter().filter(is_error).count() as u64;
        let is_whole = list.rows.len() < most.unwrap_or(SHORTEST_CUT);
        is_whole.then_some(Self { warnings: list.rows.len() as u64, errors })
    }
}

impl Warnings {
    /// What is counted, if that is known here.
    pub fn counts(&self) -> Option<ListCounts> {
        match self {
            Self::None => Some(ListCounts::default()),
            Self::OnConnection | Self::Unclear(_) | Self::Gone => None,
            Self::Listed(.., counts) => *counts,
            Self::Own(..) => Some(ListCounts { warnings: 1, errors: 1 }),
        }
    }
}

/// Which changes a connection knows; see `Memory`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    statement: u64,
    /// The last statement after which ROW_COUNT() was the session's here.
    count: u64,
    insert: u64,
    rows: u64,
    list: u64,
}

/// No change has this number.
const UNKNOWN: u64 = u64::MAX;

impl Seen {
    /// Of a connection that knows nothing of its session.
    pub(crate) const NOTHING: Self =
        Self { statement: UNKNOWN, count: UNKNOWN, insert: UNKNOWN, rows: UNKNOWN, list: UNKNOWN };

    /// After a statement of the proxy's own, which wipes out all but LAST_INSERT_ID() and, mostly, the list of warnings.
    pub(crate) fn without_answers(self) -> Self {
        Self { insert: self.insert, list: self.list, ..Self::NOTHING }
    }

    /// That the list of warnings may be another one than the session's.
    pub(crate) fn lose_list(&mut self) {
        self.list = UNKNOWN;
    }

    /// That one has left the list of warnings as it was before.
    pub(crate) fn keep_list(&mut self, before: Self) {
        self.list = before.list;
    }

    /// That ROW_COUNT() may be another one than the session's.
    pub(crate) fn lose_count(&mut self) {
        self.count = UNKNOWN;
    }

    /// That statement has left FOUND_ROWS() as it was before.
    pub(crate) fn keep_rows(&mut self, before: Self) {
        self.rows = before.rows;
    }
}

/// Parts of the memory that only the connection knows.
#[derive(Debug, Default)]
pub(crate) struct Unsaved {
    pub insert_id: bool,
    pub reported: Reported,
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

fn next(seq: &Cell<u64>) -> u64 {
    seq.set(seq.get() + 1);
    seq.get()
}

impl Memory {
    /// A statement was run by the connection that has seen this much.
    pub(crate) fn note_statement(&self, seen: &mut Seen) {
        seen.statement = next(&self.statement_seq);
        seen.count = seen.statement;
    }

    /// True if ROW_COUNT() is on the connection that has seen this much what it is for the session.
    pub(crate) fn has_count(&self, seen: Seen) -> bool {
        seen.count == self.statement_seq.get()
    }

    /// LAST_INSERT_ID() is what the connection that has seen this much says from now on.
    pub(crate) fn note_insert_id(&self, seen: &mut Seen) {
        seen.insert = next(&self.insert_seq);
    }

    /// FOUND_ROWS() is what that connection says from now on; `None` if nobody else knows.
    pub(crate) fn note_rows(&self, seen: &mut Seen, rows: Option<u64>) {
        seen.rows = next(&self.rows_seq);
        self.found_rows.set(rows.map_or(FoundRows::OnConnection, FoundRows::Known));
    }

    /// The list of warnings is that connection's from now on. Only that knows what is in it, if anything is.
    pub(crate) fn note_list(&self, seen: &mut Seen, is_empty: bool) {
        seen.list = next(&self.list_seq);
        // Looked at first: most are empty, and stay so.
        if !is_empty || !self.has_no_warnings() {
            self.list(if is_empty { Warnings::None } else { Warnings::OnConnection });
        }
    }

    /// FOUND_ROWS() is what that connection says, if it knew it before. Else it may be what it was, or not.
    pub(crate) fn note_unclear_rows(&self, seen: &mut Seen) {
        let is_known = self.has_rows(*seen) && !self.are_rows_gone();
        seen.rows = next(&self.rows_seq);
        self.found_rows.set(if is_known { FoundRows::OnConnection } else { FoundRows::Gone });
    }

    /// The list is that connection's, or, where it has none, the one that there was: if that is `kept` for certain.
    pub(crate) fn note_unclear_list(&self, seen: &mut Seen, kept: bool) {
        let is_known = self.has_list(*seen) && !self.is_list_unclear() || self.has_no_warnings();
        seen.list = next(&self.list_seq);
        let before = self.warnings.replace(Warnings::OnConnection);
        if !is_known {
            let or = match before {
                Warnings::Unclear(or) if kept => or,
                before if kept => Box::new(before),
                _ => Box::new(Warnings::Gone),
            };
            self.warnings.replace(Warnings::Unclear(or));
        }
    }

    /// Nobody knows the list any more.
    pub(crate) fn note_lost_list(&self, seen: &mut Seen) {
        seen.list = next(&self.list_seq);
        self.list(Warnings::Gone);
    }

    fn list(&self, warnings: Warnings) {
        self.warnings.replace(warnings);
        self.room.replace(None);
    }

    /// The memory of a session with this share, which begins in this `sql_mode`.
    pub fn of(share: &Share, session: u32, first_mode: Option<Rc<FirstMode>>) -> Rc<Self> {
        Rc::new(Self { share: Some(share.clone()), session, first_mode, ..Self::default() })
    }

    /// The `sql_mode` that the session has begun with.
    pub fn first_mode(&self) -> Option<&Rc<FirstMode>> {
        self.first_mode.as_ref()
    }

    /// The session's id; 0: it is no session's.
    pub(crate) fn session(&self) -> u32 {
        self.session
    }

    /// What a server has listed, if there is room for it.
    fn kept(&self, result: TextResult, charset: Option<Box<[u8]>>, counts: Option<ListCounts>) -> Warnings {
        let cells = result.rows.iter().flatten();
        let bytes: usize = cells.map(|cell| EACH_CELL + cell.as_ref().map_or(0, Vec::len)).sum();
        let is_whole = result.rows.len() <= MOST_WARNINGS;
        let room = self.share.as_ref().filter(|_| is_whole).and_then(|share| share.keep(bytes));
        if room.is_none() {
            return Warnings::Gone;
        }
        self.room.replace(room);
        Warnings::Listed(result, charset, counts)
    }

    /// What the connection that has seen this much says of FOUND_ROWS(). Its session may have gone on meanwhile, elsewhere.
    pub(crate) fn save_rows(&self, seen: Seen, rows: u64) {
        if self.asks_for_rows(seen) {
            self.found_rows.set(FoundRows::Known(rows));
        }
    }

    /// What it lists and counts, and the `character_set_results` that it was set to.
    pub(crate) fn save_list(
        &self,
        seen: Seen,
        (result, counts): (TextResult, Option<ListCounts>),
        charset: Option<Box<[u8]>>,
    ) {
        if self.asks_for_list(seen) {
            let found = self.warnings.replace(Warnings::None);
            let found = match found {
                _ if counts.is_none() || !result.rows.is_empty() => self.kept(result, charset, counts),
                Warnings::Unclear(or) => *or,
                _ => Warnings::None,
            };
            self.warnings.replace(found);
        }
    }

    /// The connection that has seen this much does not tell what it lists.
    pub(crate) fn lose_list(&self, seen: Seen) {
        if self.asks_for_list(seen) {
            self.list(Warnings::Gone);
        }
    }

    /// What it says of LAST_INSERT_ID().
    pub(crate) fn save_insert_id(&self, seen: Seen, id: u64) {
        if self.has_insert_id(seen) {
            self.last_insert_id.set(id);
        }
    }

    pub(crate) fn has_insert_id(&self, seen: Seen) -> bool {
        seen.insert == self.insert_seq.get()
    }

    /// LAST_INSERT_ID() was made there what it is for the session.
    pub(crate) fn is_restored(&self, seen: &mut Seen) {
        seen.insert = self.insert_seq.get();
    }

    pub(crate) fn ran_last(&self, seen: Seen) -> bool {
        seen.statement == self.statement_seq.get()
    }

    pub(crate) fn has_rows(&self, seen: Seen) -> bool {
        seen.rows == self.rows_seq.get()
    }

    pub(crate) fn has_list(&self, seen: Seen) -> bool {
        seen.list == self.list_seq.get()
    }

    /// True if nobody but the connection that has seen this much knows FOUND_ROWS().
    pub(crate) fn asks_for_rows(&self, seen: Seen) -> bool {
        self.found_rows.get() == FoundRows::OnConnection && self.has_rows(seen)
    }

    /// True if nobody but that connection knows the list of warnings.
    pub(crate) fn asks_for_list(&self, seen: Seen) -> bool {
        matches!(*self.warnings.borrow(), Warnings::OnConnection | Warnings::Unclear(_))
            && self.has_list(seen)
    }

    /// FOUND_ROWS(), if it is known here.
    pub fn found_rows(&self) -> Option<u64> {
        match self.found_rows.get() {
            FoundRows::Known(rows) => Some(rows),
            FoundRows::OnConnection | FoundRows::Gone => None,
        }
    }

    /// True if nobody knows FOUND_ROWS().
    pub fn are_rows_gone(&self) -> bool {
        self.found_rows.get() == FoundRows::Gone
    }

    /// `@@warning_count` and `@@error_count`, if they are known here.
    pub fn list_counts(&self) -> Option<ListCounts> {
        self.warnings.borrow().counts()
    }

    /// What SHOW WARNINGS lists.
    pub fn warnings(&self) -> Warnings {
        self.warnings.borrow().clone()
    }

    /// True if no connection by itself tells what SHOW WARNINGS lists: it takes what was there before, or is gone.
    pub fn is_list_unclear(&self) -> bool {
        matches!(*self.warnings.borrow(), Warnings::Unclear(_) | Warnings::Gone)
    }

    /// True if SHOW WARNINGS lists nothing.
    #[inline]
    pub fn has_no_warnings(&self) -> bool {
        matches!(*self.warnings.borrow(), Warnings::None)
    }

    /// The proxy has answered a statement itself: `Warnings::Own`, where with an error. `None` if the server would have left
    /// the list as it was.
    pub fn answered_itself(&self, warnings: Option<Warnings>) {
        next(&self.statement_seq);
        if let Some(warnings) = warnings {
            next(&self.list_seq);
            self.list(warnings);
        }
    }

    /// A SELECT that the proxy has answered itself had so many rows.
    pub fn sent_rows(&self, rows: u64) {
        next(&self.rows_seq);
        self.found_rows.set(FoundRows::Known(rows));
    }

    /// A SELECT of the session was answered with so many rows, and without warnings, by no connection at all.
    pub fn answered_elsewhere(&self, rows: u64) {
        self.answered_itself(Some(Warnings::None));
        self.sent_rows(rows);
        self.row_count.set(-1);
    }

    /// FOUND_ROWS() is what no connection of the session has counted.
    pub fn lose_rows(&self) {
        next(&self.rows_seq);
        self.found_rows.set(FoundRows::Gone);
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
