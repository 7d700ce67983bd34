//! What a session writes, by table: the statement that runs, and the transaction that is open.
//!
//! Owns: when a write is seen by others, which of a transaction is its end, and that it is noted before it is sent and after it has
//! ended. A write whose end nobody has told, because its connection is lost or its client has gone, stays in doubt. Which tables a
//! statement writes says [`Ledger`].

use std::rc::Rc;

use delphinus_cache::{Place, Running};
use delphinus_sql::{Statement, Touched, Written};
use delphinus_topology::BackendId;
use delphinus_view::Changing;

use super::ledger::{Ledger, TextHere};

/// What a session writes. It has room for that once it has written, and only where the cache follows writes.
#[derive(Debug, Default)]
pub(super) struct Writing {
    writes: Option<Box<Writes>>,
}

#[derive(Debug, Default)]
struct Writes {
    /// What the transaction that is open has written, which others do not see yet.
    open: Option<Open>,
    /// What the command that runs writes.
    now: Option<Now>,
}

#[derive(Debug, Default)]
struct Open {
    written: Touched,
    /// The number of changes of the tables when it was begun.
    changes: u64,
}

/// A write that is about to be sent, or runs.
struct Now {
    ledger: Rc<Ledger>,
    written: Written,
    changes: u64,
    /// What it writes is seen by others when it has ended, and so is what its transaction has written.
    commits: bool,
    running: Vec<Running>,
    changing: Option<Changing>,
    /// Where it was sent.
    backend: BackendId,
    end: End,
    /// It is several executions in one, each with a commit of its own.
    is_several: bool,
}

/// What is known of the end of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
enum End {
    /// Nothing: it runs, or nobody was told.
    Unknown,
    /// Nothing was written.
    Nothing,
    /// It was, or may have been.
    At(Place),
}

impl std::fmt::Debug for Now {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Now").field("written", &self.written).field("end", &self.end).finish_non_exhaustive()
    }
}

impl Now {
    /// Tells the ledger that it has ended, or that nobody knows.
    fn end(&mut self) {
        let place = match &self.end {
            End::Unknown => {
                for running in self.running.drain(..) {
                    self.ledger.doubt(running, self.backend);
                }
                if let Some(changing) = self.changing.take() {
                    self.ledger.doubt_change(changing);
                }
                return;
            }
            End::Nothing => None,
            End::At(place) => Some(place),
        };
        if let Some(changing) = self.changing.take() {
            self.ledger.end_change(changing);
        }
        for running in self.running.drain(..) {
            self.ledger.end(running, place);
        }
    }
}

impl Drop for Now {
    fn drop(&mut self) {
        self.end();
    }
}

impl Writing {
    /// A statement that may write is about to run; what exactly is still to be told. Unless it `commits`, or may, others see nothing of it
    /// until its transaction ends.
    pub(super) fn is_to_write(&mut self, ledger: &Rc<Ledger>, statement: &Statement, commits: bool) {
        self.writes.get_or_insert_default().now = Some(Now {
            ledger: ledger.clone(),
            written: Written::unknown(statement, None),
            changes: ledger.changes(),
            commits,
            running: Vec::new(),
            changing: None,
            backend: BackendId(0),
            end: End::Unknown,
            is_several: false,
        });
    }

    /// The statement runs once for each row of an array: an error at one leaves what those before it have done.
    pub(super) fn runs_several_times(&mut self) {
        if let Some(now) = self.now_mut() {
            now.is_several = true;
        }
    }

    /// The transaction that was open has ended.
    pub(super) fn is_outside(&mut self) {
        if let Some(writes) = &mut self.writes {
            writes.open = None;
        }
    }

    /// True if the text of the statement has to be shown.
    #[inline]
    pub(super) fn wants_text(&self) -> bool {
        self.now().is_some()
    }

    #[inline]
    fn now(&self) -> Option<&Now> {
        self.writes.as_ref()?.now.as_ref()
    }

    fn now_mut(&mut self) -> Option<&mut Now> {
        self.writes.as_mut()?.now.as_mut()
    }

    /// This is its text.
    pub(super) fn is_told(&mut self, statement: &Statement, text: TextHere<'_>) {
        let Some(now) = self.now_mut() else { return };
        now.changes = now.ledger.changes();
        now.written = now.ledger.written_by(statement, text);
    }

    /// It is about to be sent.
    pub(super) fn begin(&mut self, backend: BackendId) {
        let Some(Writes { open: of_transaction, now: Some(now) }) = self.writes.as_deref_mut() else {
            return;
        };
        now.backend = backend;
        if !now.running.is_empty() {
            return;
        }
        let mut seen = if now.commits { now.written.tables.clone() } else { now.written.at_once.clone() };
        if now.commits
            && let Some(open) = of_transaction
        {
            seen.add(&open.written);
        }
        if now.written.is_ddl && now.changing.is_none() {
            // Before it is counted as a write: who is told what is known afterwards finds that it has begun.
            now.changing = Some(now.ledger.begin_change());
            now.changes = now.ledger.changes();
        }
        if !seen.is_empty() {
            now.running.push(now.ledger.begin(&seen));
        }
        // A transaction may be open when it has ended, whatever was known before: a server's default may be to have no autocommit.
        if !now.written.tables.is_empty() {
            let open = of_transaction
                .get_or_insert_with(|| Open { written: Touched::default(), changes: now.changes });
            open.written.add(&now.written.tables);
        }
    }

    /// It has ended there: with this place, or without having written anything. `is_outside`: no transaction is open now. Its client is not
    /// told yet.
    pub(super) fn ended(&mut self, place: Option<Place>, is_outside: bool) {
        let Some(Writes { open, now: Some(now) }) = self.writes.as_deref_mut() else { return };
        let begun_before = now.running.len();
        if is_outside
            && !now.commits
            && !now.written.tables.is_empty()
            && let Some(open) = open
        {
            // It has committed: its transaction had ended before, by an error that did not say so.
            now.running.push(now.ledger.begin(&open.written));
        }
        if now.running.is_empty() && now.changing.is_none() {
            now.end = End::Nothing;
            return;
        }
        let begun = open.as_ref().map_or(now.changes, |open| open.changes);
        let changes = now.ledger.changes();
        if (now.changes != changes || begun != changes) && !now.running.is_empty() && now.changing.is_none() {
            // It may have done more by a trigger, say, that was made meanwhile.
            now.running.push(now.ledger.begin(&Touched::everything()));
        }
        now.end = match place {
            // Others may have written between its end and what was begun here: its GTIDs do not stand for theirs.
            Some(_) if now.running.len() > begun_before => End::At(Place::new(now.backend, None)),
            Some(place) => End::At(place),
            None => End::Nothing,
        };
    }

    /// True if nothing of it is seen before its transaction ends: an error has changed nothing.
    pub(super) fn is_undone_by_errors(&self) -> bool {
        self.now().is_some_and(|now| !now.is_several && now.written.at_once.is_empty() && !now.written.is_ddl)
    }

    /// The command has ended, one way or another.
    #[inline]
    pub(super) fn end_command(&mut self) {
        if let Some(writes) = &mut self.writes {
            writes.now = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use delphinus_cache::{Cache, Limits, Tables};
    use delphinus_memory::Account;
    use delphinus_net::rt;
    use delphinus_sql::{LexOptions, ReachBuilder, TableKind, classify};
    use delphinus_state::Response;
    use delphinus_topology::ClusterId;
    use delphinus_view::StoredCode;
    use delphinus_wire::response::Status;

    use super::super::after::Done;
    use super::super::scene::{PRIMARY, Scene};
    use super::super::table_cells::spots_written;
    use super::super::{Causality, Ledger};
    use super::*;

    const CLUSTER: ClusterId = ClusterId(0);

    fn tables(ledger: &Ledger) -> Touched {
        ledger.written_by(&classify(b"DELETE FROM t", lex()), text(b"DELETE FROM t")).tables
    }

    fn lex() -> LexOptions {
        LexOptions::default()
    }

    fn text(sql: &[u8]) -> TextHere<'_> {
        TextHere { sql, lex: lex(), schema: Some("app"), has_temporary: false }
    }

    /// An error may roll a transaction back without a word: what the session sends next commits by itself, though the proxy takes it for a
    /// part of that transaction.
    #[test]
    fn what_was_committed_in_a_transaction_that_had_ended_is_counted() {
        let code = Arc::new(StoredCode::new(false, Account::new(1 << 20)));
        let cache = Arc::new(Cache::new(Limits::default()).ended_by_writes([Tables::default()]));
        let ledger = Rc::new(Ledger::new(&cache, &code, CLUSTER).unwrap());
        let mut builder = ReachBuilder::default();
        builder.table("app", "t", TableKind::Plain);
        code.tables().take_in(builder.build(), code.tables().seen());
        let (scene, spots) = (Scene::new(None), spots_written(CLUSTER, &tables(&ledger)));
        let seen = || format!("{:?}", cache.tables(CLUSTER).unwrap().see(spots.iter().copied(), rt::now()));
        for (sql, status, is_counted) in [
            ("UPDATE t SET a = 1", Some(3), false),
            // No autocommit.
            ("UPDATE t SET a = 1", Some(0), false),
            ("UPDATE t SET a = 1", None, false),
            ("ROLLBACK", Some(2), false),
            ("UPDATE t SET a = 1", Some(2), true),
        ] {
            let mut causality = Causality::default();
            let mut run = |sql: &str, status: Option<u16>| {
                let (before, statement) = (seen(), classify(sql.as_bytes(), lex()));
                let response = Response { status: status.map(Status), ..Response::default() };
                causality.begin_statement(&statement, true);
                causality.begin_write(&ledger, &statement, Status::IN_TRANS.with(Status::AUTOCOMMIT));
                causality.writes_by(&statement, text(sql.as_bytes()));
                causality.count_write(&scene.outlook.progress, (PRIMARY, false));
                let (backend, statement, response) = (PRIMARY, &statement, &response);
                let done = Done { backend, statement, response, is_late: false };
                causality.follow(done, None, &scene.outlook);
                causality.end_command();
                seen() != before
            };
            assert!(!run("UPDATE t SET a = 0", Some(3)), "the transaction is open");
            assert_eq!(run(sql, status), is_counted, "{sql} {status:?}");
        }
    }
}
