//! What a session has to find where it reads: what it has written, and never less than it has read before.
//!
//! Owns: what is demanded, and that a replica that is not known to meet it is waited for. Which replicas meet a demand is
//! decided in `route`, how far each one is says [`Progress`].
//!
//! A write leaves its GTIDs in the session's token. A read, and a write without GTIDs, leaves the backend where it ran: what was
//! seen there is in its position as of the probe after the next one, and until then only that backend is known to have it.
//! While the cluster is at rest (`topology::Rest`) everybody has everything, and nothing of this is asked for.
//!
//! | visit of a statement | what it asks | where |
//! |---|---|---|
//! | before it is planned | [`Causality::begin_statement`], [`Causality::is_free_to_read`], [`Causality::behind`] | `demand` |
//! | a replica has to be waited for | [`Causality::catch_up`] | `catch_up` |
//! | it is sent | [`Causality::count_write`] | |
//! | it has run | [`Causality::follow`] | `after` |
//! | its answer comes from the cache, or goes there | [`Causality::may_read_kept`], [`Causality::was_given`] | `kept_answer` |
//! | what it writes, by table, ends answers that are kept | [`Causality::begin_write`], [`Causality::writes_by`] | `writing`, `ledger` |
//! | a client asks for the token, or brings one | [`Causality::token_text`], [`Causality::read_token`] | `token` |
//!
//! ## Where the facts come from
//!
//! `session/src/fresh.rs` (`Causality`) keeps what a session has to find: the GTIDs of its writes, and the backend where
//! it last read. `view::Positions` holds the newest position of each backend beside the snapshot (which would have to be
//! made anew with each probe) and counts the writes that this proxy has on their way; `topology/src/rest.rs` tells from
//! both whether anything is being written: if not, everybody has everything and nobody asks. `route/src/causality.rs`
//! finds the replicas to leave out. A statement is visited before it is planned, when it is sent, and when it has run;
//! its methods take what they need and know no session. How sessions see the cluster, and what they report of it, is each
//! worker's `session/src/outlook.rs`; how far each backend is, with what sessions have found out by waiting,
//! `outlook/progress.rs`.

mod after;
mod catch_up;
mod demand;
mod in_words;
mod kept_answer;
mod ledger;
#[cfg(test)]
mod scene;
mod table_cells;
mod token;
mod touch;
mod writing;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use delphinus_cache::Write;
use delphinus_memory::Kept;
use delphinus_sql::Statement;
use delphinus_topology::BackendId;
use delphinus_view::Write as WriteUnderWay;
use delphinus_wire::gtid::GtidSet;
use delphinus_wire::response::Status;

use crate::outlook::Progress;

use touch::{Touch, is_plain_write, only_looks};
use writing::Writing;

pub(crate) use after::Done;
pub(crate) use catch_up::Patience;
pub(crate) use demand::Reading;
pub(crate) use kept_answer::origin_at;
pub(crate) use ledger::{Depends, Ledger, TextHere, primary_of};
pub use table_cells::spots_written;
pub(crate) use token::Token;

/// One session's demands.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each looked at by itself")]
pub(crate) struct Causality {
    /// Transactions that it has to find.
    token: Option<Arc<GtidSet>>,
    /// Some of them were named by the client: it may be that no server has them.
    is_foreign: bool,
    token_room: Option<Box<Kept>>,
    seen: Option<Seen>,
    /// The last write, which what is read has to have.
    last_write: Option<Write>,
    /// The servers have not told the GTIDs of all writes.
    has_untold: bool,
    /// What the command that runs does with data.
    touch: Touch,
    /// It may write something, and does not only look at what the primary knows.
    counts: bool,
    /// The replica that was planned for is not known to have what is demanded.
    must_wait: Cell<bool>,
    /// The command that runs has waited in vain.
    gave_up: bool,
    /// The transaction that is open may have written something.
    has_written: bool,
    /// The command that runs may commit it.
    may_commit: bool,
    /// Held while a write runs.
    write: Option<WriteUnderWay>,
    /// What it writes, by table, where that ends answers that are kept.
    writing: Writing,
}

/// Where the session last read, or wrote something that has no GTID.
#[derive(Debug, Clone, Copy)]
struct Seen {
    backend: BackendId,
    /// The number of its last probe then.
    probe: u64,
}

impl Causality {
    /// Takes in what is about to run.
    #[inline]
    pub(crate) fn begin_statement(&mut self, statement: &Statement, in_transaction: bool) {
        let has_written = self.has_written && in_transaction;
        self.touch = Touch::of(statement, has_written);
        self.counts = self.touch == Touch::Writes && !only_looks(statement);
        self.may_commit = !is_plain_write(statement);
        self.has_written = has_written || self.touch == Touch::Writes;
    }

    /// Takes in whether the replica that was planned for has to be waited for.
    #[inline]
    pub(crate) fn is_planned(&self, must_wait: bool) {
        self.must_wait.set(must_wait);
    }

    /// True if the replica that was planned for is not known to have what is demanded.
    #[inline]
    pub(crate) fn must_wait(&self) -> bool {
        self.must_wait.get()
    }

    /// The same by table, for a statement that has just begun in a session with this status: with autocommit, one that is in no
    /// transaction is one.
    pub(crate) fn begin_write(&mut self, ledger: &Rc<Ledger>, statement: &Statement, status: Status) {
        let in_transaction = status.contains(Status::IN_TRANS);
        if !in_transaction {
            self.writing.is_outside();
        }
        if self.touch == Touch::Writes {
            let is_one = !in_transaction && status.contains(Status::AUTOCOMMIT);
            self.writing.is_to_write(ledger, statement, self.may_commit || is_one);
        }
    }

    /// True if [`Self::writes_by`] has to be told the text of the statement that has begun.
    #[inline]
    pub(crate) fn wants_text(&self) -> bool {
        self.writing.wants_text()
    }

    /// The text of the statement that has begun.
    #[cold]
    pub(crate) fn writes_by(&mut self, statement: &Statement, text: TextHere<'_>) {
        self.writing.is_told(statement, text);
    }

    /// The statement that has begun runs once for each row of an array, and each time commits, without a transaction.
    pub(crate) fn runs_several_times(&mut self) {
        self.writing.runs_several_times();
    }

    /// The command is sent to this backend: counts a write until the command ends.
    #[inline]
    pub(crate) fn count_write(&mut self, progress: &Progress, (backend, on_replica): (BackendId, bool)) {
        if self.counts && !on_replica {
            if self.write.is_none() {
                self.write = Some(progress.write());
            }
            if self.writing.wants_text() {
                self.writing.begin(backend);
            }
        }
    }

    /// True while a write runs.
    pub(crate) fn is_writing(&self) -> bool {
        self.write.is_some()
    }

    /// True if the command that runs may have committed something: its own, or a transaction that was open before it.
    pub(crate) fn may_have_committed(&self, in_transaction: bool) -> bool {
        self.touch == Touch::Writes && (self.may_commit || !in_transaction)
    }

    /// Forgets what was about one command.
    #[inline]
    pub(crate) fn end_command(&mut self) {
        self.touch = Touch::Nothing;
        self.counts = false;
        self.gave_up = false;
        self.writing.end_command();
        self.write = None;
    }
}

#[cfg(test)]
mod tests {
    use delphinus_sql::{LexOptions, classify};

    use super::scene::{PRIMARY, Scene};
    use super::*;

    #[test]
    fn writes_are_counted_from_when_they_are_sent_until_the_command_ends() {
        let scene = Scene::new(None);
        let progress = &scene.outlook.progress;
        for (sql, on_replica, counts) in [
            ("INSERT INTO t VALUES (1)", false, true),
            ("INSERT INTO t VALUES (1)", true, false),
            ("SELECT * FROM t", false, false),
            ("COMMIT", false, false),
            // As the monitor of an outer proxy asks all the time.
            ("SHOW REPLICA STATUS", false, false),
            ("SELECT @@global.gtid_executed, @@global.gtid_mode", false, false),
        ] {
            let mut causality = Causality::default();
            causality.begin_statement(&classify(sql.as_bytes(), LexOptions::default()), false);
            let before = progress.writes();
            causality.count_write(progress, (PRIMARY, on_replica));
            causality.count_write(progress, (PRIMARY, on_replica));
            assert_eq!(
                (progress.writes() - before, causality.is_writing()),
                (u64::from(counts), counts),
                "{sql}"
            );
            causality.end_command();
            assert!(!causality.is_writing());
        }
    }

    #[test]
    fn what_may_have_committed_depends_on_the_transaction() {
        let scene = Scene::new(None);
        for (sql, after_a_write, in_transaction, may) in [
            ("INSERT INTO t VALUES (1)", false, false, true),
            ("INSERT INTO t VALUES (1)", true, true, false),
            ("COMMIT", true, true, true),
            ("COMMIT", false, true, false),
            ("ROLLBACK", true, true, false),
            ("CREATE TABLE t (a INT)", false, true, true),
        ] {
            let mut causality = Causality::default();
            if after_a_write {
                scene.run(&mut causality, PRIMARY, ("INSERT INTO t VALUES (1)", ""));
            }
            causality.begin_statement(&classify(sql.as_bytes(), LexOptions::default()), in_transaction);
            assert_eq!(causality.may_have_committed(in_transaction), may, "{sql}");
        }
    }
}
