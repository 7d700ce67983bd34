//! Where an answer comes from, and what can be proved of it: that it has what a session has written itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use delphinus_topology::BackendId;
use delphinus_wire::gtid::GtidSet;

use crate::tables::Reads;

/// Where an answer comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Who gave it.
    pub backend: BackendId,
    /// A moment before it was asked for: it has what that backend had then.
    pub began: Instant,
    /// Which time in the role of the primary that was, if it was the primary.
    pub succession: Option<u64>,
    /// What that backend was known to have executed then.
    pub position: Option<Arc<GtidSet>>,
    /// Nothing was being written then: that backend had everything that had been written through the proxy.
    pub had_all: bool,
    /// So many writes had begun through the proxy by then, if all of them had ended, and that backend had them.
    pub writes: Option<u64>,
    /// Another proxy had kept it, and did not say that it was current: which server that had it from is not known.
    pub is_handed_on: bool,
    /// The number of that backend's last probe when the answer was there: it has nothing that came later.
    pub probe: u64,
    /// The epoch of rights of the connection that it came by.
    pub rights: u64,
    /// What it reads, where that is looked after: it has all that was written of that until it was asked for.
    pub reads: Option<Reads>,
}

/// Something that a session has written, or may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// Where.
    pub backend: BackendId,
    /// When it was over.
    pub ended: Instant,
}

/// What a session has to find in an answer.
#[derive(Debug, Clone, Copy)]
pub struct Own<'a> {
    /// Its last write.
    pub last_write: Option<Write>,
    /// The transactions that it knows to have written, or has been told of.
    pub token: Option<&'a GtidSet>,
    /// The token has all its writes.
    pub is_whole: bool,
    /// The token has transactions of others that the client wants to find.
    pub is_foreign: bool,
}

impl Origin {
    /// One of which nothing else is known.
    pub fn new(backend: BackendId, began: Instant) -> Self {
        Self {
            backend,
            began,
            succession: None,
            position: None,
            had_all: false,
            writes: None,
            is_handed_on: false,
            probe: 0,
            rights: 0,
            reads: None,
        }
    }

    /// It was asked for earlier, by another proxy that had kept it: what was there then is not known. Of one that `is_current` that proxy
    /// knows that it has all that was written through itself. False if that is earlier than can be told.
    #[must_use]
    pub fn grow_older(&mut self, age: Duration, is_current: bool) -> bool {
        let Some(began) = self.began.checked_sub(age) else { return false };
        (self.began, self.position, self.had_all, self.writes) = (began, None, false, None);
        self.is_handed_on = !is_current;
        true
    }

    /// True if it comes from a primary that has lost its role since then, and with that perhaps what it had acknowledged; `succession`:
    /// which time it is now.
    pub fn is_of_past(&self, succession: u64) -> bool {
        self.succession.is_some_and(|then| then != succession)
    }

    /// What it refers to, in bytes: of a position that others have, too, its part.
    pub(crate) fn own_size(&self) -> usize {
        /// A node of the map of a position, and a part of it with its room.
        const MAP: usize = 512;
        const PART: usize = 64;
        let position = self.position.as_ref().map_or(0, |position| {
            // Whoever it comes from forgets it with the next probe, or when the session ends: the first answer that has it stands for all
            // of it.
            let answers = (Arc::strong_count(position) - 1).max(1);
            (MAP + PART * position.parts()).div_ceil(answers)
        });
        position + self.reads.as_ref().map_or(0, Reads::size)
    }

    /// True if the answer is proved to have everything that the session has written, and what it was told to find.
    ///
    /// Asked for after the last write had ended, it has that write if it comes from the backend that wrote, and not from what another proxy
    /// there had kept, from one that had everything, or from one that was known to have the write's transactions.
    pub fn has(&self, own: &Own<'_>) -> bool {
        let has_token = || match (own.token, &self.position) {
            (None, _) => true,
            (Some(token), Some(position)) => position.contains(token),
            (Some(_), None) => false,
        };
        if own.is_foreign && !has_token() {
            return false;
        }
        let Some(write) = own.last_write else { return true };
        let is_there = self.backend == write.backend && !self.is_handed_on;
        self.began > write.ended && (is_there || self.had_all || own.is_whole && has_token())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIMARY: BackendId = BackendId(0);
    const REPLICA: BackendId = BackendId(1);

    fn set(text: &str) -> GtidSet {
        GtidSet::parse(text).unwrap()
    }

    #[test]
    fn what_others_have_too_counts_in_part() {
        const WHOLE: usize = 512 + 2 * 64;
        let shared = Arc::new(set("0-1-5,1-1-2"));
        let mut origin = Origin { position: Some(shared.clone()), ..Origin::new(PRIMARY, Instant::now()) };
        assert_eq!(origin.own_size(), WHOLE, "the monitor has it, until its next probe");
        let other = origin.clone();
        assert_eq!((origin.own_size(), other.own_size()), (WHOLE / 2, WHOLE / 2));
        drop((shared, other));
        assert_eq!(origin.own_size(), WHOLE);
        origin.position = None;
        assert_eq!(origin.own_size(), 0);
    }

    #[test]
    fn what_a_primary_gave_counts_only_while_it_has_its_role() {
        let of = |succession| Origin { succession, ..Origin::new(PRIMARY, Instant::now()) };
        assert!(!of(Some(2)).is_of_past(2) && of(Some(2)).is_of_past(3));
        assert!(!of(None).is_of_past(3), "a replica's");
    }

    #[test]
    fn an_answer_has_what_it_is_proved_to_have() {
        let start = Instant::now();
        let at = |s| start + Duration::from_secs(s);
        let origin = |backend, began, position: Option<&str>, had_all| {
            let position = position.map(|text| Arc::new(set(text)));
            Origin { position, had_all, ..Origin::new(backend, at(began)) }
        };
        let wrote = |ended| Some(Write { backend: PRIMARY, ended: at(ended) });
        let five = set("0-1-5");
        let none = Own { last_write: None, token: None, is_whole: true, is_foreign: false };
        let told = Own { last_write: wrote(5), token: Some(&five), ..none };
        let untold = Own { is_whole: false, ..told };
        let foreign = Own { is_foreign: true, ..told };
        let only_foreign = Own { token: Some(&five), is_foreign: true, ..none };
        for (what, origin, own, expected) in [
            ("nothing written", origin(REPLICA, 1, None, false), none, true),
            ("before the write", origin(PRIMARY, 4, None, false), told, false),
            ("before the write, everybody had all", origin(PRIMARY, 4, Some("0-1-5"), true), told, false),
            ("in the moment of the write", origin(PRIMARY, 5, None, true), told, false),
            ("where it was written", origin(PRIMARY, 6, None, false), told, true),
            ("elsewhere", origin(REPLICA, 6, None, false), told, false),
            ("elsewhere, less", origin(REPLICA, 6, Some("0-1-4"), false), told, false),
            ("elsewhere, enough", origin(REPLICA, 6, Some("0-1-5"), false), told, true),
            ("elsewhere, but not all is known", origin(REPLICA, 6, Some("0-1-5"), false), untold, false),
            ("elsewhere, everybody had all", origin(REPLICA, 6, None, true), untold, true),
            ("another's, unknown", origin(PRIMARY, 6, None, true), foreign, false),
            ("another's, there", origin(PRIMARY, 6, Some("0-1-7"), false), foreign, true),
            ("another's, nothing written", origin(REPLICA, 1, Some("0-1-4"), true), only_foreign, false),
            (
                "another's, there, nothing written",
                origin(REPLICA, 1, Some("0-1-5"), false),
                only_foreign,
                true,
            ),
        ] {
            assert_eq!(origin.has(&own), expected, "{what}");
        }
        // From another proxy that had kept it for a second.
        for (is_current, expected) in [(true, true), (false, false)] {
            let mut aged = origin(PRIMARY, 7, None, true);
            assert!(aged.grow_older(Duration::from_secs(1), is_current));
            assert_eq!(aged.has(&told), expected, "{aged:?}");
        }
    }
}
