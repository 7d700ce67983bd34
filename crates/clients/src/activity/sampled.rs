//! What a session does at one moment, read from its cells without a lock: for those who look again and again.

use std::sync::atomic::Ordering;
use std::time::Instant;

use delphinus_pool::Thread;
use delphinus_state::PinReason;
use delphinus_telemetry::Wait;
use delphinus_topology::BackendId;

use super::{Activity, IN_TRANSACTION};

/// What an active session does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Its command runs on a backend, or in the proxy.
    Running,
    /// Its command waits.
    Waiting,
    /// It runs nothing, and its transaction is open.
    IdleInTransaction,
}

impl State {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::IdleInTransaction => "idle in transaction",
        }
    }
}

/// What a session does at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampled {
    /// What it does.
    pub state: State,
    /// The number of its command: a long one is the same in many samples.
    pub command: u32,
    /// The code of that.
    pub code: u8,
    /// What it waits for, if that is not its backend.
    pub wait: Option<Wait>,
    /// Where its command runs.
    pub place: Option<(BackendId, Thread)>,
    /// The number of the reason why it runs there (`Reason::number`).
    pub reason: Option<u8>,
    /// The oldest reason why it keeps its connection.
    pub pin: Option<PinReason>,
    /// The digest of its statement; 0: none is known.
    pub digest: u64,
    /// For how long it has been in this state, waiting for this, in microseconds.
    pub in_state_us: u64,
    /// For how long its command has run, in microseconds; 0 where it runs none.
    pub in_command_us: u64,
    /// The age of its transaction, in microseconds.
    pub transaction_us: Option<u64>,
}

impl Sampled {
    /// The class of what it waits for; `None`: its client has sent no command.
    pub fn wait_class(&self) -> Option<&'static str> {
        let of_running = if self.place.is_some() { Wait::BACKEND } else { Wait::CPU };
        self.runs().then(|| self.wait.map_or(of_running, Wait::class))
    }

    /// What exactly it waits for; `None`: that is not known.
    pub fn wait_event(&self) -> Option<&'static str> {
        let of_running = self.place.is_some().then_some("answer");
        self.wait.map(Wait::event).or(of_running).filter(|_| self.runs())
    }

    fn runs(&self) -> bool {
        self.state != State::IdleInTransaction
    }
}

impl Activity {
    /// True if it runs a command or has a transaction open.
    pub(crate) fn is_active(&self) -> bool {
        self.running.load(Ordering::Relaxed) != 0 || self.held.load(Ordering::Relaxed) & IN_TRANSACTION != 0
    }

    /// What it does now; `None`: nothing. `clock_s` is the registry's clock.
    pub fn sample(&self, now: Instant, clock_s: u32) -> Option<Sampled> {
        // The cells are written one by one. Where another command has begun meanwhile, they are read once more: a second one within
        // these nanoseconds would have to be one that ends in no time.
        let number = self.command.load(Ordering::Acquire) >> 32;
        let sampled = self.read(now, clock_s);
        if self.command.load(Ordering::Acquire) >> 32 == number { sampled } else { self.read(now, clock_s) }
    }

    fn read(&self, now: Instant, clock_s: u32) -> Option<Sampled> {
        let running = self.running.load(Ordering::Relaxed);
        let held = self.held.load(Ordering::Relaxed);
        let is_in_transaction = held & IN_TRANSACTION != 0;
        let (wait, waits_since) = self.waits.now();
        let state = match running {
            0 if is_in_transaction => State::IdleInTransaction,
            0 => return None,
            _ if wait.is_some() => State::Waiting,
            _ => State::Running,
        };
        let command = self.command.load(Ordering::Relaxed);
        let (code, now_us) = (command as u8, self.waits.us(now));
        let (in_command_us, since) = if running == 0 {
            (0, self.ended_us.load(Ordering::Relaxed))
        } else if is_statement(code) {
            let began = self.began_us.load(Ordering::Relaxed);
            (now_us.saturating_sub(began), began)
        } else {
            // Of others the time is known to the second.
            let since_us = u64::from(self.since_s(clock_s)) * 1_000_000;
            (since_us, now_us.saturating_sub(since_us))
        };
        Some(Sampled {
            state,
            command: (command >> 32) as u32,
            code,
            wait: wait.filter(|_| running != 0),
            place: self.place(),
            reason: (command >> 8 & 0xff).checked_sub(1).map(|reason| reason as u8).filter(|_| running != 0),
            pin: (held & 0xff).checked_sub(1).and_then(|number| PinReason::ALL.get(number as usize)).copied(),
            digest: self.digest.load(Ordering::Relaxed),
            in_state_us: now_us.saturating_sub(since.max(waits_since)),
            in_command_us,
            transaction_us: is_in_transaction
                .then(|| now_us.saturating_sub(self.transaction_us.load(Ordering::Relaxed))),
        })
    }
}

/// True for commands that run a statement.
fn is_statement(code: u8) -> bool {
    use delphinus_wire::command::Code;
    [Code::Query, Code::StmtExecute, Code::StmtBulkExecute].iter().any(|one| *one as u8 == code)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use delphinus_sql::LexOptions;
    use delphinus_state::Pins;
    use delphinus_topology::ClusterId;

    use super::*;
    use crate::admission::{Newcomer, Rank, Source};
    use crate::{ClientConnId, Entry, Visitor};

    fn activity() -> Activity {
        let user =
            Newcomer { user: "app".into(), rank: Rank::Ordinary, limit: None, source: Source::default() };
        let entry = Entry {
            id: ClientConnId(1),
            host: "h".into(),
            visitor: Visitor::of(None, None),
            cluster: ClusterId(0),
        };
        Activity::new(entry, user, 0)
    }

    #[test]
    fn a_statement_is_seen_where_it_is() {
        let activity = activity();
        let base = Instant::now();
        let at = |ms| base + Duration::from_millis(ms);
        let seen = |ms| activity.sample(at(ms), 0);
        assert_eq!(seen(0), None, "an idle session is no row");

        activity.touch(0, 3);
        activity.begins(at(1000));
        let one = seen(1001).unwrap();
        assert_eq!((one.state, one.wait_class(), one.command, one.code), (State::Running, Some("cpu"), 1, 3));
        activity.has_digest(77);
        activity.is_routed(4);
        let before = activity.waits.enter(Wait::Pool, at(1200));
        let one = seen(1500).unwrap();
        assert_eq!(
            (one.state, one.wait_class(), one.wait_event()),
            (State::Waiting, Some("pool"), Some("connection"))
        );
        let near = |us: u64, ms: u64| us.abs_diff(ms * 1000) < 1000;
        assert!(near(one.in_state_us, 300) && near(one.in_command_us, 500), "{one:?}");
        activity.waits.leave(before, at(1600));

        let thread = Thread { id: 9, moves: 1 };
        activity.runs_on(BackendId(2), thread);
        let one = seen(2600).unwrap();
        assert_eq!(
            (one.state, one.wait_class(), one.place),
            (State::Running, Some("backend"), Some((BackendId(2), thread)))
        );
        assert_eq!((one.digest, one.reason, one.pin, one.transaction_us), (77, Some(4), None, None));
        assert!(near(one.in_state_us, 1000) && near(one.in_command_us, 1600), "{one:?}");
        activity.runs_nowhere();
        activity.ends(2_000_000);
        assert_eq!(seen(3100), None);
    }

    #[test]
    fn a_transaction_that_idles_is_seen_with_its_last_statement() {
        let activity = activity();
        let base = Instant::now();
        let (at, mut pins) = (|ms| base + Duration::from_millis(ms), Pins::default());
        activity.touch(0, 3);
        activity.begins(at(1000));
        activity.has_digest(5);
        pins.add(PinReason::Transaction, base, b"BEGIN");
        activity.is_held(Some(BackendId(0)), true, &pins, LexOptions::default());
        activity.runs_nowhere();
        activity.ends(500_000);
        let one = activity.sample(at(4500), 0).unwrap();
        assert_eq!((one.state, one.wait_class()), (State::IdleInTransaction, None));
        assert_eq!((one.pin, one.digest, one.in_command_us), (Some(PinReason::Transaction), 5, 0));
        assert!(one.in_state_us.abs_diff(3_000_000) < 1000 && one.transaction_us.is_some(), "{one:?}");
        activity.is_held(None, false, &Pins::default(), LexOptions::default());
        assert_eq!(activity.sample(at(5000), 0), None);
    }

    #[test]
    fn a_command_that_is_no_statement_has_whole_seconds() {
        let activity = activity();
        activity.touch(7, 0x16);
        let one = activity.sample(Instant::now() + Duration::from_mins(1), 9).unwrap();
        assert_eq!((one.in_command_us, one.digest), (2_000_000, 0));
    }
}
