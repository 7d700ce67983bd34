//! What sessions know of the code in the database: what was read of it, and what has changed since.
//!
//! Owns: for whom that matters. When it is read is the monitor's; what follows from a text is in `delphinus_sql::Catalog`.
//!
//! ## From a text in the database to a pin
//!
//! What code in the database does without a word of the server is found by its text: `monitor/src/stored_code.rs` has
//! routines, triggers and views read on the primary (`probe/stored_code.rs`) and puts them into
//! `view/src/stored_code.rs`, `sql/src/stored` makes a `Catalog` of those that leave something behind, by the names that
//! run them, and `session/src/follow/stored_code.rs` asks it before a statement runs (`Effects::HIDDEN`, or a call that a
//! view hides) and when it has (`Hidden`). No statement waits for a reading: what a session changes is added to the
//! catalogue as its statement has it (`CodeChange`, `Changes`), before its client is told, and stays beside what was read
//! until a reading has begun after that. While there are such changes, a statement's names are followed through the words
//! of all code (`sql/src/stored/walk.rs`). Who else runs a statement pays for the load of one byte and, as servers bring
//! routines of their own along, a few comparisons with its class; the text is looked at again where it may run code of a
//! kind that hides something.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use delphinus_memory::{Account, Owner, Permit};
use delphinus_net::rt::{Notify, watch};
use delphinus_sql::{Catalog, CodeChange, Runs, Statement};

use crate::table_map::TableMap;

/// For whom what is known matters.
mod flag {
    /// The first reading is still to come.
    pub(super) const FIRST: u8 = 1;
    /// Code has changed since it was read.
    pub(super) const CHANGED: u8 = 2;
    /// See `Catalog::has_routines`.
    pub(super) const ROUTINES: u8 = 4;
    /// See `Catalog::has_system`.
    pub(super) const SYSTEM: u8 = 8;
    /// See `Catalog::has_views`.
    pub(super) const VIEWS: u8 = 16;
    /// See `Catalog::has_triggers`.
    pub(super) const TRIGGERS: u8 = 32;
}

/// What is known of the code in the database of a cluster; for any thread.
#[derive(Debug)]
pub struct StoredCode {
    catalog: ArcSwap<Catalog>,
    flags: AtomicU8,
    /// Who changes the catalogue: the monitor, and sessions that change code.
    writing: Mutex<Writing>,
    /// True when the first reading has come to its end, or takes too long.
    first: watch::Sender<bool>,
    bell: Notify,
    /// False if an operator does not want it to be read.
    is_read: bool,
    tables: TableMap,
}

#[derive(Debug)]
struct Writing {
    /// The number of the next change.
    next: u64,
    memory: Account,
    /// The room of what has changed.
    room: Option<Permit>,
}

impl StoredCode {
    /// Nothing is known yet; with `is_read` something will be.
    pub fn new(is_read: bool, memory: Account) -> Self {
        let catalog = Catalog::default();
        let catalog = if is_read { catalog.without_routines() } else { catalog };
        let flags = if is_read { flags_of(&catalog) | flag::FIRST } else { 0 };
        Self {
            catalog: ArcSwap::from_pointee(catalog),
            flags: AtomicU8::new(flags),
            writing: Mutex::new(Writing { next: 1, memory, room: None }),
            first: watch::channel(!is_read).0,
            bell: Notify::new(),
            is_read,
            tables: TableMap::default(),
        }
    }

    /// What is known of the tables, which is read with the code.
    pub fn tables(&self) -> &TableMap {
        &self.tables
    }

    /// True if `concerns` may be true of a statement that can be anything.
    #[inline]
    pub fn concerns_any(&self) -> bool {
        self.flags.load(Ordering::Acquire) & !flag::SYSTEM != 0
    }

    /// True if the statement may do something by code in the database that no server reports.
    #[inline]
    pub fn concerns(&self, statement: &Statement) -> bool {
        let flags = self.flags.load(Ordering::Acquire);
        flags != 0 && concerns(flags, Runs::of(statement))
    }

    /// True if code has changed that has not been read since.
    #[inline]
    pub fn has_changed(&self) -> bool {
        self.flags.load(Ordering::Acquire) & flag::CHANGED != 0
    }

    /// A session has changed code: until that is read, what it has named may do what it did, or what its statement says.
    pub fn change(&self, change: &CodeChange) {
        if !self.is_read {
            return;
        }
        let mut writing = self.writing();
        let number = writing.next;
        writing.next += 1;
        if !change.is_empty() {
            let catalog = self.catalog.load_full();
            let mut changes = catalog.changes().clone();
            changes.add(change, number);
            self.publish(&mut writing, catalog.with(changes));
        }
        self.bell.notify_one();
    }

    /// What is known. Statements wait for the first reading only.
    pub async fn catalog(&self) -> Arc<Catalog> {
        if self.flags.load(Ordering::Acquire) & flag::FIRST != 0 {
            // An error means that the monitor is gone, and with it the proxy.
            let _ = self.first.subscribe().wait_for(|has_been| *has_been).await;
        }
        self.catalog.load_full()
    }

    fn writing(&self) -> MutexGuard<'_, Writing> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first reading has come to its end, or is not waited for any more.
    pub fn end_first(&self) {
        let _writing = self.writing();
        self.flags.fetch_and(!flag::FIRST, Ordering::AcqRel);
        self.first.send_replace(true);
    }

    /// Rings when code has changed: it should be read anew.
    pub async fn changed(&self) {
        self.bell.notified().await;
    }

    /// The number of the first change that a reading may not see which begins now.
    pub fn begin(&self) -> u64 {
        self.writing().next
    }

    /// Takes in what was read, and forgets the changes before the `first` that this may not have seen.
    pub fn take_in(&self, catalog: &Catalog, first: u64) {
        let mut writing = self.writing();
        let mut changes = self.catalog.load().changes().clone();
        changes.keep_from(first);
        self.publish(&mut writing, catalog.with(changes));
        drop(writing);
        self.end_first();
    }

    fn publish(&self, writing: &mut Writing, catalog: Catalog) {
        let flags = flags_of(&catalog);
        writing.room = None;
        writing.room = Some(writing.memory.reserve(Owner::StoredCode, catalog.changes().bytes()));
        self.catalog.store(Arc::new(catalog));
        // Whoever writes them holds the lock.
        let first = self.flags.load(Ordering::Acquire) & flag::FIRST;
        self.flags.store(flags | first, Ordering::Release);
    }
}

fn flags_of(catalog: &Catalog) -> u8 {
    let mut flags = 0;
    for (is_set, flag) in [
        (!catalog.changes().is_empty(), flag::CHANGED),
        (catalog.has_routines(), flag::ROUTINES),
        (catalog.has_system(), flag::SYSTEM),
        (catalog.has_views(), flag::VIEWS),
        (catalog.has_triggers(), flag::TRIGGERS),
    ] {
        flags |= if is_set { flag } else { 0 };
    }
    flags
}

fn concerns(flags: u8, runs: Runs) -> bool {
    let has = |wanted| flags & wanted != 0;
    has(flag::VIEWS | flag::CHANGED) && runs.views
        || has(flag::SYSTEM) && runs.system
        || has(flag::ROUTINES | flag::CHANGED) && runs.routines
        || has(flag::TRIGGERS | flag::CHANGED) && runs.triggers
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::time::Duration;

    use delphinus_net::rt::{self, Either};
    use delphinus_sql::{Body, CatalogBuilder, LexOptions, Stored, classify};

    use super::*;

    fn concerned(code: &StoredCode) -> Vec<bool> {
        let asked = ["SELECT 1", "SELECT f()", "CALL p()", "INSERT INTO t VALUES (1)"];
        asked.map(|sql| code.concerns(&classify(sql.as_bytes(), LexOptions::default()))).to_vec()
    }

    fn catalog(stored: &[Stored]) -> Catalog {
        let mut builder = CatalogBuilder::default();
        for one in stored {
            builder.add(one.clone(), Body::read(b"SELECT GET_LOCK('a', 1)", LexOptions::default()));
        }
        builder.build()
    }

    fn code(is_read: bool) -> Arc<StoredCode> {
        Arc::new(StoredCode::new(is_read, Account::new(1 << 30)))
    }

    fn change(sql: &str) -> CodeChange {
        let lex = LexOptions::default();
        CodeChange::of(&classify(sql.as_bytes(), lex), sql.as_bytes(), lex, true).unwrap()
    }

    #[test]
    fn only_those_are_concerned_for_whom_there_is_something() {
        let code = code(true);
        assert_eq!(concerned(&code), [false, true, true, false], "nobody has read it");
        for (stored, wanted) in [
            (&[][..], [false; 4]),
            (&[Stored::Routine("p".to_owned())], [false, true, true, false]),
            (&[Stored::Trigger("t".to_owned())], [false, false, true, true]),
            (&[Stored::View("v".to_owned()), Stored::Routine("p".to_owned())], [true; 4]),
            (&[Stored::Routine("sys".to_owned())], [false, false, true, false]),
        ] {
            code.take_in(&catalog(stored), code.begin());
            assert_eq!(concerned(&code), wanted, "{stored:?}");
        }
        code.take_in(&Catalog::default().without_routines(), code.begin());
        assert_eq!(concerned(&code), [false, true, true, false]);
    }

    #[test]
    fn a_change_counts_until_a_reading_has_seen_it() {
        let code = code(true);
        code.take_in(&catalog(&[]), code.begin());
        code.change(&change("DROP PROCEDURE p"));
        assert!(!code.has_changed(), "what is gone does nothing");
        let first = code.begin();
        code.change(&change("CREATE PROCEDURE p() SELECT 1"));
        assert_eq!(concerned(&code), [true; 4]);
        code.take_in(&catalog(&[]), first);
        assert!(code.has_changed(), "the reading began before the change");
        code.take_in(&catalog(&[]), 0);
        assert!(code.has_changed(), "a replica may not have it");
        code.take_in(&catalog(&[]), code.begin());
        assert_eq!(concerned(&code), [false; 4]);
    }

    #[test]
    fn nobody_is_concerned_where_nobody_wants_it_read() {
        let code = code(false);
        code.change(&change("CREATE PROCEDURE p() SELECT 1"));
        assert_eq!(concerned(&code), [false; 4]);
        assert_eq!(*rt::block_on(code.catalog()).unwrap(), Catalog::default());
    }

    #[test]
    fn the_first_reading_is_waited_for_and_no_other() {
        rt::block_on(async {
            let code = code(true);
            let mut waiting = pin!(code.catalog());
            let Either::Second(()) = rt::either(waiting.as_mut(), rt::sleep(Duration::from_millis(20))).await
            else {
                panic!("nobody has read it");
            };
            code.take_in(&catalog(&[Stored::Routine("p".to_owned())]), code.begin());
            assert!(waiting.await.has_routines());
            code.change(&change("CREATE PROCEDURE p() SELECT 1"));
            code.catalog().await;

            let never_read = Arc::new(StoredCode::new(true, Account::new(1 << 30)));
            never_read.end_first();
            assert!(never_read.catalog().await.is_unreadable());
        })
        .unwrap();
    }
}
