//! What a table has when a statement runs: rows that are filled in, or files that are read where they are.

use std::time::Duration;

use rusqlite::limits::Limit;
use rusqlite::{Connection, ErrorCode};

use crate::cell::Cell;
use crate::fault::Fault;
use crate::table::Table;

/// So many files a statement may read: SQLite attaches no more.
pub const MAX_FILES: u8 = 10;
/// A file that is being written just now is waited for.
const BUSY: Duration = Duration::from_secs(1);

/// What a table has.
#[derive(Debug, Clone)]
pub enum Content {
    /// These rows.
    Rows(Vec<Vec<Cell>>),
    /// What is in these files, which are read where they are: a condition that fits an index there reads no more than it has to.
    Files {
        /// Their URIs.
        uris: Vec<String>,
        /// What the table is over one of them, whose name stands as `{db}`.
        select: &'static str,
    },
}

impl From<Vec<Vec<Cell>>> for Content {
    fn from(rows: Vec<Vec<Cell>>) -> Self {
        Self::Rows(rows)
    }
}

/// The files that are attached for one statement.
#[derive(Default)]
pub(crate) struct Attached(Vec<String>);

/// What the name of an attached file begins with. No table has such a name.
const PREFIX: &str = "file_";

/// True for the name of an attached file.
pub(crate) fn is_attached(database: Option<&str>) -> bool {
    database.is_some_and(|name| name.starts_with(PREFIX))
}

impl Attached {
    /// Puts what these files have in the place of the empty table.
    pub(crate) fn put(
        &mut self,
        database: &Connection,
        table: &Table,
        (uris, select): (&[String], &str),
    ) -> Result<(), Fault> {
        let mut parts = Vec::new();
        for uri in uris {
            if let Some(name) = self.attach(database, uri)? {
                parts.push(select.replace("{db}", &name));
            }
        }
        if parts.is_empty() {
            return Ok(());
        }
        let columns: Vec<_> = table.columns.iter().map(|column| format!("\"{}\"", column.name)).collect();
        let (columns, parts) = (columns.join(", "), parts.join("\nUNION ALL "));
        // A temporary view hides the table of its name, and may be over other files.
        database.execute_batch(&format!("CREATE TEMP VIEW \"{}\" ({columns}) AS {parts}", table.name))?;
        Ok(())
    }

    /// The name of a file; `None` if it has gone since it was listed.
    fn attach(&mut self, database: &Connection, uri: &str) -> Result<Option<String>, Fault> {
        if let Some(at) = self.0.iter().position(|known| known == uri) {
            return Ok(Some(format!("{PREFIX}{at}")));
        }
        if self.0.len() == usize::from(MAX_FILES) {
            return Err(Fault::Files);
        }
        if self.0.is_empty() {
            database.set_limit(Limit::SQLITE_LIMIT_ATTACHED, MAX_FILES.into())?;
            database.busy_timeout(BUSY)?;
        }
        let name = format!("{PREFIX}{}", self.0.len());
        match database.execute(&format!("ATTACH ? AS {name}"), [uri]) {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::CannotOpen) => Ok(None),
            Err(error) => Err(error.into()),
            Ok(_) => {
                database.pragma_update(Some(name.as_str()), "cache_size", -512)?;
                self.0.push(uri.to_owned());
                Ok(Some(name))
            }
        }
    }
}
