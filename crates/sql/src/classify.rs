//! Text to [`Statement`].

use crate::{Access, Class, Effects, LexOptions, Statement, Uses, Why};

/// What the text is, where it may run, and what it does to its session.
pub fn classify(sql: &[u8], options: LexOptions) -> Statement {
    let _ = (sql, options);
    Statement {
        class: Class::Unknown,
        access: Access::Write,
        why: Why::Unclassified,
        effects: Effects::UNKNOWN,
        uses: Uses::empty(),
        count: 1,
    }
}
