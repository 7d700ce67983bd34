//! The schema that a `USE` makes current.

use super::name_text;
use crate::LexOptions;
use crate::classify::walk;
use crate::event::Event;

/// The schema that the session has after the text's last `USE`; case kept.
pub fn used_schema(sql: &[u8], options: LexOptions) -> Option<String> {
    let mut schema = None;
    walk(sql, options, |event| {
        if let Event::Uses(name) = event {
            schema = Some(name_text(name, sql, options));
        }
    });
    schema
}
