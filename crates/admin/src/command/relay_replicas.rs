//! The table `relay_replicas`: who follows the relays, and how far.

use std::time::Duration;

use delphinus_tables::{self as tables, Cell, Column};

use crate::source::{Provider, Source};
use crate::table::{number, text};
use crate::users::AdminRole;

/// A replica of a relay, as operators see it.
#[derive(Debug, Clone, Default)]
pub struct RelayReplicaRow {
    /// The relay.
    pub relay: String,
    /// The connection's number.
    pub id: u32,
    /// The relay's user.
    pub user: String,
    /// Where it connects from.
    pub host: String,
    /// Its `server_id`.
    pub server_id: u32,
    /// Its `server_uuid`; MariaDB has none.
    pub uuid: Option<String>,
    /// It is a program such as `mysqlbinlog`, and no server.
    pub is_program: bool,
    /// `report_host:report_port`, where it has said so.
    pub reports: Option<String>,
    /// The connection is encrypted.
    pub is_tls: bool,
    /// zlib, zstd or uncompressed.
    pub compression: &'static str,
    /// waiting or sending.
    pub state: &'static str,
    /// The file that it is in.
    pub file: String,
    /// And where.
    pub position: u64,
    /// Bytes of the log that it was not sent yet.
    pub behind_bytes: u64,
    /// How old the last event is that it was sent; zero where it was sent everything.
    pub delay: Duration,
    /// Bytes of events that it was sent.
    pub sent_bytes: u64,
    /// Events that it was sent.
    pub sent_events: u64,
    /// How long it has been connected.
    pub connected: Duration,
}

/// What a relay has sent since the start.
#[derive(Debug, Clone, Default)]
pub struct RelaySentRow {
    /// The relay.
    pub relay: String,
    /// Times that a replica has begun to follow.
    pub connections: u64,
    /// Times that one was refused with error 1236.
    pub refused: u64,
    /// Bytes of events.
    pub bytes: u64,
}

pub(crate) static REPLICAS: Source = Source {
    table: tables::Table {
        name: "relay_replicas",
        help: "Replicas that follow the relays. See docs/relay.md.",
        columns: &[
            Column::text("relay", "The relay."),
            Column::integer("id", "", "The connection's number."),
            Column::text("user", "The relay's user that it has logged in as."),
            Column::text("host", "Where it connects from."),
            Column::integer("server_id", "", "Its server_id."),
            Column::text("server_uuid", "Its server_uuid; NULL: it has none (MariaDB)."),
            Column::text("reports", "Its report_host and report_port; NULL: it has not said so."),
            Column::integer("tls", "", "1: the connection is encrypted."),
            Column::text("compression", "zlib, zstd or uncompressed, as the replica has asked for it."),
            Column::text("state", "waiting: it was sent everything. sending: it is behind."),
            Column::text("file", "The file that it is in."),
            Column::integer("position", "bytes", "The position up to which it was sent that file."),
            Column::integer("behind_bytes", "bytes", "What of the log it was not sent yet."),
            Column::integer(
                "delay_s",
                "s",
                "How old the last event is that it was sent; 0: it was sent everything.",
            ),
            Column::integer("sent_bytes", "bytes", "Events that it was sent on this connection."),
            Column::integer("sent_events", "", "The number of these events."),
            Column::integer("connected_s", "s", "How long it has been connected."),
        ],
        over: "",
    },
    role: AdminRole::Viewer,
    rows: Provider::Now(|console| console.parts.proxy.relay_replicas().into_iter().map(row).collect()),
};

fn row(replica: RelayReplicaRow) -> Vec<Cell> {
    vec![
        text(replica.relay),
        number(replica.id),
        text(replica.user),
        text(replica.host),
        number(replica.server_id),
        replica.uuid.map(text).into(),
        replica.reports.map(text).into(),
        number(u8::from(replica.is_tls)),
        text(replica.compression),
        text(replica.state),
        text(replica.file),
        number(replica.position),
        number(replica.behind_bytes),
        number(replica.delay.as_secs()),
        number(replica.sent_bytes),
        number(replica.sent_events),
        number(replica.connected.as_secs()),
    ]
}
