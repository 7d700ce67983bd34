//! The tables `relays` and `relay_files`, and `RELAY START | STOP | CUT | TURN | PURGE | ROTATE`.

use std::pin::Pin;
use std::time::Duration;

use delphinus_tables::{self as tables, Cell, Column};

use super::{Call, usage_of};
use crate::answer::{Answer, Refused};
use crate::source::{Provider, Source};
use crate::table::{Table, number, text};
use crate::text::Word;
use crate::users::AdminRole;

/// A relay's incoming side, as operators see it.
#[derive(Debug, Clone, Default)]
pub struct RelayRow {
    /// Its name.
    pub name: String,
    /// stopped, connecting, receiving, retrying, failed or cut.
    pub state: &'static str,
    /// The source's name or address.
    pub source: String,
    /// The source's uuid (MariaDB: `server-ID`).
    pub source_uuid: Option<String>,
    /// zlib, zstd or uncompressed; `None`: there is no connection to it.
    pub compression: Option<&'static str>,
    /// Grows with each cut and each change of source.
    pub epoch: u64,
    /// True if it acknowledges: the source may wait for that, or may not.
    pub is_acknowledging: bool,
    /// The newest file, and up to where it is durable.
    pub file: Option<(String, u64)>,
    /// All that is in its log.
    pub executed: String,
    /// What is before its first file.
    pub purged: String,
    /// Files.
    pub files: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Bytes received since the start.
    pub received_bytes: u64,
    /// Acknowledgements sent since the start.
    pub acks: u64,
    /// How long after the source began the newest event it was durable here.
    pub delay: Option<Duration>,
    /// Since the source was heard of; `None`: it never was.
    pub silence: Option<Duration>,
    /// Streams that have begun.
    pub connections: u64,
    /// Failures of any kind.
    pub failures: u64,
    /// What went wrong last, if it still matters.
    pub error: Option<String>,
    /// Files that were removed since the start.
    pub removed_files: u64,
    /// What takes closed files; `None`: nothing.
    pub archive: Option<RelayArchiveRow>,
    /// How long each write with its fdatasync took.
    pub syncs: RelayTimes,
    /// From the arrival of bytes to their acknowledgement.
    pub ack_times: RelayTimes,
}

/// What a relay's `archive_command` does.
#[derive(Debug, Clone, Default)]
pub struct RelayArchiveRow {
    /// Files that it has taken since the start.
    pub archived: u64,
    /// Times that it has not.
    pub failures: u64,
    /// Closed files that it has not taken yet.
    pub waiting: u64,
    /// Why it does not take the oldest of them.
    pub error: Option<String>,
}

/// Counts of times by their size.
#[derive(Debug, Clone, Default)]
pub struct RelayTimes {
    /// Upper ends in seconds, and how many took no longer.
    pub up_to: Vec<(f64, u64)>,
    /// Seconds of all.
    pub sum: f64,
    /// How many.
    pub count: u64,
}

/// A file of a relay.
#[derive(Debug, Clone)]
pub struct RelayFileRow {
    /// The relay.
    pub relay: String,
    /// Where it is.
    pub path: String,
    /// Its name, which is the source's.
    pub name: String,
    /// The source's uuid (MariaDB: `server-ID`).
    pub source_uuid: String,
    /// Bytes that are durable.
    pub bytes: u64,
    /// All groups before it.
    pub previous: String,
    /// A replica reads it.
    pub is_in_use: bool,
    /// The archive has taken it; `None`: there is none.
    pub is_archived: Option<bool>,
    /// What holds it, though it would be removed.
    pub held: Option<String>,
}

/// What operators want of a relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RelayWish {
    /// It receives. Ends a cut; with the identity of a source, that source is acknowledged even if it was cut off.
    Start(Option<String>),
    /// It stops receiving.
    Stop,
    /// It cuts its source off. With an epoch a move of the primary's role says so, and it counts in that epoch alone.
    Cut(Option<u64>),
    /// It follows a server, and acknowledges to it.
    Turn(RelayTurn),
    /// It removes all files before this one.
    Purge(String),
    /// It has its source begin a new file; the answer is the name of the one that was closed.
    Rotate,
}

/// Whom a relay is to follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayTurn {
    /// The server's name.
    pub server: String,
    /// Where it listens.
    pub address: String,
    /// Its uuid (MariaDB: `server-ID`).
    pub identity: String,
    /// The relay does so in this epoch alone.
    pub epoch: u64,
}

/// What becomes of a wish: in words, if there is something to say.
pub type RelayWishing<'a> = Pin<Box<dyn Future<Output = Result<Option<String>, String>> + 'a>>;

pub(crate) static RELAYS: Source = Source {
    table: tables::Table {
        name: "relays",
        help: "The replication relays: what each receives and acknowledges. See docs/relay.md.",
        columns: &[
            Column::text("name", "Its name."),
            Column::text("state", "stopped, connecting, receiving, retrying, failed or cut."),
            Column::text("source", "The server that it replicates from."),
            Column::text(
                "source_uuid",
                "That server's uuid (MariaDB: server-ID); NULL: it has not said so yet.",
            ),
            Column::text(
                "compression",
                "What the connection to it is compressed with: zlib, zstd or uncompressed; NULL: there is no connection.",
            ),
            Column::integer("epoch", "", "Grows each time that the source is cut off, or is another one."),
            Column::integer(
                "acknowledging",
                "",
                "1: it acknowledges what is on its disk (semi-sync). The source may wait for that, or may not.",
            ),
            Column::text("file", "The newest file; NULL: there is none."),
            Column::integer("position", "bytes", "The position up to which that file is durable."),
            Column::text("gtid_executed", "All transactions that it has, or has had in purged files."),
            Column::text("gtid_purged", "Those of them that are before its first file."),
            Column::integer("files", "", "How many files it has."),
            Column::integer("file_bytes", "bytes", "Bytes in them."),
            Column::integer("received_bytes", "bytes", "Received since the start."),
            Column::integer("acks", "", "Acknowledgements sent since the start."),
            Column::integer("syncs", "", "Writes with fdatasync since the start."),
            Column::integer("sync_us", "us", "How long one of them takes, on average."),
            Column::integer(
                "delay_ms",
                "ms",
                "How long after it began on the source the newest transaction was durable here; events have whole seconds.",
            ),
            Column::integer(
                "silence_ms",
                "ms",
                "The time since the source last sent something, heartbeats included.",
            ),
            Column::integer("connections", "", "Streams that have begun since the start."),
            Column::integer("failures", "", "Connections that have failed or ended since the start."),
            Column::text("error", "The last error; NULL: none that still matters."),
            Column::integer("removed_files", "", "Old files that were removed since the start."),
            Column::integer(
                "unarchived_files",
                "",
                "Closed files that archive_command has not taken yet; NULL: there is none.",
            ),
            Column::text(
                "archive_error",
                "Why archive_command has not taken the oldest of them; NULL: it has not failed.",
            ),
        ],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Now(|console| console.parts.proxy.relays().into_iter().map(row).collect()),
};

fn row(relay: RelayRow) -> Vec<Cell> {
    let (file, position) = relay.file.map_or((Cell::Null, Cell::Null), |(file, at)| (text(file), number(at)));
    let mean = |times: &RelayTimes| {
        let sum = Duration::try_from_secs_f64(times.sum).unwrap_or_default().as_micros();
        sum.checked_div(u128::from(times.count)).unwrap_or_default()
    };
    let ms = |time: Option<Duration>| time.map_or(Cell::Null, |time| number(time.as_millis()));
    vec![
        text(relay.name),
        text(relay.state),
        text(relay.source),
        relay.source_uuid.map(text).into(),
        relay.compression.map(text).into(),
        number(relay.epoch),
        number(u8::from(relay.is_acknowledging)),
        file,
        position,
        text(relay.executed),
        text(relay.purged),
        number(relay.files),
        number(relay.bytes),
        number(relay.received_bytes),
        number(relay.acks),
        number(relay.syncs.count),
        number(mean(&relay.syncs)),
        ms(relay.delay),
        ms(relay.silence),
        number(relay.connections),
        number(relay.failures),
        relay.error.map(text).into(),
        number(relay.removed_files),
        relay.archive.as_ref().map(|archive| number(archive.waiting)).into(),
        relay.archive.and_then(|archive| archive.error).map(text).into(),
    ]
}

pub(crate) static FILES: Source = Source {
    table: tables::Table {
        name: "relay_files",
        help: "The files of replication relays, oldest first.",
        columns: &[
            Column::text("relay", "The relay."),
            Column::text("name", "Its name, which is the source's."),
            Column::text("source_uuid", "The source's uuid (MariaDB: server-ID)."),
            Column::integer("bytes", "bytes", "Bytes that are durable."),
            Column::text("previous_gtids", "All transactions before it."),
            Column::integer("in_use", "", "1: a replica reads it."),
            Column::integer("archived", "", "1: archive_command has taken it; NULL: there is none."),
            Column::text(
                "held",
                "Why the file is kept although it is due for removal; NULL: it is not due, or nothing holds it.",
            ),
            Column::text("path", "Where it is."),
        ],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Now(|console| {
        let row = |file: RelayFileRow| {
            vec![
                text(file.relay),
                text(file.name),
                text(file.source_uuid),
                number(file.bytes),
                text(file.previous),
                number(u8::from(file.is_in_use)),
                file.is_archived.map(|it| number(u8::from(it))).into(),
                file.held.map(text).into(),
                text(file.path),
            ]
        };
        console.parts.proxy.relay_files().into_iter().map(row).collect()
    }),
};

/// What is wished of which relay; `None`: that is no wish.
fn wish(words: &[Word]) -> Option<(&Word, RelayWish)> {
    let number = |word: &Word| word.text.parse().ok();
    Some(match words {
        [word, name] if word.is("START") => (name, RelayWish::Start(None)),
        [word, name, admit, identity] if word.is("START") && admit.is("ADMIT") => {
            (name, RelayWish::Start(Some(identity.text.clone())))
        }
        [word, name] if word.is("STOP") => (name, RelayWish::Stop),
        [word, name] if word.is("CUT") => (name, RelayWish::Cut(None)),
        [word, name, by, who, epoch, n]
            if word.is("CUT") && by.is("BY") && who.is("MOVE") && epoch.is("EPOCH") =>
        {
            (name, RelayWish::Cut(Some(number(n)?)))
        }
        [word, name, to, server, at, address, is, identity, epoch, n]
            if [(word, "TURN"), (to, "TO"), (at, "AT"), (is, "IDENTITY"), (epoch, "EPOCH")]
                .iter()
                .all(|(word, wanted)| word.is(wanted)) =>
        {
            let [server, address, identity] = [server, address, identity].map(|word| word.text.clone());
            (name, RelayWish::Turn(RelayTurn { server, address, identity, epoch: number(n)? }))
        }
        [word, name] if word.is("ROTATE") => (name, RelayWish::Rotate),
        [word, name, to, file] if word.is("PURGE") && to.is("TO") => {
            (name, RelayWish::Purge(file.text.clone()))
        }
        _ => return None,
    })
}

/// `RELAY START name [ADMIT 'uuid']`, `RELAY CUT name`, and the others of [`RelayWish`].
pub(super) async fn relay(call: &Call<'_>) -> Result<Answer, Refused> {
    let (name, wish) = wish(call.words).ok_or_else(|| usage_of("RELAY"))?;
    let proxy = &call.console.parts.proxy;
    if !proxy.relays().iter().any(|relay| relay.name == name.text) {
        return Err(Refused::because(format!(
            "there is no relay '{}'; SHOW RELAY STATUS has them",
            name.text
        )));
    }
    let is_rotation = wish == RelayWish::Rotate;
    let said = proxy.order_relay(&name.text, wish).await.map_err(Refused::because)?;
    Ok(match said.filter(|_| is_rotation) {
        Some(file) => Answer::Rows(Table::new(["closed_file"]).with([vec![text(file)]])),
        None => Answer::Done,
    })
}
