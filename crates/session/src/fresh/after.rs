//! After a statement has run: what it has written, and where it has read, is what the session has to find from now on.

use std::sync::Arc;

use delphinus_cache::{Place, Write};
use delphinus_net::rt;
use delphinus_sql::{Class, Consistency, Effects, Statement};
use delphinus_state::{Changed, Response};
use delphinus_topology::BackendId;
use delphinus_wire::gtid::GtidSet;
use delphinus_wire::response::Status;

use crate::outlook::{Outlook, Progress};

use super::touch::Touch;
use super::{Causality, Seen};

/// A token with more parts is joined with the primary's position, which has them all in a few.
const MOST_PARTS: usize = 32;

/// A statement that has run.
#[derive(Clone, Copy)]
pub(crate) struct Done<'a> {
    /// Where.
    pub(crate) backend: BackendId,
    /// What it was.
    pub(crate) statement: &'a Statement,
    /// What the backend said.
    pub(crate) response: &'a Response,
    /// What it told may be of a statement before, on the same connection.
    pub(crate) is_late: bool,
}

impl Done<'_> {
    /// True if the connection may tell later what was committed on it; `may_have_committed`: by this statement. An OK packet has all that
    /// was not told yet.
    fn tells_late(&self, may_have_committed: bool) -> bool {
        self.response.affected_rows.is_none() && (self.is_late || may_have_committed)
    }
}

impl Causality {
    /// Takes in what has run: what it has written, and where it has read. `asked`: how old what it read was to be, where that
    /// was said. True if the connection may tell later what was committed on it.
    #[inline]
    pub(crate) fn follow(&mut self, done: Done<'_>, asked: Option<Consistency>, outlook: &Outlook) -> bool {
        match self.touch {
            Touch::Reads if asked != Some(Consistency::Eventual) => self.saw(done.backend, &outlook.progress),
            Touch::Reads | Touch::Nothing if done.response.changes.is_empty() => {}
            _ => return self.follow_write(done, outlook),
        }
        done.tells_late(false)
    }

    /// Everything that is on this backend now is what the session has to find from now on.
    #[inline]
    pub(super) fn saw(&mut self, backend: BackendId, progress: &Progress) {
        self.seen = Some(Seen { backend, probe: progress.probe(backend) });
    }

    fn follow_write(&mut self, done: Done<'_>, outlook: &Outlook) -> bool {
        let Done { backend, statement, response, is_late } = done;
        let has_told = self.take_gtids(&response.changes, outlook);
        if self.touch != Touch::Writes {
            return done.tells_late(false);
        }
        let progress = &outlook.progress;
        let is_plain = response.is_ok()
            && statement.class != Class::Multi
            && statement.class != Class::Call
            && !statement.effects.intersects(Effects::OPAQUE);
        // What is told late stands for nothing that was written since.
        if has_told && is_plain && !is_late && is_one_history(backend, progress) {
            // Who has this has all that was there before.
            self.seen = None;
            self.has_untold = false;
            self.last_write = Some(Write { backend, ended: rt::now() });
            let place = Place::new(backend, gtids_of(&response.changes));
            self.writing.ended(Some(place), is_outside(response));
            return false;
        } else if !self.counts {
            self.saw(backend, progress);
        } else {
            self.may_have_written(backend, progress);
        }
        let has_done_nothing = response.error.is_some()
            && !has_told
            && statement.count == 1
            && !self.may_commit
            && self.writing.is_undone_by_errors();
        let place = (!has_done_nothing).then_some(Place::new(backend, None));
        self.writing.ended(place, is_outside(response));
        done.tells_late(!has_done_nothing && self.counts)
    }

    /// Something was written there, or may have been, and its GTIDs are not known.
    pub(crate) fn may_have_written(&mut self, backend: BackendId, progress: &Progress) {
        self.saw(backend, progress);
        self.has_untold = true;
        self.last_write = Some(Write { backend, ended: rt::now() });
    }

    /// Adds what the server told of the session's own transactions; false if it told nothing.
    pub(crate) fn take_gtids(&mut self, changes: &[Changed], outlook: &Outlook) -> bool {
        let mut has_told = false;
        for change in changes {
            if let Changed::Gtids(text) = change {
                has_told |= self.add(text);
            }
        }
        if has_told {
            self.shorten_token(outlook);
        }
        has_told
    }

    /// Adds transactions to the token; false if these are not understood.
    pub(super) fn add(&mut self, text: &str) -> bool {
        let Ok(set) = GtidSet::parse(text) else { return false };
        self.merge(set);
        true
    }

    /// Adds transactions to the token.
    pub(super) fn merge(&mut self, set: GtidSet) {
        match &mut self.token {
            Some(token) => Arc::make_mut(token).merge(&set),
            None => self.token = Some(Arc::new(set)),
        }
    }

    /// Other sessions write between, and each of their transactions is a gap.
    fn shorten_token(&mut self, outlook: &Outlook) {
        let Some(token) = &mut self.token else { return };
        if token.parts() > MOST_PARTS
            && let Some(primary) = outlook.primary()
            && let Some(all) = &*outlook.progress.probed(primary)
        {
            Arc::make_mut(token).merge(all);
        }
    }
}

/// True if the server says that no transaction is open now, and that a statement without one is one.
fn is_outside(response: &Response) -> bool {
    response
        .status
        .is_some_and(|status| status.contains(Status::AUTOCOMMIT) && !status.contains(Status::IN_TRANS))
}

/// What the server told of the session's own transactions; `None` if it is not understood.
fn gtids_of(changes: &[Changed]) -> Option<GtidSet> {
    let mut all: Option<GtidSet> = None;
    for change in changes {
        let Changed::Gtids(text) = change else { continue };
        let set = GtidSet::parse(text).ok()?;
        match &mut all {
            Some(all) => all.merge(&set),
            None => all = Some(set),
        }
    }
    all
}

/// False where servers write to several replication domains, which do not wait for one another.
fn is_one_history(backend: BackendId, progress: &Progress) -> bool {
    match &*progress.probed(backend) {
        Some(position) => matches!(**position, GtidSet::MySql(_)) || position.parts() <= 1,
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use delphinus_sql::{LexOptions, classify};

    use super::super::scene::{ONE, PRIMARY, Scene};
    use super::*;

    fn token(causality: &Causality) -> Option<String> {
        causality.token.as_ref().map(ToString::to_string)
    }

    #[test]
    fn tokens_grow_by_what_is_understood() {
        let mut causality = Causality::default();
        assert!(causality.add("0-1-5") && causality.add("0-1-7") && causality.add("1-1-2"));
        assert!(!causality.add("nonsense"));
        assert_eq!(token(&causality).as_deref(), Some("0-1-7,1-1-2"));
    }

    #[test]
    fn a_write_leaves_its_gtids_and_stands_for_what_was_seen_before_in_one_history() {
        let scene = Scene::new(None);
        for (position, told, is_still_seen) in [
            ("0-1-4", "0-1-5", false),
            // Two domains do not wait for one another.
            ("0-1-4,1-1-2", "0-1-5", true),
            // Without its GTID it is only known to be where it was done.
            ("0-1-4", "", true),
        ] {
            let mut causality = Causality::default();
            scene.probed(PRIMARY, position);
            scene.run(&mut causality, ONE, ("SELECT * FROM t", ""));
            scene.run(&mut causality, PRIMARY, ("INSERT INTO t VALUES (1)", told));
            assert_eq!(causality.seen.is_some(), is_still_seen, "{position} {told}");
            assert_eq!(causality.has_untold, is_still_seen, "{position} {told}");
            assert_eq!(token(&causality).unwrap_or_default(), told);
            assert!(causality.last_write.is_some());
        }
    }

    /// A DROP of two tables that fails has dropped one. Its GTID comes with the next OK packet on its connection, after writes of others.
    #[test]
    fn gtids_that_are_told_late_do_not_stand_for_what_was_written_since() {
        let scene = Scene::new(None);
        scene.probed(PRIMARY, "0-1-4");
        let gtids = || vec![Changed::Gtids("0-1-5".into())];
        let ok = |changes| Response { affected_rows: Some(0), changes, ..Response::default() };
        let rows = || Response { result_sets: 1, ..Response::default() };
        let failed = || Response { error: Some(1051), ..Response::default() };
        for (sql, response, is_late, tells_late, is_whole) in [
            ("DROP TABLE t, nothing", failed(), false, true, false),
            ("SELECT * FROM t", rows(), true, true, true),
            ("SELECT * FROM t", rows(), false, false, true),
            ("ANALYZE TABLE t", rows(), false, true, false),
            ("UPDATE t SET a = a", ok(gtids()), true, false, false),
            ("UPDATE t SET a = a", ok(gtids()), false, false, true),
            ("SET NAMES utf8mb4", ok(gtids()), true, false, true),
        ] {
            let statement = classify(sql.as_bytes(), LexOptions::default());
            let mut causality = Causality::default();
            causality.begin_statement(&statement, false);
            causality.count_write(&scene.outlook.progress, (PRIMARY, false));
            let done = Done { backend: PRIMARY, statement: &statement, response: &response, is_late };
            assert_eq!(causality.follow(done, None, &scene.outlook), tells_late, "{sql} {is_late}");
            assert_eq!(!causality.has_untold, is_whole, "{sql} {is_late}");
        }
    }

    #[test]
    fn what_only_looks_leaves_where_it_looked_and_what_changes_the_session_leaves_nothing() {
        let scene = Scene::new(None);
        for (sql, is_seen) in
            [("SHOW TABLES", true), ("SELECT @@server_id", true), ("SET NAMES utf8mb4", false)]
        {
            let mut causality = Causality::default();
            scene.run(&mut causality, PRIMARY, (sql, ""));
            assert_eq!((causality.seen.is_some(), causality.has_untold), (is_seen, false), "{sql}");
        }
    }

    #[test]
    fn a_read_that_may_be_old_leaves_nothing() {
        let scene = Scene::new(None);
        let statement = classify(b"SELECT * FROM t", LexOptions::default());
        for (asked, is_seen) in [(None, true), (Some(Consistency::Eventual), false)] {
            let mut causality = Causality::default();
            causality.begin_statement(&statement, false);
            let response = &Response::default();
            let done = Done { backend: ONE, statement: &statement, response, is_late: false };
            causality.follow(done, asked, &scene.outlook);
            assert_eq!(causality.seen.is_some(), is_seen);
        }
    }

    #[test]
    fn a_token_of_many_parts_is_joined_with_what_the_primary_has() {
        let scene = Scene::new(None);
        scene.probed(PRIMARY, "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-200");
        let mut causality = Causality::default();
        for transaction in (1..100).step_by(2) {
            let gtid = format!("3e11fa47-71ca-11e1-9e33-c80aa9429562:{transaction}");
            scene.run(&mut causality, PRIMARY, ("INSERT INTO t VALUES (1)", &gtid));
        }
        assert!(causality.token.as_ref().unwrap().parts() <= MOST_PARTS);
        assert!(
            causality
                .token
                .unwrap()
                .contains(&GtidSet::parse("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-99").unwrap())
        );
    }
}
