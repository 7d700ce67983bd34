//! How columns of text are described in an answer of the proxy's own: as the servers of the cluster describe theirs.

use delphinus_sql::Flavor;
use delphinus_state::{HiddenCollation, RESULTS_COLLATION};
use delphinus_topology::Snapshot;
use delphinus_wire::response::Column;

use crate::state::Wanted;

/// What the servers of this cluster say about columns of text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextShape {
    /// Id of the default collation of the client's `character_set_results`.
    pub collation: u16,
    /// "Not fixed": 31, and 39 in newer MariaDB servers.
    pub decimals: u8,
}

impl TextShape {
    /// That of a session in this state.
    pub(crate) fn of(state: &Wanted, snapshot: &Snapshot) -> Self {
        let charset = state.want.vars.get("character_set_results").map(|name| String::from_utf8_lossy(name));
        // Not converted at all: the names and texts are in the servers' own character set then.
        let charset =
            charset.as_deref().map_or("utf8mb4", |name| if name.is_empty() { "utf8mb3" } else { name });
        let facts = snapshot.facts.as_ref();
        let usual = || facts.and_then(|facts| facts.collations.default_of(charset)).map(|found| found.id);
        let collation = state
            .want
            .vars
            .get(RESULTS_COLLATION)
            .map_or_else(usual, |value| HiddenCollation::from_value(value).map(|hidden| hidden.number));
        let decimals = if state.flavor() == Flavor::MariaDb { 39 } else { 31 };
        Self { collation: collation.unwrap_or(45), decimals }
    }

    /// A column of at most so many characters.
    pub(crate) fn column(self, name: &[u8], chars: u32) -> Column {
        Column { decimals: self.decimals, ..Column::text(name, chars, self.collation) }
    }
}
