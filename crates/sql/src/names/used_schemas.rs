//! The schemas that `USE` makes current.

use super::name_text;
use crate::LexOptions;
use crate::classify::walk;
use crate::event::Event;

/// The schema of each `USE` in the text, in order; case kept.
pub fn used_schemas(sql: &[u8], options: LexOptions) -> Vec<String> {
    let mut schemas = Vec::new();
    walk(sql, options, |event| {
        if let Event::Uses(name) = event {
            schemas.push(name_text(name, sql, options));
        }
    });
    schemas
}
