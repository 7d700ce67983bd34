//! Whose connections end: clients of a server that has given its role up, and what another actor has left.

use std::time::Duration;

use delphinus_net::rt;
use delphinus_wire::error_code;

use super::Around;
use crate::probe::error::ProbeError;
use crate::probe::query::{Row, execute, query};
use crate::promotion::hand::Open;
use crate::promotion::look::text;

/// More than any server has.
const MOST: usize = 200_000;

/// So often, and with such a pause, it is looked whether a connection that was killed has gone. After that the step is tried again.
const LOOKS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(10);

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
    let Ended { ended, kept } = end(open, is_client).await?;
    let ended = ended.len();
    if kept.is_empty() {
        return Ok(format!("ended {ended} sessions"));
    }
    let stay = leave_idle(open, &kept).await?;
    Ok(format!("ended {ended} sessions; {stay} without a transaction stay: their accounts have SYSTEM_USER"))
}

/// The account's own connections but this one: statements of an earlier actor, or of a step that ran out of time, must not come late.
pub(super) async fn end_own(open: &mut Open, user: &str) -> Result<String, ProbeError> {
    let rows = query(&mut open.connection, "SELECT CONNECTION_ID()", 1).await?;
    let me = rows.first().map(|row| text(row, 0)).unwrap_or_default();
    let is_own =
        |row: &Row| text(row, 1) == user && text(row, 0) != me && !text(row, 4).starts_with("Binlog Dump");
    let Ended { ended, kept } = end(open, is_own).await?;
    if let Some(id) = kept.first() {
        return Err(ProbeError::Unsuitable(format!("connection {id} of '{user}' cannot be ended")));
    }
    until_gone(open, &ended, user).await?;
    Ok(format!("ended {} connections", ended.len()))
}

/// KILL returns at once. What it ends may get a lock that it waits for, and do its work, until it has noticed.
async fn until_gone(open: &mut Open, killed: &[String], user: &str) -> Result<(), ProbeError> {
    let mut left: Vec<_> = killed.iter().collect();
    for _ in 0..LOOKS {
        if left.is_empty() {
            return Ok(());
        }
        let rows = query(&mut open.connection, "SHOW PROCESSLIST", MOST).await?;
        left.retain(|id| rows.iter().any(|row| text(row, 0) == **id));
        if !left.is_empty() {
            rt::sleep(PAUSE).await;
        }
    }
    match left.first() {
        None => Ok(()),
        Some(id) => Err(ProbeError::Unsuitable(format!(
            "connection {id} of '{user}' was killed and has not ended yet"
        ))),
    }
}

/// What has become of the sessions that were to end.
#[derive(Default)]
struct Ended {
    /// The ids of those that were killed.
    ended: Vec<String>,
    /// The ids of those that the account may not end.
    kept: Vec<String>,
}

async fn end(open: &mut Open, is_it: impl Fn(&Row) -> bool) -> Result<Ended, ProbeError> {
    let mut found = Ended::default();
    for row in query(&mut open.connection, "SHOW PROCESSLIST", MOST).await?.iter().filter(|row| is_it(row)) {
        match execute(&mut open.connection, &format!("KILL {}", text(row, 0))).await {
            Ok(()) => found.ended.push(text(row, 0)),
            // It has gone by itself.
            Err(ProbeError::Answer(error)) if error.code == error_code::ER_NO_SUCH_THREAD => {}
            Err(ProbeError::Answer(error)) if error.code == error_code::ER_KILL_DENIED_ERROR => {
                found.kept.push(text(row, 0));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// How many of these stay. The server is read-only by now: a session without a transaction can begin no write. One with a transaction
/// may have prepared it, and could commit it.
async fn leave_idle(open: &mut Open, kept: &[String]) -> Result<usize, ProbeError> {
    let sql = "SELECT trx_mysql_thread_id FROM information_schema.INNODB_TRX";
    let writing = query(&mut open.connection, sql, MOST).await?;
    match kept.iter().find(|id| writing.iter().any(|row| text(row, 0) == **id)) {
        None => Ok(kept.len()),
        Some(id) => Err(ProbeError::Unsuitable(format!(
            "session {id} has an open transaction, and its account SYSTEM_USER: grant that to the account of [cluster.failover], or end the \
             session there"
        ))),
    }
}
