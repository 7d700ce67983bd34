//! Reading the relay's log in its order: each group is noted for the tables that it has written.
//!
//! Owns: from a group's changes to the cells of the cache, and the groups that the primary has not shown yet.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delphinus_cache::{Noted, Tables};
use delphinus_memory::Account;
use delphinus_net::rt;
use delphinus_relay::changes::{Change, Changes, ChangesError, Committed};
use delphinus_relay::log::{Log, Position};
use delphinus_session::spots_written;
use delphinus_sql::{LexOptions, Reach, Touched};
use delphinus_topology::{BackendId, ClusterId, Flavor, Snapshot};
use delphinus_view::{Changing, SnapshotReader, TableMap};
use delphinus_wire::binlog::AnyGtid;
use delphinus_wire::gtid::GtidSet;

use super::fault::Fault;
use super::question::Shown;

/// So many groups that the primary has not shown are waited for; then no more are read.
const MOST_UNSEEN: usize = 100_000;
/// So long it reads in one turn.
const TURN: Duration = Duration::from_millis(50);

/// A subscription, and what was noted of it.
pub(super) struct Reading {
    changes: Changes,
    /// Where it began: groups before that are not noted.
    began: Position,
    /// All groups that are noted, or were there when it began.
    has: GtidSet,
    unseen: VecDeque<Unseen>,
    fault: Fault,
}

/// A group that others may not see yet.
struct Unseen {
    gtid: AnyGtid,
    end: Position,
    noted: Noted,
    /// It changes the tables: until it is seen, they may be read as they were before.
    changing: Option<Changing>,
}

/// What a group has written, as it is found out.
struct Group<'a> {
    reach: Option<Arc<Reach>>,
    lex: LexOptions,
    touched: Touched,
    is_ddl: bool,
    /// The table whose rows this group has told last: it often comes again.
    last: Option<(Vec<u8>, Vec<u8>)>,
    fault: &'a Fault,
}

impl Reading {
    /// From where the log ends now.
    pub(super) fn begin(log: &Arc<Log>, memory: &Account) -> Result<Self, ChangesError> {
        Self::begin_at(log.now().ok_or(ChangesError::Empty)?, log, memory)
    }

    /// From this place, before which the log has all of `has`.
    pub(super) fn begin_at(
        (place, has): (Position, GtidSet),
        log: &Arc<Log>,
        memory: &Account,
    ) -> Result<Self, ChangesError> {
        let changes = Changes::from(log, place)?.within(memory);
        Ok(Self { changes, began: place, has, unseen: VecDeque::new(), fault: Fault::planted() })
    }

    /// All groups that are noted, or were there when it began.
    pub(super) fn has(&self) -> &GtidSet {
        &self.has
    }

    /// Where it began.
    pub(super) fn began(&self) -> Position {
        self.began
    }

    /// How many groups the primary has not shown yet.
    pub(super) fn unseen(&self) -> usize {
        self.unseen.len()
    }

    /// True if there are some.
    pub(super) fn has_unseen(&self) -> bool {
        !self.unseen.is_empty()
    }

    /// Notes what there is, for a while; how many groups that were.
    pub(super) fn go_on(
        &mut self,
        tables: &Tables,
        (cluster, primary): (ClusterId, BackendId),
        reader: &SnapshotReader,
    ) -> Result<u64, ChangesError> {
        let (until, mut count) = (rt::now() + TURN, 0);
        let lex = lex_of(&reader.load());
        let code = reader.stored_code().tables();
        while self.unseen.len() < MOST_UNSEEN && !is_over(until, count) {
            let mut group = Group {
                reach: code.current(),
                lex,
                touched: Touched::default(),
                is_ddl: false,
                last: None,
                fault: &self.fault,
            };
            let Some(Committed { gtid, end, .. }) = self.changes.next(|change| group.take(change))? else {
                break;
            };
            let Group { touched, is_ddl, .. } = group;
            // Before it is noted: who is told what is known afterwards finds that it has begun.
            let changing = is_ddl.then(|| code.begin());
            let spots = (!touched.is_empty()).then(|| spots_written(cluster, &touched));
            if let Some(spots) = spots.and_then(|spots| self.fault.hold(spots, gtid)) {
                let noted = tables.note(spots, (primary, &self.fault.place(gtid)), &self.has);
                self.unseen.push_back(Unseen { gtid, end, noted, changing });
            } else if let Some(changing) = changing {
                code.end(changing);
            }
            self.has.insert(&gtid);
            count += 1;
        }
        while let Some((spots, gtid)) = self.fault.held() {
            tables.is_seen(tables.note(spots, (primary, &gtid), &self.has));
        }
        Ok(count)
    }

    /// The primary has shown this: what is in it runs no longer.
    pub(super) fn are_seen(&mut self, tables: &Tables, code: &TableMap, log: &Log, shown: &Shown) {
        let is_seen = |first: &Unseen| shown.shows(&first.gtid, first.end, (&self.has, log));
        while self.unseen.front().is_some_and(is_seen) {
            if let Some(group) = self.unseen.pop_front() {
                group.ends(tables, code);
            }
        }
    }

    /// It has a gap, and ends.
    pub(super) fn give_up(self, tables: &Tables, code: &TableMap) {
        for group in self.unseen {
            group.ends(tables, code);
        }
    }
}

impl Unseen {
    /// It runs no longer.
    fn ends(self, tables: &Tables, code: &TableMap) {
        // First: where it is seen that no write runs, nothing is known that was read before the tables had changed.
        if let Some(changing) = self.changing {
            code.end(changing);
        }
        tables.is_seen(self.noted);
    }
}

/// The clock is looked at now and then.
fn is_over(until: Instant, count: u64) -> bool {
    count % 16 == 15 && rt::now() >= until
}

impl Group<'_> {
    fn take(&mut self, change: Change<'_>) {
        match change {
            Change::Rows { schema, table } => self.take_rows(schema, table),
            Change::Statement { schema, text } => {
                // Where nothing is known of the tables, any may be written; but not every statement changes them.
                let nothing = Reach::default();
                let reach = self.reach.as_deref().unwrap_or(&nothing);
                let written = reach.statement_logged(text, self.lex, schema);
                self.is_ddl |= written.is_ddl;
                self.touched.add(&written.tables);
            }
            // It may have changed tables, too.
            Change::Anything => {
                self.touched.add(&Touched::everything());
                self.is_ddl = true;
            }
        }
    }

    fn take_rows(&mut self, schema: &[u8], table: &[u8]) {
        if self.fault.misses(table) {
            return;
        }
        let Some(reach) = &self.reach else {
            // Where foreign keys lead is not known.
            self.touched.add(&Touched::everything());
            return;
        };
        let is_last = self.last.as_ref().is_some_and(|(of, last)| of == schema && last == table);
        if !is_last {
            self.touched.add(&reach.rows_logged(schema, table));
            self.last = Some((schema.to_vec(), table.to_vec()));
        }
    }
}

/// How the primary reads texts.
fn lex_of(snapshot: &Snapshot) -> LexOptions {
    let Some(facts) = snapshot.primary().and_then(|primary| primary.facts.as_ref()) else {
        return LexOptions::default();
    };
    let flavor = match facts.flavor {
        Flavor::MySql => delphinus_sql::Flavor::MySql,
        Flavor::MariaDb => delphinus_sql::Flavor::MariaDb,
    };
    LexOptions { flavor, server_version: facts.version_number, ..LexOptions::default() }
}
