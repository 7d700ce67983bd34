//! The copy that is made of an answer on its way to the client, and whether it is one that can be kept.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use delphinus_cache::{Answer, Event, Flight, Incoming, Key, Origin, Stored, Tally, Transcript};
use delphinus_memory::Permit;
use delphinus_net::rt;
use delphinus_pool::Checkout;
use delphinus_route::CacheTerms;
use delphinus_state::{Response, Vars, sets_isolation};
use delphinus_telemetry::{ClusterCounters, Counter};
use delphinus_wire::response::{Layer, PeerAge, Status};

use super::{Answers, Wanting};
use crate::fresh::Depends;
use crate::outlook::{Outlook, Progress};

/// The room for a copy is taken in steps of so many bytes.
const STEP: usize = 16 << 10;

/// What may be in the status of an answer that is kept: how the statement was run. By number: no index or no
/// good one was used, it was slow, and MariaDB's word for `ANSI_QUOTES`.
const HARMLESS: Status = Status(
    Status::AUTOCOMMIT.0
        | Status::NO_BACKSLASH_ESCAPES.0
        | Status::SESSION_STATE_CHANGED.0
        | 1 << 4
        | 1 << 5
        | 1 << 11
        | 1 << 15,
);

/// An answer that is to be kept, if it is one that can be.
#[derive(Debug)]
pub(crate) struct Keeping {
    pub(super) key: Key,
    pub(super) wanting: Wanting,
    pub(super) tally: Arc<Tally>,
    pub(super) transcript: Transcript,
    /// For the key, and the copy as it grows.
    pub(super) room: Permit,
    /// Known when the statement is sent.
    pub(super) origin: Option<Origin>,
    /// How often answers had been forgotten when it was not there.
    pub(super) flushes: u64,
    /// The short way to it.
    pub(crate) beside: Option<Arc<dyn Any + Send + Sync>>,
    /// Others may wait for it.
    pub(super) flight: Option<Flight>,
    /// What the answer reads, where writes end answers.
    pub(crate) depends: Option<Depends>,
    /// What the backend is that gives it.
    pub(super) giver: Giver,
}

/// Who gives an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Giver {
    /// What it is, if it is one of us.
    pub(crate) peer: Layer,
    /// It is the primary, so that all writes pass through it.
    pub(crate) is_primary: bool,
    /// It has read what is not committed, by its own default.
    pub(crate) reads_uncommitted: bool,
}

impl Keeping {
    /// The statement is about to be sent: what its answer will have is what is there now, or more.
    pub(crate) fn begin(&mut self, origin: Origin, giver: Giver) {
        self.origin = Some(origin);
        self.giver = giver;
        self.transcript.begin();
    }

    /// More of the answer; without room for it, it is given up.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        // A copy that grows has up to twice its size, and so it has when it is handed over.
        let len = 2 * (self.key.size() + self.transcript.size() + bytes.len());
        if self.room.grow_to(len / STEP * STEP) {
            self.transcript.push(bytes);
        } else {
            self.transcript.give_up();
        }
    }

    /// What passes is not what others may see.
    pub(super) fn give_up(&mut self) {
        self.transcript.give_up();
    }

    /// The answer has ended: it is kept, if it can be. True if it is.
    pub(crate) fn end(self, response: &Response, answers: &Answers, progress: &Progress) -> bool {
        let Keeping {
            key,
            wanting,
            tally,
            mut transcript,
            room: _room,
            origin,
            flight,
            flushes,
            beside,
            depends,
            giver,
        } = self;
        let counters = &answers.counters;
        let is_unfit = |flight: Option<Flight>, (counter, end): Why| {
            tally.count(Event::Unfit);
            counter(counters).increment();
            if let Some(flight) = flight {
                end(flight);
            }
            false
        };
        let Some(mut origin) = origin else { return false };
        origin.probe = progress.probe(origin.backend);
        if let Err(why) = is_to_be_kept(&mut origin, (response, wanting.terms), (depends.is_some(), giver)) {
            return is_unfit(flight, why);
        }
        if response.age.is_some() {
            // Its client is told, if it is one of us. Who is given the answer later may be another.
            transcript.forget_age();
        }
        let Some(bytes) = transcript.into_bytes() else { return is_unfit(flight, TOO_LARGE) };
        if flight.is_none() {
            answers.cache.flights.is_kept(&key);
        }
        let took_us = micros_since(origin.began);
        let is_renewed = response.age.is_some_and(|told| wanting.is_old(told.age));
        let answer = Answer { bytes, rows: response.rows, origin: Arc::new(origin) };
        let incoming = Incoming {
            answer,
            ttl: wanting.ttl,
            took_us,
            rule: wanting.rule,
            tally: tally.clone(),
            flushes,
            beside,
            is_renewed,
        };
        match answers.cache.store(&key, incoming) {
            Stored::Kept { evicted } => {
                counters.cache_kept.increment();
                counters.cache_evictions.add(evicted);
                if let Some(flight) = flight {
                    flight.kept();
                }
                return true;
            }
            Stored::TooLarge => return is_unfit(flight, TOO_LARGE),
            Stored::Outdated => {
                counters.cache_outdated.increment();
                if let Some(flight) = flight {
                    // Its like are kept: to wait for the next one is not in vain.
                    flight.kept();
                }
            }
        }
        false
    }
}

/// Counts why an answer is not kept, and tells those who ask the same.
type Why = (fn(&ClusterCounters) -> &Counter, fn(Flight));

const TOO_LARGE: Why = (|counters| &counters.cache_too_large, Flight::unfit);

/// An error says why an answer is not one to be kept. `is_for_writes`: writes end it.
fn is_to_be_kept(
    origin: &mut Origin,
    (response, terms): (&Response, CacheTerms),
    (is_for_writes, giver): (bool, Giver),
) -> Result<(), Why> {
    if !giver.may_be_kept(response.age, is_for_writes) || is_for_writes && origin.reads.is_none() {
        return Err((|counters| &counters.cache_unproved, Flight::doubtful));
    }
    if !is_fit(response, terms) {
        // An error may be that of a statement that was ended, or of a moment.
        let end = if response.is_ok() { Flight::unfit } else { Flight::doubtful };
        return Err((|counters| &counters.cache_unfit, end));
    }
    if response.age.is_some_and(|told| !origin.grow_older(told.age, told.is_current)) {
        return Err((|counters| &counters.cache_outdated, Flight::doubtful));
    }
    Ok(())
}

impl Giver {
    /// What gives an answer on this connection, to a session with these variables.
    pub(crate) fn of(checkout: &mut Checkout, outlook: &Outlook, vars: &Vars) -> Self {
        let backend = checkout.backend();
        outlook.with_snapshot(|snapshot, _| {
            let limits = snapshot.backend(backend).and_then(|backend| backend.limits);
            Self {
                peer: checkout.connection().peer,
                is_primary: snapshot.primary().is_some_and(|primary| primary.id == backend),
                reads_uncommitted: limits.is_some_and(|limits| limits.reads_uncommitted)
                    && !sets_isolation(vars),
            }
        })
    }

    /// True if what it gives, which is of this age if it had kept it, may be kept. One of us has to tell how old its answers are. Where
    /// writes end answers (`is_for_writes`), it has to know that no write has ended this one: all writes have to pass through it, and an
    /// answer that it has not kept may come from a replica behind it that lacks some.
    fn may_be_kept(self, age: Option<PeerAge>, is_for_writes: bool) -> bool {
        match self.peer {
            _ if self.reads_uncommitted => false,
            Layer::None => true,
            Layer::Silent => false,
            Layer::TellsAges => !is_for_writes || self.is_primary && age.is_some_and(|told| told.is_current),
        }
    }
}

fn micros_since(began: Instant) -> u64 {
    u64::try_from(rt::now().saturating_duration_since(began).as_micros()).unwrap_or(u64::MAX)
}

/// True for one result set that says nothing but its rows, if its like are kept.
fn is_fit(response: &Response, terms: CacheTerms) -> bool {
    response.is_ok()
        && response.result_sets == 1
        && response.affected_rows.is_none()
        && (response.warnings == 0 || terms.warnings)
        && (response.rows > 0 || terms.empty_results)
        && response.changes.is_empty()
        && response
            .status
            .is_some_and(|status| status.contains(Status::AUTOCOMMIT) && status.0 & !HARMLESS.0 == 0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_another_of_us_gives_is_kept_only_if_its_age_is_known_and_no_write_can_have_ended_it() {
        let told = |is_current| Some(PeerAge { age: Duration::from_secs(1), is_current });
        for (peer, is_primary, age, by_age, by_writes) in [
            (Layer::None, false, None, true, true),
            (Layer::Silent, true, None, false, false),
            (Layer::TellsAges, true, None, true, false),
            (Layer::TellsAges, true, told(false), true, false),
            (Layer::TellsAges, true, told(true), true, true),
            (Layer::TellsAges, false, told(true), true, false),
        ] {
            let giver = Giver { peer, is_primary, reads_uncommitted: false };
            let found = (giver.may_be_kept(age, false), giver.may_be_kept(age, true));
            assert_eq!(found, (by_age, by_writes), "{giver:?} {age:?}");
            let dirty = Giver { reads_uncommitted: true, ..giver };
            assert!(!dirty.may_be_kept(age, false) && !dirty.may_be_kept(age, true));
        }
    }

    #[test]
    fn only_rows_that_say_nothing_else_are_fit_to_be_kept() {
        let rows =
            Response { status: Some(Status::AUTOCOMMIT), rows: 3, result_sets: 1, ..Response::default() };
        let usual = CacheTerms::default();
        assert!(is_fit(&rows, usual));
        let slow = Response { status: Some(Status(2 | 16 | 32 | 512 | 2048)), ..rows.clone() };
        assert!(is_fit(&slow, usual));
        let (empty, warned) =
            (Response { rows: 0, ..rows.clone() }, Response { warnings: 1, ..rows.clone() });
        assert!(is_fit(&empty, usual) && !is_fit(&empty, CacheTerms { empty_results: false, ..usual }));
        assert!(is_fit(&warned, CacheTerms { warnings: true, ..usual }));
        for unfit in [
            Response { error: Some(1064), ..rows.clone() },
            Response { warnings: 1, ..rows.clone() },
            Response { result_sets: 2, ..rows.clone() },
            Response { result_sets: 0, affected_rows: Some(0), ..rows.clone() },
            Response { affected_rows: Some(0), ..rows.clone() },
            Response { changes: vec![delphinus_state::Changed::State], ..rows.clone() },
            Response { status: None, ..rows.clone() },
            Response { status: Some(Status(0)), ..rows.clone() },
            Response { status: Some(Status::AUTOCOMMIT.with(Status::IN_TRANS)), ..rows.clone() },
            Response { status: Some(Status::AUTOCOMMIT.with(Status::CURSOR_EXISTS)), ..rows.clone() },
            Response { status: Some(Status::AUTOCOMMIT.with(Status::PS_OUT_PARAMS)), ..rows.clone() },
            // The columns are not those that were told when it was prepared.
            Response { status: Some(Status(2 | 1 << 10)), ..rows.clone() },
        ] {
            assert!(!is_fit(&unfit, usual), "{unfit:?}");
        }
    }
}
