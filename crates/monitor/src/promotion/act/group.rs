//! The group's election.

use super::{Around, quoted};
use crate::probe::error::ProbeError;
use crate::probe::query::query;
use crate::promotion::hand::Open;
use crate::promotion::look::text;

/// The group waits for what runs, and moves the role.
pub(super) async fn elect(open: &mut Open, around: &Around<'_>) -> Result<String, ProbeError> {
    let uuid = around.own.standing().map(|own| own.identity.uuid.clone()).unwrap_or_default();
    let sql = format!("SELECT group_replication_set_as_primary({})", quoted(&uuid));
    let rows = query(&mut open.connection, &sql, 1).await?;
    Ok(rows.first().map(|row| text(row, 0)).unwrap_or_default())
}
