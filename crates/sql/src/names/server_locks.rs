//! The locks on the whole server that a text takes and ends.

use crate::LexOptions;
use crate::classify::walk;
use crate::event::Event;

/// A lock on the whole server. Each is ended by a statement of its own, and by no other's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerLock {
    /// `FLUSH TABLES WITH READ LOCK`, Percona's `LOCK TABLES FOR BACKUP`: until `UNLOCK TABLES`. Beginning a transaction leaves it.
    Tables,
    /// `LOCK INSTANCE FOR BACKUP`: until `UNLOCK INSTANCE`.
    Instance,
    /// Percona's `LOCK BINLOG FOR BACKUP`: until `UNLOCK BINLOG`.
    Binlog,
    /// MariaDB's `BACKUP STAGE`: until `BACKUP STAGE END`.
    Stage,
    /// MariaDB's `BACKUP LOCK`: until `BACKUP UNLOCK`.
    Backup,
}

/// What a text does to such a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerLockChange {
    /// Takes it.
    Takes(ServerLock),
    /// Ends it.
    Ends(ServerLock),
}

/// What the text does to locks on the whole server, in its order.
pub fn server_locks(sql: &[u8], options: LexOptions) -> Vec<ServerLockChange> {
    let mut changes = Vec::new();
    walk(sql, options, |event| changes.extend(ServerLockChange::of(&event)));
    changes
}

impl ServerLockChange {
    pub(crate) fn of(event: &Event) -> Option<Self> {
        match *event {
            Event::TakesServerLock(lock) => Some(Self::Takes(lock)),
            Event::EndsServerLock(lock) => Some(Self::Ends(lock)),
            _ => None,
        }
    }
}
