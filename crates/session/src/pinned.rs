//! How long sessions keep their connections, and why: counted by reason, and in the log at the level `debug`.
//!
//! Time counts for the oldest pin of a session. Transactions are counted, and not logged.

use std::time::{Duration, Instant};

use delphinus_net::rt;
use delphinus_pool::Checkout;
use delphinus_state::PinReason;
use delphinus_telemetry::{ClusterCounters, Counter};
use delphinus_topology::BackendId;
use delphinus_wire::response::Status;

use crate::session::Session;

/// What of a session's pins others know of, and since when it is counted.
#[derive(Debug)]
pub(crate) struct Published {
    /// What was noted last: see `Pins::revision`.
    noted: (u32, bool, Option<BackendId>),
    /// Reason and time of the oldest pin.
    pin: Option<(PinReason, Instant)>,
    /// When it became the oldest.
    since: Instant,
    /// When the session began, or came into its cluster.
    begun: Instant,
}

impl Published {
    pub(crate) fn new(now: Instant) -> Self {
        Self { noted: Default::default(), pin: None, since: now, begun: now }
    }
}

impl Session {
    /// Lets others know what holds the session to its connection, where that has changed.
    pub(crate) fn publish_pin(&mut self) {
        let backend = self.held.bound.as_ref().map(Checkout::backend);
        let is_in_transaction = self.state.status.contains(Status::IN_TRANS);
        let noted = (self.state.pins.revision(), is_in_transaction, backend);
        if noted != self.state.published.noted {
            self.publish(noted);
        }
    }

    #[inline(never)]
    fn publish(&mut self, noted: (u32, bool, Option<BackendId>)) {
        let first = self.state.pins.iter().next();
        let key = first.map(|pin| (pin.reason, pin.since));
        if key != self.state.published.pin {
            let now = rt::now();
            self.count_pin(now);
            self.state.published.pin = key;
            self.state.published.since = now;
        }
        self.state.published.noted = noted;
        self.activity.is_held(noted.2, noted.1, &self.state.pins, self.state.lex.as_read());
    }

    /// Pins a session whose user does not share connections, from its first statement on.
    pub(crate) fn pin_if_dedicated(&mut self) {
        let user = self.activity.user();
        if self.worker.users.find(&user).is_some_and(|user| !user.shares_connections) {
            self.state.pins.add(PinReason::Dedicated, rt::now(), b"");
            self.publish_pin();
        }
    }

    /// Counts what the end of the session ends.
    pub(crate) fn count_end(&mut self) {
        let lived = self.count_time();
        tracing::debug!(session.id = self.activity.id.0, connected_us = micros(lived), "session ended");
    }

    /// Counts the time that the session was in its cluster, which ends now, or is counted anew.
    pub(crate) fn count_time(&mut self) -> Duration {
        let now = rt::now();
        self.count_pin(now);
        self.state.published.pin = None;
        let lived = now.saturating_duration_since(self.state.published.begun);
        self.state.published.begun = now;
        self.worker.counters.session_us.add(micros(lived));
        lived
    }

    fn count_pin(&self, now: Instant) {
        let Some((reason, _)) = self.state.published.pin else { return };
        let pinned_us = micros(now.saturating_duration_since(self.state.published.since));
        counter(&self.worker.counters, reason).add(pinned_us);
        if reason != PinReason::Transaction && tracing::enabled!(tracing::Level::DEBUG) {
            // Literals may be anything, passwords among them.
            let pin = self.activity.hold().pins.into_iter().next();
            let statement = pin.map(|pin| pin.statement).unwrap_or_default();
            let (id, reason) = (self.activity.id.0, reason.as_str());
            tracing::debug!(session.id = id, reason, pinned_us, %statement, "pin ended");
        }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn counter(counters: &ClusterCounters, reason: PinReason) -> &Counter {
    match reason {
        PinReason::Transaction => &counters.pinned_us_transaction,
        PinReason::NextTransaction => &counters.pinned_us_set_transaction,
        PinReason::TemporaryTable => &counters.pinned_us_temporary_table,
        PinReason::TableLock => &counters.pinned_us_lock_tables,
        PinReason::ReadLock => &counters.pinned_us_read_lock,
        PinReason::AdvisoryLock => &counters.pinned_us_get_lock,
        PinReason::Handler => &counters.pinned_us_handler,
        PinReason::SqlPrepared => &counters.pinned_us_sql_prepare,
        PinReason::Cursor => &counters.pinned_us_cursor,
        PinReason::LongData => &counters.pinned_us_long_data,
        PinReason::LargeStatement => &counters.pinned_us_large_statement,
        PinReason::LargeVariables => &counters.pinned_us_large_variables,
        PinReason::Xa => &counters.pinned_us_xa,
        PinReason::FixedVariable => &counters.pinned_us_fixed_variable,
        PinReason::Tracking => &counters.pinned_us_session_track,
        PinReason::Role => &counters.pinned_us_set_role,
        PinReason::Status => &counters.pinned_us_session_status,
        PinReason::UnknownState => &counters.pinned_us_unknown_state,
        PinReason::Dedicated => &counters.pinned_us_multiplex_off,
    }
}
