//! `SHOW STATUS`: what is counted, and what is so at the moment; and the reference page of both.

mod reference;

use std::sync::Arc;

use delphinus_clients::{Activity, Attendance, ClientLimits};
use delphinus_memory::{Account, Owner};
use delphinus_net::rt;
use delphinus_pool::Budget;
use delphinus_tables::{Cell, Column, Table};
use delphinus_telemetry::{CLUSTER, Sample, series};
use delphinus_topology::{Backend, ClusterId};

use super::{cache, memory};
use crate::console::Console;
use crate::source::{Cells, Provider, Source};
use crate::table::{number, text};
use crate::time::seconds_since;
use crate::users::AdminRole;

pub use reference::reference;

/// The label of what is so for each backend.
const BACKEND: &str = "backend";

/// The label of what is so for each owner of memory.
const OWNER: &str = "owner";

/// A number that is so at the moment.
pub(crate) struct Gauge {
    pub(crate) name: &'static str,
    /// What it is, with its unit.
    pub(crate) help: &'static str,
    pub(super) of: Of,
}

/// What a gauge is about.
pub(crate) enum Of {
    Process(fn(&Now<'_>) -> u64),
    Cluster(fn(&Now<'_>, ClusterId) -> u64),
    Backend(fn(&Backend, &Budget) -> u64),
    Owner(fn(&Account, Owner) -> u64),
}

/// What gauges are read from.
pub(crate) struct Now<'a> {
    pub(super) console: &'a Console,
    sessions: Vec<Arc<Activity>>,
    limits: ClientLimits,
    attendance: Attendance,
}

const GAUGES: &[Gauge] = &[
    Gauge {
        name: "delphinus_uptime_seconds",
        help: "Seconds since the start.",
        of: Of::Process(|now| seconds_since(now.console.started, rt::now())),
    },
    Gauge {
        name: "delphinus_clients",
        help: "Clients connected, logged in or not.",
        of: Of::Process(|now| now.console.parts.registry.connected().into()),
    },
    Gauge {
        name: "delphinus_offline",
        help: "1 while the proxy is set OFFLINE: no new clients are let in.",
        of: Of::Process(|now| now.console.parts.registry.is_offline().into()),
    },
    Gauge {
        name: "delphinus_clients_max",
        help: "Most clients at the same time.",
        of: Of::Process(|now| now.limits.max_connections.into()),
    },
    Gauge {
        name: "delphinus_clients_reserved",
        help: "Of these, kept for users with connection_admin.",
        of: Of::Process(|now| now.limits.reserved.into()),
    },
    Gauge {
        name: "delphinus_user_connections_max",
        help: "Most clients of a user without a limit of its own; 0: no limit.",
        of: Of::Process(|now| now.limits.per_user.unwrap_or(0).into()),
    },
    Gauge {
        name: "delphinus_address_connections_max",
        help: "Most clients of an address; 0: no limit.",
        of: Of::Process(|now| now.limits.per_address.unwrap_or(0).into()),
    },
    Gauge {
        name: "delphinus_address_connections",
        help: "Clients of the address that has the most.",
        of: Of::Process(|now| now.attendance.busiest_address.into()),
    },
    Gauge {
        name: "delphinus_logins_pending",
        help: "Clients that have not logged in yet.",
        of: Of::Process(|now| now.attendance.logins.into()),
    },
    Gauge {
        name: "delphinus_sessions_admin",
        help: "Sessions of users with connection_admin.",
        of: Of::Process(|now| now.attendance.administrators.into()),
    },
    Gauge {
        name: "delphinus_admin_connections",
        help: "Connections of operators.",
        of: Of::Process(|now| now.console.open()),
    },
    Gauge {
        name: "delphinus_sessions",
        help: "Clients that have logged in.",
        of: Of::Cluster(|now, cluster| now.sessions_of(cluster).count() as u64),
    },
    Gauge {
        name: "delphinus_sessions_pinned",
        help: "Sessions that keep their backend connection.",
        of: Of::Cluster(|now, cluster| {
            now.sessions_of(cluster).filter(|info| info.pin().is_some()).count() as u64
        }),
    },
    Gauge {
        name: "delphinus_sessions_in_transaction",
        help: "Sessions with an open transaction on a backend.",
        of: Of::Cluster(|now, cluster| {
            now.sessions_of(cluster).filter(|info| info.is_in_transaction()).count() as u64
        }),
    },
    Gauge {
        name: "delphinus_sessions_running",
        help: "Sessions that run something on a backend.",
        of: Of::Cluster(|now, cluster| {
            now.sessions_of(cluster).filter(|info| info.place().is_some()).count() as u64
        }),
    },
    Gauge {
        name: "delphinus_sessions_waiting",
        help: "Sessions whose command has no backend connection yet.",
        of: Of::Cluster(|now, cluster| {
            now.sessions_of(cluster).filter(|info| info.is_waiting()).count() as u64
        }),
    },
    Gauge {
        name: "delphinus_backend_up",
        help: "1: the backend answers, as SHOW BACKENDS says; 0: it is down, or nothing is known of it yet.",
        of: Of::Backend(|backend, _| backend.is_up().into()),
    },
    Gauge {
        name: "delphinus_backend_connections",
        help: "Connections of all workers to the backend, idle ones included.",
        of: Of::Backend(|_, budget| budget.open().into()),
    },
    Gauge {
        name: "delphinus_backend_connections_max",
        help: "Most of these at the same time.",
        of: Of::Backend(|_, budget| budget.max().into()),
    },
];

/// All gauges, in the order in which they are shown.
pub(crate) fn gauges() -> impl Iterator<Item = &'static Gauge> {
    GAUGES.iter().chain(cache::GAUGES).chain(memory::GAUGES)
}

impl<'a> Now<'a> {
    pub(crate) fn of(console: &'a Console) -> Self {
        let registry = &console.parts.registry;
        Self {
            console,
            sessions: registry.list(),
            limits: registry.limits(),
            attendance: registry.attendance(),
        }
    }

    fn sessions_of(&self, cluster: ClusterId) -> impl Iterator<Item = &Arc<Activity>> {
        self.sessions.iter().filter(move |info| info.cluster() == cluster)
    }
}

impl Gauge {
    /// Its series with their values.
    pub(super) fn read(&self, now: &Now<'_>) -> Vec<(String, u64)> {
        let name = |values: &[Arc<str>]| {
            series(self.name, self.labels().iter().copied().zip(values.iter().map(|value| &**value)))
        };
        self.values(now).into_iter().map(|(labels, value)| (name(&labels), value)).collect()
    }

    /// The names of its labels.
    pub(crate) fn labels(&self) -> &'static [&'static str] {
        match self.of {
            Of::Process(_) => &[],
            Of::Cluster(_) => &[CLUSTER],
            Of::Backend(_) => &[CLUSTER, BACKEND],
            Of::Owner(_) => &[OWNER],
        }
    }

    /// Its values, each with those of its labels.
    pub(crate) fn values(&self, now: &Now<'_>) -> Vec<(Vec<Arc<str>>, u64)> {
        let clusters = now.console.clusters();
        match self.of {
            Of::Process(read) => vec![(Vec::new(), read(now))],
            Of::Cluster(read) => {
                clusters.map(|(id, cluster)| (vec![cluster.name.clone()], read(now, id))).collect()
            }
            Of::Owner(read) => {
                let memory = &now.console.parts.memory;
                let one = |owner: Owner| (vec![Arc::from(owner.as_str())], read(memory, owner));
                Owner::ALL.map(one).to_vec()
            }
            Of::Backend(read) => {
                let mut all = Vec::new();
                for (_, cluster) in clusters {
                    for backend in cluster.reader.load().present() {
                        let Some((_, budget)) = cluster.backends.get(backend.id.index()) else { continue };
                        let labels = vec![cluster.name.clone(), backend.name.clone()];
                        all.push((labels, read(backend, budget)));
                    }
                }
                all
            }
        }
    }
}

pub(crate) static STATUS: Source = Source {
    table: Table {
        name: "status",
        help: "The current values, and all counters since the start, over all workers.",
        columns: &[
            Column::text("variable_name", "The name, with its labels: docs/reference/status.md."),
            Column::integer("value", "", "The number; its unit is in the name."),
            Column::text("help", "The number explained."),
        ],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Now(rows),
};

/// All names with their values.
pub(super) fn numbers(console: &Console) -> Vec<(String, i64)> {
    let row = |row: Vec<Cell>| match row.as_slice() {
        [Cell::Text(name), Cell::Integer(value), ..] => Some((name.clone(), *value)),
        _ => None,
    };
    rows(console).into_iter().filter_map(row).collect()
}

fn rows(console: &Console) -> Cells {
    let now = Now::of(console);
    let now = gauges().flat_map(|gauge| {
        let row = |(name, value): (String, u64)| vec![text(name), number(value), text(gauge.help)];
        gauge.read(&now).into_iter().map(row).collect::<Vec<_>>()
    });
    let counted = console.parts.counters.snapshot();
    let row = |sample: &Sample| vec![text(sample.series()), number(sample.value), text(sample.help)];
    now.chain(counted.iter().map(row)).collect()
}
