//! Whether a replica still has what it acknowledged. One that has started again may have thrown away what it had received and not
//! applied (`relay_log_recovery`, or a machine that crashed). It has all of it again once it has received what the primary has
//! executed since. This file knows uptimes and sets of transactions, and nothing of who acknowledges.

use std::sync::Arc;
use std::time::{Duration, Instant};

use delphinus_wire::gtid::GtidSet;

use crate::backend::BackendId;
use crate::promotion::standing::{Server, Standing};

/// Servers tell whole seconds, and are asked one after the other.
const SLACK: Duration = Duration::from_secs(2);

/// What is known of each replica.
#[derive(Debug, Clone, Default)]
pub(super) struct Kept {
    runs: Vec<Run>,
}

#[derive(Debug, Clone)]
struct Run {
    id: BackendId,
    /// When it was asked last, and for how long it had run then.
    at: Instant,
    uptime: Duration,
    trust: Trust,
    /// All that it was seen to have in this run. Relay logs go when a replica is told to follow another one.
    received: Arc<GtidSet>,
}

#[derive(Debug, Clone)]
enum Trust {
    /// It has just started, or the primary has fallen back. The primary may have been asked before that.
    Unknown,
    /// It has to receive these first: the primary had executed them after the replica had started.
    Lacks(Arc<GtidSet>),
    Whole,
}

impl Run {
    /// True if it has been started since it was asked last.
    fn is_over(&self, standing: &Standing, now: Instant) -> bool {
        let expected = self.uptime + now.saturating_duration_since(self.at);
        standing.uptime < self.uptime || standing.uptime + SLACK < expected
    }
}

impl Kept {
    /// Takes in what a replica and its primary said at `at`.
    pub(super) fn watch(&mut self, primary: &Standing, server: &Server, at: Instant) {
        let Some(own) = server.standing() else { return };
        let place = self.runs.iter().position(|run| run.id == server.id).unwrap_or_else(|| {
            let received = own.received.clone();
            self.runs.push(Run { id: server.id, at, uptime: own.uptime, trust: Trust::Unknown, received });
            self.runs.len() - 1
        });
        let run = &mut self.runs[place];
        let has_lost = run.is_over(own, at) || !own.received.contains(&run.received);
        run.received = own.received.clone();
        if has_lost {
            // What the primary has executed counts with the next look: it may have been asked before that.
            run.trust = Trust::Unknown;
        } else if matches!(run.trust, Trust::Unknown) && own.uptime >= SLACK {
            run.trust = Trust::Lacks(primary.executed.clone());
        }
        if matches!(&run.trust, Trust::Lacks(set) if own.received.contains(set)) {
            run.trust = Trust::Whole;
        }
        (run.at, run.uptime) = (at, own.uptime);
    }

    /// The primary has acknowledged without waiting: each replica has to receive all that the primary has executed by the next look.
    pub(super) fn doubt(&mut self) {
        self.runs.iter_mut().for_each(|run| run.trust = Trust::Unknown);
    }

    /// Takes in what a replica has got since its primary was asked last.
    pub(super) fn note(&mut self, server: &Server) {
        let run = self.runs.iter_mut().find(|run| run.id == server.id);
        if let Some((run, own)) = run.zip(server.standing())
            && !run.received.contains(&own.received)
        {
            Arc::make_mut(&mut run.received).merge(&own.received);
        }
    }

    /// True if it has lost nothing since it was seen to have everything.
    pub(super) fn is_whole(&self, server: &Server, now: Instant) -> bool {
        let has_it = |(run, own): (&Run, &Standing)| own.received.contains(&run.received);
        self.runs_on(server, now).is_some_and(has_it)
    }

    /// The same, but for what it has thrown away when it was told to follow another one.
    pub(super) fn was_whole(&self, server: &Server, now: Instant) -> bool {
        self.runs_on(server, now).is_some()
    }

    fn runs_on<'a>(&'a self, server: &'a Server, now: Instant) -> Option<(&'a Run, &'a Standing)> {
        let run = self.runs.iter().find(|run| run.id == server.id);
        run.zip(server.standing())
            .filter(|(run, own)| matches!(run.trust, Trust::Whole) && !run.is_over(own, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::promotion::candidate::tests::server;

    #[test]
    fn a_replica_that_was_told_to_follow_another_may_have_thrown_away_what_it_acknowledged() {
        let (primary, now) = (server(0, 5, 5), Instant::now());
        let primary = primary.standing().unwrap();
        let (before, after) = (server(1, 3, 5), server(1, 3, 3));
        let mut kept = Kept::default();
        kept.watch(primary, &before, now);
        kept.watch(primary, &before, now);
        assert!(kept.is_whole(&before, now));
        // What it had not applied went with its relay log: it runs as before.
        assert!(!kept.is_whole(&after, now) && kept.was_whole(&after, now));
        // What came when the primary could not be asked any more counts, too.
        kept.note(&server(1, 3, 6));
        assert!(!kept.is_whole(&before, now) && kept.is_whole(&server(1, 3, 6), now));
        // It gets all again from a primary that lives.
        kept.watch(primary, &after, now);
        kept.watch(primary, &after, now);
        assert!(!kept.is_whole(&after, now), "it lacks what the primary has executed");
        kept.watch(primary, &before, now);
        assert!(kept.is_whole(&before, now));
    }
}
