//! The temporary tables that a text makes and drops.

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

/// The temporary tables that a text makes and the tables that it drops.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemporaryTables {
    /// Made by `CREATE TEMPORARY TABLE`.
    pub created: Vec<TableName>,
    /// Named by `DROP [TEMPORARY] TABLE`; those that are not temporary are among them.
    pub dropped: Vec<TableName>,
}

/// The temporary tables that the text makes, and the tables that it drops.
pub fn temporary_tables(sql: &[u8], options: LexOptions) -> TemporaryTables {
    let mut tables = TemporaryTables::default();
    walk(sql, options, |event| tables.take(&event, sql, options));
    tables
}

impl TemporaryTables {
    pub(crate) fn take(&mut self, event: &Event, sql: &[u8], options: LexOptions) {
        let text = |table: Qualified| TableName {
            schema: table.schema.map(|schema| name_text(schema, sql, options)),
            name: name_text(table.name, sql, options),
        };
        match *event {
            Event::CreatesTemporary(table) => self.created.push(text(table)),
            Event::DropsTable(table) => self.dropped.push(text(table)),
            _ => {}
        }
    }
}
