//! Whom a server follows, and how well: `SHOW REPLICA STATUS` under its names through the years.
//! Source: <https://dev.mysql.com/doc/refman/9.0/en/show-replica-status.html> and
//! <https://mariadb.com/kb/en/show-replica-status/>.

use std::sync::Arc;
use std::time::Duration;

use delphinus_topology::{Flavor, Following, Identity, Receiver, Replication, ServerFacts};
use delphinus_wire::error_code;

use super::connection::Connection;
use super::error::ProbeError;
use super::query::{NamedRow, receive_named};

/// More sources than any server has.
const MOST_SOURCES: usize = 256;

/// What is asked.
pub(super) fn statement(facts: &ServerFacts) -> &'static str {
    match facts.flavor {
        Flavor::MariaDb if facts.version_number >= 100_000 => "SHOW ALL SLAVES STATUS",
        Flavor::MySql if facts.version_number >= 80_022 => "SHOW REPLICA STATUS",
        Flavor::MariaDb | Flavor::MySql => "SHOW SLAVE STATUS",
    }
}

/// The answer to [`statement`]. That the monitor's user may not know is one, too.
pub(super) async fn receive(connection: &mut Connection) -> Result<Replication, ProbeError> {
    match receive_named(connection, MOST_SOURCES).await {
        Ok(named) => {
            Ok(named.rows().filter_map(source).reduce(worst).map_or(Replication::Off, Replication::On))
        }
        Err(error @ ProbeError::Answer(_)) => Ok(Replication::Unseen(error.to_string().into())),
        Err(error) => Err(error),
    }
}

/// One source; `None` for the inner channels of Group Replication, which are not for us to judge.
fn source(row: NamedRow<'_>) -> Option<Following> {
    let channel = row.text(|name| matches!(name, b"Channel_Name" | b"Connection_name"));
    if channel.is_some_and(|name| name.starts_with("group_replication_")) {
        return None;
    }
    let text = |wanted: &'static str| row.text(move |name| name == wanted.as_bytes()).unwrap_or_default();
    let word = |end: &'static str| row.text(move |name| name.ends_with(end.as_bytes())).unwrap_or_default();
    let receiver = match &*word("_IO_Running") {
        "Yes" => Receiver::Running,
        "No" => stopped(&text("Last_IO_Errno"), &text("Last_IO_Error")),
        _ => Receiver::Connecting,
    };
    let applies = word("_SQL_Running") == "Yes";
    let lag = row.text(|name| name.starts_with(b"Seconds_Behind_"));
    Some(Following {
        receiver,
        applier_stopped: (!applies).then(|| Arc::from(&*text("Last_SQL_Error"))),
        lag: lag.and_then(|text| text.parse().ok()).map(Duration::from_secs),
        sources: [identity(row)].into(),
    })
}

/// Whom it follows; nothing is told before it has been there.
fn identity(row: NamedRow<'_>) -> Identity {
    let number = row.text(|name| matches!(name, b"Source_Server_Id" | b"Master_Server_Id"));
    let uuid = row.text(|name| matches!(name, b"Source_UUID" | b"Master_UUID"));
    Identity {
        number: number.and_then(|text| text.parse().ok()).unwrap_or_default(),
        uuid: uuid.unwrap_or_default().to_ascii_lowercase().into(),
    }
}

fn stopped(errno: &str, error: &str) -> Receiver {
    // Since MySQL 8.4 a receiver gives up after some tries; that its source is dead is no fault of its own all the same.
    let is_unreachable = errno.parse().is_ok_and(|errno| error_code::OF_CLIENTS.contains(&errno));
    if is_unreachable { Receiver::Connecting } else { Receiver::Stopped(error.into()) }
}

/// What a replica of both is like.
fn worst(one: Following, other: Following) -> Following {
    let rank = |receiver: &Receiver| match receiver {
        Receiver::Running => 0,
        Receiver::Connecting => 1,
        Receiver::Stopped(_) => 2,
    };
    let lag = match (one.lag, other.lag) {
        (Some(one), Some(other)) => Some(one.max(other)),
        // What nobody knows may be any time.
        _ => None,
    };
    let sources = one.sources.iter().chain(&*other.sources).cloned().collect();
    let is_other_worse = rank(&other.receiver) > rank(&one.receiver);
    Following {
        receiver: if is_other_worse { other.receiver } else { one.receiver },
        applier_stopped: one.applier_stopped.or(other.applier_stopped),
        lag,
        sources,
    }
}
