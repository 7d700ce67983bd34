//! Names and texts of one file: each is stored once, and rows have its number.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rusqlite::{OptionalExtension, Result, params};

use crate::database::Database;

pub(crate) const SCHEMA: &str = "
CREATE TABLE names(id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE texts(digest INTEGER PRIMARY KEY, text TEXT NOT NULL);
";

/// So many names are remembered beside the file.
const REMEMBERED: usize = 4096;
/// A file has no more names than this: clients may come from many addresses, and with many schemas.
const MOST_NAMES: i64 = 50_000;
/// What stands for all others.
const OTHERS: &str = "(others)";
/// Names are cut to so many bytes.
const LONGEST: usize = 256;
/// A quarter of a file, at most, is for texts.
const PART_OF_TEXTS: u64 = 4;

/// What is known of a file's names without looking.
#[derive(Debug, Default)]
pub(crate) struct Known {
    names: HashMap<Box<str>, i64>,
    digests: HashSet<u64>,
    /// How many names there are.
    count: Option<i64>,
    /// What the texts take, in bytes.
    text_bytes: Option<u64>,
}

impl Database {
    /// The number of a name.
    pub(crate) fn name(&mut self, name: Option<&str>) -> Result<Option<i64>> {
        let Some(name) = name else { return Ok(None) };
        let name = &name[..name.floor_char_boundary(LONGEST)];
        if let Some(id) = self.known.names.get(name) {
            return Ok(Some(*id));
        }
        if self.known.names.len() >= REMEMBERED {
            self.known.names.clear();
        }
        let found = self
            .connection
            .query_row("SELECT id FROM names WHERE name = ?", [name], |row| row.get(0))
            .optional()?;
        let id = match found {
            Some(id) => id,
            None if name != OTHERS && self.count()? >= MOST_NAMES => return self.name(Some(OTHERS)),
            None => {
                let count = self.count()? + 1;
                self.connection.execute("INSERT INTO names(name) VALUES (?)", [name])?;
                self.known.count = Some(count);
                self.connection.last_insert_rowid()
            }
        };
        self.known.names.insert(name.into(), id);
        Ok(Some(id))
    }

    /// The name with this number.
    pub(crate) fn name_of(&self, id: Option<i64>) -> Result<Option<String>> {
        let Some(id) = id else { return Ok(None) };
        self.connection.query_row("SELECT name FROM names WHERE id = ?", [id], |row| row.get(0)).optional()
    }

    /// Keeps the text of a digest, if there is room.
    pub(crate) fn text(&mut self, digest: u64, text: impl FnOnce() -> Option<Arc<str>>) -> Result<()> {
        if self.known.digests.contains(&digest) {
            return Ok(());
        }
        if self.known.digests.len() >= REMEMBERED {
            self.known.digests.clear();
        }
        if self.text_of(digest)?.is_none() {
            let Some(text) = text() else { return Ok(()) };
            let bytes = self.text_bytes()? + text.len() as u64;
            if bytes <= self.most_bytes / PART_OF_TEXTS {
                let key = digest.cast_signed();
                self.connection.execute("INSERT INTO texts VALUES (?, ?)", params![key, &*text])?;
                self.known.text_bytes = Some(bytes);
            }
        }
        self.known.digests.insert(digest);
        Ok(())
    }

    /// The text of a digest.
    pub(crate) fn text_of(&self, digest: u64) -> Result<Option<String>> {
        let key = digest.cast_signed();
        self.connection
            .query_row("SELECT text FROM texts WHERE digest = ?", [key], |row| row.get(0))
            .optional()
    }

    fn text_bytes(&mut self) -> Result<u64> {
        if let Some(bytes) = self.known.text_bytes {
            return Ok(bytes);
        }
        let sum = "SELECT coalesce(sum(length(CAST(text AS BLOB))), 0) FROM texts";
        let bytes = self.connection.query_row(sum, [], |row| row.get::<_, i64>(0))?.cast_unsigned();
        self.known.text_bytes = Some(bytes);
        Ok(bytes)
    }

    fn count(&mut self) -> Result<i64> {
        if let Some(count) = self.known.count {
            return Ok(count);
        }
        let count = self.connection.query_row("SELECT count(*) FROM names", [], |row| row.get(0))?;
        self.known.count = Some(count);
        Ok(count)
    }

    /// Deletes texts that none of these rows has any more, and names that are in none of these columns, if there are many.
    pub(crate) fn forget_unused(&mut self, rows: &str, columns: &[(&str, &str)]) -> Result<()> {
        let is_full = self.text_bytes()? > self.most_bytes / PART_OF_TEXTS / 2;
        if !is_full && self.count()? < MOST_NAMES / 2 {
            return Ok(());
        }
        let one = |(table, column): &(&str, &str)| {
            format!("SELECT {column} FROM {table} WHERE {column} IS NOT NULL")
        };
        let used = columns.iter().map(one);
        let used = used.collect::<Vec<_>>().join(" UNION ");
        self.in_transaction(|database| {
            database.connection.execute(&format!("DELETE FROM names WHERE id NOT IN ({used})"), [])?;
            let texts = format!(
                "DELETE FROM texts WHERE digest NOT IN (SELECT digest FROM {rows} WHERE digest IS NOT NULL)"
            );
            database.connection.execute(&texts, [])?;
            Ok(())
        })?;
        self.known = Known::default();
        Ok(())
    }
}
