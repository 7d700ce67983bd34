//! What a `KILL` is aimed at.

use crate::LexOptions;
use crate::classify::walk;
use crate::event::Event;

/// What a `KILL` is aimed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    /// The connection id as the client wrote it.
    pub id: u64,
    /// How much of it ends.
    pub scope: KillScope,
}

/// How much a `KILL` ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillScope {
    /// The running statement.
    Query,
    /// The connection.
    Connection,
}

/// The target of a text that is one `KILL` with a literal connection id; `None` for every other form (an expression,
/// MariaDB's `KILL USER` and `KILL QUERY ID`, several statements).
pub fn kill_target(sql: &[u8], options: LexOptions) -> Option<Kill> {
    let mut target = None;
    let statement = walk(sql, options, |event| {
        if let Event::Kills { id, only_query } = event {
            let scope = if only_query { KillScope::Query } else { KillScope::Connection };
            let number = std::str::from_utf8(&sql[id.start..id.end]).ok().and_then(|text| text.parse().ok());
            target = number.map(|id| Kill { id, scope });
        }
    });
    if statement.count == 1 { target } else { None }
}
