//! Nobody writes on a server any more, or everybody may.

use delphinus_wire::error_code;

use super::{Around, semi_sync, sessions};
use crate::probe::error::ProbeError;
use crate::probe::query::{execute, query};
use crate::promotion::hand::Open;
use crate::promotion::look::{Product, text};

/// A statement that runs keeps a server from being set read-only. After the transactions' own time it is ended.
pub(super) async fn close(open: &mut Open, around: &Around<'_>) -> Result<String, ProbeError> {
    let ended = shut(open, around).await?;
    let kept = persist(open).await?;
    Ok(format!("read-only{kept}{ended}"))
}

/// Sets it read-only; what had to end for that.
async fn shut(open: &mut Open, around: &Around<'_>) -> Result<String, ProbeError> {
    let past_waiting = ", and commits that waited for an acknowledgement";
    let may_wait = may_wait_for_ever(open, around);
    if may_wait && around.own.standing().is_some_and(|own| own.semi_sync.waiting > 0) {
        // What is tried otherwise would take its time for nothing, and a step has to end before the right to act does.
        close_past_waiting(open, around).await?;
        return Ok(format!("; ended client sessions{past_waiting}"));
    }
    let sql = read_only(open);
    match execute(&mut open.connection, sql).await {
        Err(error) if is_held_up(&error) => {}
        outcome => return outcome.map(|()| String::new()),
    }
    let ended = format!("; {} that held it up", sessions::end_clients(open, around).await?);
    match execute(&mut open.connection, sql).await {
        Err(error) if is_held_up(&error) && may_wait => {
            close_past_waiting(open, around).await?;
            Ok(ended + past_waiting)
        }
        outcome => outcome.map(|()| ended),
    }
}

/// A step that ran out of time may have left `offline_mode` on. True if it was.
pub(super) async fn end_offline_mode(open: &mut Open, around: &Around<'_>) -> Result<bool, ProbeError> {
    if !around.is_replaced || open.product.is_mariadb() {
        return Ok(false);
    }
    let rows = query(&mut open.connection, "SELECT @@GLOBAL.offline_mode", 1).await?;
    let is_on = rows.first().is_some_and(|row| text(row, 0) == "1");
    if is_on {
        execute(&mut open.connection, "SET GLOBAL offline_mode = 0").await?;
    }
    Ok(is_on)
}

fn read_only(open: &Open) -> &'static str {
    if open.product.is_mariadb() { "SET GLOBAL read_only = 1" } else { "SET GLOBAL super_read_only = 1" }
}

fn is_held_up(error: &ProbeError) -> bool {
    matches!(error, ProbeError::Answer(answer) if answer.code == error_code::ER_LOCK_WAIT_TIMEOUT)
}

/// Its commits wait for acknowledgements, and those that wait now get none: another server has the role.
fn may_wait_for_ever(open: &Open, around: &Around<'_>) -> bool {
    let waits = around.own.standing().is_some_and(|own| own.semi_sync.source.is_some());
    around.is_replaced && waits && !open.product.is_mariadb()
}

/// `MySQL`: a commit that waits for an acknowledgement holds this up, and KILL does not end its waiting. Only semi-sync switched off does,
/// and that would acknowledge the commit. So no client may be there any more: `offline_mode` cuts those off that wait, and no other comes.
/// Only where another server has the role: replicas of a primary are cut off, too.
async fn close_past_waiting(open: &mut Open, around: &Around<'_>) -> Result<(), ProbeError> {
    execute(&mut open.connection, "SET GLOBAL offline_mode = 1").await?;
    let outcome = end_waiting(open, around).await;
    // Whatever came of it, the server is not left like that.
    execute(&mut open.connection, "SET GLOBAL offline_mode = 0").await?;
    outcome
}

async fn end_waiting(open: &mut Open, around: &Around<'_>) -> Result<(), ProbeError> {
    // Those with CONNECTION_ADMIN.
    sessions::end_clients(open, around).await?;
    semi_sync::switch_source(open, false).await?;
    let sql = read_only(open);
    let outcome = execute(&mut open.connection, sql).await;
    semi_sync::switch_source(open, true).await?;
    outcome
}

/// It takes writes until it is stopped: a server that starts again may be the old primary by then.
pub(super) async fn open(open: &mut Open) -> Result<String, ProbeError> {
    let kept = persist(open).await?;
    execute(&mut open.connection, "SET GLOBAL read_only = 0").await?;
    Ok(format!("takes writes{kept}"))
}

/// MySQL keeps it for its next start. `MariaDB` has its option file for that, which SQL cannot change.
async fn persist(open: &mut Open) -> Result<&'static str, ProbeError> {
    let Product { version, .. } = open.product;
    if open.product.is_mariadb() || version < 80_000 {
        return Ok("");
    }
    // Members of a group see to it themselves.
    for sql in ["SET PERSIST_ONLY read_only = 1", "SET PERSIST_ONLY super_read_only = 1"] {
        match execute(&mut open.connection, sql).await {
            Ok(()) => {}
            Err(ProbeError::Answer(_)) => {
                return Ok("; its next start is not: PERSIST_RO_VARIABLES_ADMIN is missing");
            }
            Err(error) => return Err(error),
        }
    }
    Ok("")
}
