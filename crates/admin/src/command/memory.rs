//! How much memory is kept, for whom, and how often there was none left, in `SHOW STATUS`.

use delphinus_memory::Account;

use super::status::{Gauge, Of};

/// What is taken of `memory_limit` at the moment, and how often something was refused since the start.
pub(super) const GAUGES: &[Gauge] = &[
    Gauge {
        name: "delphinus_memory_limit_bytes",
        help: "What may be kept, in all: memory_limit.",
        of: Of::Process(|now| now.console.parts.memory.limit()),
    },
    Gauge { name: "delphinus_memory_bytes", help: "What is kept, bytes.", of: Of::Owner(Account::used_by) },
    Gauge {
        name: "delphinus_memory_refused_total",
        help: "How often there was no room for something, in memory_limit or in the share of a session.",
        of: Of::Owner(Account::refused),
    },
];
