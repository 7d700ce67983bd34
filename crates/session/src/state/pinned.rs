//! How long sessions keep their connections, and why: counted by reason, and in the log at the level `debug`.
//!
//! Time counts for the oldest pin of a session. Transactions are counted, and not logged.

use std::sync::Arc;
use std::time::{Duration, Instant};

use delphinus_clients::{Activity, Users};
use delphinus_net::rt;
use delphinus_state::PinReason;
use delphinus_telemetry::ClusterCounters;
use delphinus_topology::BackendId;
use delphinus_wire::response::Status;

use super::Wanted;

/// What others are shown of a session.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Shown {
    /// Of its pins.
    revision: u32,
    is_in_transaction: bool,
    /// Where its connection leads.
    backend: Option<BackendId>,
}

/// What of a session's pins others know of, and since when it is counted.
pub(crate) struct Published {
    /// Where others look.
    activity: Arc<Activity>,
    /// Those of its cluster.
    counters: Arc<ClusterCounters>,
    /// What was noted last: see `Pins::revision`.
    noted: Shown,
    /// Reason and time of the oldest pin.
    pin: Option<(PinReason, Instant)>,
    /// When it became the oldest.
    since: Instant,
    /// When the session began, or came into its cluster.
    begun: Instant,
}

impl Published {
    /// Nothing is known of a session that begins now.
    pub(crate) fn new(activity: Arc<Activity>, counters: Arc<ClusterCounters>) -> Self {
        let now = rt::now();
        Self { activity, counters, noted: Shown::default(), pin: None, since: now, begun: now }
    }

    fn count_pin(&self, now: Instant) {
        let Some((reason, _)) = self.pin else { return };
        let pinned_us = micros(now.saturating_duration_since(self.since));
        if let Some(counter) = self.counters.pinned_us.get(reason as usize) {
            counter.add(pinned_us);
        }
        if reason != PinReason::Transaction && tracing::enabled!(tracing::Level::DEBUG) {
            // Literals may be anything, passwords among them.
            let pin = self.activity.hold().pins.into_iter().next();
            let statement = pin.map(|pin| pin.statement).unwrap_or_default();
            let (id, reason) = (self.activity.id.0, reason.label());
            tracing::debug!(session.id = id, reason, pinned_us, %statement, "pin ended");
        }
    }

    /// Counts the time that the session was in its cluster, which ends now, or is counted anew.
    fn count_time(&mut self) -> Duration {
        let now = rt::now();
        self.count_pin(now);
        self.pin = None;
        let lived = now.saturating_duration_since(self.begun);
        self.begun = now;
        self.counters.session_us.add(micros(lived));
        lived
    }

    /// Counts what the end of the session ends.
    pub(crate) fn count_end(&mut self) {
        let lived = self.count_time();
        tracing::debug!(session.id = self.activity.id.0, connected_us = micros(lived), "session ended");
    }

    /// The session goes on in another cluster, which counts like this.
    pub(crate) fn moves_to(&mut self, counters: Arc<ClusterCounters>) {
        self.count_time();
        self.counters = counters;
    }
}

impl Wanted {
    /// Lets others know what holds the session to its connection, where that has changed. The connection is one to `backend`.
    pub(crate) fn publish(&mut self, backend: Option<BackendId>) {
        let is_in_transaction = self.status.contains(Status::IN_TRANS);
        let noted = Shown { revision: self.pins.revision(), is_in_transaction, backend };
        if noted != self.published.noted {
            self.publish_change(noted);
        }
    }

    #[inline(never)]
    fn publish_change(&mut self, noted: Shown) {
        let published = &mut self.published;
        let key = self.pins.iter().next().map(|pin| (pin.reason, pin.since));
        if key != published.pin {
            let now = rt::now();
            published.count_pin(now);
            published.pin = key;
            published.since = now;
        }
        published.noted = noted;
        let Shown { is_in_transaction, backend, .. } = noted;
        published.activity.is_held(backend, is_in_transaction, &self.pins, self.lex.as_read());
    }

    /// Pins a session whose user does not share connections, from its first statement on. It has none yet.
    pub(crate) fn pin_if_dedicated(&mut self, users: &Users) {
        let user = self.published.activity.user();
        if users.find(&user).is_some_and(|user| !user.shares_connections) {
            self.pins.add(PinReason::Dedicated, rt::now(), b"");
            self.publish(None);
        }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
