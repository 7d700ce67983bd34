//! The sequences whose values a text takes and reads.

use std::collections::HashSet;

use super::{TableName, name_text};
use crate::LexOptions;
use crate::classify::walk;
use crate::event::{Event, Qualified};

/// The sequences whose values a text takes and reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sequences {
    /// Those of `NEXTVAL()` and its other forms.
    pub taken: HashSet<TableName>,
    /// Those of `LASTVAL()` and its other forms, but where the text itself has taken a value of the sequence by then.
    pub read: Vec<LastValue>,
}

/// A sequence whose last value is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastValue {
    /// Its name, if that was found.
    pub sequence: Option<TableName>,
    /// It is `s.currval`: a column, but in MariaDB's mode for Oracle.
    pub is_member: bool,
}

/// The sequences whose values the text takes and reads.
pub fn sequences(sql: &[u8], options: LexOptions) -> Sequences {
    let mut sequences = Sequences::default();
    walk(sql, options, |event| sequences.take(&event, sql, options));
    sequences
}

impl Sequences {
    pub(crate) fn take(&mut self, event: &Event, sql: &[u8], options: LexOptions) {
        let text = |name: Qualified| TableName {
            schema: name.schema.map(|schema| name_text(schema, sql, options)),
            name: name_text(name.name, sql, options),
        };
        match *event {
            Event::TakesValue(sequence) => _ = self.taken.insert(text(sequence)),
            Event::ReadsValue { sequence, is_member } => {
                let sequence = sequence.map(text);
                if sequence.as_ref().is_none_or(|sequence| !self.taken.contains(sequence)) {
                    self.read.push(LastValue { sequence, is_member });
                }
            }
            _ => {}
        }
    }
}
