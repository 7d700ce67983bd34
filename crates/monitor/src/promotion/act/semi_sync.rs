//! Who waits for acknowledgements, and who gives them.

use delphinus_topology::promotion::AsSource;

use crate::probe::error::ProbeError;
use crate::probe::query::{execute, query};
use crate::promotion::hand::Open;
use crate::promotion::look::text;

/// A source waits as it is told before it waits at all. A replica's new part begins with its next connection, which comes after this.
pub(super) async fn set(
    open: &mut Open,
    source: Option<AsSource>,
    acknowledges: bool,
) -> Result<String, ProbeError> {
    let words = Words::of(open).await?;
    let mut list = Vec::new();
    if let Some(AsSource { count, timeout, is_lossless }) = source {
        let point = if is_lossless { "AFTER_SYNC" } else { "AFTER_COMMIT" };
        list.push(format!("{}_timeout = {}", words.source, timeout.as_millis()));
        list.push(format!("{}_wait_point = '{point}'", words.source));
        if !open.product.is_mariadb() {
            list.push(format!("{}_wait_for_{}_count = {count}", words.source, words.replica_word));
        }
    }
    list.push(format!("{}_enabled = {}", words.source, u8::from(source.is_some())));
    list.push(format!("{}_enabled = {}", words.replica, u8::from(acknowledges)));
    for one in list {
        execute(&mut open.connection, &format!("SET GLOBAL {one}")).await?;
    }
    Ok(match (source, acknowledges) {
        (Some(source), _) => format!("waits for {} replicas", source.count),
        (None, true) => "acknowledges".to_owned(),
        (None, false) => "off".to_owned(),
    })
}

/// It waits for acknowledgements as it is told, or for none.
pub(super) async fn switch_source(open: &mut Open, is_on: bool) -> Result<(), ProbeError> {
    let words = Words::of(open).await?;
    let sql = format!("SET GLOBAL {}_enabled = {}", words.source, u8::from(is_on));
    execute(&mut open.connection, &sql).await
}

/// MySQL 8.0.26 has plugins with new names, and keeps those with the old ones.
struct Words {
    source: &'static str,
    replica: &'static str,
    replica_word: &'static str,
}

impl Words {
    async fn of(open: &mut Open) -> Result<Self, ProbeError> {
        let sql = "SHOW GLOBAL VARIABLES LIKE 'rpl_semi_sync%_enabled'";
        let rows = query(&mut open.connection, sql, 16).await?;
        let is_new =
            rows.iter().any(|row| text(row, 0).contains("_source_") || text(row, 0).contains("_replica_"));
        Ok(if is_new {
            Self { source: "rpl_semi_sync_source", replica: "rpl_semi_sync_replica", replica_word: "replica" }
        } else {
            Self { source: "rpl_semi_sync_master", replica: "rpl_semi_sync_slave", replica_word: "slave" }
        })
    }
}
