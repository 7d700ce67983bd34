//! How much memory is kept, for whom, and how often there was none left: in `SHOW STATUS`, and as the table `memory`.

use delphinus_memory::{Account, Owner};
use delphinus_tables::{Column, Table};

use super::status::{Gauge, Of};
use crate::source::{Provider, Source};
use crate::table::{number, text};
use crate::users::AdminRole;

/// What is taken of `memory_limit` at the moment, and how often something was refused since the start.
pub(super) const GAUGES: &[Gauge] = &[
    Gauge {
        name: "delphinus_memory_limit_bytes",
        help: "The limit on all memory that is kept: memory_limit.",
        of: Of::Process(|now| now.console.parts.memory.limit()),
    },
    Gauge {
        name: "delphinus_memory_bytes",
        help: "The memory that is kept, bytes.",
        of: Of::Owner(Account::used_by),
    },
    Gauge {
        name: "delphinus_memory_refused_total",
        help: "How often memory was refused, by memory_limit or by the share of a session.",
        of: Of::Owner(Account::refused),
    },
];

pub(crate) static MEMORY: Source = Source {
    table: Table {
        name: "memory",
        help: "The memory in use under memory_limit, by owner; docs/limits.md says what each keeps.",
        columns: &[
            Column::text("owner", "What the memory is for."),
            Column::integer("bytes", "bytes", "The memory in use now."),
            Column::integer("refused", "", "How often memory was refused since the start."),
            Column::integer("limit_bytes", "bytes", "memory_limit, which all owners share."),
        ],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Now(|console| {
        let account = &console.parts.memory;
        let row = |owner: Owner| {
            let numbers = [account.used_by(owner), account.refused(owner), account.limit()];
            [text(owner.as_str())].into_iter().chain(numbers.map(number)).collect()
        };
        Owner::ALL.map(row).to_vec()
    }),
};
