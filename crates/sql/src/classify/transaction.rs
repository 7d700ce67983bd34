//! Transactions and table locks.
//!
//! Owns: `BEGIN`, `START TRANSACTION`, `COMMIT`, `ROLLBACK`, savepoints, XA, `LOCK` and `UNLOCK`.

use super::{Class, Classifier, Effects, Event, Keyword, TokenKind, Uses, Watch, Why};
use crate::event::Whose;
use crate::names::ServerLock;

/// Beginning a transaction commits the open one and lets go of table locks.
const BEGINNING: Effects =
    Effects::BEGINS_TRANSACTION.union(Effects::IMPLICIT_COMMIT).union(Effects::UNLOCKS_TABLES);

impl<F: FnMut(Event), W: Watch> Classifier<'_, F, W> {
    /// `BEGIN [WORK]`; anything else after it is a compound statement, of MariaDB.
    pub(super) fn begin(&mut self) -> Class {
        let ahead = self.cursor.ahead;
        if ahead.ends_statement() || ahead.keyword == Keyword::Work {
            return self.whole(Class::Begin, Why::Transaction, BEGINNING);
        }
        self.unknown()
    }

    /// `START TRANSACTION`; `START SLAVE` and its kin.
    pub(super) fn start(&mut self) -> Class {
        match self.cursor.ahead.keyword {
            Keyword::Transaction => self.start_transaction(),
            Keyword::Slave | Keyword::Replica | Keyword::GroupReplication | Keyword::All => {
                self.whole(Class::Replication, Why::Admin, Effects::IMPLICIT_COMMIT)
            }
            _ => self.unknown(),
        }
    }

    /// `START TRANSACTION [WITH CONSISTENT SNAPSHOT | READ ONLY | READ WRITE] [, ..]`
    fn start_transaction(&mut self) -> Class {
        self.cursor.bump();
        self.cursor.bump();
        let says_one_mode = self.cursor.keyword() == Keyword::Read && self.cursor.beyond().0.ends_statement();
        let form = if self.cursor.at_end() {
            Effects::empty()
        } else if says_one_mode && self.is_named(self.cursor.ahead, b"only") {
            Effects::BEGINS_READ_ONLY
        } else if says_one_mode && self.is_named(self.cursor.ahead, b"write") {
            Effects::BEGINS_SPECIAL | Effects::BEGINS_READ_WRITE
        } else {
            Effects::BEGINS_SPECIAL
        };
        self.whole(Class::StartTransaction, Why::Transaction, BEGINNING | form)
    }

    pub(super) fn commit(&mut self) -> Class {
        self.cursor.bump();
        self.completion(Class::Commit)
    }

    /// `ROLLBACK`, `ROLLBACK TO [SAVEPOINT] s`.
    pub(super) fn rollback(&mut self) -> Class {
        self.cursor.bump();
        self.cursor.eat(Keyword::Work);
        if self.cursor.keyword() == Keyword::To {
            return self.whole(Class::RollbackToSavepoint, Why::Transaction, Effects::empty());
        }
        self.completion(Class::Rollback)
    }

    /// `[WORK] [AND [NO] CHAIN] [[NO] RELEASE]`
    fn completion(&mut self, class: Class) -> Class {
        self.effects |= Effects::ENDS_TRANSACTION;
        self.refuse(Why::Transaction);
        while !self.cursor.at_end() {
            let is_negated = self.cursor.before.keyword == Keyword::No;
            match self.cursor.keyword() {
                Keyword::Chain if !is_negated => self.effects |= Effects::BEGINS_TRANSACTION,
                Keyword::Release if !is_negated => self.effects |= Effects::CLOSES_CONNECTION,
                Keyword::Work | Keyword::And | Keyword::No | Keyword::Chain | Keyword::Release => {}
                _ => return self.unknown(),
            }
            self.cursor.bump();
        }
        class
    }

    pub(super) fn release(&mut self) -> Class {
        if self.cursor.ahead.keyword != Keyword::Savepoint {
            return self.unknown();
        }
        self.whole(Class::ReleaseSavepoint, Why::Transaction, Effects::empty())
    }

    /// `XA START`, `END`, `PREPARE`, `COMMIT`, `ROLLBACK`, `RECOVER`.
    pub(super) fn xa(&mut self) -> Class {
        let effects = match self.cursor.ahead.keyword {
            Keyword::Start | Keyword::Begin => Effects::XA_STARTS,
            Keyword::Commit | Keyword::Rollback => Effects::XA_ENDS,
            _ => Effects::empty(),
        };
        self.whole(Class::Xa, Why::Transaction, effects)
    }

    /// `LOCK TABLES`, `LOCK INSTANCE FOR BACKUP`; Percona's `LOCK TABLES FOR BACKUP`, `LOCK BINLOG FOR BACKUP`.
    pub(super) fn lock(&mut self) -> Class {
        self.cursor.bump();
        match (self.cursor.keyword(), self.cursor.ahead.keyword) {
            (Keyword::Table | Keyword::Tables, Keyword::For) => self.takes_server_lock(ServerLock::Tables),
            (Keyword::Instance, _) => self.takes_server_lock(ServerLock::Instance),
            (Keyword::Binlog, _) => self.takes_server_lock(ServerLock::Binlog),
            (Keyword::Table | Keyword::Tables, _) => {
                self.whole(Class::LockTables, Why::Locks, Effects::LOCKS_TABLES | Effects::IMPLICIT_COMMIT)
            }
            _ => self.unknown(),
        }
    }

    fn takes_server_lock(&mut self, lock: ServerLock) -> Class {
        self.emit(Event::TakesServerLock(lock));
        self.whole(Class::Backup, Why::Locks, Effects::READ_LOCK)
    }

    fn ends_server_lock(&mut self, lock: ServerLock) -> Class {
        self.emit(Event::EndsServerLock(lock));
        self.whole(Class::Backup, Why::Locks, Effects::RELEASES_READ_LOCK)
    }

    /// `UNLOCK TABLES` also lets go of `FLUSH TABLES WITH READ LOCK`.
    pub(super) fn unlock(&mut self) -> Class {
        match self.cursor.ahead.keyword {
            Keyword::Table | Keyword::Tables => {
                let effects =
                    Effects::UNLOCKS_TABLES | Effects::RELEASES_READ_LOCK | Effects::IMPLICIT_COMMIT;
                self.emit(Event::EndsServerLock(ServerLock::Tables));
                self.whole(Class::UnlockTables, Why::Locks, effects)
            }
            Keyword::Instance => self.ends_server_lock(ServerLock::Instance),
            Keyword::Binlog => self.ends_server_lock(ServerLock::Binlog),
            _ => self.unknown(),
        }
    }

    /// `FLUSH ..`, with the two forms that hold locks: `WITH READ LOCK` and `FOR EXPORT`.
    pub(super) fn flush(&mut self) -> Class {
        self.effects |= Effects::IMPLICIT_COMMIT;
        self.cursor.bump();
        self.cursor.eat_any(&[Keyword::Local, Keyword::NoWriteToBinlog]);
        if self.cursor.keyword() == Keyword::Status {
            self.uses |= Uses::SESSION_STATUS;
        }
        if matches!(self.cursor.keyword(), Keyword::Table | Keyword::Tables) {
            self.cursor.bump();
            let names_tables = !matches!(self.cursor.keyword(), Keyword::With | Keyword::For)
                || self.cursor.ahead.is(TokenKind::Comma);
            while !self.cursor.at_end() {
                let pair = (self.cursor.keyword(), self.cursor.ahead.keyword);
                if pair.0 == Keyword::Privileges {
                    self.changes_rights(Whose::Anybody);
                }
                if matches!(pair, (Keyword::Read, Keyword::Lock) | (Keyword::For, Keyword::Export)) {
                    self.effects |= Effects::READ_LOCK;
                    if names_tables {
                        self.effects |= Effects::LOCKS_TABLES;
                    } else {
                        self.emit(Event::TakesServerLock(ServerLock::Tables));
                    }
                }
                self.skip_token();
            }
        }
        while !self.cursor.at_end() {
            if self.cursor.keyword() == Keyword::Privileges {
                self.changes_rights(Whose::Anybody);
            }
            self.skip_token();
        }
        self.whole(Class::Flush, Why::Admin, Effects::empty())
    }

    /// MariaDB's `BACKUP STAGE ..`, `BACKUP LOCK t`, `BACKUP UNLOCK`.
    pub(super) fn backup(&mut self) -> Class {
        self.cursor.bump();
        let (here, ahead) = (self.cursor.keyword(), self.cursor.ahead.keyword);
        match (here, ahead) {
            (Keyword::Stage, Keyword::End) => self.ends_server_lock(ServerLock::Stage),
            (Keyword::Unlock, _) => self.ends_server_lock(ServerLock::Backup),
            (Keyword::Stage, _) => self.takes_server_lock(ServerLock::Stage),
            (Keyword::Lock, _) => self.takes_server_lock(ServerLock::Backup),
            _ => self.unknown(),
        }
    }
}
