//! Whose connections end: clients of a server that has given its role up, and what another actor has left.

use delphinus_wire::error_code;

use super::Around;
use crate::probe::error::ProbeError;
use crate::probe::query::{Row, execute, query};
use crate::promotion::hand::Open;
use crate::promotion::look::text;

/// More than any server has.
const MOST: usize = 200_000;

/// Whoever is no part of the server, of replication, or of the proxy's own monitor.
pub(super) async fn end_clients(open: &mut Open, around: &Around<'_>) -> Result<String, ProbeError> {
    let own = [around.settings.account.user.as_str(), around.monitor];
    let replication = around.settings.replication.user.as_str();
    let is_client = |row: &Row| {
        let (user, command) = (text(row, 1), text(row, 4));
        let is_inner =
            matches!(user.as_str(), "system user" | "event_scheduler" | "unauthenticated user" | "")
                || command == "Daemon"
                || command.starts_with("Binlog Dump");
        !is_inner && !own.contains(&user.as_str()) && user != replication
    };
    let ended = end(open, is_client).await?;
    Ok(format!("ended {ended} sessions"))
}

/// The account's own connections but this one: an earlier actor's statements must not come late.
pub(super) async fn end_own(open: &mut Open, user: &str) -> Result<String, ProbeError> {
    let rows = query(&mut open.connection, "SELECT CONNECTION_ID()", 1).await?;
    let me = rows.first().map(|row| text(row, 0)).unwrap_or_default();
    let is_own =
        |row: &Row| text(row, 1) == user && text(row, 0) != me && !text(row, 4).starts_with("Binlog Dump");
    let ended = end(open, is_own).await?;
    Ok(format!("ended {ended} connections"))
}

async fn end(open: &mut Open, is_it: impl Fn(&Row) -> bool) -> Result<usize, ProbeError> {
    let mut ended = 0;
    for row in query(&mut open.connection, "SHOW PROCESSLIST", MOST).await?.iter().filter(|row| is_it(row)) {
        match execute(&mut open.connection, &format!("KILL {}", text(row, 0))).await {
            Ok(()) => ended += 1,
            // It has gone by itself.
            Err(ProbeError::Answer(error)) if error.code == error_code::ER_NO_SUCH_THREAD => {}
            Err(error) => return Err(error),
        }
    }
    Ok(ended)
}
