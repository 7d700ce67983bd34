//! The user variables that a text assigns.

use std::collections::HashSet;

use super::user_variable_name;
use crate::LexOptions;
use crate::classify::walk;
use crate::event::Event;

/// The user variables that the text may assign (`SET @a = ..`, `:=`, `INTO @a`, `CALL p(@a)`, fields of `LOAD DATA`):
/// lower-case, without `@` and quotes, each once, in the order of the text.
pub fn user_variables_assigned(sql: &[u8], options: LexOptions) -> Vec<String> {
    let (mut names, mut seen) = (Vec::new(), HashSet::new());
    walk(sql, options, |event| {
        if let Event::UserVariable(token) = event {
            let name = user_variable_name(token, sql, options);
            if seen.insert(name.clone()) {
                names.push(name);
            }
        }
    });
    names
}
