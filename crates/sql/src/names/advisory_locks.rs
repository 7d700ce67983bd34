//! The advisory locks that a text takes and releases.

use super::literal_text;
use crate::LexOptions;
use crate::classify::walk;
use crate::event::Event;

/// The advisory locks that a text takes and releases, in the order of the text.
///
/// Names are as the text has them; servers compare them without case, and MySQL limits them to 64 characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdvisoryLocks {
    /// Names given to `GET_LOCK`; `None` where the name is not a literal.
    pub taken: Vec<Option<String>>,
    /// Names given to `RELEASE_LOCK`; `None` where the name is not a literal.
    pub released: Vec<Option<String>>,
}

/// The advisory locks that the text takes and releases.
pub fn advisory_locks(sql: &[u8], options: LexOptions) -> AdvisoryLocks {
    let mut locks = AdvisoryLocks::default();
    walk(sql, options, |event| match event {
        Event::TakesLock(name) => locks.taken.push(name.map(|name| literal_text(name, sql, options))),
        Event::ReleasesLock(name) => locks.released.push(name.map(|name| literal_text(name, sql, options))),
        _ => {}
    });
    locks
}
