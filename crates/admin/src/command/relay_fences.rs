//! The table `relay_fences`: whom each relay acknowledges, and what it has. What a proxy asks that moves the role of a relay's source
//! and is another process. Who may not give a relay orders may not read it: that is known before a move needs it.

use delphinus_tables::{self as tables, Cell, Column};

use crate::source::{Provider, Source};
use crate::table::{number, text};
use crate::users::AdminRole;

/// A relay's fence.
#[derive(Debug, Clone, Default)]
pub struct RelayFenceRow {
    /// The relay's name.
    pub name: String,
    /// Its `server_id`.
    pub server_id: u32,
    /// Where servers reach it; `None`: its section does not say so.
    pub reported: Option<String>,
    /// Grows with each cut, each end of a cut, and each change of source.
    pub epoch: u64,
    /// Who has cut it off: operator or move; `None`: it is not.
    pub cut_by: Option<&'static str>,
    /// The disk has what is said here of cuts.
    pub is_on_disk: bool,
    /// The source that may be acknowledged.
    pub acknowledges_to: Option<String>,
    /// Those that are not any more.
    pub refused: Vec<String>,
    /// Name and address of the server that it follows, or looks for.
    pub follows: Option<(String, String)>,
    /// Where another process may turn it to; `None`: anywhere.
    pub may_follow: Option<Vec<String>>,
    /// stopped, connecting, receiving, retrying, failed or cut.
    pub state: &'static str,
    /// True if it acknowledges: the source may wait for that, or may not.
    pub is_acknowledging: bool,
    /// All that is in its log.
    pub executed: String,
}

pub(crate) static FENCES: Source = Source {
    table: tables::Table {
        name: "relay_fences",
        help: "The source that each replication relay acknowledges to, and the transactions that it has. Proxies in \
         other processes that rely on the relay ask for this. See docs/relay.md.",
        columns: &[
            Column::text("name", "The relay."),
            Column::integer("server_id", "", "Its server_id."),
            Column::text("address", "Where servers reach it; NULL: its section does not say so."),
            Column::integer(
                "epoch",
                "",
                "Grows with each cut, each end of a cut, and each change of source.",
            ),
            Column::text(
                "cut_by",
                "operator or move: who has cut it off from its source; NULL: it is not cut off.",
            ),
            Column::integer("on_disk", "", "1: what is said here of cuts is on disk."),
            Column::text(
                "acknowledges_to",
                "The source that may be acknowledged: its uuid (MariaDB: server-ID); NULL: none yet.",
            ),
            Column::text("refused", "The sources that may no longer be acknowledged, separated by commas."),
            Column::text(
                "follows",
                "The server that it follows, or looks for; NULL: none has been named yet.",
            ),
            Column::text("follows_address", "Where that one is."),
            Column::text(
                "may_follow",
                "Addresses that RELAY TURN may lead it to, with commas between them; NULL: any, as it checks who answers.",
            ),
            Column::text("state", "stopped, connecting, receiving, retrying, failed or cut."),
            Column::integer(
                "acknowledging",
                "",
                "1: it acknowledges what is on its disk (semi-sync). The source may wait for that, or may not.",
            ),
            Column::text("gtid_executed", "All transactions that it has, or has had in purged files."),
        ],
        over: "",
    },
    role: AdminRole::Operator,
    rows: Provider::Now(|console| console.parts.proxy.relay_fences().into_iter().map(row).collect()),
};

fn row(relay: RelayFenceRow) -> Vec<Cell> {
    let (follows, address) = relay.follows.unzip();
    vec![
        text(relay.name),
        number(relay.server_id),
        relay.reported.map(text).into(),
        number(relay.epoch),
        relay.cut_by.map(text).into(),
        number(u8::from(relay.is_on_disk)),
        relay.acknowledges_to.map(text).into(),
        text(relay.refused.join(",")),
        follows.map(text).into(),
        address.map(text).into(),
        relay.may_follow.map(|all| text(all.join(","))).into(),
        text(relay.state),
        number(u8::from(relay.is_acknowledging)),
        text(relay.executed),
    ]
}
