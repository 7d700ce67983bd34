//! The table `filters`.

use delphinus_route::{Filter, FilterAction};
use delphinus_tables::{self as tables, Column};

use crate::cluster::ClusterView;
use crate::source::{Cells, Provider, Source};
use crate::table::{number, text};
use crate::users::AdminRole;

pub(crate) static FILTERS: Source = Source {
    table: tables::Table {
        name: "filters",
        help: "The filters of each cluster, and how many statements each has matched.",
        columns: &[
            Column::text("name", "Its name."),
            Column::text("statement", "What it is about, in the words of the configuration."),
            Column::text("action", "What happens with it: off, log or reject."),
            Column::text(
                "unseen",
                "What happens with statements that the proxy cannot see whole: allow, log or reject.",
            ),
            Column::text("user", "The users that it is about; empty: all."),
            Column::integer("rejected", "", "Statements that it has refused."),
            Column::integer("logged", "", "Statements that it has logged."),
            Column::text("cluster", "The cluster."),
        ],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Now(|console| console.clusters().flat_map(|(_, cluster)| filters_of(cluster)).collect()),
};

fn filters_of(cluster: &ClusterView) -> Cells {
    let row = |filter: &Filter| {
        vec![
            text(&filter.name),
            text(filter.risks.words().collect::<Vec<_>>().join("|")),
            text(word(filter.action, "off")),
            text(word(filter.unseen, "allow")),
            text(filter.users.join("|")),
            number(filter.rejected()),
            number(filter.logged()),
            text(&cluster.name),
        ]
    };
    (cluster.routing)().0.filters.iter().map(row).collect()
}

/// The word for what is done; `off` is that for doing nothing.
fn word(action: FilterAction, off: &'static str) -> &'static str {
    match action {
        FilterAction::Off => off,
        FilterAction::Log => "log",
        FilterAction::Reject => "reject",
    }
}
