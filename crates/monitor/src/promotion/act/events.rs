//! Where events of the scheduler run: on the primary alone. Nothing of this gets into the log, because each server has its own part,
//! and each event keeps its definer.

use super::named;
use crate::probe::error::ProbeError;
use crate::probe::query::{execute, query};
use crate::promotion::hand::Open;
use crate::promotion::look::text;

/// More than any server has.
const MOST: usize = 100_000;

pub(super) async fn disable(open: &mut Open) -> Result<String, ProbeError> {
    let changed = change(open, "STATUS = 'ENABLED'", "DISABLE ON SLAVE").await?;
    Ok(format!("{changed} events do not run any more"))
}

/// An event that runs on a primary is there on its replicas, and sleeps. One that is disabled is so everywhere.
pub(super) async fn enable(open: &mut Open) -> Result<String, ProbeError> {
    let changed = change(open, "STATUS IN ('SLAVESIDE_DISABLED', 'REPLICA_SIDE_DISABLED')", "ENABLE").await?;
    Ok(format!("{changed} events run"))
}

async fn change(open: &mut Open, which: &str, to: &str) -> Result<usize, ProbeError> {
    let sql =
        format!("SELECT EVENT_SCHEMA, EVENT_NAME, DEFINER FROM information_schema.EVENTS WHERE {which}");
    let events = query(&mut open.connection, &sql, MOST).await?;
    if events.is_empty() {
        return Ok(0);
    }
    execute(&mut open.connection, "SET SESSION sql_log_bin = 0").await?;
    let mut outcome = Ok(events.len());
    for event in &events {
        let definer = text(event, 2);
        // The host comes last, and a user's name may have an @ in it.
        let (user, host) = definer.rsplit_once('@').unwrap_or((&definer, "%"));
        let (schema, name) = (named(&text(event, 0)), named(&text(event, 1)));
        let sql = format!("ALTER DEFINER = {}@{} EVENT {schema}.{name} {to}", account(user), account(host));
        if let Err(error) = execute(&mut open.connection, &sql).await {
            outcome = Err(error);
            break;
        }
    }
    execute(&mut open.connection, "SET SESSION sql_log_bin = 1").await?;
    outcome
}

/// Part of an account's name: no hexadecimal text is taken there.
fn account(part: &str) -> String {
    named(part)
}
