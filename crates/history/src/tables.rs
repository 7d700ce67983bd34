//! How each table is read from its files: a SELECT over one file, with `{db}` where the file's name stands. The columns stand in the
//! order in which the tables are declared.

/// The files that can be read now, by their URIs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Files {
    /// Samples, a file a day, the oldest first.
    pub raw: Vec<String>,
    /// Minutes.
    pub minutes: Vec<String>,
    /// Hours.
    pub hours: Vec<String>,
    /// Snapshots.
    pub snapshots: Vec<String>,
}

/// A table that lies in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// Samples.
    Activity,
    /// Minutes.
    Minutes,
    /// Hours.
    Hours,
    /// Snapshots.
    Snapshots,
    /// The counters of snapshots.
    Counters,
    /// The sums of statements of snapshots.
    Statements,
}

impl Stored {
    /// How its rows are read from one file.
    pub fn select(self) -> &'static str {
        match self {
            Self::Activity => ACTIVITY,
            Self::Minutes | Self::Hours => ROLLED,
            Self::Snapshots => SNAPSHOTS,
            Self::Counters => COUNTERS,
            Self::Statements => STATEMENTS,
        }
    }

    /// Which files it lies in.
    pub fn files(self, files: &Files) -> &[String] {
        match self {
            Self::Activity => &files.raw,
            Self::Minutes => &files.minutes,
            Self::Hours => &files.hours,
            Self::Snapshots | Self::Counters | Self::Statements => &files.snapshots,
        }
    }
}

macro_rules! name {
    ($id:literal) => {
        concat!("(SELECT name FROM {db}.names WHERE id = ", $id, ")")
    };
}

macro_rules! digest {
    () => {
        "CASE WHEN r.digest IS NOT NULL THEN printf('%016x', r.digest) END, (SELECT text FROM {db}.texts WHERE digest = r.digest)"
    };
}

const ACTIVITY: &str = concat!(
    "SELECT m.at, m.id, r.session, r.sessions, r.command, ",
    name!("r.user"),
    ", ",
    name!("r.client"),
    ", ",
    name!("r.cluster"),
    ", ",
    name!("r.schema"),
    ", ",
    digest!(),
    ", ",
    name!("r.kind"),
    ", ",
    name!("r.state"),
    ", ",
    name!("r.class"),
    ", ",
    name!("r.event"),
    ", ",
    name!("r.backend"),
    ", r.thread, ",
    name!("r.route"),
    ", ",
    name!("r.pin"),
    ", r.in_state_us, r.in_command_us, r.transaction_us, CASE WHEN r.session IS NULL THEN 'YES' ELSE 'NO' END",
    " FROM {db}.moments m JOIN {db}.rows r ON r.moment = m.id"
);

const ROLLED: &str = concat!(
    "SELECT m.at, m.id, ",
    name!("r.user"),
    ", ",
    name!("r.cluster"),
    ", ",
    name!("r.schema"),
    ", ",
    digest!(),
    ", ",
    name!("r.state"),
    ", ",
    name!("r.class"),
    ", ",
    name!("r.backend"),
    ", r.samples, r.longest_us, CASE WHEN r.rest THEN 'YES' ELSE 'NO' END",
    " FROM {db}.moments m JOIN {db}.rows r ON r.moment = m.id"
);

const SNAPSHOTS: &str = "SELECT id, at, unix_s, started, operator, resets FROM {db}.snapshots";

const COUNTERS: &str = concat!(
    "SELECT s.id, s.at, ",
    name!("c.name"),
    ", c.value FROM {db}.snapshots s JOIN {db}.counters c ON c.snapshot = s.id"
);

const STATEMENTS: &str = concat!(
    "SELECT s.id, s.at, r.grouped, ",
    name!("r.cluster"),
    ", CASE r.grouped WHEN 'backend' THEN ",
    name!("r.name"),
    " END, CASE r.grouped WHEN 'user' THEN ",
    name!("r.name"),
    " END, ",
    digest!(),
    ", r.count, r.errors, r.total_us, r.queue_us, r.pool_us, r.sync_us, r.backend_us, r.client_us, r.rows_sent, r.rows_affected,",
    " r.bytes_received, r.bytes_sent, r.histogram FROM {db}.snapshots s JOIN {db}.statements r ON r.snapshot = s.id"
);
