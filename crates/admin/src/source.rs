//! The proxy's tables: what each is, and where its rows come from. The one list of them.

use std::pin::Pin;

use delphinus_history::Stored;
use delphinus_tables::{Catalog, Cell, Content, Reads, Table};

use crate::answer::Refused;
use crate::audit;
use crate::command::{
    activity, backends, cache, cache_digests, cache_streams, clusters, digests, doctor, filters, help,
    limits, logs, memory, pause, pools, relay_fences, relay_replicas, relays, route, sessions, settings,
    snapshots, status, switchover, vips,
};
use crate::console::Console;
use crate::functions::FUNCTIONS;
use crate::users::AdminRole;
use crate::views;

/// Rows, each with the cells of its table's stored columns.
pub(crate) type Cells = Vec<Vec<Cell>>;

/// Rows that others are asked for.
pub(crate) type Filling<'a> = Pin<Box<dyn Future<Output = Result<Cells, Refused>> + 'a>>;

/// A table with its rows.
pub(crate) struct Source {
    pub(crate) table: Table,
    /// Who may read it, and views over it.
    pub(crate) role: AdminRole,
    pub(crate) rows: Provider,
}

/// Where rows come from.
pub(crate) enum Provider {
    /// From what is published.
    Now(fn(&Console) -> Cells),
    /// By asking others. What a statement reads is given, so that nobody is asked for what it does not; `None`: all is read.
    Asking(for<'a> fn(&'a Console, Option<&'a Reads>) -> Filling<'a>),
    /// They lie in files, and are read there by the statement itself: there may be many.
    Stored(Stored),
}

/// All tables that have rows of their own, in the order of the reference.
pub(crate) static SOURCES: [&Source; 42] = [
    &clusters::CLUSTERS,
    &backends::BACKENDS,
    &sessions::SESSIONS,
    &sessions::PINS,
    &sessions::WAITERS,
    &pause::PAUSES,
    &switchover::SWITCHOVERS,
    &pools::POOLS,
    &settings::USERS,
    &settings::LISTENERS,
    &route::RULES,
    &filters::FILTERS,
    &limits::LIMITS,
    &vips::VIPS,
    &vips::MEMBERS,
    &vips::CHECKS,
    &relays::RELAYS,
    &relays::FILES,
    &relay_replicas::REPLICAS,
    &relay_fences::FENCES,
    &cache::CACHE,
    &cache_digests::CACHE_DIGESTS,
    &cache_streams::CACHE_STREAMS,
    &digests::DIGESTS,
    &digests::DIGESTS_BY_ORIGIN,
    &digests::STATEMENTS_BY_BACKEND,
    &digests::STATEMENTS_BY_USER,
    &logs::LOGS,
    &activity::ACTIVITY,
    &activity::MINUTES,
    &activity::HOURS,
    &activity::STORAGE,
    &snapshots::SNAPSHOTS,
    &snapshots::COUNTERS,
    &snapshots::STATEMENTS,
    &status::STATUS,
    &memory::MEMORY,
    &doctor::DOCTOR,
    &settings::CONFIG,
    &settings::VERSION,
    &help::COMMANDS_TABLE,
    &audit::AUDIT,
];

/// All tables and views.
pub(crate) fn catalog() -> Catalog {
    Catalog::new(SOURCES.iter().map(|source| &source.table).chain(&views::VIEWS)).with(&FUNCTIONS)
}

impl Source {
    /// The one with the rows of this table.
    pub(crate) fn of(table: &Table) -> Option<&'static Self> {
        SOURCES.iter().copied().find(|source| source.table.name == table.name)
    }

    /// An error if this role may not read it.
    pub(crate) fn allow(&self, role: AdminRole) -> Result<(), Refused> {
        let denied = || Refused::table(self.table.name, self.role.as_str());
        (role >= self.role).then_some(()).ok_or_else(denied)
    }

    /// The rows of this moment.
    pub(crate) async fn fill(&self, console: &Console, reads: Option<&Reads>) -> Result<Cells, Refused> {
        match self.rows {
            Provider::Now(rows) => Ok(rows(console)),
            Provider::Asking(rows) => rows(console, reads).await,
            Provider::Stored(_) => Err(Refused::because("read this table by SELECT")),
        }
    }

    /// What the table has for a statement.
    pub(crate) async fn content(&self, console: &Console, reads: &Reads) -> Result<Content, Refused> {
        match self.rows {
            Provider::Stored(stored) => {
                let uris = stored.files(&console.parts.history.files()).to_vec();
                Ok(Content::Files { uris, select: stored.select() })
            }
            _ => self.fill(console, Some(reads)).await.map(Content::Rows),
        }
    }
}

#[cfg(test)]
mod tests;
