//! One snapshot: what was counted by one moment. And how it is written.

use std::sync::Arc;

use rusqlite::{Result, params};

use crate::database::Database;
use crate::place::date_time;

/// What was counted by one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// When, in seconds since 1970.
    pub at: i64,
    /// When the process began, whose counters these are.
    pub started: i64,
    /// Which operator wanted it; `None`: it was time.
    pub by: Option<String>,
    /// How often digests had been reset.
    pub resets: u32,
    /// Names and values of counters.
    pub counters: Vec<(String, i64)>,
    /// What statements have cost.
    pub statements: Vec<StatementRow>,
}

/// By what statements are added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grouped {
    /// By backend.
    Backend,
    /// By user.
    User,
    /// By digest.
    Digest,
}

impl Grouped {
    fn as_str(self) -> &'static str {
        match self {
            Self::Backend => "backend",
            Self::User => "user",
            Self::Digest => "digest",
        }
    }
}

/// The names of the totals of statements, in their order.
pub const TOTALS: [&str; 12] = [
    "count",
    "errors",
    "total_us",
    "queue_us",
    "pool_us",
    "sync_us",
    "backend_us",
    "client_us",
    "rows_sent",
    "rows_affected",
    "bytes_received",
    "bytes_sent",
];

/// What statements that are alike have cost.
#[derive(Debug, Clone)]
pub struct StatementRow {
    /// In what they are alike.
    pub grouped: Grouped,
    /// The cluster.
    pub cluster: Option<Arc<str>>,
    /// The backend or the user; `None`: none, or the rest.
    pub name: Option<Arc<str>>,
    /// The digest; `None`: the rest, or another grouping.
    pub digest: Option<u64>,
    /// Its text.
    pub text: Option<Arc<str>>,
    /// In the order of [`TOTALS`].
    pub totals: [i64; TOTALS.len()],
    /// How their times are spread.
    pub histogram: String,
}

pub(crate) const SCHEMA: &str = "
CREATE TABLE snapshots(id INTEGER PRIMARY KEY AUTOINCREMENT, unix_s INTEGER NOT NULL, at TEXT NOT NULL, started TEXT NOT NULL,
  operator TEXT, resets INTEGER NOT NULL);
CREATE INDEX snapshots_at ON snapshots(at);
CREATE TABLE counters(snapshot INTEGER, name INTEGER, value INTEGER, PRIMARY KEY(snapshot, name)) WITHOUT ROWID;
CREATE TABLE statements(snapshot INTEGER, n INTEGER, grouped TEXT, cluster INTEGER, name INTEGER, digest INTEGER,
  count, errors, total_us, queue_us, pool_us, sync_us, backend_us, client_us, rows_sent, rows_affected, bytes_received,
  bytes_sent, histogram TEXT, PRIMARY KEY(snapshot, n)) WITHOUT ROWID;
";

/// Where snapshots have names.
pub(crate) const NAMES: [(&str, &str); 3] =
    [("statements", "cluster"), ("statements", "name"), ("counters", "name")];

/// Writes a snapshot; its number.
pub(crate) fn add(database: &mut Database, snapshot: &Snapshot) -> Result<i64> {
    database.in_transaction(|database| {
        database.connection.execute(
            "INSERT INTO snapshots(unix_s, at, started, operator, resets) VALUES (?, ?, ?, ?, ?)",
            params![
                snapshot.at,
                date_time(snapshot.at),
                date_time(snapshot.started),
                snapshot.by,
                snapshot.resets
            ],
        )?;
        let id = database.connection.last_insert_rowid();
        for (name, value) in &snapshot.counters {
            let name = database.name(Some(name))?;
            database
                .connection
                .execute("INSERT OR REPLACE INTO counters VALUES (?, ?, ?)", params![id, name, value])?;
        }
        for (n, row) in (0_i64..).zip(&snapshot.statements) {
            add_statements(database, (id, n), row)?;
        }
        Ok(id)
    })
}

fn add_statements(database: &mut Database, (id, n): (i64, i64), row: &StatementRow) -> Result<()> {
    let cluster = database.name(row.cluster.as_deref())?;
    let name = database.name(row.name.as_deref())?;
    if let Some(digest) = row.digest {
        database.text(digest, || row.text.clone())?;
    }
    let t = &row.totals;
    let digest = row.digest.map(u64::cast_signed);
    database.connection.execute(
        "INSERT INTO statements VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        params![
            id,
            n,
            row.grouped.as_str(),
            cluster,
            name,
            digest,
            t[0],
            t[1],
            t[2],
            t[3],
            t[4],
            t[5],
            t[6],
            t[7],
            t[8],
            t[9],
            t[10],
            t[11],
            row.histogram
        ],
    )?;
    Ok(())
}

/// Deletes the oldest snapshot if it is older than `before`, or whatever its age if `anyway`; true if there was one.
pub(crate) fn delete_oldest(database: &mut Database, before: i64, anyway: bool) -> Result<bool> {
    let oldest: Option<i64> = database.connection.query_row(
        "SELECT min(id) FROM snapshots WHERE ?1 OR unix_s < ?2",
        params![anyway, before],
        |row| row.get(0),
    )?;
    let Some(id) = oldest else { return Ok(false) };
    database.in_transaction(|database| {
        for sql in [
            "DELETE FROM statements WHERE snapshot = ?",
            "DELETE FROM counters WHERE snapshot = ?",
            "DELETE FROM snapshots WHERE id = ?",
        ] {
            database.connection.execute(sql, [id])?;
        }
        Ok(true)
    })
}
