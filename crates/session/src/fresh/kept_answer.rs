//! Answers that are kept for others: which of them have what a session has to find, and what one leaves to be found.

use std::sync::Arc;
use std::time::Instant;

use delphinus_cache::{Origin, Own};
use delphinus_pool::Epoch;
use delphinus_sql::Consistency;
use delphinus_topology::{BackendId, Snapshot};
use delphinus_wire::gtid::GtidSet;

use crate::outlook::Progress;

use super::ledger::succession_of;
use super::{Causality, Reading, Seen};

/// What the answer will have to a question that is about to be sent to this backend, where `position` is.
pub(crate) fn origin_at(
    (backend, rights): (BackendId, Epoch),
    (progress, snapshot): (&Progress, &Snapshot),
    position: Option<Arc<GtidSet>>,
    began: Instant,
) -> Origin {
    Origin {
        position,
        succession: succession_of(backend, snapshot),
        had_all: progress.has_all(backend, snapshot),
        writes: progress.writes_of_all(backend, snapshot),
        rights: rights.0,
        ..Origin::new(backend, began)
    }
}

impl Causality {
    /// True if an answer that was kept has what the session has to find, and the session could read now where it comes from:
    /// so what it reads next is not older than what it sees here. Another proxy reads where all is that was written through this one.
    pub(crate) fn may_read_kept(&self, origin: &Origin, reading: &Reading<'_>) -> bool {
        reading.level == Consistency::Eventual
            || self.has_own(origin, reading)
                && (reading.is_for_layer || self.may_follow(origin.backend, reading))
    }

    /// True if an answer has the session's own writes. One of which it is known that its tables, or any, have not been written since has
    /// those of everybody, but not what a client has named. For another proxy, whose sessions have written on other connections, only that
    /// will do.
    fn has_own(&self, origin: &Origin, reading: &Reading<'_>) -> bool {
        let has_all = || origin.writes.is_some_and(|writes| writes == reading.progress.writes());
        let has_everybodys = origin.reads.is_some() || reading.is_for_layer && has_all();
        if reading.is_for_layer {
            return has_everybodys && (!self.is_foreign || self.is_proved_by(origin));
        }
        has_everybodys && !self.is_foreign || self.is_proved_by(origin)
    }

    /// True if the answer is proved to have the session's own writes.
    fn is_proved_by(&self, origin: &Origin) -> bool {
        origin.has(&Own {
            last_write: self.last_write,
            token: self.token.as_deref(),
            is_whole: !self.has_untold,
            is_foreign: self.is_foreign,
        })
    }

    /// The session was given an answer that was kept: what was in it has to be found from now on. It may be old enough that it
    /// is known by now what that was.
    pub(crate) fn was_given(&mut self, origin: &Origin, progress: &Progress) {
        let Origin { backend, probe, .. } = *origin;
        match &mut self.seen {
            None => self.seen = Some(Seen { backend, probe }),
            Some(seen) if seen.backend == backend => seen.probe = seen.probe.max(probe),
            // That backend has what was seen elsewhere, but since when is not known.
            Some(_) => self.saw(backend, progress),
        }
    }

    /// What the backend has where the session is about to read: what is known of it, and what the session has to find, if it is known to have
    /// that. A session may be sent to a replica that has not: it goes on where it has read last, whatever it was told since.
    pub(crate) fn with_own(
        &self,
        known: Option<Arc<GtidSet>>,
        level: Consistency,
        is_there: impl FnOnce(&GtidSet) -> bool,
    ) -> Option<Arc<GtidSet>> {
        // What a client has named need not be anywhere.
        let is_certain = level == Consistency::Session && !self.is_foreign;
        let Some(token) = self.token.as_ref().filter(|token| is_certain && is_there(token)) else {
            return known;
        };
        let Some(mut known) = known else { return Some(token.clone()) };
        if !known.contains(token) {
            Arc::make_mut(&mut known).merge(token);
        }
        Some(known)
    }
}

#[cfg(test)]
mod tests {
    use delphinus_net::rt;

    use super::super::scene::{ONE, PRIMARY, Scene, TWO};
    use super::*;

    fn set(text: &str) -> Arc<GtidSet> {
        Arc::new(GtidSet::parse(text).unwrap())
    }

    fn origin(backend: delphinus_topology::BackendId, position: &str) -> Origin {
        Origin { position: Some(set(position)), probe: 3, ..Origin::new(backend, rt::now()) }
    }

    #[test]
    fn an_answer_has_to_have_the_sessions_writes_and_to_come_from_where_it_could_read() {
        let scene = Scene::new(None);
        scene.probed(PRIMARY, "0-1-4");
        scene.probed(ONE, "0-1-5");
        let mut causality = Causality::default();
        scene.run(&mut causality, PRIMARY, ("INSERT INTO t VALUES (1)", "0-1-5"));
        for (level, origin, may) in [
            (Consistency::Session, origin(ONE, "0-1-5"), true),
            (Consistency::Session, origin(ONE, "0-1-4"), false),
            (Consistency::Eventual, origin(ONE, "0-1-4"), true),
            // It is not known to have the write, so the session could not go on there.
            (Consistency::Session, origin(TWO, "0-1-5"), false),
            (Consistency::Session, origin(PRIMARY, "0-1-5"), true),
        ] {
            assert_eq!(causality.may_read_kept(&origin, &scene.reading(level)), may, "{level:?} {origin:?}");
        }
    }

    #[test]
    fn another_proxy_is_given_what_was_kept_only_if_nothing_was_written_since() {
        let scene = Scene::new(None);
        let progress = &scene.outlook.progress;
        let reading = Reading { is_for_layer: true, ..scene.reading(Consistency::Session) };
        let may = |writes| {
            let origin = Origin { writes, ..origin(PRIMARY, "0-1-5") };
            Causality::default().may_read_kept(&origin, &reading)
        };
        assert_eq!(progress.writes_of_all(ONE, &scene.snapshot), None, "a replica may lack some");
        let before = progress.writes_of_all(PRIMARY, &scene.snapshot);
        assert!(may(before) && !may(None));
        let write = progress.write();
        assert_eq!(progress.writes_of_all(PRIMARY, &scene.snapshot), None, "it runs");
        drop(write);
        assert!(!may(before) && may(progress.writes_of_all(PRIMARY, &scene.snapshot)));
    }

    #[test]
    fn an_answer_leaves_what_it_had() {
        let scene = Scene::new(None);
        let mut causality = Causality::default();
        let seen = |causality: &Causality| causality.seen.map(|seen| (seen.backend, seen.probe));
        causality.was_given(&origin(ONE, "0-1-5"), &scene.outlook.progress);
        assert_eq!(seen(&causality), Some((ONE, 3)));
        causality.was_given(&Origin { probe: 2, ..origin(ONE, "0-1-5") }, &scene.outlook.progress);
        assert_eq!(seen(&causality), Some((ONE, 3)));
        scene.probed(TWO, "0-1-5");
        causality.was_given(&origin(TWO, "0-1-5"), &scene.outlook.progress);
        assert_eq!(seen(&causality), Some((TWO, 1)));
    }

    #[test]
    fn where_a_session_reads_its_own_writes_are_but_what_its_client_has_named_need_not_be() {
        let mut causality = Causality { token: Some(set("0-1-5")), ..Causality::default() };
        let has = |causality: &Causality, level| causality.with_own(Some(set("1-1-2")), level, |_| true);
        assert_eq!(has(&causality, Consistency::Session), Some(set("0-1-5,1-1-2")));
        assert_eq!(has(&causality, Consistency::Eventual), Some(set("1-1-2")));
        assert_eq!(causality.with_own(None, Consistency::Session, |_| true), Some(set("0-1-5")));
        causality.is_foreign = true;
        assert_eq!(has(&causality, Consistency::Session), Some(set("1-1-2")));
    }

    /// A session that has read on a replica may ask the primary for its token, and then reads on there.
    #[test]
    fn what_a_session_was_told_is_where_it_reads_only_if_that_is_known() {
        let scene = Scene::new(None);
        scene.probed(ONE, "0-1-4");
        let mut causality = Causality::default();
        scene.run(&mut causality, ONE, ("SELECT * FROM t", ""));
        causality.add("0-1-5");
        assert_eq!(scene.behind(&causality), (vec![TWO], false), "it goes on there");
        let progress = &scene.outlook.progress;
        let position = || {
            let known = progress.probed(ONE).clone();
            causality.with_own(known, Consistency::Session, |token| progress.has(ONE, token))
        };
        assert_eq!(position(), Some(set("0-1-4")));
        progress.found(ONE, GtidSet::parse("0-1-5").unwrap());
        assert_eq!(position(), Some(set("0-1-5")));
    }
}
