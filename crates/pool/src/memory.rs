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
}

/// Parts of the memory that only the connection knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Unsaved {
    pub insert_id: bool,
    pub diagnostics: Diagnostics,
}

/// What of the last statement's diagnostics has to be asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Diagnostics {
    pub found_rows: bool,
    pub warnings: bool,
}

impl Unsaved {
    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

impl Memory {
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
