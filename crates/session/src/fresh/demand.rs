//! Before a statement is planned: what it has to find, and which replicas have not caught up with that. Changes nothing.

use std::time::Duration;

use delphinus_net::rt;
use delphinus_route::{Behind, Demand, behind};
use delphinus_sql::Consistency;
use delphinus_topology::{Backend, BackendId, Snapshot};
use delphinus_wire::gtid::GtidSet;

use crate::outlook::Progress;

use super::Causality;

/// A read that is to be planned, and the cluster as it is.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    /// How old what it finds may be.
    pub(crate) level: Consistency,
    /// The backends.
    pub(crate) snapshot: &'a Snapshot,
    /// How far they are.
    pub(crate) progress: &'a Progress,
    /// How long a replica is waited for; zero: not at all.
    pub(crate) patience: Duration,
    /// The client is another proxy: what its sessions have written came on other connections, so that all that was written through this
    /// process has to be found.
    pub(crate) is_for_layer: bool,
}

impl Causality {
    /// True if every replica will do.
    #[inline]
    pub(crate) fn is_free_to_read(&self, reading: &Reading<'_>) -> bool {
        match reading.level {
            Consistency::Eventual => true,
            Consistency::Session => self.is_blank(reading) || self.everybody_has_all(reading),
            Consistency::Global => false,
        }
    }

    /// True for a session that has neither read nor written, and stands for no others.
    #[inline]
    fn is_blank(&self, reading: &Reading<'_>) -> bool {
        self.seen.is_none() && self.token.is_none() && !reading.is_for_layer
    }

    /// True if every backend has what the session has to find.
    #[inline]
    fn everybody_has_all(&self, reading: &Reading<'_>) -> bool {
        reading.progress.is_at_rest(reading.snapshot) && !self.is_foreign
    }

    /// Replicas that have not caught up with what is demanded, and whether the others have to be waited for. `avoid` are left out anyway.
    #[cold]
    pub(crate) fn behind(&self, reading: &Reading<'_>, avoid: &[BackendId]) -> Behind {
        let demand = self.demand(reading, avoid);
        let replicas = reading.snapshot.readable_replicas().map(|replica| replica.id);
        let replicas: Vec<_> = replicas.filter(|id| !avoid.contains(id)).collect();
        let has = |id, set: &GtidSet| reading.progress.has(id, set);
        let may_wait = |id| self.may_wait_for(id, reading);
        let mut found = behind(&demand, &replicas, has, may_wait);
        if let (Demand::SameAs(backend), true) = (&demand, self.is_foreign)
            && self.token.as_ref().is_some_and(|token| !has(*backend, token))
        {
            found.must_wait = true;
            if !may_wait(*backend) {
                found.replicas.push(*backend);
            }
        }
        if self.has_to_find_writes(reading) {
            for id in replicas.into_iter().filter(|id| keeps_answers(*id, reading.snapshot)) {
                if !found.replicas.contains(&id) {
                    found.replicas.push(id);
                }
            }
        }
        found
    }

    /// True if the session has to find writes, its own or those of others.
    fn has_to_find_writes(&self, reading: &Reading<'_>) -> bool {
        let is_sessions = self.token.is_some() || self.last_write.is_some() || self.has_untold;
        is_sessions || reading.level == Consistency::Global || reading.is_for_layer
    }

    fn may_wait_for(&self, replica: BackendId, reading: &Reading<'_>) -> bool {
        !self.gave_up && !reading.patience.is_zero() && !reading.progress.is_late(replica, rt::now())
    }

    /// What has to be found; `avoid` are backends that nothing is read from.
    pub(crate) fn demand(&self, reading: &Reading<'_>, avoid: &[BackendId]) -> Demand {
        let Reading { level, snapshot, progress, .. } = *reading;
        if level == Consistency::Global || reading.is_for_layer {
            return Demand::Everything;
        }
        let token = self.token.clone();
        if let Some(rest) = snapshot.rest
            && rest.writes == progress.writes()
            && let Some(all) = snapshot.primary().and_then(|primary| progress.probed(primary.id).clone())
        {
            return Demand::Sets([Some(all), token].into_iter().flatten().collect());
        }
        let Some(seen) = self.seen else { return Demand::Sets(token.into_iter().collect()) };
        let is_there = snapshot.backend(seen.backend).is_some_and(Backend::takes_statements)
            && !avoid.contains(&seen.backend);
        if is_there && progress.probe(seen.backend) < seen.probe + 2 {
            return Demand::SameAs(seen.backend);
        }
        // Of one that is gone the last that was heard has to do.
        let last = progress.last_of(seen.backend, seen.probe);
        Demand::Sets([token, last].into_iter().flatten().collect())
    }

    /// True if a client has named transactions that this backend is not known to have: a token may have been given to the
    /// session after a transaction had begun there.
    pub(crate) fn lacks_foreign(&self, backend: BackendId, reading: &Reading<'_>) -> bool {
        let lacks = || {
            let found = self.behind(reading, &[]);
            found.must_wait || found.replicas.contains(&backend)
        };
        self.is_foreign && lacks()
    }

    /// True if the session could read on this backend now without waiting: then an answer that came from there is no
    /// obstacle to anything that it reads later.
    pub(super) fn may_follow(&self, backend: BackendId, reading: &Reading<'_>) -> bool {
        if self.is_blank(reading) || self.everybody_has_all(reading) {
            return true;
        }
        let snapshot = reading.snapshot;
        if snapshot.primary().is_some_and(|primary| primary.id == backend) {
            return true;
        }
        let is_there = snapshot.readable_replicas().any(|replica| replica.id == backend);
        let found = self.behind(reading, &[]);
        is_there && !found.replicas.contains(&backend) && !found.must_wait
    }
}

/// True for a replica that is another Delphinus: its server has a write before the answers that it has kept end, for the write did not
/// pass through it.
fn keeps_answers(replica: BackendId, snapshot: &Snapshot) -> bool {
    snapshot.backend(replica).is_some_and(Backend::is_delphinus)
}

#[cfg(test)]
mod tests {
    use delphinus_topology::{Rest, ServerFacts};

    use super::super::scene::{ONE, PRIMARY, Scene, TWO};
    use super::*;

    #[test]
    fn a_session_that_has_done_nothing_reads_where_it_likes_unless_it_wants_everything() {
        let scene = Scene::new(None);
        let causality = Causality::default();
        for (level, is_free) in
            [(Consistency::Eventual, true), (Consistency::Session, true), (Consistency::Global, false)]
        {
            assert_eq!(causality.is_free_to_read(&scene.reading(level)), is_free, "{level:?}");
        }
        let found = causality.behind(&scene.reading(Consistency::Global), &[]);
        assert_eq!((found.replicas, found.must_wait), (vec![ONE, TWO], false));
    }

    /// Its sessions have written on other connections.
    #[test]
    fn another_proxy_reads_on_the_primary_unless_everybody_has_everything() {
        for (rest, is_free) in [(Some(Rest { writes: 0, is_even: true }), true), (None, false)] {
            let (scene, causality) = (Scene::new(rest), Causality::default());
            let reading = |level| Reading { is_for_layer: true, ..scene.reading(level) };
            assert_eq!(causality.is_free_to_read(&reading(Consistency::Session)), is_free);
            assert!(causality.is_free_to_read(&reading(Consistency::Eventual)));
            let found = causality.behind(&reading(Consistency::Session), &[]);
            assert_eq!((found.replicas, found.must_wait), (vec![ONE, TWO], false));
        }
    }

    #[test]
    fn only_replicas_with_the_sessions_write_will_do() {
        let scene = Scene::new(None);
        let mut causality = Causality::default();
        scene.probed(PRIMARY, "0-1-4");
        scene.probed(ONE, "0-1-4");
        scene.run(&mut causality, PRIMARY, ("INSERT INTO t VALUES (1)", "0-1-5"));
        assert!(!causality.is_free_to_read(&scene.reading(Consistency::Session)));
        assert!(causality.is_free_to_read(&scene.reading(Consistency::Eventual)));
        assert_eq!(scene.behind(&causality), (vec![], true));
        scene.probed(ONE, "0-1-5");
        assert_eq!(scene.behind(&causality), (vec![TWO], false));
    }

    #[test]
    fn another_delphinus_is_no_place_to_find_a_write() {
        let mut scene = Scene::new(None);
        let facts = ServerFacts { is_delphinus: true, ..ServerFacts::bare("10.11.6-MariaDB") };
        scene.snapshot.backends[TWO.index()].facts = Some(facts.into());
        let mut causality = Causality::default();
        scene.probed(PRIMARY, "0-1-4");
        scene.run(&mut causality, TWO, ("SELECT * FROM t", ""));
        assert!(!scene.behind(&causality).0.contains(&TWO), "it has only read there");
        scene.run(&mut causality, PRIMARY, ("INSERT INTO t VALUES (1)", "0-1-5"));
        scene.probed(ONE, "0-1-5");
        scene.probed(TWO, "0-1-5");
        assert_eq!(scene.behind(&causality), (vec![TWO], false));
        assert!(causality.is_free_to_read(&scene.reading(Consistency::Eventual)));
    }

    #[test]
    fn a_replica_that_is_late_is_not_waited_for_and_none_is_after_one_wait_in_vain() {
        let scene = Scene::new(None);
        let mut causality = Causality::default();
        scene.probed(PRIMARY, "0-1-4");
        scene.run(&mut causality, PRIMARY, ("INSERT INTO t VALUES (1)", "0-1-5"));
        scene.outlook.progress.found_late(ONE, rt::now());
        assert_eq!(scene.behind(&causality), (vec![ONE], true));
        scene.outlook.progress.found(ONE, GtidSet::parse("0-1-5").unwrap());
        assert_eq!(scene.behind(&causality), (vec![TWO], false));
        causality.add("0-1-6");
        causality.gave_up = true;
        assert_eq!(scene.behind(&causality), (vec![ONE, TWO], true));
        causality.end_command();
        let hasty = Reading { patience: Duration::ZERO, ..scene.reading(Consistency::Session) };
        assert_eq!(scene.behind(&causality), (vec![], true));
        assert_eq!(causality.behind(&hasty, &[]).replicas, [ONE, TWO]);
    }

    #[test]
    fn what_was_read_is_only_there_until_two_probes_have_ended() {
        let scene = Scene::new(None);
        let mut causality = Causality::default();
        scene.run(&mut causality, ONE, ("SELECT * FROM t", ""));
        assert_eq!(scene.behind(&causality), (vec![TWO], false));
        let demand = causality.demand(&scene.reading(Consistency::Session), &[]);
        assert_eq!(demand, Demand::SameAs(ONE));
        // What is left out, or does not take statements any more, cannot be demanded.
        assert_eq!(causality.demand(&scene.reading(Consistency::Session), &[ONE]), Demand::Sets(vec![]));
        // The probe that has ended may have begun before the read: another replica that has as much is not enough.
        scene.probed(ONE, "0-1-5");
        scene.probed(TWO, "0-1-5");
        assert_eq!(scene.behind(&causality), (vec![TWO], false));
        scene.probed(ONE, "0-1-6");
        scene.probed(TWO, "0-1-6");
        assert_eq!(scene.behind(&causality), (vec![], false));
    }

    #[test]
    fn what_was_read_on_a_server_has_to_be_found_on_the_next_one_of_its_name() {
        let scene = Scene::new(None);
        let mut causality = Causality::default();
        scene.probed(ONE, "0-1-7");
        scene.probed(TWO, "0-1-5");
        scene.run(&mut causality, ONE, ("SELECT * FROM t", ""));
        assert_eq!(scene.behind(&causality), (vec![TWO], false));
        scene.begin_anew(ONE);
        for _ in 0..3 {
            scene.probed(ONE, "0-1-6");
            assert_eq!(scene.behind(&causality), (vec![], true), "nobody is known to have it");
        }
        scene.probed(TWO, "0-1-7");
        assert_eq!(scene.behind(&causality), (vec![ONE], false));
    }

    #[test]
    fn at_rest_every_replica_has_everything_but_what_a_client_has_named() {
        let scene = Scene::new(Some(Rest { writes: 0, is_even: true }));
        scene.probed(PRIMARY, "0-1-5");
        scene.probed(ONE, "0-1-5");
        let mut causality = Causality::default();
        scene.run(&mut causality, PRIMARY, ("SHOW TABLES", ""));
        let reading = scene.reading(Consistency::Session);
        assert!(causality.is_free_to_read(&reading) && causality.may_follow(TWO, &reading));
        (causality.token, causality.is_foreign) = (Some(GtidSet::parse("0-1-9").unwrap().into()), true);
        assert!(!causality.is_free_to_read(&reading) && !causality.may_follow(TWO, &reading));
        assert!(causality.may_follow(PRIMARY, &reading) && causality.lacks_foreign(ONE, &reading));
        // A write ends the rest.
        let _write = scene.outlook.progress.write();
        assert!(!Causality { is_foreign: false, ..causality }.is_free_to_read(&reading));
    }
}
