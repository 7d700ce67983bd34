//! Rows by moments: samples by second, sums by minute and by hour. What the three have in common, and how a sample is written.

use std::sync::Arc;

use rusqlite::{Result, params, params_from_iter};

use crate::database::Database;
use crate::place::date_time;
use crate::sample::{Row, Sample};

/// How the rows of one kind of file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    /// What makes its tables.
    pub(crate) schema: &'static str,
    /// How many sessions, or samples, a row stands for.
    pub(crate) weight: &'static str,
    /// The longest command of a row.
    pub(crate) longest: &'static str,
    /// True for rows of the rest.
    pub(crate) is_rest: &'static str,
}

macro_rules! moments {
    ($rows:literal) => {
        concat!(
            "CREATE TABLE moments(id INTEGER PRIMARY KEY, at TEXT NOT NULL UNIQUE);",
            "CREATE TABLE meta(name TEXT PRIMARY KEY, value INTEGER) WITHOUT ROWID;",
            "CREATE TABLE rows(moment INTEGER NOT NULL, n INTEGER NOT NULL, ",
            $rows,
            ", PRIMARY KEY(moment, n)) WITHOUT ROWID;"
        )
    };
}

/// Samples.
pub(crate) const RAW: Kind = Kind {
    schema: moments!(
        "session INTEGER, sessions INTEGER, command INTEGER, user INTEGER, client INTEGER, cluster INTEGER, schema INTEGER, \
         digest INTEGER, kind INTEGER, state INTEGER, class INTEGER, event INTEGER, backend INTEGER, thread INTEGER, \
         route INTEGER, pin INTEGER, in_state_us INTEGER, in_command_us INTEGER, transaction_us INTEGER"
    ),
    weight: "sessions",
    longest: "in_command_us",
    is_rest: "session IS NULL",
};

/// Minutes and hours.
pub(crate) const ROLLED: Kind = Kind {
    schema: moments!(
        "rest INTEGER NOT NULL, user INTEGER, cluster INTEGER, schema INTEGER, digest INTEGER, state INTEGER, class INTEGER, \
         backend INTEGER, samples INTEGER NOT NULL, longest_us INTEGER NOT NULL"
    ),
    weight: "samples",
    longest: "longest_us",
    is_rest: "rest",
};

/// Where minutes and hours have names.
pub(crate) const ROLLED_NAMES: [(&str, &str); 6] = [
    ("rows", "user"),
    ("rows", "cluster"),
    ("rows", "schema"),
    ("rows", "state"),
    ("rows", "class"),
    ("rows", "backend"),
];

impl Database {
    /// Notes that there are rows of a moment.
    pub(crate) fn moment(&self, at: i64) -> Result<()> {
        self.connection.execute("INSERT OR IGNORE INTO moments VALUES (?, ?)", params![at, date_time(at)])?;
        Ok(())
    }

    /// The first moment from this one on that has rows.
    pub(crate) fn next_moment(&self, from: i64) -> Result<Option<i64>> {
        self.connection.query_row("SELECT min(id) FROM moments WHERE id >= ?", [from], |row| row.get(0))
    }

    /// Deletes the rows of the oldest moments before this one, of so many at most; how many there were.
    pub(crate) fn delete_oldest(&mut self, before: i64, most: u32) -> Result<usize> {
        let last: Option<i64> = self.connection.query_row(
            "SELECT max(id) FROM (SELECT id FROM moments WHERE id < ? ORDER BY id LIMIT ?)",
            params![before, most],
            |row| row.get(0),
        )?;
        let Some(last) = last else { return Ok(0) };
        self.delete(i64::MIN, last + 1)
    }

    /// Deletes the rows of these moments; how many moments there were.
    pub(crate) fn delete(&mut self, from: i64, before: i64) -> Result<usize> {
        self.in_transaction(|database| {
            let span = params![from, before];
            database.connection.execute("DELETE FROM rows WHERE moment >= ? AND moment < ?", span)?;
            database.connection.execute("DELETE FROM moments WHERE id >= ? AND id < ?", span)
        })
    }

    /// A number that is kept with the rows.
    pub(crate) fn mark(&self) -> Result<Option<i64>> {
        self.connection
            .query_row("SELECT max(value) FROM meta WHERE name = 'rolled_to'", [], |row| row.get(0))
    }

    /// Keeps it.
    pub(crate) fn set_mark(&self, at: i64) -> Result<()> {
        self.connection.execute("INSERT OR REPLACE INTO meta VALUES ('rolled_to', ?)", [at])?;
        Ok(())
    }

    /// Writes the rows of a sample.
    pub(crate) fn add(&mut self, sample: &Sample, text_of: &dyn Fn(u64) -> Option<Arc<str>>) -> Result<()> {
        if sample.rows.is_empty() {
            return Ok(());
        }
        self.moment(sample.at)?;
        // A clock that was set back has been here before.
        let first: i64 = self.connection.query_row(
            "SELECT coalesce(max(n) + 1, 0) FROM rows WHERE moment = ?",
            [sample.at],
            |row| row.get(0),
        )?;
        let mut names = Vec::with_capacity(sample.rows.len());
        for row in &sample.rows {
            names.push(self.names_of(row)?);
            if let Some(digest) = row.digest {
                self.text(digest, || text_of(digest))?;
            }
        }
        let mut insert = self.connection.prepare(
            "INSERT INTO rows(moment, n, session, sessions, command, digest, thread, in_state_us, in_command_us, transaction_us, \
             user, client, cluster, schema, kind, state, class, event, backend, route, pin) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?;
        for ((n, row), names) in (first..).zip(&sample.rows).zip(names) {
            let numbers = [
                Some(sample.at),
                Some(n),
                row.session.map(i64::from),
                Some(row.sessions.into()),
                Some(row.command.into()),
                row.digest.map(u64::cast_signed),
                row.backend_thread.map(i64::from),
                Some(row.in_state_us.cast_signed()),
                Some(row.in_command_us.cast_signed()),
                row.transaction_us.map(u64::cast_signed),
            ];
            insert.execute(params_from_iter(numbers.into_iter().chain(names)))?;
        }
        Ok(())
    }

    /// The numbers of a row's names.
    fn names_of(&mut self, row: &Row) -> Result<[Option<i64>; 11]> {
        Ok([
            self.name(row.user.as_deref())?,
            self.name(row.client.as_deref())?,
            self.name(row.cluster.as_deref())?,
            self.name(row.schema.as_deref())?,
            self.name(row.kind)?,
            self.name(Some(row.state))?,
            self.name(row.wait_class)?,
            self.name(row.wait_event)?,
            self.name(row.backend.as_deref())?,
            self.name(row.route)?,
            self.name(row.pin)?,
        ])
    }
}
