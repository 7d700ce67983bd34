//! The prepared statements of SQL that a text makes and drops.

use super::name_text;
use crate::LexOptions;
use crate::classify::walk;
use crate::event::Event;

/// Names of SQL prepared statements: lower-case, since servers compare them without case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SqlPrepared {
    /// Made by `PREPARE`.
    pub made: Vec<String>,
    /// Dropped by `DEALLOCATE PREPARE` or `DROP PREPARE`.
    pub dropped: Vec<String>,
}

/// The prepared statements of SQL that the text makes and drops.
pub fn sql_prepared(sql: &[u8], options: LexOptions) -> SqlPrepared {
    let mut prepared = SqlPrepared::default();
    walk(sql, options, |event| match event {
        Event::Prepares(name) => prepared.made.push(name_text(name, sql, options).to_lowercase()),
        Event::Deallocates(name) => prepared.dropped.push(name_text(name, sql, options).to_lowercase()),
        _ => {}
    });
    prepared
}
