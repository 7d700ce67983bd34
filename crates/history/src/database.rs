//! One file: how it is opened and checked, how large it is, and what is written into it whole or not at all.

use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags, Result};

use crate::names::{self, Known};
use crate::place::Place;

/// What the files of this version look like.
const VERSION: i64 = 1;
/// A file that readers have just now is waited for.
const BUSY: Duration = Duration::from_secs(1);
/// A file is looked through for so long; a large one is not looked through to its end.
const CHECK: Duration = Duration::from_secs(2);
/// SQLite's pages.
pub(crate) const PAGE: u64 = 4096;
/// So many pages may wait beside a file before they get into it; beside a small one fewer.
const MOST_WAL_PAGES: u64 = 256;

/// An open file.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) connection: Connection,
    pub(crate) name: String,
    pub(crate) known: Known,
    /// What it may take.
    pub(crate) most_bytes: u64,
}

/// Why a file cannot be used.
#[derive(Debug)]
pub(crate) enum Unusable {
    /// What is in it is wrong.
    Damaged(String),
    /// It has to be opened anew.
    Broken(String),
    /// For another reason, such as a full disk.
    Error(String),
}

impl From<rusqlite::Error> for Unusable {
    fn from(error: rusqlite::Error) -> Self {
        let why = error.to_string();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged(why),
            Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::ReadOnly) => {
                Self::Broken(why)
            }
            _ => Self::Error(why),
        }
    }
}

impl Database {
    /// Opens a file, which is made if it is not there.
    pub(crate) fn open(
        place: &Place,
        name: &str,
        schema: &str,
        most_bytes: u64,
    ) -> std::result::Result<Self, Unusable> {
        place.prepare(name).map_err(|error| Unusable::Error(error.to_string()))?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_URI
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(place.uri(name), flags)?;
        let mut database = Self { connection, name: name.to_owned(), known: Known::default(), most_bytes };
        database.set_up(matches!(place, Place::Dir(_)))?;
        let version: i64 = database.connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let tables: i64 =
            database.connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        match (version, tables) {
            (0, 0) => database.create(schema)?,
            (VERSION, _) => database.check()?,
            _ => return Err(Unusable::Damaged(format!("it is of version {version} of its format"))),
        }
        database.limit_to(most_bytes)?;
        Ok(database)
    }

    fn set_up(&self, is_on_disk: bool) -> Result<()> {
        self.connection.busy_timeout(BUSY)?;
        // Only in a file that has nothing yet this does anything.
        self.connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        if is_on_disk {
            self.connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
            // What is in the file is always whole. After a power failure the last seconds may be missing.
            self.connection.pragma_update(None, "synchronous", "NORMAL")?;
            let pages = (self.most_bytes / PAGE / 16).clamp(16, MOST_WAL_PAGES);
            self.connection.pragma_update_and_check(
                None,
                "wal_autocheckpoint",
                pages.cast_signed(),
                |_| Ok(()),
            )?;
            let limit = pages * PAGE;
            self.connection.pragma_update_and_check(
                None,
                "journal_size_limit",
                limit.cast_signed(),
                |_| Ok(()),
            )?;
        } else {
            // A transaction that is taken back needs its journal.
            self.connection.pragma_update_and_check(None, "journal_mode", "MEMORY", |_| Ok(()))?;
        }
        self.connection.pragma_update(None, "cache_size", -512)?;
        self.connection.pragma_update(None, "temp_store", "MEMORY")?;
        self.connection.pragma_update(None, "trusted_schema", false)
    }

    fn create(&mut self, schema: &str) -> Result<()> {
        self.in_transaction(|database| {
            database.connection.execute_batch(names::SCHEMA)?;
            database.connection.execute_batch(schema)?;
            database.connection.pragma_update(None, "user_version", VERSION)
        })
    }

    /// Looks the file through, or as much of it as can be in the time.
    fn check(&mut self) -> std::result::Result<(), Unusable> {
        let end = Instant::now() + CHECK;
        self.connection.progress_handler(10_000, Some(move || Instant::now() > end))?;
        let said = self.connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
        self.connection.progress_handler(0, None::<fn() -> bool>)?;
        match said {
            Ok(said) if said == "ok" => Ok(()),
            Ok(said) => Err(Unusable::Damaged(said)),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// It takes no more than this from now on: what would need more fails.
    pub(crate) fn limit_to(&mut self, most_bytes: u64) -> Result<()> {
        self.most_bytes = most_bytes;
        let pages = (most_bytes / PAGE).max(16).cast_signed();
        self.connection.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))
    }

    /// Does this whole or not at all.
    pub(crate) fn in_transaction<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        let done = work(self).and_then(|done| self.connection.execute_batch("COMMIT").map(|()| done));
        if done.is_err() {
            // It may have been taken back already.
            let _ = self.connection.execute_batch("ROLLBACK");
            self.known = Known::default();
        }
        done
    }

    /// What of the file is in use, in bytes.
    pub(crate) fn used(&self) -> Result<u64> {
        Ok((self.pragma("page_count")? - self.pragma("freelist_count")?) * PAGE)
    }

    /// What the file takes, in bytes.
    pub(crate) fn bytes(&self) -> Result<u64> {
        Ok(self.pragma("page_count")? * PAGE)
    }

    /// Gives pages that are not used back to the file system.
    pub(crate) fn shrink(&self) -> Result<()> {
        // Each step gives one back.
        let mut vacuum = self.connection.prepare("PRAGMA incremental_vacuum(4096)")?;
        let mut pages = vacuum.query([])?;
        while pages.next()?.is_some() {}
        drop(pages);
        self.empty_wal()
    }

    /// Gets what waits beside the file into it.
    pub(crate) fn empty_wal(&self) -> Result<()> {
        self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
    }

    fn pragma(&self, name: &str) -> Result<u64> {
        self.connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map(i64::cast_unsigned)
    }
}
