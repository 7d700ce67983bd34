//! What a session waits for, and the cell in which it says so. Owns the words for it. The session writes the cell where it begins to
//! wait and where that ends; a statement that waits for nothing but its backend does not touch it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Declares the events, with their classes.
macro_rules! waits {
    ($($(#[$about:meta])* $wait:ident: $class:literal, $event:literal;)+) => {
        /// What a session may wait for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Wait {
            $($(#[$about])* $wait,)+
        }

        impl Wait {
            /// All of them. The position of one is its number.
            pub const ALL: &[Self] = &[$(Self::$wait),+];

            /// The kind of it.
            pub const fn class(self) -> &'static str {
                match self {
                    $(Self::$wait => $class,)+
                }
            }

            /// What exactly.
            pub const fn event(self) -> &'static str {
                match self {
                    $(Self::$wait => $event,)+
                }
            }
        }
    };
}

waits! {
    /// Its turn by a limit of the operator's.
    Limit: "admission", "limit";
    /// RESUME.
    Pause: "admission", "pause";
    /// A free connection of the pool.
    Pool: "pool", "connection";
    /// A new connection to a backend.
    Connect: "connect", "login";
    /// A primary.
    Primary: "failover", "primary";
    /// A replica that has to catch up with what the session has to find.
    Replica: "causality", "replica";
    /// The answer to the same question of another session.
    Flight: "cache", "flight";
    /// The connection is brought into the session's state.
    State: "fixups", "session_state";
    /// A statement is prepared on the connection.
    Prepare: "fixups", "prepare";
    /// The proxy asks a server what the answer has not told.
    Question: "fixups", "question";
    /// The client takes its answer.
    Send: "client", "send";
    /// The client sends the rest of its command, or a file.
    Receive: "client", "receive";
}

impl Wait {
    /// The class of a session whose statement a backend has.
    pub const BACKEND: &'static str = "backend";
    /// The class of a session that runs something and is not known to wait: the proxy itself works, or has not come to it yet.
    pub const CPU: &'static str = "cpu";
}

/// Where a session says what it waits for, and since when. One thread writes it, any may read it.
#[derive(Debug)]
pub struct WaitCell {
    /// Times are counted from here.
    base: Instant,
    /// The number of what is waited for, plus one, in the highest byte; 0: nothing. Below it the microseconds at which that began.
    word: AtomicU64,
}

const SINCE: u64 = (1 << 56) - 1;

impl WaitCell {
    /// Nothing is waited for.
    pub fn new(base: Instant) -> Self {
        Self { base, word: AtomicU64::new(0) }
    }

    /// A moment in microseconds, as the cell counts them.
    #[inline]
    pub fn us(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.base).as_micros() as u64 & SINCE
    }

    /// Says that `wait` begins now. What was waited for before is gone on with when this ends.
    pub fn begin(&self, wait: Wait, now: Instant) -> Waiting<'_> {
        Waiting { cell: self, before: self.enter(wait, now) }
    }

    /// The same, to be ended by [`WaitCell::leave`] with what this gives.
    #[must_use]
    pub fn enter(&self, wait: Wait, now: Instant) -> u64 {
        let before = self.word.load(Ordering::Relaxed);
        self.word.store((wait as u64 + 1) << 56 | self.us(now), Ordering::Relaxed);
        before
    }

    /// Ends what [`WaitCell::enter`] has begun.
    pub fn leave(&self, before: u64, now: Instant) {
        // If nothing is waited for any more, then since now.
        let word = if before & !SINCE == 0 { self.us(now) } else { before };
        self.word.store(word, Ordering::Relaxed);
    }

    /// What is waited for, and the microseconds at which it began, or at which the last wait ended.
    pub fn now(&self) -> (Option<Wait>, u64) {
        let word = self.word.load(Ordering::Relaxed);
        let wait = (word >> 56).checked_sub(1).and_then(|number| Wait::ALL.get(number as usize));
        (wait.copied(), word & SINCE)
    }
}

/// Something is waited for, as long as this lives.
#[derive(Debug)]
pub struct Waiting<'a> {
    cell: &'a WaitCell,
    before: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.cell.leave(self.before, Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn waits_are_within_each_other_and_end() {
        let base = Instant::now();
        let at = |ms| base + Duration::from_millis(ms);
        let cell = WaitCell::new(base);
        assert_eq!(cell.now(), (None, 0));
        let outer = cell.enter(Wait::Primary, at(5));
        assert_eq!(cell.now(), (Some(Wait::Primary), 5000));
        let inner = cell.enter(Wait::Receive, at(7));
        assert_eq!(cell.now(), (Some(Wait::Receive), 7000));
        cell.leave(inner, at(8));
        assert_eq!(cell.now(), (Some(Wait::Primary), 5000));
        cell.leave(outer, at(9));
        assert_eq!(cell.now(), (None, 9000));
        drop(cell.begin(Wait::Pool, at(10)));
        assert_eq!(cell.now().0, None);
        for (number, wait) in Wait::ALL.iter().enumerate() {
            assert_eq!(number, *wait as usize);
        }
    }
}
