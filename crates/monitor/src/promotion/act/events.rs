//! Where events of the scheduler run: on the primary alone. Nothing of this gets into the log, because each server has its own part,
//! and each event keeps its definer.

use std::sync::Arc;

use super::named;
use crate::probe::error::ProbeError;
use crate::probe::query::{execute, query};
use crate::promotion::hand::Open;
use crate::promotion::look::text;

/// More than any server has.
const MOST: usize = 100_000;

pub(super) async fn disable(open: &mut Open) -> Result<String, ProbeError> {
    let (changed, _) = change(open, "STATUS = 'ENABLED'", |_| "DISABLE ON SLAVE").await?;
    Ok(format!("{changed} events do not run any more"))
}

/// A replica cannot tell which of its events run on the primary. Those that do not are disabled: what sleeps on a primary has run there.
pub(super) async fn enable(open: &mut Open, which: &[Arc<str>]) -> Result<String, ProbeError> {
    let to = |name: &str| if which.iter().any(|one| **one == *name) { "ENABLE" } else { "DISABLE" };
    let asleep = "STATUS IN ('SLAVESIDE_DISABLED', 'REPLICA_SIDE_DISABLED')";
    let (changed, enabled) = change(open, asleep, to).await?;
    Ok(format!("{enabled} events run, {} do not", changed - enabled))
}

/// How many were changed, and how many of them run.
async fn change(
    open: &mut Open,
    which: &str,
    to: impl Fn(&str) -> &'static str,
) -> Result<(usize, usize), ProbeError> {
    let sql =
        format!("SELECT EVENT_SCHEMA, EVENT_NAME, DEFINER FROM information_schema.EVENTS WHERE {which}");
    let events = query(&mut open.connection, &sql, MOST).await?;
    if events.is_empty() {
        return Ok((0, 0));
    }
    execute(&mut open.connection, "SET SESSION sql_log_bin = 0").await?;
    let mut enabled = 0;
    let mut outcome = Ok(());
    for event in &events {
        let definer = text(event, 2);
        // The host comes last, and a user's name may have an @ in it.
        let (user, host) = definer.rsplit_once('@').unwrap_or((&definer, "%"));
        let name = format!("{}.{}", named(&text(event, 0)), named(&text(event, 1)));
        let word = to(&name);
        let sql = format!("ALTER DEFINER = {}@{} EVENT {name} {word}", named(user), named(host));
        outcome = execute(&mut open.connection, &sql).await;
        if outcome.is_err() {
            break;
        }
        enabled += usize::from(word == "ENABLE");
    }
    execute(&mut open.connection, "SET SESSION sql_log_bin = 1").await?;
    outcome.map(|()| (events.len(), enabled))
}
