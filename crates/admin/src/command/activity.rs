//! The tables of what sessions did: `activity`, `activity_minutes`, `activity_hours`, and `activity_storage`.

use delphinus_history::Stored;
use delphinus_tables::{Cell, Column, Table};

use crate::console::Console;
use crate::source::{Cells, Provider, Source};
use crate::table::{number, text};
use crate::users::AdminRole;

const UNIX: Column = Column::integer("unix_s", "s", "The same, in seconds since 1970.");
const USER: Column = Column::text("user", "The user.");
const CLUSTER: Column = Column::text("cluster", "The cluster.");
const SCHEMA: Column = Column::text("schema", "The schema that the session was in.");
const DIGEST: Column = Column::text(
    "digest",
    "The hash of the statement without literals, as in digests; NULL: there is none, or none was known yet.",
);
const DIGEST_TEXT: Column =
    Column::text("digest_text", "The statement without literals; NULL where it was not kept.");
const STATE: Column = Column::text(
    "state",
    "running: a backend or the proxy works for it; waiting: for what wait_class says; idle in transaction: its client has sent no command.",
);
const WAIT_CLASS: Column = Column::text(
    "wait_class",
    "backend: its statement runs there; pool: a free connection; connect: a new connection; failover: a primary; causality: a replica has to catch up; \
     admission: a limit or PAUSE; cache: the same question of another session; fixups: the connection is brought into the session's state; \
     client: it is slow to take or to send; cpu: no wait is known.",
);
const BACKEND: Column = Column::text("backend", "Where the statement ran.");
const REST: Column = Column::text("rest", "YES: this row stands for all that had no row of their own.");

pub(crate) static ACTIVITY: Source = Source {
    table: Table {
        name: "activity",
        help: "What each active session did, each second. A condition on sampled_at limits what is read.",
        columns: &[
            Column::text("sampled_at", "When, UTC."),
            UNIX,
            Column::integer("session", "", "The id of the session; NULL in rows of the rest."),
            Column::integer(
                "sessions",
                "",
                "How many sessions the row stands for: 1, or more in rows of the rest.",
            ),
            Column::integer(
                "command_number",
                "",
                "The number of its command: a long one is the same in many samples.",
            ),
            USER,
            Column::text("client", "Where the client came from."),
            CLUSTER,
            SCHEMA,
            DIGEST,
            DIGEST_TEXT,
            Column::text("command", "The kind of its command, such as query or stmt_execute."),
            STATE,
            WAIT_CLASS,
            Column::text("wait_event", "What exactly it waited for."),
            BACKEND,
            Column::integer("backend_thread_id", "", "The connection there."),
            Column::text(
                "route_reason",
                "Why it ran there; NULL: on the connection that the session was held to, or not at all.",
            ),
            Column::text(
                "pin_reason",
                "The oldest reason why it kept its connection; docs/pinning.md has the reasons.",
            ),
            Column::integer("state_us", "us", "For how long it had been in this state and waited for this."),
            Column::integer(
                "command_us",
                "us",
                "For how long its command had run; 0 where it ran none. Of commands that are no statements in whole seconds.",
            ),
            Column::integer("transaction_us", "us", "The age of its transaction; NULL: none was open."),
            REST,
        ],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Stored(Stored::Activity),
};

const SAMPLES: Column = Column::integer(
    "samples",
    "",
    "Sessions in all samples: about the seconds that they spent so. Divided by the seconds of the period, it is the \
     average number of active sessions.",
);
const LONGEST: Column =
    Column::integer("longest_us", "us", "The longest that one of their commands had run by then.");

pub(crate) static MINUTES: Source = Source {
    table: Table {
        name: "activity_minutes",
        help: "The samples of activity, added up by minute: the largest sums, and rows of the rest, so that totals are the same.",
        columns: &[
            Column::text("minute", "When it began, UTC."),
            UNIX,
            USER,
            CLUSTER,
            SCHEMA,
            DIGEST,
            DIGEST_TEXT,
            STATE,
            WAIT_CLASS,
            BACKEND,
            SAMPLES,
            LONGEST,
            REST,
        ],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Stored(Stored::Minutes),
};

pub(crate) static HOURS: Source = Source {
    table: Table {
        name: "activity_hours",
        help: "The same by hour.",
        columns: &[
            Column::text("hour", "When it began, UTC."),
            UNIX,
            USER,
            CLUSTER,
            SCHEMA,
            DIGEST,
            DIGEST_TEXT,
            STATE,
            WAIT_CLASS,
            BACKEND,
            SAMPLES,
            LONGEST,
            REST,
        ],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Stored(Stored::Hours),
};

pub(crate) static STORAGE: Source = Source {
    table: Table {
        name: "activity_storage",
        help: "Whether activity and snapshots are stored, and how many were stored, dropped and lost since the start.",
        columns: &[
            Column::text(
                "state",
                "on; in memory: there is no proxy.data_dir; off; no memory: memory_limit has no room for it.",
            ),
            Column::integer("bytes", "bytes", "The size of all files."),
            Column::integer("samples", "", "Samples that were stored, of those with an active session."),
            Column::integer("rows", "rows", "Their rows."),
            Column::integer("dropped", "", "Samples that were dropped because the disk was too slow."),
            Column::integer(
                "failed",
                "",
                "Samples and snapshots that were lost because they could not be written.",
            ),
            Column::text("error", "Why nothing can be written; NULL: it can."),
        ],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Now(storage),
};

fn storage(console: &Console) -> Cells {
    let history = &console.parts.history;
    let counts = history.counts();
    let numbers = [counts.bytes, counts.samples, counts.rows, counts.dropped, counts.failed].map(number);
    let first = [text(history.state().as_str())];
    vec![first.into_iter().chain(numbers).chain([Cell::from(counts.error)]).collect()]
}
