//! Which tables are written and read, where writes end answers that are kept: the sessions' end of `delphinus_cache::Tables`.
//!
//! Owns: from the text of a statement to the cells of the cache, by what is known of the tables now. Must not know sessions: what one
//! has written in its transaction is in `writing`.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delphinus_cache::{Cache, Origin, Place, Primary, Regime, Running, Seen, Spot, Tables};
use delphinus_net::rt;
use delphinus_sql::{LexOptions, Statement, Touched, Written};
use delphinus_topology::{BackendId, ClusterId, Snapshot, Succession};
use delphinus_view::{Changing, StoredCode};

use super::table_cells::{spots_read, spots_written};
use crate::outlook::Outlook;

/// A server that does not know that its client has gone may go on with a write for so long.
pub(crate) const DOUBT: Duration = Duration::from_mins(1);

/// The writes of one cluster, for the sessions of one worker.
pub(crate) struct Ledger {
    cache: Arc<Cache>,
    code: Arc<StoredCode>,
    cluster: ClusterId,
    /// Changes of tables of which nobody knows whether they have ended.
    in_doubt: RefCell<Option<(Instant, Changing)>>,
}

/// A text that is read for the tables in it.
#[derive(Clone, Copy)]
pub(crate) struct TextHere<'a> {
    pub(crate) sql: &'a [u8],
    pub(crate) lex: LexOptions,
    /// The schema of names without one.
    pub(crate) schema: Option<&'a str>,
    /// The session has temporary tables, which the servers tell to nobody else.
    pub(crate) has_temporary: bool,
}

/// What a question depends on.
#[derive(Debug, Clone)]
pub(crate) struct Depends {
    spots: Box<[Spot]>,
    edition: u64,
}

/// Who is the primary.
pub(crate) fn primary_of(snapshot: &Snapshot) -> Option<Primary> {
    let Succession { number: succession, since, is_elected, .. } = snapshot.succession;
    snapshot.primary().map(|primary| Primary { backend: primary.id, succession, since, is_elected })
}

/// Which time in the role of the primary it is, if this one has it.
pub(crate) fn succession_of(backend: BackendId, snapshot: &Snapshot) -> Option<u64> {
    primary_of(snapshot).filter(|primary| primary.backend == backend).map(|primary| primary.succession)
}

impl Ledger {
    /// `None` where writes end nothing.
    pub(crate) fn new(cache: &Arc<Cache>, code: &Arc<StoredCode>, cluster: ClusterId) -> Option<Self> {
        cache.tables(cluster)?;
        code.tables().want();
        let (cache, code) = (cache.clone(), code.clone());
        Some(Self { cache, code, cluster, in_doubt: RefCell::default() })
    }

    fn tables(&self) -> &Tables {
        self.cache.tables(self.cluster).expect("invariant: there is a ledger only where there are tables")
    }

    /// A number that changes with each change of the tables.
    pub(super) fn changes(&self) -> u64 {
        self.code.tables().seen()
    }

    /// What a statement writes, as far as its text tells.
    pub(super) fn written_by(&self, statement: &Statement, text: TextHere<'_>) -> Written {
        match self.code.tables().current() {
            Some(reach) => reach.written_by(statement, (text.sql, text.lex), text.schema, text.has_temporary),
            None => Written::unknown(statement, Some((text.sql, text.lex))),
        }
    }

    /// What a question reads.
    pub(crate) fn read_by(&self, text: TextHere<'_>) -> Depends {
        // Before what is known is looked at: a later edition ends what was found by this one.
        let edition = self.code.tables().edition();
        let touched = match self.code.tables().current() {
            Some(reach) => reach.read_by(text.sql, text.lex, text.schema),
            None => Touched::everything(),
        };
        Depends { spots: spots_read(self.cluster, &touched), edition }
    }

    /// These tables are about to be written.
    pub(super) fn begin(&self, touched: &Touched) -> Running {
        self.settle();
        self.tables().begin(spots_written(self.cluster, touched))
    }

    /// They have been, at this place; `None`: nothing was written.
    pub(super) fn end(&self, running: Running, place: Option<&Place>) {
        self.tables().end(running, place);
    }

    /// Nobody knows whether they have been, or will be, on this backend.
    pub(super) fn doubt(&self, running: Running, backend: BackendId) {
        let place = Place::new(backend, None);
        let anything = spots_written(self.cluster, &Touched::everything());
        self.tables().doubt(running, place, rt::now() + DOUBT, &anything);
    }

    /// The tables are about to be changed.
    pub(super) fn begin_change(&self) -> Changing {
        self.settle();
        self.code.tables().begin()
    }

    /// Ends what nobody has known the end of for long enough.
    fn settle(&self) {
        let now = rt::now();
        self.tables().settle_doubts(now);
        let over = self.in_doubt.borrow_mut().take_if(|(until, _)| *until <= now);
        if let Some((_, changing)) = over {
            self.code.tables().end(changing);
        }
    }

    /// They have been.
    pub(super) fn end_change(&self, changing: Changing) {
        self.code.tables().end(changing);
    }

    /// Nobody knows whether they have been.
    pub(super) fn doubt_change(&self, changing: Changing) {
        // One keeps the tables unknown as well as many.
        let before = self.in_doubt.borrow_mut().replace((rt::now() + DOUBT, changing));
        if let Some((_, before)) = before {
            self.code.tables().end(before);
        }
    }

    /// Where a question is asked, as `find` finds it, with what it reads, if that is proved to have all writes.
    pub(crate) fn origin(
        ledger: Option<&Rc<Self>>,
        depends: Option<&Depends>,
        outlook: &Outlook,
        find: impl FnOnce() -> Origin,
    ) -> Origin {
        let tables = ledger.zip(depends);
        // What is being written is seen before anything else: what is found out later has no less.
        let seen = tables.and_then(|(ledger, depends)| ledger.see(depends));
        let mut origin = find();
        if let (Some((ledger, depends)), Some(seen)) = (tables, seen) {
            let primary = outlook.with_snapshot(|snapshot, _| primary_of(snapshot));
            ledger.prove(seen, depends, primary, &mut origin);
        }
        origin
    }

    /// What a question depends on, before it is asked; `None` if that is being written.
    fn see(&self, depends: &Depends) -> Option<Seen> {
        self.settle();
        self.tables().see(depends.spots.iter().copied(), rt::now())
    }

    /// Notes in the origin what the answer reads, if it is proved to have all that was written of that.
    fn prove(&self, seen: Seen, depends: &Depends, primary: Option<Primary>, origin: &mut Origin) {
        let regime = Regime { primary, edition: depends.edition };
        origin.reads = self.tables().prove(seen, origin, regime);
    }

    /// True if nothing was written since that an answer reads.
    pub(crate) fn is_valid(&self, origin: &Origin, snapshot: &Snapshot) -> bool {
        let regime = Regime { primary: primary_of(snapshot), edition: self.code.tables().edition() };
        origin.reads.as_ref().is_some_and(|reads| self.tables().is_valid(reads, regime, rt::now))
    }
}
