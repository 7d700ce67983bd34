//! Statements that are about nothing but their own session.
//!
//! Owns: which these are. Any server does the same with them, so that none of them needs the primary. Must not know where
//! they run.

use super::{Class, Classifier, Effects, Event, Uses, Watch, Why};

/// What such a statement may change.
const CHANGES: Effects = Effects::SETS_SYSTEM_VARS
    .union(Effects::SETS_USER_VARS)
    .union(Effects::CHANGES_SCHEMA)
    .union(Effects::ENDS_TRANSACTION);

/// What its answer may depend on.
const LOOKS_AT: Uses = Uses::SESSION_VARS
    .union(Uses::USER_VARS)
    .union(Uses::CONNECTION_ID)
    .union(Uses::TRACKING)
    .union(Uses::HINTS)
    .union(Uses::VOLATILE);

/// Variables by which a session leaves traces on its server, or that no other connection can be given: a session that sets
/// one stays on its connection.
const STAYING: &[&[u8]] = &[
    b"character_set_database",
    b"collation_database",
    b"gtid_next",
    b"gtid_seq_no",
    b"identity",
    b"insert_id",
    b"last_insert_id",
    b"optimizer_trace",
    b"profiling",
    b"pseudo_replica_mode",
    b"pseudo_slave_mode",
    b"pseudo_thread_id",
    b"rand_seed1",
    b"rand_seed2",
];

/// True for a reason by which a statement is no plain read and is about its session all the same.
pub(super) fn is_own(why: Why) -> bool {
    matches!(why, Why::ChangesSession | Why::SystemVariable | Why::SessionFunction | Why::Transaction)
}

/// True for a variable that keeps its session where it was set.
pub(super) fn is_staying(name: &[u8]) -> bool {
    STAYING.iter().any(|staying| staying.eq_ignore_ascii_case(name))
}

/// True for the variables that say which changes of a session a server reports.
pub(super) fn is_tracking(name: &[u8]) -> bool {
    name.len() > 14 && name[..14].eq_ignore_ascii_case(b"session_track_")
}

impl<F: FnMut(Event), W: Watch> Classifier<'_, F, W> {
    /// True if the statement that was read is one of these.
    pub(super) fn is_of_session(&self, class: Class) -> bool {
        let is_known = matches!(
            class,
            Class::Set | Class::Use | Class::Commit | Class::Rollback | Class::Show | Class::Select
        );
        // SHOW VARIABLES has LAST_INSERT_ID(), too.
        let looks_at = if class == Class::Show { LOOKS_AT.union(Uses::LAST_INSERT_ID) } else { LOOKS_AT };
        let may_change = if class == Class::Select { Effects::empty() } else { CHANGES };
        is_known
            && !self.is_of_more
            && self.effects.without(may_change).is_empty()
            && self.uses.without(looks_at).is_empty()
    }
}
