//! The temporary tables that a text makes, renames and drops.

use super::name_text;
use crate::LexOptions;
use crate::classify::walk;
use crate::event::{Event, Qualified};

/// A table as the text names it; quotes removed, case kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TableName {
    /// The schema, where the text names one.
    pub schema: Option<String>,
    /// The table.
    pub name: String,
}

/// What a text does to a table that may be temporary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableChange {
    /// `CREATE TEMPORARY TABLE`.
    Creates(TableName),
    /// `DROP [TEMPORARY] TABLE`.
    Drops(TableName),
    /// `ALTER TABLE .. RENAME`, `RENAME TABLE`, of any.
    Renames,
}

/// What the text does to tables that may be temporary, in its order.
pub fn temporary_tables(sql: &[u8], options: LexOptions) -> Vec<TableChange> {
    let mut changes = Vec::new();
    walk(sql, options, |event| changes.extend(TableChange::of(&event, sql, options)));
    changes
}

impl TableChange {
    pub(crate) fn of(event: &Event, sql: &[u8], options: LexOptions) -> Option<Self> {
        let text = |table: Qualified| TableName {
            schema: table.schema.map(|schema| name_text(schema, sql, options)),
            name: name_text(table.name, sql, options),
        };
        match *event {
            Event::CreatesTemporary(table) => Some(Self::Creates(text(table))),
            Event::DropsTable(table) => Some(Self::Drops(text(table))),
            Event::RenamesTable => Some(Self::Renames),
            _ => None,
        }
    }
}
