//! The prepared statements of one client.

use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;

use delphinus_net::rt;
use delphinus_pool::{BackendStatement, Checkout, StatementKey};
use delphinus_sql::{CodeChange, Flavor, Sketch, Statement};
use delphinus_state::PinReason;
use delphinus_view::StoredCode;
use delphinus_wire::command::ClientStmtId;

use crate::client_error::ProxyError;
use crate::follow::uncover;
use crate::state::Wanted;

/// A statement as its client knows it.
#[derive(Debug)]
pub(crate) struct ClientStatement {
    /// Text and the state it was prepared in.
    pub key: Rc<StatementKey>,
    /// What the classifier found.
    pub statement: Statement,
    /// By which its digest is found; `None`: its text was not kept.
    pub sketch: Option<Sketch>,
    /// How many parameters it has.
    pub params: u16,
    /// The types sent last, which the client need not send again.
    pub types: Vec<u8>,
    /// What tells this statement from all others of the worker, for `BackendStatement::bound_by`.
    pub token: u64,
    /// The backend's statement that is this one's alone, on the connection that the session is pinned to: with an open
    /// cursor or pieces of a parameter.
    pub own: Option<Own>,
    /// A cursor is open.
    pub has_cursor: Mark,
    /// Pieces of a parameter were sent ahead.
    pub has_long_data: Mark,
    /// Why one of them is missing, which is told when the statement runs.
    pub late_error: Option<Box<ProxyError>>,
}

impl ClientStatement {
    /// True if its text was too long to be kept: the backend's statement, in `own`, is all that there is of it. Servers
    /// prepare no empty text.
    pub(crate) fn is_large(&self) -> bool {
        self.key.text().is_empty()
    }

    /// How it runs on a connection.
    #[inline]
    pub(crate) fn sharing(&self) -> Sharing {
        Sharing { is_shared: self.own.is_none() && !self.has_long_data.is_set(), token: self.token }
    }
}

/// How a statement runs on a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sharing {
    /// On the one that all share who run the same text: it has none of its own, and no pieces of a parameter were sent ahead.
    pub is_shared: bool,
    /// What tells it there from those of others.
    pub token: u64,
}

/// Gives the statements of one worker numbers that no other one has.
#[derive(Debug, Default)]
pub(crate) struct Tokens(Cell<u64>);

impl Tokens {
    pub(crate) fn next(&self) -> u64 {
        self.0.set(self.0.get() + 1);
        self.0.get()
    }
}

/// Something that is so of a statement or not, counted over all of its client: to look at each of them at each execution would
/// take the longer the more there are.
#[derive(Debug)]
pub(crate) struct Mark {
    is_set: bool,
    all: Rc<Cell<usize>>,
}

impl Mark {
    fn new(all: &Rc<Cell<usize>>) -> Self {
        Self { is_set: false, all: all.clone() }
    }

    pub(crate) fn is_set(&self) -> bool {
        self.is_set
    }

    pub(crate) fn set(&mut self, is_set: bool) {
        if is_set != self.is_set {
            self.is_set = is_set;
            self.all.set(if is_set { self.all.get() + 1 } else { self.all.get() - 1 });
        }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.set(false);
    }
}

/// A backend's statement that is one client's alone for a while.
#[derive(Debug, Clone)]
pub(crate) struct Own {
    /// What it is found by when it is given back.
    pub key: Rc<StatementKey>,
    /// The statement.
    pub statement: BackendStatement,
}

/// Ids are given out one after another by the session itself: no client can choose some that meet.
#[derive(Debug, Default)]
struct ById(u64);

impl Hasher for ById {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0 << 8 | u64::from(*byte);
        }
    }

    #[inline]
    fn write_u32(&mut self, id: u32) {
        // By the golden ratio: the map looks at the highest bits, too.
        self.0 = u64::from(id).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// All statements of one client.
#[derive(Debug, Default)]
pub(crate) struct ClientStatements {
    by_id: HashMap<ClientStmtId, ClientStatement, BuildHasherDefault<ById>>,
    cursors: Rc<Cell<usize>>,
    pieces: Rc<Cell<usize>>,
    last_id: u32,
    /// The one that was prepared last, if that is still there.
    last_prepared: Option<ClientStmtId>,
    /// How many of them are large.
    large: usize,
}

/// What MariaDB's clients name the statement by that was prepared last: one that runs it before it has read its number.
const LAST_PREPARED: ClientStmtId = ClientStmtId(u32::MAX);

impl ClientStatements {
    /// The id that the next statement gets: never 0, never one in use.
    pub(crate) fn next_id(&mut self) -> ClientStmtId {
        loop {
            self.last_id = self.last_id.wrapping_add(1);
            let id = ClientStmtId(self.last_id);
            if self.last_id != 0 && id != LAST_PREPARED && !self.by_id.contains_key(&id) {
                return id;
            }
        }
    }

    /// The statement, to be looked at only.
    pub(crate) fn look(&self, id: ClientStmtId) -> Option<&ClientStatement> {
        self.by_id.get(&id)
    }

    /// The statement that the client of such servers means by this id.
    #[inline]
    pub(crate) fn meant_by(&self, id: ClientStmtId, flavor: Flavor) -> ClientStmtId {
        if id != LAST_PREPARED || flavor != Flavor::MariaDb {
            return id;
        }
        // None, if the last preparation has failed, or the statement was closed.
        self.last_prepared.unwrap_or(id)
    }

    /// Another one is being prepared: if that fails, none is the last.
    pub(crate) fn begin_to_prepare(&mut self) {
        self.last_prepared = None;
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn insert(&mut self, id: ClientStmtId, statement: ClientStatement) {
        self.last_prepared = Some(id);
        self.large += usize::from(statement.is_large());
        self.by_id.insert(id, statement);
    }

    #[inline]
    pub(crate) fn find(&mut self, id: ClientStmtId) -> Option<&mut ClientStatement> {
        self.by_id.get_mut(&id)
    }

    pub(crate) fn remove(&mut self, id: ClientStmtId) -> Option<ClientStatement> {
        if self.last_prepared == Some(id) {
            self.last_prepared = None;
        }
        let removed = self.by_id.remove(&id)?;
        self.large -= usize::from(removed.is_large());
        Some(removed)
    }

    pub(crate) fn clear(&mut self) {
        self.by_id.clear();
        self.last_prepared = None;
        self.large = 0;
    }

    /// True if the text of any statement was not kept.
    pub(crate) fn has_large(&self) -> bool {
        self.large > 0
    }

    /// For a statement that has no cursor and no pieces of a parameter yet.
    pub(crate) fn marks(&self) -> (Mark, Mark) {
        (Mark::new(&self.cursors), Mark::new(&self.pieces))
    }

    /// True if a cursor of any statement is open, or pieces of a parameter were sent ahead.
    #[inline]
    pub(crate) fn may_pin(&self) -> bool {
        self.has_cursor() || self.has_long_data()
    }

    /// True if a cursor of any statement is open.
    pub(crate) fn has_cursor(&self) -> bool {
        self.cursors.get() > 0
    }

    /// True if pieces of a parameter of any statement were sent ahead.
    pub(crate) fn has_long_data(&self) -> bool {
        self.pieces.get() > 0
    }
}

/// What of them pins.
impl ClientStatements {
    /// Pins for open cursors and long data, or ends these pins, when a command about the statement has ended on this connection. A
    /// statement that has neither any more is there for all again.
    pub(crate) async fn settle_own(&mut self, id: ClientStmtId, checkout: &mut Checkout, state: &mut Wanted) {
        if state.pins.is_empty() && !self.may_pin() {
            return;
        }
        let Some(found) = self.find(id) else { return };
        let text = found.key.text().clone();
        if !found.has_cursor.is_set() && !found.has_long_data.is_set() && !found.is_large() {
            let own = found.own.take();
            put_back(checkout, own).await;
        }
        self.pin(&text, state);
    }

    /// Sets the pins that come from the state of statements. The session's connection is in its caller's hands.
    pub(crate) fn pin(&self, text: &[u8], state: &mut Wanted) {
        let now = rt::now();
        state.pins.set(PinReason::Cursor, self.has_cursor(), now, text);
        state.pins.set(PinReason::LongData, self.has_long_data(), now, text);
        state.pins.set(PinReason::LargeStatement, self.has_large(), now, text);
        // A session without pins settles without a look at them.
        state.publish(None);
    }
}

/// Makes a statement that was one client's alone one for all again.
pub(crate) async fn put_back(checkout: &mut Checkout, own: Option<Own>) {
    let Some(Own { key, statement }) = own else { return };
    for closed in checkout.connection().statements.put_back(key, statement) {
        // An error shows when the connection is used next.
        let _ = checkout.close_statement(closed).await;
    }
}

/// What code in the database does by them.
impl ClientStatements {
    /// True if `uncover` has to be asked about this one.
    #[inline]
    pub(crate) fn may_hide(&mut self, id: ClientStmtId, code: &StoredCode) -> bool {
        code.concerns_any()
            && self.find(id).is_some_and(|found| !found.is_large() && code.concerns(&found.statement))
    }

    /// Finds out what code in the database does by the statement, which is read as it was then.
    pub(crate) async fn uncover(
        &mut self,
        id: ClientStmtId,
        code: &StoredCode,
        state: &Wanted,
    ) -> Result<(), ProxyError> {
        let Some(found) = self.find(id) else { return Ok(()) };
        let key = found.key.clone();
        let text = state.text_of(&key);
        uncover(code, &mut found.statement, text.sql, text.lex).await
    }

    /// What a statement that is about to run changes of the code in the database. It is read as it was then.
    pub(crate) fn code_changed_by(&self, id: ClientStmtId, state: &Wanted) -> Option<CodeChange> {
        let found = self.look(id)?;
        let text = state.text_of(&found.key);
        CodeChange::of(&found.statement, text.sql, text.lex, !found.is_large())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_count_themselves() {
        let all = ClientStatements::default();
        let ((mut one, mut long), (mut other, _unset)) = (all.marks(), all.marks());
        assert!(!all.may_pin());
        one.set(true);
        one.set(true);
        other.set(true);
        assert!(all.has_cursor() && !all.has_long_data());
        one.set(false);
        one.set(false);
        assert!(all.has_cursor() && other.is_set());
        // Closed with its cursor.
        drop(other);
        assert!(!all.may_pin());
        long.set(true);
        assert!(all.may_pin() && all.has_long_data());
        drop(long);
        assert!(!all.may_pin());
    }
}
