//! The copy that is made of an answer on its way to the client, and whether it is one that can be kept.

use std::sync::Arc;
use std::time::Duration;

use delphinus_cache::{Answer, Flight, Key, Origin, Stored, Transcript};
use delphinus_memory::Permit;
use delphinus_net::rt::Notify;
use delphinus_state::Response;
use delphinus_wire::response::Status;

use super::Answers;
use crate::outlook::Progress;

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
    pub(super) ttl: Duration,
    pub(super) transcript: Transcript,
    /// For the key, and the copy as it grows.
    pub(super) room: Permit,
    /// Known when the statement is sent.
    pub(super) origin: Option<Origin>,
    /// Others may wait for it.
    pub(super) flight: Option<Flight<Notify>>,
}

impl Keeping {
    /// The statement is about to be sent: what its answer will have is what is there now, or more.
    pub(crate) fn begin(&mut self, origin: Origin) {
        self.origin = Some(origin);
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

    /// The answer has ended: it is kept, if it can be.
    pub(crate) fn end(self, response: &Response, answers: &Answers, progress: &Progress) {
        let Keeping { key, ttl, transcript, room: _room, origin, flight } = self;
        let counters = &answers.counters;
        let Some(mut origin) = origin else { return };
        origin.probe = progress.probe(origin.backend);
        if !is_fit(response) {
            return counters.cache_unfit.increment();
        }
        let Some(bytes) = transcript.into_bytes() else {
            return counters.cache_too_large.increment();
        };
        let answer = Answer { bytes, rows: response.rows, origin: Arc::new(origin) };
        if flight.is_none() {
            answers.flights.is_kept(&key);
        }
        match answers.cache.store(&key, answer, ttl) {
            Stored::Kept { evicted } => {
                counters.cache_kept.increment();
                counters.cache_evictions.add(evicted);
                if let Some(flight) = flight {
                    flight.kept();
                }
            }
            Stored::TooLarge => counters.cache_too_large.increment(),
            Stored::Outdated => counters.cache_outdated.increment(),
        }
    }
}

/// True for one result set that says nothing but its rows.
fn is_fit(response: &Response) -> bool {
    response.is_ok()
        && response.result_sets == 1
        && response.affected_rows.is_none()
        && response.warnings == 0
        && response.changes.is_empty()
        && response
            .status
            .is_some_and(|status| status.contains(Status::AUTOCOMMIT) && status.0 & !HARMLESS.0 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rows_that_say_nothing_else_are_fit_to_be_kept() {
        let rows =
            Response { status: Some(Status::AUTOCOMMIT), rows: 3, result_sets: 1, ..Response::default() };
        assert!(is_fit(&rows));
        assert!(is_fit(&Response { status: Some(Status(2 | 16 | 32 | 512 | 2048)), ..rows.clone() }));
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
            assert!(!is_fit(&unfit), "{unfit:?}");
        }
    }
}
