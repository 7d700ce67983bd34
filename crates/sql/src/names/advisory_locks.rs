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
    walk(sql, options, |event| locks.take(&event, sql, options));
    locks
}

impl AdvisoryLocks {
    pub(crate) fn take(&mut self, event: &Event, sql: &[u8], options: LexOptions) {
        let text = |name| literal_text(name, sql, options);
        match *event {
            Event::TakesLock(name) => self.taken.push(name.map(text)),
            Event::ReleasesLock(name) => self.released.push(name.map(text)),
            _ => {}
        }
    }
}
